//! What a task says of itself when it ends.

use std::fmt;
use std::time::{Duration, SystemTime};

use datafusion::physical_plan::metrics::MetricsSet;

use super::stage::TaskKey;

/// How a task ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TaskStatus {
    /// Every output partition was read to its end.
    Finished,
    /// A partition ended with an error.
    Failed,
    /// It was stopped, or its readers left, before its end (a LIMIT does that too).
    Cancelled,
    /// It was accepted, and nobody ever read from it.
    Unused,
}

impl TaskStatus {
    /// The word for it in spans, metrics and tables.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Finished => "finished",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
            Self::Unused => "unused",
        }
    }
}

impl fmt::Display for TaskStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// Metrics of one plan node in one task.
#[derive(Clone, Debug)]
pub struct NodeReport {
    /// [`ExecutionPlan::name`](datafusion::physical_plan::ExecutionPlan::name) of the node.
    pub name: String,
    /// Its metrics, per partition, as the node recorded them.
    pub metrics: MetricsSet,
}

/// What one task did: sent once, when it ended, failed, was cancelled, or was never used.
#[derive(Clone, Debug)]
pub struct TaskReport {
    /// Which task.
    pub key: TaskKey,
    /// URL of the worker that ran it, as the coordinator knows it.
    pub worker: String,
    /// How it ended.
    pub status: TaskStatus,
    /// Message of the error, if it failed.
    pub error: Option<String>,
    /// The kind of that error, such as `ArrowError`.
    pub error_kind: Option<String>,
    /// When the first reader came, by the worker's own clock; `None` if none did.
    pub started: Option<SystemTime>,
    /// From the first reader to the end, by the worker's monotonic clock.
    pub duration: Duration,
    /// Rows that left the task through its boundary.
    pub output_rows: u64,
    /// Bytes that left the task: as encoded where they crossed the network, and where not, as
    /// they would weigh there without compression.
    pub output_bytes: u64,
    /// Metrics of the task's nodes, in pre-order of its plan without wrappers, boundaries as leaves.
    pub nodes: Vec<NodeReport>,
}
