//! The plan node of boundaries, and changes to it.

use std::fmt::{self, Debug};
use std::sync::Arc;

use datafusion::arrow::array::RecordBatch;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{Result, internal_datafusion_err, internal_err};
use datafusion::execution::memory_pool::MemoryConsumer;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::coop::make_cooperative;
use datafusion::physical_plan::execution_plan::{
    ChildrenPropertiesMode, EvaluationType, ReplaceChildrenOptions, SchedulingType,
};
use datafusion::physical_plan::metrics::{
    BaselineMetrics, ExecutionPlanMetricsSet, MetricBuilder, MetricsSet, RecordOutput,
};
use datafusion::physical_plan::sorts::streaming_merge::StreamingMergeBuilder;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties, PlanProperties,
};
use futures::TryStreamExt;

use super::boundary::{
    Exchange, ExchangeHandle, ExchangeRequest, ExchangeShape, NetworkBoundary, StreamKey,
};
use super::stage::Stage;
use super::waiting::Waiting;

/// The plan node of every boundary.
///
/// On the coordinator its one child is the plan of its input stage. On workers it is a leaf that
/// knows the streams it reads.
#[derive(Clone, Debug)]
pub struct NetworkBoundaryExec {
    boundary: Arc<dyn NetworkBoundary>,
    stage: usize,
    tasks: usize,
    consumer_tasks: usize,
    side: Side,
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
}

#[derive(Clone, Debug)]
enum Side {
    /// On the coordinator, over the plan of the input stage.
    Attached(Arc<dyn ExecutionPlan>),
    /// In a consumer task: the reads of each of its partitions.
    Detached(Vec<Vec<StreamKey>>),
}

impl NetworkBoundaryExec {
    /// A boundary over `input`, with the sending side put on top of it.
    ///
    /// # Errors
    /// What the boundary's own methods say of `input`.
    pub fn try_new(
        boundary: Arc<dyn NetworkBoundary>,
        input: Arc<dyn ExecutionPlan>,
        stage: usize,
        tasks: usize,
        consumer_tasks: usize,
    ) -> Result<Self> {
        let head = boundary.stage_head(input, consumer_tasks)?;
        Self::over_head(boundary, head, stage, tasks, consumer_tasks)
    }

    fn over_head(
        boundary: Arc<dyn NetworkBoundary>,
        head: Arc<dyn ExecutionPlan>,
        stage: usize,
        tasks: usize,
        consumer_tasks: usize,
    ) -> Result<Self> {
        let shape = ExchangeShape {
            producer_tasks: tasks,
            producer_partitions: head.output_partitioning().partition_count(),
            consumer_tasks,
        };
        let properties = boundary
            .properties(&head, &shape)?
            .with_evaluation_type(EvaluationType::Lazy)
            .with_scheduling_type(SchedulingType::Cooperative);
        Ok(Self {
            boundary,
            stage,
            tasks,
            consumer_tasks,
            side: Side::Attached(head),
            properties: Arc::new(properties),
            metrics: ExecutionPlanMetricsSet::new(),
        })
    }

    /// The same boundary as consumer task `consumer` runs it: a leaf that knows what it reads.
    pub fn detach(&self, consumer: usize) -> Self {
        let partitions = self.properties.output_partitioning().partition_count();
        let reads = (0..partitions)
            .map(|partition| self.reads(consumer, partition))
            .collect();
        Self {
            side: Side::Detached(reads),
            metrics: ExecutionPlanMetricsSet::new(),
            ..self.clone()
        }
    }

    /// A boundary that arrived in a task; `reads` has the streams of each partition.
    pub(crate) fn detached(
        boundary: Arc<dyn NetworkBoundary>,
        stage: usize,
        tasks: usize,
        consumer_tasks: usize,
        reads: Vec<Vec<StreamKey>>,
        properties: PlanProperties,
    ) -> Self {
        Self {
            boundary,
            stage,
            tasks,
            consumer_tasks,
            side: Side::Detached(reads),
            properties: Arc::new(properties),
            metrics: ExecutionPlanMetricsSet::new(),
        }
    }

