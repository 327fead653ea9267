//! Names for what a query is cut into: stages, and the tasks that run them.

use std::fmt;
use std::sync::Arc;

use datafusion::physical_plan::ExecutionPlan;
use uuid::Uuid;

/// Identity of one execution of a plan, a UUIDv7: ids of later executions compare greater.
///
/// It belongs to an execution, not to a plan: a plan that runs twice has two.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct QueryId(Uuid);

impl QueryId {
    /// A new id, greater than every id this process made before.
    pub fn new() -> Self {
        Self(Uuid::now_v7())
    }

    /// The 16 bytes of the id, as they travel.
    pub fn as_bytes(&self) -> &[u8; 16] {
        self.0.as_bytes()
    }

    /// Reads an id from its 16 bytes; `None` if there are not 16.
    pub fn from_slice(bytes: &[u8]) -> Option<Self> {
        Uuid::from_slice(bytes).ok().map(Self)
    }
}

impl Default for QueryId {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Display for QueryId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Debug for QueryId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::str::FromStr for QueryId {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Uuid::parse_str(text)
            .map(Self)
            .map_err(|error| format!("a query id is a UUID, and {text:?} is not: {error}"))
    }
}

/// Identity of one attempt at one task of one execution.
///
/// Displayed as `stage.task`, the way people speak of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TaskKey {
    /// The execution this task belongs to.
    pub query_id: QueryId,
    /// The stage whose plan it runs.
    pub stage: usize,
    /// Its place among the stage's tasks, from 0.
    pub task: usize,
    /// 0 for the first attempt.
    pub attempt: u32,
}

impl fmt::Display for TaskKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.stage, self.task)
    }
}

/// A part of a plan that runs on workers, once per task, each over its share of the data.
///
/// Fixed at planning. Ids start at 1 and are unique in a plan; a stage's inputs have smaller ids.
#[derive(Clone, Debug)]
pub struct Stage {
    /// Unique in the plan, from 1.
    pub id: usize,
    /// What each task runs.
    pub plan: Arc<dyn ExecutionPlan>,
    /// In how many tasks it runs.
    pub tasks: usize,
}
