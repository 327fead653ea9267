//! A node that answers every question in a way that no default does.

use std::any::Any;
use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use datafusion::arrow::array::{Int32Array, RecordBatch};
use datafusion::arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{Result, Statistics, exec_err, stats::Precision};
use datafusion::config::ConfigOptions;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::{
    Distribution, EquivalenceProperties, LexOrdering, OrderingRequirements, Partitioning,
    PhysicalSortExpr,
};
use datafusion::physical_plan::empty::EmptyExec;
use datafusion::physical_plan::execution_plan::{
    Boundedness, CardinalityEffect, EmissionType, InvariantLevel, apply_expression_roots,
};
use datafusion::physical_plan::filter_pushdown::{
    ChildFilterDescription, ChildPushdownResult, FilterDescription, FilterPushdownPhase,
    FilterPushdownPropagation, PushedDown,
};
use datafusion::physical_plan::memory::MemoryStream;
use datafusion::physical_plan::metrics::{Count, Metric, MetricValue, MetricsSet};
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::{
    ChildStats, ChildrenPropertiesMode, DisplayAs, DisplayFormatType, ExecutionPlan,
    InputDistributionRequirements, PhysicalExpr, PlanProperties, ReplaceChildrenOptions,
    SortOrderPushdownResult, StatisticsArgs,
};

/// What the properties say of how a node was made: its schema's metadata under this key.
const MADE: &str = "made";

/// The metric that a probe has.
pub(super) const METRIC: &str = "probed";

/// A projection that begins with a column of this name is not taken in whole.
pub(super) const REST: &str = "rest";

/// A node with two children, whose answers hold what it was asked.
///
/// How a node was made from another one stands in its properties, which every wrapper has to
/// forward: so it can be told even where the node itself cannot be seen.
#[derive(Debug)]
pub(super) struct ProbeExec {
    children: Vec<Arc<dyn ExecutionPlan>>,
    properties: Arc<PlanProperties>,
}

/// By which call a node was made, with what arguments.
pub(super) fn made(plan: &dyn ExecutionPlan) -> String {
    let schema = plan.properties().eq_properties.schema();
    schema.metadata().get(MADE).cloned().unwrap_or_default()
}

/// A probe that nothing was asked of.
pub(super) fn probe() -> Arc<dyn ExecutionPlan> {
    let leaf = || Arc::new(EmptyExec::new(schema("leaf"))) as Arc<dyn ExecutionPlan>;
    ProbeExec::make("new", vec![leaf(), leaf()])
}

pub(super) fn column(name: &str) -> Arc<dyn PhysicalExpr> {
    Arc::new(Column::new(name, 0))
}

pub(super) fn order(name: &str) -> LexOrdering {
    [PhysicalSortExpr::new_default(column(name))].into()
}

/// A setting that answers hold.
pub(super) fn config() -> ConfigOptions {
    let mut config = ConfigOptions::default();
    config.optimizer.max_passes = 17;
    config
}

pub(super) fn schema(made: &str) -> SchemaRef {
    let metadata = HashMap::from([(MADE.to_string(), made.to_string())]);
    let field = Field::new("partition", DataType::Int32, false);
    Arc::new(Schema::new_with_metadata(vec![field], metadata))
}

impl ProbeExec {
    fn make(made: &str, children: Vec<Arc<dyn ExecutionPlan>>) -> Arc<dyn ExecutionPlan> {
        let mut equivalences = EquivalenceProperties::new(schema(made));
        equivalences.add_ordering(order("partition"));
        let properties = PlanProperties::new(
            equivalences,
            Partitioning::UnknownPartitioning(3),
            EmissionType::Both,
            Boundedness::Bounded,
        );
        Arc::new(Self {
            children,
            properties: Arc::new(properties),
        })
    }

    fn remade(&self, made: &str) -> Arc<dyn ExecutionPlan> {
        Self::make(made, self.children.clone())
    }

