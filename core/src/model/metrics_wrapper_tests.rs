#![allow(clippy::unwrap_used)]

use std::any::Any;
use std::fmt;

use datafusion::arrow::array::{Int32Array, RecordBatch};
use datafusion::arrow::datatypes::{DataType, Field, Schema};
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::config::ConfigOptions;
use datafusion::datasource::memory::MemorySourceConfig;
use datafusion::datasource::source::DataSourceExec;
use datafusion::error::Result;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::expressions::{binary, col, lit};
use datafusion::physical_expr::{LexOrdering, Partitioning, PhysicalSortExpr};
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::display::DisplayableExecutionPlan;
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::filter_pushdown::{
    ChildFilterPushdownResult, ChildPushdownResult, FilterPushdownPhase, PushedDown,
    PushedDownPredicate,
};
use datafusion::physical_plan::metrics::{Count, MetricValue};
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::repartition::RepartitionExec;
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::{
    ChildrenPropertiesMode, DisplayAs, DisplayFormatType, Metric, PhysicalExpr, PlanProperties,
    ReplaceChildrenOptions, SortOrderPushdownResult, collect, displayable,
};
use datafusion_proto::bytes::physical_plan_to_bytes;

use super::*;
use crate::model::stage::{QueryId, TaskKey};
use crate::model::wrapper::{find_layer, innermost, layers};

type Plan = Arc<dyn ExecutionPlan>;

fn scan() -> Plan {
    let fields = ["a", "b"].map(|name| Field::new(name, DataType::Int32, false));
    let schema = Arc::new(Schema::new(fields.to_vec()));
    let column = || Arc::new(Int32Array::from(vec![3, 1, 2]));
    let batch = RecordBatch::try_new(Arc::clone(&schema), vec![column(), column()]).unwrap();
    MemorySourceConfig::try_new_exec(&[vec![batch.clone()], vec![batch]], schema, None).unwrap()
}

fn filter(input: Plan) -> Plan {
    let schema = input.schema();
    let column = col("a", &schema).unwrap();
    let predicate = binary(column, Operator::Gt, lit(1), &schema).unwrap();
    Arc::new(FilterExec::try_new(predicate, input).unwrap())
}

fn repartition(input: Plan) -> Plan {
    let hash = Partitioning::Hash(vec![col("a", &input.schema()).unwrap()], 3);
    Arc::new(RepartitionExec::try_new(input, hash).unwrap())
}

fn ordering(input: &Plan) -> LexOrdering {
    LexOrdering::new([PhysicalSortExpr::new_default(
        col("a", &input.schema()).unwrap(),
    )])
    .unwrap()
}

fn sort(input: Plan) -> Plan {
    Arc::new(SortExec::new(ordering(&input), input).with_preserve_partitioning(true))
}

fn project(input: Plan, names: &[&str]) -> ProjectionExec {
    let schema = input.schema();
    let exprs = names
        .iter()
        .map(|name| (col(name, &schema).unwrap(), (*name).to_owned()));
    ProjectionExec::try_new(exprs.collect::<Vec<_>>(), input).unwrap()
}

fn wrap(plan: Plan) -> Plan {
    Arc::new(MetricsWrapperExec::new(plan, MetricsSlot::new()))
}

fn keep(plan: Plan) -> Plan {
    plan
}

/// Sort, repartition, filter and scan, each handed to `around`.
fn plan(around: fn(Plan) -> Plan) -> Plan {
    let filtered = around(filter(around(scan())));
    around(sort(around(repartition(filtered))))
}

fn wrappers(plan: &Plan) -> usize {
    layers(plan.as_ref())
        .filter(|layer| (*layer as &dyn Any).is::<MetricsWrapperExec>())
        .count()
}

fn report(plan: &Plan, task: usize, rows: usize) {
    let count = Count::new();
    count.add(rows);
    let metric = Metric::new(MetricValue::OutputRows(count), Some(0));
    let key = TaskKey {
        query_id: QueryId::new(),
        stage: 1,
        task,
        attempt: 0,
    };
    let wrapper = find_layer::<MetricsWrapperExec>(plan.as_ref()).unwrap();
    wrapper
        .slot()
        .record(key, std::iter::once(Arc::new(metric)).collect());
}

/// `after` is wrapped once, in a wrapper with the slot of `before`.
#[track_caller]
fn assert_rewrapped(before: &Plan, after: &Plan) {
    assert_eq!(wrappers(after), 1, "wrappers of {after:?}");
    report(before, 0, 77);
    assert_eq!(
        after.metrics().unwrap().output_rows(),
        Some(77),
        "a slot of its own"
    );
}

#[test]
fn display_is_the_same_with_and_without() {
    let (bare, wrapped) = (plan(keep), plan(wrap));
    for verbose in [false, true] {
        assert_eq!(
            displayable(bare.as_ref()).indent(verbose).to_string(),
            displayable(wrapped.as_ref()).indent(verbose).to_string(),
        );
    }
    assert_eq!(
        displayable(bare.as_ref()).tree_render().to_string(),
        displayable(wrapped.as_ref()).tree_render().to_string(),
    );
    assert_eq!(wrapped.name(), "SortExec");
}

