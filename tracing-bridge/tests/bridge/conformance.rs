//! The wrappers that people meet here, through the suite for their authors.

use std::any::Any;
use std::fmt;
use std::sync::Arc;

use datafusion::arrow::datatypes::Schema;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::empty::EmptyExec;
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties};
use datafusion_tracing::{InstrumentationOptions, instrument_with_info_spans};
use flightpath_core::{MetricsSlot, MetricsWrapperExec};
use flightpath_testkit::conformance::{Failures, check};
use flightpath_tracing_bridge::TransparentExec;

use super::wrappers::IgnorantExec;

type Plan = Arc<dyn ExecutionPlan>;

#[tokio::test]
async fn the_wrapper_of_metrics_passes() -> Result<(), Failures> {
    let wrap = |node| Arc::new(MetricsWrapperExec::new(node, MetricsSlot::new())) as Plan;
    assert_eq!(check(wrap).await?, []);
    Ok(())
}

#[tokio::test]
async fn an_ignorant_wrapper_passes_once_it_is_made_transparent() -> Result<(), Failures> {
    let ignorant = |inner| {
        let runs = Arc::default();
        Arc::new(IgnorantExec { inner, runs }) as Plan
    };
    let failures = check(ignorant).await.unwrap_err();
    let methods = failures.methods();
    for method in [
        "name",
        "children",
        "metrics",
        "with_fetch",
        "display",
        "boundaries",
        "results",
    ] {
        assert!(methods.contains(&method), "{failures}");
    }
    // All that has a default, and children and display, whose answers are its own.
    assert_eq!(methods.len(), 35, "{failures}");
    assert!(
        !methods.contains(&"properties") && !methods.contains(&"execute"),
        "{failures}"
    );
    let transparent = move |node| Arc::new(TransparentExec::new(node, Arc::new(ignorant))) as Plan;
    assert_eq!(check(transparent).await?, []);
    Ok(())
}

/// It takes whatever comes back for its node; what that means is told at [`TransparentExec`].
#[tokio::test]
async fn instrumented_exec_passes() -> Result<(), Failures> {
    let deviations = check(instrumented()).await?;
    let methods: Vec<_> = deviations
        .iter()
        .map(|deviation| deviation.method)
        .collect();
    let tolerated = [
        "try_swapping_with_projection",
        "handle_child_pushdown_result",
    ];
    assert_eq!(methods, tolerated, "{deviations:?}");
    Ok(())
}

#[tokio::test]
async fn instrumented_exec_in_a_transparent_one_has_no_deviation() -> Result<(), Failures> {
    let instrumented = Arc::new(instrumented());
    let transparent =
        move |node| Arc::new(TransparentExec::new(node, instrumented.clone())) as Plan;
    assert_eq!(check(transparent).await?, []);
    Ok(())
}

/// Puts `InstrumentedExec` around one node. Its rule wraps whole plans, and it has no public
/// constructor, so one of a [`SeedExec`] gets another node.
fn instrumented() -> impl Fn(Plan) -> Plan + Send + Sync + 'static {
    let rule = instrument_with_info_spans!(options: InstrumentationOptions::default());
    let seed = Arc::new(SeedExec(EmptyExec::new(Arc::new(Schema::empty()))));
    let seed = rule.optimize(seed, &Default::default()).unwrap();
    move |node| seed.with_new_state(Arc::new(node)).unwrap()
}

/// Is replaced by the plan that it is given as its state.
#[derive(Debug)]
struct SeedExec(EmptyExec);

impl DisplayAs for SeedExec {
    fn fmt_as(&self, _format: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SeedExec")
    }
}

impl ExecutionPlan for SeedExec {
    fn name(&self) -> &str {
        "SeedExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        self.0.properties()
    }

    fn children(&self) -> Vec<&Plan> {
        vec![]
    }

    fn apply_expressions(
        &self,
        _f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> datafusion::common::Result<TreeNodeRecursion>,
    ) -> datafusion::common::Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn with_new_children(self: Arc<Self>, _: Vec<Plan>) -> datafusion::common::Result<Plan> {
        Ok(self)
    }

    fn with_new_state(&self, state: Arc<dyn Any + Send + Sync>) -> Option<Plan> {
        state.downcast_ref::<Plan>().cloned()
    }

    fn execute(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> datafusion::common::Result<SendableRecordBatchStream> {
        self.0.execute(partition, context)
    }
}