    /// What kind of boundary this is.
    pub fn boundary(&self) -> &Arc<dyn NetworkBoundary> {
        &self.boundary
    }

    /// Id of the stage it reads.
    pub fn stage_id(&self) -> usize {
        self.stage
    }

    /// How many tasks it reads from.
    pub fn tasks(&self) -> usize {
        self.tasks
    }

    /// How many tasks read through it.
    pub fn consumer_tasks(&self) -> usize {
        self.consumer_tasks
    }

    /// The stage it reads, on the coordinator; in a task the plan is elsewhere: `None`.
    pub fn stage(&self) -> Option<Stage> {
        match &self.side {
            Side::Attached(plan) => Some(Stage {
                id: self.stage,
                plan: Arc::clone(plan),
                tasks: self.tasks,
            }),
            Side::Detached(_) => None,
        }
    }

    /// The streams that `partition` of consumer task `consumer` reads.
    pub fn reads(&self, consumer: usize, partition: usize) -> Vec<StreamKey> {
        match &self.side {
            Side::Attached(head) => {
                let shape = ExchangeShape {
                    producer_tasks: self.tasks,
                    producer_partitions: head.output_partitioning().partition_count(),
                    consumer_tasks: self.consumer_tasks,
                };
                self.boundary.reads(consumer, partition, &shape)
            }
            Side::Detached(reads) => reads.get(partition).cloned().unwrap_or_default(),
        }
    }

    fn open(
        &self,
        exchange: &dyn Exchange,
        partition: usize,
        context: &TaskContext,
    ) -> Result<SendableRecordBatchStream> {
        let reads = self.reads(0, partition);
        let mut streams = exchange.open(&ExchangeRequest {
            stage: self.stage,
            kind: self.boundary.kind(),
            partition,
            reads: &reads,
            schema: self.schema(),
            metrics: &self.metrics,
        })?;
        let baseline = BaselineMetrics::new(&self.metrics, partition);
        match self.boundary.merge_order() {
            Some(order) if streams.len() > 1 => StreamingMergeBuilder::new()
                .with_streams(streams)
                .with_schema(self.schema())
                .with_expressions(order)
                .with_metrics(baseline)
                .with_batch_size(context.session_config().batch_size())
                .with_reservation(
                    MemoryConsumer::new(format!("{}[{partition}]", self.boundary.name()))
                        .register(context.memory_pool()),
                )
                .build(),
            _ => {
                let merged = if streams.len() == 1 {
                    streams.remove(0)
                } else {
                    Box::pin(RecordBatchStreamAdapter::new(
                        self.schema(),
                        futures::stream::select_all(streams),
                    )) as SendableRecordBatchStream
                };
                let wait =
                    MetricBuilder::new(&self.metrics).subset_time("exchange_wait", partition);
                let counted = Waiting::new(merged, wait)
                    .map_ok(move |batch: RecordBatch| batch.record_output(&baseline));
                Ok(make_cooperative(Box::pin(RecordBatchStreamAdapter::new(
                    self.schema(),
                    counted,
                ))))
            }
        }
    }
}

impl DisplayAs for NetworkBoundaryExec {
    fn fmt_as(&self, t: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if matches!(t, DisplayFormatType::TreeRender) {
            writeln!(f, "stage={}", self.stage)?;
            return write!(f, "tasks={}", self.tasks);
        }
        write!(
            f,
            "{}: stage={}, tasks={}",
            self.boundary.name(),
            self.stage,
            self.tasks
        )?;
        self.boundary.fmt_details(f)
    }
}

impl ExecutionPlan for NetworkBoundaryExec {
    fn name(&self) -> &str {
        self.boundary.name()
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        match &self.side {
            Side::Attached(input) => vec![input],
            Side::Detached(_) => vec![],
        }
    }

    fn maintains_input_order(&self) -> Vec<bool> {
        let kept = self.properties.output_ordering().is_some();
        self.children().iter().map(|_| kept).collect()
    }

    fn benefits_from_input_partitioning(&self) -> Vec<bool> {
        self.children().iter().map(|_| false).collect()
    }

