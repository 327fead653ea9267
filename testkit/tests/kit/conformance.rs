//! The suite finds what a wrapper forgets, and nothing where it forgets nothing.

use std::any::Any;
use std::fmt;
use std::sync::Arc;

use datafusion::arrow::datatypes::SchemaRef;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{Result, Statistics};
use datafusion::config::ConfigOptions;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::{Distribution, OrderingRequirements, PhysicalSortExpr};
use datafusion::physical_plan::execution_plan::{CardinalityEffect, InvariantLevel};
use datafusion::physical_plan::filter_pushdown::{
    ChildPushdownResult, FilterDescription, FilterPushdownPhase, FilterPushdownPropagation,
};
use datafusion::physical_plan::metrics::MetricsSet;
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::{
    ChildStats, DisplayAs, DisplayFormatType, ExecutionPlan, InputDistributionRequirements,
    PhysicalExpr, PlanProperties, ReplaceChildrenOptions, SortOrderPushdownResult, StatisticsArgs,
};
use flightpath_core::{TransparentWrapper, transparent_execution_plan};
use flightpath_testkit::conformance::{Failures, check};

type Plan = Arc<dyn ExecutionPlan>;

/// The one method that a wrapper leaves out, or does wrong.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Forgets {
    Nothing,
    Downcasts,
    NewState,
    LimitPushdown,
    /// Forwards it, and gives the node back bare.
    FetchWrapped,
    /// Leaves it to the default, which has the node compute its properties again.
    SameProperties,
    /// Shows itself.
    Display,
}
use Forgets::*;

#[derive(Debug)]
struct ForgetfulExec {
    inner: Plan,
    forgets: Forgets,
}

impl ForgetfulExec {
    fn wrap(&self, inner: Plan) -> Plan {
        let forgets = self.forgets;
        Arc::new(Self { inner, forgets })
    }
}

impl DisplayAs for ForgetfulExec {
    fn fmt_as(&self, format: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.forgets {
            Display => f.write_str("ForgetfulExec"),
            _ => self.inner.fmt_as(format, f),
        }
    }
}

#[allow(deprecated)]
impl ExecutionPlan for ForgetfulExec {
    fn name(&self) -> &str {
        self.inner.name()
    }
    fn downcast_delegate(&self) -> Option<&dyn ExecutionPlan> {
        (self.forgets != Downcasts).then_some(self.inner.as_ref())
    }
    fn schema(&self) -> SchemaRef {
        self.inner.schema()
    }
    fn properties(&self) -> &Arc<PlanProperties> {
        self.inner.properties()
    }
    fn check_invariants(&self, check: InvariantLevel) -> Result<()> {
        self.inner.check_invariants(check)
    }
    fn dynamic_expressions_produced(&self) -> Vec<Arc<dyn PhysicalExpr>> {
        self.inner.dynamic_expressions_produced()
    }
    fn required_input_distribution(&self) -> Vec<Distribution> {
        self.inner.required_input_distribution()
    }
    fn input_distribution_requirements(&self) -> InputDistributionRequirements {
        self.inner.input_distribution_requirements()
    }
    fn required_input_ordering(&self) -> Vec<Option<OrderingRequirements>> {
        self.inner.required_input_ordering()
    }
    fn maintains_input_order(&self) -> Vec<bool> {
        self.inner.maintains_input_order()
    }
    fn benefits_from_input_partitioning(&self) -> Vec<bool> {
        self.inner.benefits_from_input_partitioning()
    }
    fn children(&self) -> Vec<&Plan> {
        self.inner.children()
    }
    fn replace_children(
        self: Arc<Self>,
        children: Vec<Plan>,
        options: ReplaceChildrenOptions,
    ) -> Result<Plan> {
        let inner = Arc::clone(&self.inner);
        Ok(self.wrap(inner.replace_children(children, options)?))
    }
    fn apply_expressions(
        &self,
        f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        self.inner.apply_expressions(f)
    }
    fn with_new_children(self: Arc<Self>, children: Vec<Plan>) -> Result<Plan> {
        let inner = Arc::clone(&self.inner);
        Ok(self.wrap(inner.with_new_children(children)?))
    }
    fn with_new_children_and_same_properties(self: Arc<Self>, children: Vec<Plan>) -> Result<Plan> {
        let inner = Arc::clone(&self.inner);
        let replaced = match self.forgets {
            SameProperties => return self.with_new_children(children),
            _ => inner.with_new_children_and_same_properties(children)?,
        };
        Ok(self.wrap(replaced))
    }
    fn reset_state(self: Arc<Self>) -> Result<Plan> {
        let inner = Arc::clone(&self.inner);
        Ok(self.wrap(inner.reset_state()?))
    }
    fn repartitioned(&self, target: usize, config: &ConfigOptions) -> Result<Option<Plan>> {
        let made = self.inner.repartitioned(target, config)?;
        Ok(made.map(|inner| self.wrap(inner)))
    }
    fn execute(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        self.inner.execute(partition, context)
    }
    fn metrics(&self) -> Option<MetricsSet> {
        self.inner.metrics()
    }
    fn partition_statistics(&self, partition: Option<usize>) -> Result<Arc<Statistics>> {
        self.inner.partition_statistics(partition)
    }
    fn statistics_from_inputs(
        &self,
        inputs: &[Arc<Statistics>],
        args: &StatisticsArgs,
    ) -> Result<Arc<Statistics>> {
        self.inner.statistics_from_inputs(inputs, args)
    }
    fn child_stats_requests(&self, partition: Option<usize>) -> Vec<ChildStats> {
        self.inner.child_stats_requests(partition)
    }
    fn supports_limit_pushdown(&self) -> bool {
        self.forgets != LimitPushdown && self.inner.supports_limit_pushdown()
    }
    fn with_fetch(&self, limit: Option<usize>) -> Option<Plan> {
        let made = self.inner.with_fetch(limit)?;
        Some(match self.forgets {
            FetchWrapped => made,
            _ => self.wrap(made),
        })
    }
    fn fetch(&self) -> Option<usize> {
        self.inner.fetch()
    }
    fn cardinality_effect(&self) -> CardinalityEffect {
        self.inner.cardinality_effect()
    }
    fn try_swapping_with_projection(&self, projection: &ProjectionExec) -> Result<Option<Plan>> {
        let made = self.inner.try_swapping_with_projection(projection)?;
        Ok(made.map(|inner| self.wrap(inner)))
    }
    fn gather_filters_for_pushdown(
        &self,
        phase: FilterPushdownPhase,
        filters: Vec<Arc<dyn PhysicalExpr>>,
        config: &ConfigOptions,
    ) -> Result<FilterDescription> {
        self.inner
            .gather_filters_for_pushdown(phase, filters, config)
    }
    fn handle_child_pushdown_result(
        &self,
        phase: FilterPushdownPhase,
        result: ChildPushdownResult,
        config: &ConfigOptions,
    ) -> Result<FilterPushdownPropagation<Plan>> {
        let mut made = self
            .inner
            .handle_child_pushdown_result(phase, result, config)?;
        made.updated_node = made.updated_node.map(|inner| self.wrap(inner));
        Ok(made)
    }
    fn with_new_state(&self, state: Arc<dyn Any + Send + Sync>) -> Option<Plan> {
        match self.forgets {
            NewState => None,
            _ => Some(self.wrap(self.inner.with_new_state(state)?)),
        }
    }
    fn try_pushdown_sort(
        &self,
        order: &[PhysicalSortExpr],
    ) -> Result<SortOrderPushdownResult<Plan>> {
        let made = self.inner.try_pushdown_sort(order)?;
        Ok(made.map(|inner| self.wrap(inner)))
    }
    fn with_preserve_order(&self, preserve: bool) -> Option<Plan> {
        Some(self.wrap(self.inner.with_preserve_order(preserve)?))
    }
}

