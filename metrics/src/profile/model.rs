//! What a profile says.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::metric::{Metric, merged};
use crate::analysis::total;

/// A query, as it was when the profile was made: while it ran, or after.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct QueryProfile {
    /// Always [`FORMAT`](super::FORMAT).
    pub format: String,
    /// Version of the JSON form; see [`VERSION`](super::VERSION).
    pub version: u32,
    /// Which execution, a UUID; `None` if no worker was asked: the plan is local or did not run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub query_id: Option<String>,
    /// Id of the query's OpenTelemetry trace, 32 hexadecimal digits, if whoever made the profile
    /// knew it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trace_id: Option<String>,
    /// Its text, if whoever made the profile gave it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sql: Option<String>,
    /// Whether it runs, or how it ended.
    pub status: QueryStatus,
    /// If it ran on the coordinator alone: why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub local_reason: Option<String>,
    /// If it failed: the kind of the error.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error_kind: Option<String>,
    /// If it failed: the message of the error.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// When it began, by the coordinator's clock, in nanoseconds since 1970.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started_unix_ns: Option<u64>,
    /// From its beginning to its end, or to when the profile was made.
    pub duration_ns: u64,
    /// Rows that it put out.
    pub output_rows: u64,
    /// URLs of the workers that have tasks of it, sorted.
    pub workers: Vec<String>,
    /// The coordinator's part, with id 0, then the stages that run on workers, from the lowest id.
    pub stages: Vec<StageProfile>,
    /// Metrics of the nodes of stage 0, in their order.
    #[serde(default)]
    pub coordinator: Vec<Vec<Metric>>,
    /// Every task that was planned, each attempt at it once, in the order of stages and tasks.
    pub tasks: Vec<TaskProfile>,
}

/// Whether a query runs, or how it ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum QueryStatus {
    /// It has not been run.
    Planned,
    /// It had not ended when the profile was made.
    Running,
    /// All its rows were put out.
    Finished,
    /// It ended with an error.
    Failed,
    /// Its reader left before the end.
    Cancelled,
    /// It ran on the coordinator alone.
    Local,
}

/// A part of the plan: the coordinator's, or one that runs on workers, once per task.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct StageProfile {
    /// Unique in the plan; 0 for the coordinator's part. What it reads has lower ids.
    pub id: usize,
    /// The boundary by which its rows leave; `None` for the coordinator's part.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub boundary: Option<BoundaryProfile>,
    /// In how many tasks it is to run; 0 for the coordinator's part.
    pub tasks: usize,
    /// Its nodes in pre-order, boundaries as leaves.
    pub nodes: Vec<NodeProfile>,
}

/// How rows leave a stage.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BoundaryProfile {
    /// `shuffle`, `coalesce`, `broadcast` or `custom`.
    pub kind: String,
    /// Name of its node, such as `NetworkShuffleExec`.
    pub name: String,
}

/// A node of a stage's plan.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct NodeProfile {
    /// How far below the top of its stage it is.
    pub depth: usize,
    /// Index of the node that reads it, in the same stage; `None` at the top.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<usize>,
    /// Its name, without wrappers.
    pub name: String,
    /// The line by which `EXPLAIN` shows it.
    pub text: String,
    /// The stage that it reads, if it is a boundary.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reads: Option<usize>,
}

/// One attempt at a task.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct TaskProfile {
    /// The stage whose plan it runs.
    pub stage: usize,
    /// Its place among the stage's tasks, from 0.
    pub task: usize,
    /// 0 for the first attempt.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub attempt: u32,
    /// URL of its worker.
    pub worker: String,
    /// Whether it runs, or how it ended.
    pub status: TaskState,
    /// The message of its error if it failed, or why nothing is known if it is missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// When it was sent to its worker, since the query began, by the coordinator's clock.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dispatched_ns: Option<u64>,
    /// When its report came, since the query began, by the coordinator's clock.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reported_ns: Option<u64>,
    /// When its first reader came, by the *worker's* clock: not to be compared with other machines'.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started_unix_ns: Option<u64>,
    /// From its first reader to its end, by the worker's clock; 0 if it has not ended.
    pub duration_ns: u64,
    /// Rows that left it.
    pub output_rows: u64,
    /// Bytes that left it: as encoded where they crossed the network, and where not, as they would
    /// weigh there without compression.
    pub output_bytes: u64,
    /// Metrics of the nodes of its stage, in their order; empty if it has not reported.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub nodes: Vec<Vec<Metric>>,
    /// What it reported, if that was of other nodes than those of its stage; empty otherwise.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unmatched: Vec<UnmatchedNode>,
}

