//! Wrappers on every node, in either order of rules.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use datafusion::common::Result;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties, ReplaceChildrenOptions,
    displayable,
};
use datafusion_tracing::{InstrumentationOptions, instrument_with_info_spans};
use flightpath_core::{NetworkBoundaryExt, find_layer, stages};
use flightpath_testkit::Cluster;
use flightpath_tracing_bridge::{TransparentExec, WrapEveryNode, wrap_every_node};

use super::support::{QUERY, answer, expected, session};

/// Forwards what the compiler demands, and nothing more: it hides its node from downcasts.
#[derive(Debug)]
pub(crate) struct IgnorantExec {
    pub(crate) inner: Arc<dyn ExecutionPlan>,
    pub(crate) runs: Arc<AtomicUsize>,
}

impl DisplayAs for IgnorantExec {
    fn fmt_as(&self, _t: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "IgnorantExec")
    }
}

impl ExecutionPlan for IgnorantExec {
    fn name(&self) -> &str {
        "IgnorantExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        self.inner.properties()
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.inner]
    }

    fn apply_expressions(
        &self,
        _f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn replace_children(
        self: Arc<Self>,
        mut children: Vec<Arc<dyn ExecutionPlan>>,
        _options: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(Arc::new(Self {
            inner: children.remove(0),
            runs: Arc::clone(&self.runs),
        }))
    }

    fn with_new_children(
        self: Arc<Self>,
        mut children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(Arc::new(Self {
            inner: children.remove(0),
            runs: Arc::clone(&self.runs),
        }))
    }

    fn execute(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        self.runs.fetch_add(1, Ordering::Relaxed);
        self.inner.execute(partition, context)
    }
}

pub(crate) type Rule = Arc<dyn PhysicalOptimizerRule + Send + Sync>;

/// A rule, and among the hooks of workers.
pub(crate) fn ignorant(runs: &Arc<AtomicUsize>) -> Arc<WrapEveryNode> {
    let runs = Arc::clone(runs);
    Arc::new(WrapEveryNode::new("ignorant", move |inner| {
        Arc::new(IgnorantExec {
            inner,
            runs: Arc::clone(&runs),
        })
    }))
}

pub(crate) fn instrument() -> Rule {
    instrument_with_info_spans!(options: InstrumentationOptions::default())
}

async fn plan_of(ctx: &datafusion::prelude::SessionContext) -> Arc<dyn ExecutionPlan> {
    let frame = ctx.sql(QUERY).await.unwrap();
    frame.create_physical_plan().await.unwrap()
}

fn shown(plan: &Arc<dyn ExecutionPlan>) -> String {
    displayable(plan.as_ref()).indent(false).to_string()
}

async fn same_in_either_order(rule: impl Fn() -> Rule) {
    let cluster = Cluster::start(3).await.unwrap();
    let bare = session(cluster.coordinator().unwrap(), vec![], vec![]);
    let wanted = plan_of(&bare).await;
    assert!(stages(&wanted).unwrap().len() >= 2, "{}", shown(&wanted));
    let before = session(cluster.coordinator().unwrap(), vec![rule()], vec![]);
    let after = session(cluster.coordinator().unwrap(), vec![], vec![rule()]);
    for ctx in [before, after] {
        let plan = plan_of(&ctx).await;
        assert_eq!(shown(&plan), shown(&wanted));
        let (found, known) = (stages(&plan).unwrap(), stages(&wanted).unwrap());
        assert_eq!(found.len(), known.len());
        assert_eq!(answer(&ctx, QUERY).await, expected(QUERY).await);
    }
    cluster.stop().await.unwrap();
}

#[tokio::test]
async fn an_ignorant_wrapper_changes_no_plan() {
    let runs = Arc::new(AtomicUsize::new(0));
    same_in_either_order(|| ignorant(&runs) as Rule).await;
    assert!(runs.load(Ordering::Relaxed) > 0, "the wrappers were run");
}

#[tokio::test]
async fn datafusion_tracing_changes_no_plan() {
    same_in_either_order(instrument).await;
}

#[tokio::test]
async fn every_node_is_wrapped_once_and_boundaries_are_found() {
    let cluster = Cluster::start(2).await.unwrap();
    let rule: Rule = ignorant(&Arc::default());
    let ctx = session(
        cluster.coordinator().unwrap(),
        vec![Arc::clone(&rule)],
        vec![Arc::clone(&rule), rule],
    );
    let (mut nodes, mut boundaries) = (0, 0);
    plan_of(&ctx)
        .await
        .apply(|node| {
            nodes += 1;
            let wrapper = find_layer::<TransparentExec>(node.as_ref()).unwrap();
            let inside = find_layer::<TransparentExec>(wrapper.node().as_ref());
            assert!(inside.is_none(), "{} is wrapped twice", node.name());
            assert!(wrapper.wrapper().is::<IgnorantExec>());
            boundaries += usize::from(node.as_network_boundary().is_some());
            Ok(TreeNodeRecursion::Continue)
        })
        .unwrap();
    assert!(nodes > 5 && boundaries >= 2, "{nodes}, {boundaries}");
    cluster.stop().await.unwrap();
}

#[tokio::test]
async fn a_plan_can_be_wrapped_by_hand() {
    let runs = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&runs);
    let cluster = Cluster::start(2).await.unwrap();
    let ctx = session(cluster.coordinator().unwrap(), vec![], vec![]);
    let plan = plan_of(&ctx).await;
    let wrapped = wrap_every_node(Arc::clone(&plan), move |inner| {
        Arc::new(IgnorantExec {
            inner,
            runs: Arc::clone(&counted),
        })
    })
    .unwrap();
    assert_eq!(shown(&wrapped), shown(&plan));
    let batches = datafusion::physical_plan::collect(wrapped, ctx.task_ctx());
    assert_eq!(batches.await.unwrap()[0].num_rows(), 10);
    assert!(runs.load(Ordering::Relaxed) >= 2);
    cluster.stop().await.unwrap();
}

#[tokio::test]
async fn a_wrapper_reached_no_node_on_workers() {
    let [here, there] = [(); 2].map(|()| Arc::new(AtomicUsize::new(0)));
    let on_workers = ignorant(&there);
    let cluster = Cluster::start_with(2, |worker| worker.with_hooks(on_workers.clone()));
    let cluster = cluster.await.unwrap();
    let coordinator = cluster.coordinator().unwrap();
    let ctx = session(coordinator, vec![], vec![ignorant(&here)]);
    assert_eq!(answer(&ctx, QUERY).await, expected(QUERY).await);
    let runs = [&here, &there].map(|runs| runs.load(Ordering::Relaxed));
    assert!(runs.iter().all(|runs| *runs > 0), "{runs:?}");
    cluster.stop().await.unwrap();
}
