//! Where rows cross from one stage to another.

use std::fmt::{self, Debug};
use std::sync::Arc;

use async_trait::async_trait;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::common::Result;
use datafusion::execution::SendableRecordBatchStream;
use datafusion::physical_expr::{EquivalenceProperties, LexOrdering};
use datafusion::physical_plan::metrics::ExecutionPlanMetricsSet;
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties, PlanProperties};

pub use super::boundary_exec::{
    BoundaryEdit, NetworkBoundaryExec, NetworkBoundaryExt, edit_boundary,
};

/// What a boundary does with rows, for people and for metrics; execution does not look at it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BoundaryKind {
    /// Each row goes to the one consumer task that its key belongs to.
    Shuffle,
    /// All rows go to one consumer task.
    Coalesce,
    /// Every consumer task gets all rows.
    Broadcast,
    /// Something else, of a third party.
    Custom,
}

impl BoundaryKind {
    /// The word for it in spans, metrics and tables.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Shuffle => "shuffle",
            Self::Coalesce => "coalesce",
            Self::Broadcast => "broadcast",
            Self::Custom => "custom",
        }
    }

    /// The kind behind such a word; unknown ones are somebody else's.
    pub(crate) fn named(word: &str) -> Self {
        [Self::Shuffle, Self::Coalesce, Self::Broadcast]
            .into_iter()
            .find(|kind| kind.as_str() == word)
            .unwrap_or(Self::Custom)
    }
}

/// One stream between two tasks: a partition of what a producer task puts out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct StreamKey {
    /// Which task of the producing stage.
    pub task: usize,
    /// Which output partition of that task's plan.
    pub partition: usize,
}

/// The two sides of a boundary, in numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExchangeShape {
    /// Tasks of the producing stage.
    pub producer_tasks: usize,
    /// Output partitions of each producer task, that is, of the stage's head.
    pub producer_partitions: usize,
    /// Tasks of the consuming stage; 1 if that is the coordinator.
    pub consumer_tasks: usize,
}

/// How rows travel from the tasks of one stage to the tasks of the next.
///
/// The set of boundaries is open: everything that Flightpath does with a boundary it does through
/// this trait. [`stage_head`](Self::stage_head), [`properties`](Self::properties) and
/// [`reads`](Self::reads) must agree with each other: over all consumer tasks and partitions,
/// the streams read must deliver every row exactly as often as the boundary promises. They are
/// asked on the coordinator only, and their answers travel, so a worker needs no code of a
/// boundary to run it.
pub trait NetworkBoundary: Debug + Send + Sync {
    /// What `EXPLAIN` shows, such as `NetworkShuffleExec`.
    fn name(&self) -> &str;

    /// What it does with rows.
    fn kind(&self) -> BoundaryKind {
        BoundaryKind::Custom
    }

    /// The plan of the producing stage: `input` with whatever the boundary needs on its sending
    /// side on top of it.
    ///
    /// # Errors
    /// If `input` cannot be sent this way; the query then runs locally.
    fn stage_head(
        &self,
        input: Arc<dyn ExecutionPlan>,
        consumer_tasks: usize,
    ) -> Result<Arc<dyn ExecutionPlan>>;

    /// What the boundary claims to put out in *one* consumer task.
    ///
    /// # Errors
    /// If `head` and `shape` cannot be read this way; the query then runs locally.
    fn properties(
        &self,
        head: &Arc<dyn ExecutionPlan>,
        shape: &ExchangeShape,
    ) -> Result<PlanProperties>;

    /// The streams whose union is `partition` in consumer task `consumer`.
    fn reads(&self, consumer: usize, partition: usize, shape: &ExchangeShape) -> Vec<StreamKey>;

    /// The order in which a consumer must merge the streams of a partition, if it must. Without
    /// one they are read as they come.
    fn merge_order(&self) -> Option<&LexOrdering> {
        None
    }

    /// More to show after the name, such as the keys of a shuffle.
    fn fmt_details(&self, _f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Ok(())
    }
}

/// What a boundary asks of whoever carries its streams.
pub struct ExchangeRequest<'a> {
    /// The producing stage.
    pub stage: usize,
    /// What the boundary does, for metrics.
    pub kind: BoundaryKind,
    /// The consumer's partition that reads.
    pub partition: usize,
    /// The streams to open.
    pub reads: &'a [StreamKey],
    /// Schema of the batches.
    pub schema: SchemaRef,
    /// Where to count bytes and waits.
    pub metrics: &'a ExecutionPlanMetricsSet,
}

/// Carries streams from producer tasks to the boundaries that read them.
///
/// An engine puts one into the session config of the
/// [`TaskContext`](datafusion::execution::TaskContext), as an [`ExchangeHandle`].
#[async_trait]
pub trait Exchange: Send + Sync {
    /// Opens one stream for each of the request's reads, in their order.
    ///
    /// # Errors
    /// If a stream is already known not to be had. Whatever is learned later is an item of the
    /// stream.
    fn open(&self, request: &ExchangeRequest<'_>) -> Result<Vec<SendableRecordBatchStream>>;

    /// For a boundary that still owns its input: makes the stages below it ready to be read.
    async fn prepare(&self, boundary: &NetworkBoundaryExec) -> Result<()>;
}

/// An [`Exchange`] as an extension of a session config.
pub struct ExchangeHandle(pub Arc<dyn Exchange>);

/// The equivalences of `head` that still hold when rows of several tasks are mixed.
pub(crate) fn mixed_equivalences(head: &Arc<dyn ExecutionPlan>) -> EquivalenceProperties {
    let mut properties = head.equivalence_properties().clone();
    properties.clear_orderings();
    properties.clear_per_partition_constants();
    properties
}