#[test]
fn node_and_wrapper_are_both_found() {
    let plan = wrap(wrap(filter(scan())));
    assert!(plan.is::<FilterExec>());
    assert!(plan.downcast_ref::<FilterExec>().is_some());
    assert!(plan.downcast_ref::<MetricsWrapperExec>().is_none());

    assert_eq!(layers(plan.as_ref()).count(), 3);
    assert!((innermost(plan.as_ref()) as &dyn Any).is::<FilterExec>());
    let outermost = find_layer::<MetricsWrapperExec>(plan.as_ref()).unwrap();
    assert_eq!(wrappers(outermost.inner()), 1);
    assert!(find_layer::<FilterExec>(plan.as_ref()).is_some());
    assert!(find_layer::<SortExec>(plan.as_ref()).is_none());
}

#[test]
fn claims_are_forwarded() {
    for make in [filter, repartition, sort] {
        let bare = make(scan());
        let wrapped = wrap(Arc::clone(&bare));
        assert!(Arc::ptr_eq(bare.properties(), wrapped.properties()));
        assert_eq!(bare.schema(), wrapped.schema());
        assert_eq!(
            bare.maintains_input_order(),
            wrapped.maintains_input_order()
        );
        assert_eq!(
            bare.benefits_from_input_partitioning(),
            wrapped.benefits_from_input_partitioning(),
        );
        assert_eq!(
            bare.supports_limit_pushdown(),
            wrapped.supports_limit_pushdown()
        );
        assert_eq!(
            bare.child_stats_requests(None),
            wrapped.child_stats_requests(None)
        );
        assert!(Arc::ptr_eq(bare.children()[0], wrapped.children()[0]));
    }
}

#[tokio::test]
async fn results_are_the_same() {
    let run = |plan| async move {
        let plan = Arc::new(CoalescePartitionsExec::new(plan));
        let batches = collect(plan, Arc::new(TaskContext::default()))
            .await
            .unwrap();
        batches.iter().map(RecordBatch::num_rows).sum::<usize>()
    };
    assert_eq!(run(plan(keep)).await, 4);
    assert_eq!(run(plan(wrap)).await, 4);
}

#[tokio::test]
async fn metrics_are_those_of_the_slot_or_the_node_but_never_both() {
    let inner = filter(Arc::new(CoalescePartitionsExec::new(scan())));
    let plan = wrap(Arc::clone(&inner));
    collect(Arc::clone(&plan), Arc::new(TaskContext::default()))
        .await
        .unwrap();
    assert_eq!(plan.metrics().unwrap().output_rows(), Some(4));

    report(&plan, 0, 1000);
    assert_eq!(plan.metrics().unwrap().output_rows(), Some(1000));
    let analyzed = DisplayableExecutionPlan::with_metrics(plan.as_ref());
    let analyzed = analyzed.indent(false).to_string();
    let line = analyzed.lines().next().unwrap();
    assert_eq!(line, "FilterExec: a@0 > 1, metrics=[output_rows=1.00 K]");
}

#[test]
fn new_children_keep_the_wrapper() {
    for mode in [
        ChildrenPropertiesMode::Keep,
        ChildrenPropertiesMode::Recompute,
    ] {
        let before = wrap(filter(scan()));
        let children = vec![scan()];
        let options = ReplaceChildrenOptions::new(mode);
        let after = Arc::clone(&before)
            .replace_children(children, options)
            .unwrap();
        assert_rewrapped(&before, &after);
    }
}

#[test]
#[expect(deprecated)]
fn deprecated_ways_to_new_children_keep_the_wrapper() {
    let before = wrap(filter(scan()));
    let after = Arc::clone(&before).with_new_children(vec![scan()]).unwrap();
    assert_rewrapped(&before, &after);

    let before = wrap(filter(scan()));
    let after = Arc::clone(&before)
        .with_new_children_and_same_properties(vec![scan()])
        .unwrap();
    assert_rewrapped(&before, &after);
}

#[test]
fn changed_nodes_keep_the_wrapper() {
    let config = ConfigOptions::default();

    let before = wrap(filter(scan()));
    assert_rewrapped(&before, &Arc::clone(&before).reset_state().unwrap());

    let before = wrap(repartition(scan()));
    let after = before.repartitioned(8, &config).unwrap().unwrap();
    assert_eq!(
        after.properties().output_partitioning().partition_count(),
        8
    );
    assert_rewrapped(&before, &after);

    let before = wrap(sort(scan()));
    let after = before.with_fetch(Some(2)).unwrap();
    assert_eq!(after.fetch(), Some(2));
    assert_rewrapped(&before, &after);
}

