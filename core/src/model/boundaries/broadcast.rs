//! All rows to every task.

use std::fmt;
use std::sync::Arc;

use datafusion::arrow::array::RecordBatch;
use datafusion::common::runtime::SpawnedTask;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{DataFusionError, Result, internal_err};
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryReservation};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::execution_plan::{ChildrenPropertiesMode, ReplaceChildrenOptions};
use datafusion::physical_plan::metrics::{
    BaselineMetrics, ExecutionPlanMetricsSet, MetricsSet, RecordOutput,
};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties, PlanProperties,
};
use futures::TryStreamExt;
use parking_lot::Mutex;
use tokio::sync::watch;

use super::coalesce::side_by_side;
use crate::model::boundary::{BoundaryKind, ExchangeShape, NetworkBoundary, StreamKey};
use crate::model::child::only_child;
use crate::model::panic::caught_in;

/// Brings every partition of every producer task to every consumer task.
///
/// Only right below something that reads all of it in each task and puts none of it out by
/// itself, such as the build side of an inner hash join.
#[derive(Clone, Copy, Debug, Default)]
pub struct NetworkBroadcast;

impl NetworkBoundary for NetworkBroadcast {
    fn name(&self) -> &str {
        "NetworkBroadcastExec"
    }

    fn kind(&self) -> BoundaryKind {
        BoundaryKind::Broadcast
    }

    fn stage_head(
        &self,
        input: Arc<dyn ExecutionPlan>,
        consumer_tasks: usize,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(Arc::new(BroadcastExec::new(input, consumer_tasks)))
    }

    fn properties(
        &self,
        head: &Arc<dyn ExecutionPlan>,
        shape: &ExchangeShape,
    ) -> Result<PlanProperties> {
        let partitions = shape.producer_partitions / shape.consumer_tasks;
        Ok(side_by_side(head, shape.producer_tasks * partitions))
    }

    fn reads(&self, consumer: usize, partition: usize, shape: &ExchangeShape) -> Vec<StreamKey> {
        let partitions = shape.producer_partitions / shape.consumer_tasks;
        vec![StreamKey {
            task: partition / partitions,
            partition: consumer * partitions + partition % partitions,
        }]
    }
}

/// The sending side of a broadcast: runs each input partition once and puts it out `copies`
/// times. Partition `c * P + p` is copy `c` of input partition `p`.
///
/// Batches are kept, and counted against the memory pool, until the last copy is dropped: a
/// consumer that comes late still gets them all.
#[derive(Debug)]
pub struct BroadcastExec {
    input: Arc<dyn ExecutionPlan>,
    copies: usize,
    shared: Vec<Arc<Mutex<Shared>>>,
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
}

/// One input partition: not yet run, or being read into memory.
#[derive(Debug, Default)]
enum Shared {
    #[default]
    Idle,
    Running {
        kept: Arc<Kept>,
        /// Copies handed out; a copy may be read once.
        taken: Vec<bool>,
    },
}

#[derive(Debug)]
struct Kept {
    batches: Mutex<Batches>,
    /// Changes whenever `batches` does.
    changed: watch::Sender<()>,
    /// Ends with the last reader.
    _task: Mutex<Option<SpawnedTask<()>>>,
}

#[derive(Debug)]
struct Batches {
    list: Vec<RecordBatch>,
    done: Option<std::result::Result<(), Arc<DataFusionError>>>,
    reservation: MemoryReservation,
}

impl BroadcastExec {
    /// Puts out `input` `copies` times.
    pub fn new(input: Arc<dyn ExecutionPlan>, copies: usize) -> Self {
        let partitions = input.output_partitioning().partition_count();
        let properties = Arc::new(side_by_side(&input, partitions * copies));
        Self {
            copies,
            shared: (0..partitions).map(|_| Arc::default()).collect(),
            properties,
            metrics: ExecutionPlanMetricsSet::new(),
            input,
        }
    }

    /// How often each row is put out.
    pub fn copies(&self) -> usize {
        self.copies
    }

