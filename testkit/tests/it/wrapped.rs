use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use datafusion::common::Result;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::config::ConfigOptions;
use datafusion::execution::{SendableRecordBatchStream, SessionStateBuilder, TaskContext};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::execution_plan::ChildrenPropertiesMode;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties, ReplaceChildrenOptions,
};
use datafusion::prelude::SessionContext;
use flightpath_core::{
    BoundaryEdit, Headers, Hooks, NetworkBoundaryExt, SessionStateBuilderExt, TaskKey,
    TraceOptions, TransparentWrapper, edit_boundary, find_layer, layers, stages,
    transparent_execution_plan,
};
use flightpath_testkit::Cluster;

use crate::fixture::{Planned, Setup, config, within};

const SQL: &str = "SELECT city, count(*), sum(amount) FROM sales JOIN shops \
                   ON sales.shop = shops.shop GROUP BY city ORDER BY city";

/// A wrapper of somebody who knows nothing of stages; counts the partitions that run through it.
#[derive(Debug)]
struct SeenExec {
    inner: Arc<dyn ExecutionPlan>,
    runs: Arc<AtomicUsize>,
}

impl TransparentWrapper for SeenExec {
    fn inner(&self) -> &Arc<dyn ExecutionPlan> {
        &self.inner
    }

    fn rewrap(&self, inner: Arc<dyn ExecutionPlan>) -> Arc<dyn ExecutionPlan> {
        let runs = Arc::clone(&self.runs);
        Arc::new(Self { inner, runs })
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

transparent_execution_plan!(SeenExec);

/// Wraps every node of a plan.
#[derive(Clone, Debug, Default)]
struct WrapAll(Arc<AtomicUsize>);

impl WrapAll {
    fn wrap(&self, plan: Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
        let wrapped = plan.transform_up(|inner| {
            let runs = Arc::clone(&self.0);
            Ok(Transformed::yes(Arc::new(SeenExec { inner, runs }) as _))
        });
        wrapped.data()
    }
}

impl PhysicalOptimizerRule for WrapAll {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        _options: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        self.wrap(plan)
    }

    fn name(&self) -> &str {
        "WrapAll"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

#[derive(Clone, Copy, PartialEq)]
enum When {
    Before,
    After,
}

async fn setup(when: When) -> (Setup, WrapAll) {
    let cluster = Cluster::start(2).await.unwrap();
    let rule = WrapAll::default();
    let state = SessionStateBuilder::new()
        .with_config(config())
        .with_default_features();
    let coordinator = cluster.coordinator().unwrap();
    let state = match when {
        When::Before => state
            .with_physical_optimizer_rule(Arc::new(rule.clone()))
            .with_flightpath(coordinator),
        When::After => state
            .with_flightpath(coordinator)
            .with_physical_optimizer_rule(Arc::new(rule.clone())),
    };
    let ctx = SessionContext::new_with_state(state.build());
    (Setup::with(cluster, ctx).await, rule)
}

fn boundaries<'a>(plan: &'a Arc<dyn ExecutionPlan>, found: &mut Vec<&'a Arc<dyn ExecutionPlan>>) {
    if plan.as_network_boundary().is_some() {
        found.push(plan);
    }
    for child in plan.children() {
        boundaries(child, found);
    }
}

async fn check_same_stages(when: When) {
    within(60, async {
        let plain = Setup::new().await;
        let expected = plain.check(SQL).await;
        let (setup, rule) = setup(when).await;
        let planned = setup.check(SQL).await;
        assert_eq!(
            setup.tables.redacted(&planned.shown()),
            plain.tables.redacted(&expected.shown())
        );
        let shape = |planned: &Planned| {
            let stages = stages(&planned.plan).unwrap().into_iter();
            stages
                .map(|stage| (stage.id, stage.tasks))
                .collect::<Vec<_>>()
        };
        assert_eq!(shape(&planned), shape(&expected));
        assert!(planned.reports().unmatched().is_empty());
        assert_eq!(planned.reports().counts(), expected.reports().counts());
        assert!(
            rule.0.load(Ordering::Relaxed) > 0,
            "the coordinator's part is wrapped"
        );
    })
    .await;
}

#[tokio::test]
async fn wrapped_before_it_has_the_same_stages() {
    check_same_stages(When::Before).await;
}

#[tokio::test]
async fn wrapped_after_it_has_the_same_stages() {
    check_same_stages(When::After).await;
}

#[tokio::test]
async fn an_edited_boundary_keeps_its_wrappers() {
    within(60, async {
        let (setup, rule) = setup(When::After).await;
        let planned = setup.plan(SQL).await;
        let mut found = vec![];
        boundaries(&planned.plan, &mut found);
        assert_eq!(found.len(), 3, "{}", planned.shown());
        for boundary in found {
            let twice = rule.wrap(Arc::clone(boundary)).unwrap();
            let layers_before = layers(twice.as_ref()).count();
            let edit = BoundaryEdit {
                boundary: None,
                stage: Some(77),
            };
            let edited = edit_boundary(&twice, edit).unwrap();
            assert_eq!(edited.as_network_boundary().unwrap().stage_id(), 77);
            assert!(find_layer::<SeenExec>(edited.as_ref()).is_some());
            assert_eq!(layers(edited.as_ref()).count(), layers_before);
        }
    })
    .await;
}

/// A wrapper that forgets to forward what it does not know.
#[derive(Debug)]
struct ForgetfulExec(Arc<dyn ExecutionPlan>);

impl DisplayAs for ForgetfulExec {
    fn fmt_as(&self, format: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt_as(format, f)
    }
}

impl ExecutionPlan for ForgetfulExec {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn downcast_delegate(&self) -> Option<&dyn ExecutionPlan> {
        Some(self.0.as_ref())
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        self.0.properties()
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        self.0.children()
    }

    fn apply_expressions(
        &self,
        f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        self.0.apply_expressions(f)
    }

    fn replace_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
        options: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let replaced = Arc::clone(&self.0).replace_children(children, options)?;
        Ok(Arc::new(Self(replaced)))
    }

    fn with_new_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let options = ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute);
        self.replace_children(children, options)
    }

    fn execute(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        self.0.execute(partition, context)
    }
}