    fn apply_expressions(
        &self,
        f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        match self.boundary.merge_order() {
            Some(order) => datafusion::physical_plan::execution_plan::apply_expression_roots(
                order.iter().map(|sort| &sort.expr),
                f,
            ),
            None => Ok(TreeNodeRecursion::Continue),
        }
    }

    fn replace_children(
        self: Arc<Self>,
        mut children: Vec<Arc<dyn ExecutionPlan>>,
        _options: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        match (&self.side, children.len()) {
            (Side::Detached(_), 0) => Ok(self),
            (Side::Attached(_), 1) => Ok(Arc::new(Self::over_head(
                Arc::clone(&self.boundary),
                children.remove(0),
                self.stage,
                self.tasks,
                self.consumer_tasks,
            )?)),
            (side, found) => internal_err!(
                "{} takes {} children, not {found}",
                self.boundary.name(),
                usize::from(matches!(side, Side::Attached(_)))
            ),
        }
    }

    fn with_new_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        self.replace_children(
            children,
            ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute),
        )
    }

    fn with_new_state(
        &self,
        state: Arc<dyn std::any::Any + Send + Sync>,
    ) -> Option<Arc<dyn ExecutionPlan>> {
        let edit = state.downcast::<BoundaryEdit>().ok()?;
        Some(Arc::new(edit.apply(self)))
    }

    fn reset_state(self: Arc<Self>) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(Arc::new(Self {
            metrics: ExecutionPlanMetricsSet::new(),
            ..(*self).clone()
        }))
    }

    fn execute(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        let handle = context
            .session_config()
            .get_extension::<ExchangeHandle>()
            .ok_or_else(|| {
                internal_datafusion_err!(
                    "{} reads from other tasks, so it runs only below a DistributedExec or in a \
                     task on a worker",
                    self.boundary.name()
                )
            })?;
        let exchange = Arc::clone(&handle.0);
        let this = self.clone();
        let opened = async move {
            exchange.prepare(&this).await?;
            this.open(exchange.as_ref(), partition, &context)
        };
        Ok(Box::pin(RecordBatchStreamAdapter::new(
            self.schema(),
            futures::stream::once(opened).try_flatten(),
        )))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }
}

/// A change to a boundary that keeps the wrappers around it.
///
/// Handed to [`ExecutionPlan::with_new_state`], which wrappers forward and rewrap.
#[derive(Clone, Debug)]
pub struct BoundaryEdit {
    /// The boundary to put in its place; its claims must be those of the old one.
    pub boundary: Option<Arc<dyn NetworkBoundary>>,
    /// Another stage id.
    pub stage: Option<usize>,
}

impl BoundaryEdit {
    fn apply(&self, node: &NetworkBoundaryExec) -> NetworkBoundaryExec {
        let mut edited = node.clone();
        if let Some(boundary) = &self.boundary {
            edited.boundary = Arc::clone(boundary);
        }
        if let Some(stage) = self.stage {
            edited.stage = stage;
        }
        edited
    }
}

/// Finds boundaries in plans, through any number of wrappers.
pub trait NetworkBoundaryExt {
    /// The boundary that this node is or wraps.
    fn as_network_boundary(&self) -> Option<&NetworkBoundaryExec>;
}

impl NetworkBoundaryExt for dyn ExecutionPlan {
    fn as_network_boundary(&self) -> Option<&NetworkBoundaryExec> {
        self.downcast_ref::<NetworkBoundaryExec>()
    }
}

/// Changes the boundary that `plan` is or wraps, and keeps the wrappers.
///
/// # Errors
/// If `plan` is no boundary, or a wrapper around it does not forward `with_new_state`; the
/// message names the wrapper.
pub fn edit_boundary(
    plan: &Arc<dyn ExecutionPlan>,
    edit: BoundaryEdit,
) -> Result<Arc<dyn ExecutionPlan>> {
    if plan.as_network_boundary().is_none() {
        return internal_err!("{} is no network boundary", plan.name());
    }
    plan.with_new_state(Arc::new(edit)).ok_or_else(|| {
        internal_datafusion_err!(
            "the wrapper around {} does not forward with_new_state, so the boundary in it cannot \
             be changed: {plan:?}",
            plan.name()
        )
    })
}