#[test]
fn projection_pushed_into_a_node_leaves_the_wrapper_on_it() {
    // The scan takes the projection in.
    let before = wrap(scan());
    let projection = project(Arc::clone(&before), &["b"]);
    let after = before
        .try_swapping_with_projection(&projection)
        .unwrap()
        .unwrap();
    assert!(after.is::<DataSourceExec>());
    assert_rewrapped(&before, &after);

    // The sort lets it pass.
    let before = wrap(sort(scan()));
    let projection = project(Arc::clone(&before), &["a"]);
    let after = before
        .try_swapping_with_projection(&projection)
        .unwrap()
        .unwrap();
    assert!(after.is::<SortExec>());
    assert_rewrapped(&before, &after);
}

#[test]
fn rest_of_a_projection_above_the_node_is_not_wrapped_in_its_place() {
    let before = wrap(filter(scan()));
    let schema = before.schema();
    let doubled = binary(col("b", &schema).unwrap(), Operator::Plus, lit(1), &schema).unwrap();
    let projection =
        ProjectionExec::try_new(vec![(doubled, "c".to_owned())], Arc::clone(&before)).unwrap();
    let after = before
        .try_swapping_with_projection(&projection)
        .unwrap()
        .unwrap();

    assert!(after.is::<ProjectionExec>());
    assert_eq!(wrappers(&after), 0);
    assert!(after.children()[0].is::<FilterExec>());
    assert_rewrapped(&before, after.children()[0]);
}

fn pushed(filter: &Plan, outcome: PushedDown) -> Option<Plan> {
    let predicate = Arc::clone(filter.downcast_ref::<FilterExec>().unwrap().predicate());
    let parent: Arc<dyn PhysicalExpr> = binary(
        col("b", &filter.schema()).unwrap(),
        Operator::Lt,
        lit(9),
        &filter.schema(),
    )
    .unwrap();
    let result = ChildPushdownResult {
        parent_filters: vec![ChildFilterPushdownResult {
            filter: parent,
            child_results: vec![outcome],
        }],
        self_filters: vec![vec![PushedDownPredicate {
            discriminant: outcome,
            predicate,
        }]],
    };
    let config = ConfigOptions::default();
    let propagation =
        filter.handle_child_pushdown_result(FilterPushdownPhase::Pre, result, &config);
    propagation.unwrap().updated_node
}

#[test]
fn filter_that_takes_another_one_in_keeps_the_wrapper() {
    let before = wrap(filter(scan()));
    let after = pushed(&before, PushedDown::No).unwrap();
    assert!(after.is::<FilterExec>());
    assert_rewrapped(&before, &after);
}

#[test]
fn filter_that_is_no_longer_needed_takes_its_wrapper_along() {
    for below in [wrap(scan()), wrap(filter(scan()))] {
        let before = wrap(filter(Arc::clone(&below)));
        let after = pushed(&before, PushedDown::Yes).unwrap();
        assert!(
            Arc::ptr_eq(&after, &below),
            "the input with its own wrapper, and no other"
        );
    }
}

/// A leaf that agrees to whatever it is asked, as few real nodes do.
#[derive(Clone, Debug)]
struct Obliging(Plan);

impl DisplayAs for Obliging {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Obliging")
    }
}

impl ExecutionPlan for Obliging {
    fn name(&self) -> &str {
        "Obliging"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        self.0.properties()
    }

    fn children(&self) -> Vec<&Plan> {
        vec![]
    }

    fn apply_expressions(
        &self,
        _: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn with_new_children(self: Arc<Self>, _: Vec<Plan>) -> Result<Plan> {
        Ok(self)
    }

    fn execute(
        &self,
        partition: usize,
        ctx: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        self.0.execute(partition, ctx)
    }

    fn with_new_state(&self, _: Arc<dyn Any + Send + Sync>) -> Option<Plan> {
        Some(Arc::new(self.clone()))
    }

    fn with_preserve_order(&self, _: bool) -> Option<Plan> {
        Some(Arc::new(self.clone()))
    }

    fn try_pushdown_sort(&self, _: &[PhysicalSortExpr]) -> Result<SortOrderPushdownResult<Plan>> {
        Ok(SortOrderPushdownResult::Exact {
            inner: Arc::new(self.clone()),
        })
    }
}

#[test]
fn nodes_that_take_in_state_or_order_keep_the_wrapper() {
    let before = wrap(Arc::new(Obliging(scan())));
    assert_rewrapped(&before, &before.with_new_state(Arc::new(())).unwrap());

    let before = wrap(Arc::new(Obliging(scan())));
    assert_rewrapped(&before, &before.with_preserve_order(true).unwrap());

    let before = wrap(Arc::new(Obliging(scan())));
    let result = before.try_pushdown_sort(&ordering(&before)).unwrap();
    let SortOrderPushdownResult::Exact { inner: after } = result else {
        panic!("{result:?}");
    };
    assert_rewrapped(&before, &after);
}

#[test]
fn encoding_drops_the_wrapper() {
    let encode = |plan| physical_plan_to_bytes(plan).unwrap();
    assert_eq!(encode(plan(wrap)), encode(plan(keep)));
}
