//! The reports of one execution.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::SystemTime;

use parking_lot::Mutex;

use super::pairing::StageSlots;
use super::report::{TaskReport, TaskStatus};
use super::stage::{QueryId, TaskKey};

/// A task, and the worker that is to run it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlannedTask {
    /// Which task.
    pub key: TaskKey,
    /// URL of its worker.
    pub worker: String,
}

/// A planned task that has not reported.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MissingTask {
    /// Which task.
    pub key: TaskKey,
    /// URL of its worker.
    pub worker: String,
    /// Why there is no report.
    pub reason: String,
}

/// What a task has done so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TaskProgress {
    /// Rows that have left the task.
    pub output_rows: u64,
    /// Bytes that have left the task.
    pub output_bytes: u64,
    /// When its first reader came, by the worker's own clock; `None` if none has.
    pub started: Option<SystemTime>,
}

/// How many tasks there are, and how they ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TaskCounts {
    /// Reported that every partition was read to its end.
    pub finished: usize,
    /// Reported an error.
    pub failed: usize,
    /// Reported that they were stopped early.
    pub cancelled: usize,
    /// Reported that nobody read from them.
    pub unused: usize,
    /// Planned, and have not reported.
    pub missing: usize,
}

/// What the tasks of one execution reported, and which of them have not.
///
/// The engine fills it while the query runs; it can be read at any time, from any thread.
#[derive(Debug)]
pub struct QueryReports {
    query_id: QueryId,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    planned: BTreeMap<TaskKey, Planned>,
    slots: BTreeMap<usize, StageSlots>,
    reports: BTreeMap<TaskKey, Arc<TaskReport>>,
    unmatched: BTreeSet<TaskKey>,
}

#[derive(Debug)]
struct Planned {
    worker: String,
    /// Why a report will not come.
    reason: Option<String>,
    progress: Option<TaskProgress>,
}

impl QueryReports {
    /// The reports of an execution of which nothing is planned yet.
    pub fn new(query_id: QueryId) -> Self {
        Self {
            query_id,
            state: Mutex::default(),
        }
    }

    /// Which execution.
    pub fn query_id(&self) -> QueryId {
        self.query_id
    }

    /// Expects reports of more tasks. Stages may be dispatched one after the other.
    pub fn plan_tasks(&self, tasks: impl IntoIterator<Item = PlannedTask>) {
        let mut state = self.state.lock();
        for PlannedTask { key, worker } in tasks {
            state.planned.entry(key).or_insert(Planned {
                worker,
                reason: None,
                progress: None,
            });
        }
    }

    /// From now on, shows what tasks of a stage report on the nodes of its plan.
    pub fn pair_stage(&self, slots: StageSlots) {
        slots.begin(self.query_id);
        self.state.lock().slots.insert(slots.stage(), slots);
    }

    /// Keeps a report. False if it is of another execution, or not the first of its task: then
    /// nothing changes.
    pub fn record(&self, report: TaskReport) -> bool {
        let key = report.key;
        let mut state = self.state.lock();
        if key.query_id != self.query_id || state.reports.contains_key(&key) {
            return false;
        }
        let slots = state.slots.get(&key.stage);
        if slots.is_some_and(|slots| !slots.assign(&report)) {
            state.unmatched.insert(key);
        }
        state.reports.insert(key, Arc::new(report));
        true
    }

    /// Says why a task has not reported. The first reason stays: what follows is a consequence.
    pub fn missing_because(&self, key: TaskKey, reason: impl Into<String>) {
        if let Some(planned) = self.state.lock().planned.get_mut(&key) {
            planned.reason.get_or_insert_with(|| reason.into());
        }
    }

    /// Says why no task of a worker has reported that has not yet.
    pub fn worker_missing_because(&self, worker: &str, reason: &str) {
        for planned in self.state.lock().planned.values_mut() {
            if planned.worker == worker {
                planned.reason.get_or_insert_with(|| reason.to_owned());
            }
        }
    }

    /// All reports, in the order of stages and tasks.
    pub fn reports(&self) -> Vec<Arc<TaskReport>> {
        self.state.lock().reports.values().cloned().collect()
    }

    /// What a task reported; of several attempts, the last that reported.
    pub fn report(&self, stage: usize, task: usize) -> Option<Arc<TaskReport>> {
        let state = self.state.lock();
        let attempts = state.reports.range(self.attempts(stage, task));
        attempts.last().map(|(_, report)| Arc::clone(report))
    }

    /// Planned tasks that have not reported.
    pub fn missing(&self) -> Vec<MissingTask> {
        let state = self.state.lock();
        let missing = state.missing().map(|(key, planned)| MissingTask {
            key: *key,
            worker: planned.worker.clone(),
            reason: (planned.reason.clone()).unwrap_or_else(|| "no report came yet".to_owned()),
        });
        missing.collect()
    }

    /// Reports of other nodes than those of their stage. Their metrics are on no node.
    pub fn unmatched(&self) -> Vec<Arc<TaskReport>> {
        let state = self.state.lock();
        let unmatched = state.unmatched.iter();
        unmatched
            .filter_map(|key| state.reports.get(key).cloned())
            .collect()
    }

    /// How many tasks there are, by how they ended. Each attempt counts.
    pub fn counts(&self) -> TaskCounts {
        let state = self.state.lock();
        let mut counts = TaskCounts {
            missing: state.missing().count(),
            ..TaskCounts::default()
        };
        for report in state.reports.values() {
            *match report.status {
                TaskStatus::Finished => &mut counts.finished,
                TaskStatus::Failed => &mut counts.failed,
                TaskStatus::Cancelled => &mut counts.cancelled,
                TaskStatus::Unused => &mut counts.unused,
            } += 1;
        }
        counts
    }

    /// Says what a planned task has done so far.
    pub fn progress(&self, key: TaskKey, progress: TaskProgress) {
        if let Some(planned) = self.state.lock().planned.get_mut(&key) {
            planned.progress = Some(progress);
        }
    }

    /// What a task had done when it was last heard of; when it has reported, what it did.
    pub fn progress_of(&self, key: TaskKey) -> Option<TaskProgress> {
        let state = self.state.lock();
        match state.reports.get(&key) {
            Some(report) => Some(TaskProgress {
                output_rows: report.output_rows,
                output_bytes: report.output_bytes,
                started: report.started,
            }),
            None => state.planned.get(&key)?.progress,
        }
    }

    fn attempts(&self, stage: usize, task: usize) -> std::ops::RangeInclusive<TaskKey> {
        let attempt = |attempt| TaskKey {
            query_id: self.query_id,
            stage,
            task,
            attempt,
        };
        attempt(0)..=attempt(u32::MAX)
    }
}

impl State {
    fn missing(&self) -> impl Iterator<Item = (&TaskKey, &Planned)> {
        self.planned
            .iter()
            .filter(|(key, _)| !self.reports.contains_key(key))
    }
}