fn wrapper_that_forgets(forgets: Forgets) -> impl Fn(Plan) -> Plan + Send + Sync + 'static {
    move |inner| Arc::new(ForgetfulExec { inner, forgets })
}

async fn failures_of(forgets: Forgets) -> Failures {
    check(wrapper_that_forgets(forgets)).await.unwrap_err()
}

#[tokio::test]
async fn each_forgotten_method_is_named() {
    for (forgets, methods, problem) in [
        (
            NewState,
            &["with_new_state", "boundaries"][..],
            "with_new_state is not forwarded",
        ),
        (
            LimitPushdown,
            &["supports_limit_pushdown"],
            "it answers false, the node true",
        ),
        (
            FetchWrapped,
            &["with_fetch"],
            "with_fetch does not come back wrapped",
        ),
        (
            SameProperties,
            &["with_new_children_and_same_properties"],
            "the node was asked for \"children Recompute\", not \"children Keep\"",
        ),
        (Display, &["display"], "display is not forwarded"),
    ] {
        let failures = failures_of(forgets).await;
        assert_eq!(failures.methods(), methods, "{failures}");
        assert!(failures.to_string().contains(problem), "{failures}");
    }
}

#[tokio::test]
async fn a_wrapper_that_hides_its_node_fails_where_it_matters() {
    let failures = failures_of(Downcasts).await;
    let methods = failures.methods();
    for method in ["downcast_delegate", "boundaries", "encoding", "results"] {
        assert!(methods.contains(&method), "{failures}");
    }
}

#[tokio::test]
async fn a_wrapper_of_whatever_comes_back_passes_and_is_told_so()
-> std::result::Result<(), Failures> {
    let deviations = check(wrapper_that_forgets(Nothing)).await?;
    let problems: Vec<String> = deviations
        .iter()
        .map(|deviation| format!("{} {}", deviation.method, deviation.problem))
        .collect();
    assert_eq!(
        problems,
        [
            "try_swapping_with_projection wraps what is left of the projection, and leaves the \
             node bare",
            "handle_child_pushdown_result wraps the child of a node that removed itself",
        ]
    );
    Ok(())
}

/// Wraps in two layers, as two plug-ins would.
#[derive(Debug)]
struct NoopExec(Plan);

impl TransparentWrapper for NoopExec {
    fn inner(&self) -> &Plan {
        &self.0
    }

    fn rewrap(&self, inner: Plan) -> Plan {
        Arc::new(Self(inner))
    }
}

transparent_execution_plan!(NoopExec);

#[tokio::test]
async fn a_transparent_wrapper_passes_alone_and_twice() -> std::result::Result<(), Failures> {
    let once = check(|node| Arc::new(NoopExec(node))).await?;
    let twice = check(|node| Arc::new(NoopExec(Arc::new(NoopExec(node))))).await?;
    assert_eq!((once, twice), (vec![], vec![]));
    Ok(())
}