/// Whether a task runs, or how it ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TaskState {
    /// Nobody has read from it yet.
    Waiting,
    /// It had started, and not reported, when the profile was made.
    Running,
    /// Every partition was read to its end.
    Finished,
    /// A partition ended with an error.
    Failed,
    /// It was stopped, or its readers left, before its end (a LIMIT does that too).
    Cancelled,
    /// Nobody ever read from it.
    Unused,
    /// The query ended, or its worker was lost, without a report of it.
    Missing,
}

/// A node that a task reported and that is not one of its stage.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct UnmatchedNode {
    /// Its name.
    pub name: String,
    /// What it measured.
    pub metrics: Vec<Metric>,
}

impl QueryStatus {
    /// The word for it in reports and in JSON.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Planned => "planned",
            Self::Running => "running",
            Self::Finished => "finished",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
            Self::Local => "local",
        }
    }
}

impl fmt::Display for QueryStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl TaskState {
    /// The word for it in reports and in JSON.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Waiting => "waiting",
            Self::Running => "running",
            Self::Finished => "finished",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
            Self::Unused => "unused",
            Self::Missing => "missing",
        }
    }

    /// Whether a task in this state has reported.
    pub fn has_reported(self) -> bool {
        !matches!(self, Self::Waiting | Self::Running | Self::Missing)
    }
}

impl fmt::Display for TaskState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl QueryProfile {
    /// The time from its beginning to its end, or to when the profile was made.
    pub fn duration(&self) -> Duration {
        Duration::from_nanos(self.duration_ns)
    }

    /// A stage by its id.
    pub fn stage(&self, id: usize) -> Option<&StageProfile> {
        self.stages.iter().find(|stage| stage.id == id)
    }

    /// The attempts at tasks of a stage, in their order.
    pub fn tasks_of(&self, stage: usize) -> impl DoubleEndedIterator<Item = &TaskProfile> {
        self.tasks.iter().filter(move |task| task.stage == stage)
    }

    /// What a node measured, with the task that it measured it in; in the coordinator's part that is
    /// `None`.
    pub fn metrics_of(
        &self,
        stage: usize,
        node: usize,
    ) -> impl Iterator<Item = (Option<&TaskProfile>, &Metric)> {
        let coordinator = self.coordinator.get(node).filter(|_| stage == 0);
        let coordinator = coordinator.into_iter().flatten();
        let tasks = self.tasks_of(stage).flat_map(move |task| {
            let metrics = task.nodes.get(node).into_iter().flatten();
            metrics.map(move |metric| (Some(task), metric))
        });
        coordinator.map(|metric| (None, metric)).chain(tasks)
    }

    /// What a node measured, merged over tasks and partitions.
    pub fn merged_metrics(&self, stage: usize, node: usize) -> Vec<Metric> {
        merged(self.metrics_of(stage, node).map(|(_, metric)| metric))
    }

    /// Tasks of which no report came: their `error` says why.
    pub fn missing(&self) -> impl DoubleEndedIterator<Item = &TaskProfile> {
        let tasks = self.tasks.iter();
        tasks.filter(|task| task.status == TaskState::Missing)
    }

    /// Bytes that passed boundaries, all stages together: as encoded where they crossed the network,
    /// and where not, as they would weigh there without compression.
    pub fn exchanged_bytes(&self) -> u64 {
        total(self.tasks.iter().map(|task| task.output_bytes))
    }
}

impl StageProfile {
    /// Ids of the stages that it reads, each once, in the order of its nodes.
    pub fn reads(&self) -> impl Iterator<Item = usize> {
        (self.nodes.iter().enumerate()).filter_map(|(index, node)| {
            let stage = node.reads?;
            let before = self.nodes[..index].iter();
            let known = before
                .filter_map(|node| node.reads)
                .any(|known| known == stage);
            (!known).then_some(stage)
        })
    }
}

impl NodeProfile {
    /// What `EXPLAIN` shows after the name; empty if there is nothing more.
    pub fn details(&self) -> &str {
        let rest = self.text.strip_prefix(&self.name).unwrap_or(&self.text);
        rest.trim_start_matches([':', ',', ' '])
    }
}

impl TaskProfile {
    /// [`duration_ns`](Self::duration_ns), as a duration.
    pub fn duration(&self) -> Duration {
        Duration::from_nanos(self.duration_ns)
    }
}

impl fmt::Display for TaskProfile {
    /// `stage.task`, the way people speak of it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.stage, self.task)
    }
}

fn is_zero(attempt: &u32) -> bool {
    *attempt == 0
}