    fn take(&self, partition: usize, context: Arc<TaskContext>) -> Result<Arc<Kept>> {
        let inputs = self.shared.len();
        let (copy, input_partition) = (partition / inputs, partition % inputs);
        let mut shared = self.shared[input_partition].lock();
        if matches!(*shared, Shared::Idle) {
            let stream = self.input.execute(input_partition, Arc::clone(&context))?;
            *shared = Shared::Running {
                kept: Kept::start(stream, input_partition, &context),
                taken: vec![false; self.copies],
            };
        }
        match &mut *shared {
            Shared::Running { kept, taken } if !taken[copy] => {
                taken[copy] = true;
                let kept = Arc::clone(kept);
                if taken.iter().all(|taken| *taken) {
                    // From here only the readers hold the batches.
                    *shared = Shared::Running {
                        kept: Arc::new(Kept::empty(&context)),
                        taken: vec![true; self.copies],
                    };
                }
                Ok(kept)
            }
            _ => internal_err!("partition {partition} of BroadcastExec was already executed"),
        }
    }
}

impl Kept {
    fn empty(context: &TaskContext) -> Self {
        Self {
            batches: Mutex::new(Batches {
                list: vec![],
                done: Some(Ok(())),
                reservation: MemoryConsumer::new("BroadcastExec").register(context.memory_pool()),
            }),
            changed: watch::Sender::new(()),
            _task: Mutex::default(),
        }
    }

    fn start(
        mut stream: SendableRecordBatchStream,
        partition: usize,
        context: &TaskContext,
    ) -> Arc<Self> {
        let kept = Arc::new(Self {
            batches: Mutex::new(Batches {
                list: vec![],
                done: None,
                reservation: MemoryConsumer::new(format!("BroadcastExec[{partition}]"))
                    .register(context.memory_pool()),
            }),
            changed: watch::Sender::new(()),
            _task: Mutex::default(),
        });
        let weak = Arc::downgrade(&kept);
        let task = SpawnedTask::spawn(async move {
            loop {
                let next = caught_in("the input of a broadcast", stream.try_next()).await;
                let Some(kept) = weak.upgrade() else { return };
                let done = {
                    let mut batches = kept.batches.lock();
                    match next {
                        Ok(Some(batch)) => {
                            match batches.reservation.try_grow(batch.get_array_memory_size()) {
                                Ok(()) => batches.list.push(batch),
                                Err(error) => batches.done = Some(Err(Arc::new(error))),
                            }
                        }
                        Ok(None) => batches.done = Some(Ok(())),
                        Err(error) => batches.done = Some(Err(Arc::new(error))),
                    }
                    batches.done.is_some()
                };
                kept.changed.send_replace(());
                if done {
                    return;
                }
            }
        });
        *kept._task.lock() = Some(task);
        kept
    }

    /// Batch number `next`, if it is there; `Some(None)` at the end.
    fn get(&self, next: usize) -> Option<Option<Result<RecordBatch>>> {
        let batches = self.batches.lock();
        if let Some(batch) = batches.list.get(next) {
            return Some(Some(Ok(batch.clone())));
        }
        match &batches.done {
            None => None,
            Some(Ok(())) => Some(None),
            Some(Err(error)) => Some(Some(Err(DataFusionError::Shared(Arc::clone(error))))),
        }
    }
}

impl DisplayAs for BroadcastExec {
    fn fmt_as(&self, t: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match t {
            DisplayFormatType::TreeRender => write!(f, "copies={}", self.copies),
            _ => write!(f, "BroadcastExec: copies={}", self.copies),
        }
    }
}

impl ExecutionPlan for BroadcastExec {
    fn name(&self) -> &str {
        "BroadcastExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.input]
    }

    fn maintains_input_order(&self) -> Vec<bool> {
        vec![true]
    }

    fn benefits_from_input_partitioning(&self) -> Vec<bool> {
        vec![false]
    }

    fn apply_expressions(
        &self,
        _f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn replace_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
        _options: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let input = only_child(self.name(), &children)?;
        Ok(Arc::new(Self::new(input, self.copies)))
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

    fn execute(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        let kept = self.take(partition, context)?;
        let changed = kept.changed.subscribe();
        let baseline = BaselineMetrics::new(&self.metrics, partition);
        let stream = futures::stream::unfold(
            (kept, changed, 0, false),
            move |(kept, mut changed, next, failed)| {
                let baseline = baseline.clone();
                async move {
                    if failed {
                        return None;
                    }
                    loop {
                        changed.mark_unchanged();
                        if let Some(item) = kept.get(next) {
                            let item = item?;
                            if let Ok(batch) = &item {
                                batch.record_output(&baseline);
                            }
                            let failed = item.is_err();
                            return Some((item, (kept, changed, next + 1, failed)));
                        }
                        // The sender lives in `kept`, which is held here.
                        changed.changed().await.ok()?;
                    }
                }
            },
        );
        Ok(Box::pin(RecordBatchStreamAdapter::new(
            self.schema(),
            stream,
        )))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }
}