#[tokio::test]
async fn a_wrapper_that_forgets_is_named() {
    within(60, async {
        let setup = Setup::new().await;
        let planned = setup.plan(SQL).await;
        let mut found = vec![];
        boundaries(&planned.plan, &mut found);
        let inner = Arc::new(SeenExec {
            inner: Arc::clone(found[0]),
            runs: Arc::default(),
        });
        let wrapped: Arc<dyn ExecutionPlan> = Arc::new(ForgetfulExec(inner));
        let edit = BoundaryEdit {
            boundary: None,
            stage: Some(77),
        };
        let error = edit_boundary(&wrapped, edit).unwrap_err().to_string();
        let named = error.split_once("ForgetfulExec").map(|(before, _)| before);
        assert!(
            named.is_some_and(|before| !before.contains("SeenExec")),
            "{error}"
        );
        assert!(error.contains("NetworkCoalesceExec"), "{error}");
    })
    .await;
}

/// Wraps plans on workers, and counts them.
#[derive(Debug, Default)]
struct Wrapping {
    all: WrapAll,
    tasks: AtomicUsize,
}

impl Hooks for Wrapping {
    fn wrap_plan(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        task: Option<(&TaskKey, &Headers)>,
        _trace: TraceOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        assert!(task.is_some(), "on a worker");
        self.tasks.fetch_add(1, Ordering::Relaxed);
        self.all.wrap(plan)
    }
}

#[tokio::test]
async fn hooks_of_workers_wrap_what_runs() {
    within(60, async {
        let hooks = Arc::new(Wrapping::default());
        let cluster = Cluster::start_with(2, |worker| worker.with_hooks(hooks.clone()));
        let setup = Setup::on(cluster.await.unwrap()).await;
        let planned = setup.check(SQL).await;
        let reports = planned.reports();
        assert_eq!(hooks.tasks.load(Ordering::Relaxed), reports.reports().len());
        assert!(reports.unmatched().is_empty());
        let nodes: usize = reports
            .reports()
            .iter()
            .map(|report| report.nodes.len())
            .sum();
        let runs = hooks.all.0.load(Ordering::Relaxed);
        assert!(
            runs >= nodes,
            "{runs} partitions of {nodes} nodes ran through wrappers"
        );
    })
    .await;
}