    fn partial(rows: usize) -> Arc<Statistics> {
        let mut statistics = Statistics::new_unknown(&schema(""));
        statistics.num_rows = Precision::Exact(rows);
        Arc::new(statistics)
    }
}

impl DisplayAs for ProbeExec {
    fn fmt_as(&self, format: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let format = match format {
            DisplayFormatType::Default => "default",
            DisplayFormatType::Verbose => "verbose",
            DisplayFormatType::TreeRender => "tree",
        };
        writeln!(f, "probe={format}")
    }
}

#[warn(clippy::missing_trait_methods)]
impl ExecutionPlan for ProbeExec {
    fn name(&self) -> &str {
        "ProbeExec"
    }

    fn static_name() -> &'static str {
        "ProbeExec"
    }

    fn downcast_delegate(&self) -> Option<&dyn ExecutionPlan> {
        None
    }

    fn schema(&self) -> SchemaRef {
        schema("schema")
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn check_invariants(&self, check: InvariantLevel) -> Result<()> {
        let level = match check {
            InvariantLevel::Always => "always",
            InvariantLevel::Executable => "executable",
        };
        exec_err!("invariants {level}")
    }

    fn dynamic_expressions_produced(&self) -> Vec<Arc<dyn PhysicalExpr>> {
        vec![column("dynamic")]
    }

    fn required_input_distribution(&self) -> Vec<Distribution> {
        vec![
            Distribution::SinglePartition,
            Distribution::UnspecifiedDistribution,
        ]
    }

    fn input_distribution_requirements(&self) -> InputDistributionRequirements {
        let key = || Distribution::KeyPartitioned(vec![column("key")]);
        InputDistributionRequirements::co_partitioned(vec![key(), key()])
    }

    fn required_input_ordering(&self) -> Vec<Option<OrderingRequirements>> {
        vec![None, Some(OrderingRequirements::from(order("required")))]
    }

    fn maintains_input_order(&self) -> Vec<bool> {
        vec![false, true]
    }

    fn benefits_from_input_partitioning(&self) -> Vec<bool> {
        vec![false, true]
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        self.children.iter().collect()
    }

    fn replace_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
        options: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let mode = options.children_properties;
        Ok(Self::make(&format!("children {mode:?}"), children))
    }

    fn apply_expressions(
        &self,
        f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        apply_expression_roots([&column("first"), &column("second")], f)
    }

    fn with_new_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let options = ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute);
        self.replace_children(children, options)
    }

    fn with_new_children_and_same_properties(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let options = ReplaceChildrenOptions::new(ChildrenPropertiesMode::Keep);
        self.replace_children(children, options)
    }

    fn reset_state(self: Arc<Self>) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(self.remade("reset"))
    }

    fn repartitioned(
        &self,
        target_partitions: usize,
        config: &ConfigOptions,
    ) -> Result<Option<Arc<dyn ExecutionPlan>>> {
        let passes = config.optimizer.max_passes;
        let made = format!("repartitioned {target_partitions} {passes}");
        Ok(Some(self.remade(&made)))
    }

    fn execute(
        &self,
        partition: usize,
        _context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        let schema = self.schema();
        let column = Arc::new(Int32Array::from(vec![partition as i32]));
        let batch = RecordBatch::try_new(Arc::clone(&schema), vec![column])?;
        let stream = MemoryStream::try_new(vec![batch], schema, None)?;
        Ok(Box::pin(stream))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        let count = Count::new();
        count.add(42);
        let name = METRIC.into();
        let metric = Metric::new(MetricValue::Count { name, count }, None);
        Some(std::iter::once(Arc::new(metric)).collect())
    }

    fn partition_statistics(&self, partition: Option<usize>) -> Result<Arc<Statistics>> {
        Ok(Self::partial(100 + partition.unwrap_or(50)))
    }

    fn statistics_from_inputs(
        &self,
        input_stats: &[Arc<Statistics>],
        args: &StatisticsArgs,
    ) -> Result<Arc<Statistics>> {
        let rows = 200 + args.partition().unwrap_or(50);
        Ok(Self::partial(rows + 1000 * input_stats.len()))
    }

    fn child_stats_requests(&self, partition: Option<usize>) -> Vec<ChildStats> {
        vec![ChildStats::At(partition), ChildStats::Skip]
    }

    fn supports_limit_pushdown(&self) -> bool {
        true
    }

    fn with_fetch(&self, limit: Option<usize>) -> Option<Arc<dyn ExecutionPlan>> {
        Some(self.remade(&format!("fetch {limit:?}")))
    }

    fn fetch(&self) -> Option<usize> {
        Some(23)
    }

    fn cardinality_effect(&self) -> CardinalityEffect {
        CardinalityEffect::GreaterEqual
    }

    fn try_swapping_with_projection(
        &self,
        projection: &ProjectionExec,
    ) -> Result<Option<Arc<dyn ExecutionPlan>>> {
        let names: Vec<&str> = (projection.expr().iter())
            .map(|expr| expr.alias.as_str())
            .collect();
        let swapped = self.remade(&format!("projection {names:?}"));
        match names[..] {
            [REST, ..] => {
                let rest = ProjectionExec::try_new(projection.expr().to_vec(), swapped)?;
                Ok(Some(Arc::new(rest)))
            }
            _ => Ok(Some(swapped)),
        }
    }

    fn gather_filters_for_pushdown(
        &self,
        phase: FilterPushdownPhase,
        parent_filters: Vec<Arc<dyn PhysicalExpr>>,
        config: &ConfigOptions,
    ) -> Result<FilterDescription> {
        let passes = config.optimizer.max_passes;
        let own = column(&format!("{phase:?} {passes}"));
        let child = ChildFilterDescription::all_unsupported(&parent_filters);
        Ok(FilterDescription::new().with_child(child.with_self_filter(own)))
    }

    fn handle_child_pushdown_result(
        &self,
        phase: FilterPushdownPhase,
        child_pushdown_result: ChildPushdownResult,
        config: &ConfigOptions,
    ) -> Result<FilterPushdownPropagation<Arc<dyn ExecutionPlan>>> {
        let passes = config.optimizer.max_passes;
        let filters = child_pushdown_result.parent_filters;
        let propagation = FilterPushdownPropagation::with_parent_pushdown_result(
            filters.iter().map(|_| PushedDown::Yes).collect(),
        );
        // Without filters above there is nothing to do but to get out of the way.
        let updated = match filters.is_empty() {
            true => Arc::clone(&self.children[0]),
            false => self.remade(&format!("pushdown {phase:?} {passes}")),
        };
        Ok(propagation.with_updated_node(updated))
    }

    fn with_new_state(&self, state: Arc<dyn Any + Send + Sync>) -> Option<Arc<dyn ExecutionPlan>> {
        let state = state.downcast_ref::<&str>()?;
        Some(self.remade(&format!("state {state}")))
    }

    fn try_pushdown_sort(
        &self,
        order: &[PhysicalSortExpr],
    ) -> Result<SortOrderPushdownResult<Arc<dyn ExecutionPlan>>> {
        let order: Vec<String> = order.iter().map(|key| key.expr.to_string()).collect();
        let inner = self.remade(&format!("sort {order:?}"));
        Ok(match order.len() {
            1 => SortOrderPushdownResult::Exact { inner },
            _ => SortOrderPushdownResult::Inexact { inner },
        })
    }

    fn with_preserve_order(&self, preserve_order: bool) -> Option<Arc<dyn ExecutionPlan>> {
        Some(self.remade(&format!("preserve {preserve_order}")))
    }

    fn try_to_proto(
        &self,
        _ctx: &datafusion::physical_plan::proto::ExecutionPlanEncodeCtx<'_>,
    ) -> Result<Option<datafusion_proto::protobuf::PhysicalPlanNode>> {
        Ok(None)
    }
}
