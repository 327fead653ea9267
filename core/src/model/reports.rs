//! The reports of one execution.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use datafusion::physical_plan::ExecutionPlan;
use parking_lot::Mutex;
use tokio::sync::watch;

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

/// What is known of a task.
#[derive(Clone, Debug)]
pub struct TaskSnapshot {
    /// Which task.
    pub key: TaskKey,
    /// URL of its worker.
    pub worker: String,
    /// When it was sent to its worker.
    pub dispatched: Option<Duration>,
    /// What it had done when it was last heard of.
    pub progress: Option<TaskProgress>,
    /// When its report came.
    pub reported: Option<Duration>,
    /// What it reported.
    pub report: Option<Arc<TaskReport>>,
    /// Why no report came, and none will.
    pub missing: Option<String>,
}

/// How an execution ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum QueryOutcome {
    /// All its rows were put out.
    Finished,
    /// It put out an error.
    Failed {
        /// Kind of the error, as [`kind_of`](crate::kind_of) names it.
        kind: String,
        /// Its message.
        message: String,
    },
    /// Its reader left before the end.
    Cancelled,
    /// No worker ran it: its rows came from the local plan.
    Local {
        /// Why.
        reason: String,
    },
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
/// The engine fills it while the query runs; it can be read at any time, from any thread. Times are
/// those of the coordinator's monotonic clock, since the query began.
#[derive(Debug)]
pub struct QueryReports {
    query_id: QueryId,
    began: (SystemTime, Instant),
    state: Mutex<State>,
    changed: watch::Sender<()>,
}

#[derive(Debug, Default)]
struct State {
    planned: BTreeMap<TaskKey, Planned>,
    slots: BTreeMap<usize, StageSlots>,
    reports: BTreeMap<TaskKey, Arc<TaskReport>>,
    /// When each report came.
    reported: BTreeMap<TaskKey, Duration>,
    unmatched: BTreeSet<TaskKey>,
    plan: Option<Arc<dyn ExecutionPlan>>,
    output_rows: u64,
    end: Option<(Duration, QueryOutcome)>,
}

#[derive(Debug)]
struct Planned {
    worker: String,
    dispatched: Option<Duration>,
    /// Why a report will not come.
    reason: Option<String>,
    progress: Option<TaskProgress>,
}

impl QueryReports {
    /// The reports of an execution of which nothing is planned yet.
    pub fn new(query_id: QueryId) -> Self {
        Self {
            query_id,
            began: (SystemTime::now(), Instant::now()),
            state: Mutex::default(),
            changed: watch::Sender::new(()),
        }
    }

    /// Which execution.
    pub fn query_id(&self) -> QueryId {
        self.query_id
    }

    /// When it began, by the coordinator's clock.
    pub fn began(&self) -> SystemTime {
        self.began.0
    }

    /// How long it has been running; when it has ended, how long it ran.
    pub fn elapsed(&self) -> Duration {
        let end = self.state.lock().end.as_ref().map(|(at, _)| *at);
        end.unwrap_or_else(|| self.began.1.elapsed())
    }

    /// Says how it ended, and when: `at` is what [`elapsed`](Self::elapsed) was then. The reports
    /// that followed have come, or never will. What was said first stays.
    pub fn end(&self, at: Duration, outcome: QueryOutcome) {
        self.state.lock().end.get_or_insert((at, outcome));
        self.changed.send_replace(());
    }

    /// How it ended; `None` while it runs.
    pub fn outcome(&self) -> Option<QueryOutcome> {
        let state = self.state.lock();
        state.end.as_ref().map(|(_, outcome)| outcome.clone())
    }

    /// Says which plan this execution runs on the coordinator. Executions of one plan have nodes,
    /// and with them metrics, of their own.
    pub fn set_plan(&self, plan: Arc<dyn ExecutionPlan>) {
        self.state.lock().plan = Some(plan);
    }

    /// The plan that this execution runs on the coordinator, once it has begun to; its nodes have
    /// the metrics of the coordinator's part.
    pub fn plan(&self) -> Option<Arc<dyn ExecutionPlan>> {
        self.state.lock().plan.clone()
    }

    /// Counts rows that the query puts out.
    pub fn put_out(&self, rows: u64) {
        self.state.lock().output_rows += rows;
    }

    /// Rows that the query has put out.
    pub fn output_rows(&self) -> u64 {
        self.state.lock().output_rows
    }

    /// Wakes its owner whenever something of this has changed: tasks are planned or dispatched,
    /// show progress or report, or the query ends.
    pub fn changes(&self) -> watch::Receiver<()> {
        self.changed.subscribe()
    }

    /// Expects reports of more tasks. Stages may be dispatched one after the other.
    pub fn plan_tasks(&self, tasks: impl IntoIterator<Item = PlannedTask>) {
        let mut state = self.state.lock();
        for PlannedTask { key, worker } in tasks {
            state.planned.entry(key).or_insert(Planned {
                worker,
                dispatched: None,
                reason: None,
                progress: None,
            });
        }
        drop(state);
        self.changed.send_replace(());
    }

    /// Says that a planned task is on its way to its worker.
    pub fn dispatched(&self, key: TaskKey) {
        let at = self.began.1.elapsed();
        if let Some(planned) = self.state.lock().planned.get_mut(&key) {
            planned.dispatched.get_or_insert(at);
        }
        self.changed.send_replace(());
    }

    /// What is known of each task at this moment, in the order of stages and tasks.
    pub fn tasks(&self) -> Vec<TaskSnapshot> {
        let state = self.state.lock();
        let keys: BTreeSet<_> = state.planned.keys().chain(state.reports.keys()).collect();
        let tasks = keys.into_iter().map(|key| {
            let planned = state.planned.get(key);
            let report = state.reports.get(key).cloned();
            let worker = planned.map(|planned| &planned.worker);
            TaskSnapshot {
                key: *key,
                worker: worker
                    .or(report.as_ref().map(|report| &report.worker))
                    .cloned()
                    .unwrap_or_default(),
                dispatched: planned.and_then(|planned| planned.dispatched),
                progress: planned.and_then(|planned| planned.progress),
                reported: state.reported.get(key).copied(),
                missing: planned
                    .and_then(|planned| planned.reason.clone())
                    .filter(|_| report.is_none()),
                report,
            }
        });
        tasks.collect()
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
        state.reported.insert(key, self.began.1.elapsed());
        drop(state);
        self.changed.send_replace(());
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
        self.changed.send_replace(());
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
        self.changed.send_replace(());
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
