//! One task: a plan that runs when somebody reads from it, and reports when it ends.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::common::runtime::JoinSet;
use datafusion::common::{DataFusionError, Result, exec_datafusion_err, exec_err};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties};
use futures::TryStreamExt;
use parking_lot::Mutex;
use tokio::sync::mpsc;
use tracing::{Instrument, Span};

use super::going::Going;
use crate::model::hooks::Hooks;
use crate::model::outcome::{TASK_CANCELLED, is_cancellation, number, record_failure};
use crate::model::panic::{caught, caught_in};
use crate::model::report::{TaskReport, TaskStatus};
use crate::model::stage::TaskKey;
use crate::wire::error::kind_of;
use crate::wire::metrics::node_reports;

/// Batches between a task and a reader of it. What more a reader may lag behind is the window of
/// its stream.
const PARTITION_BUFFER: usize = 1;

/// How long a report waits for what operators have spawned and let go of: it ends at its next await.
const LINGER: Duration = Duration::from_secs(2);

/// Told when a task begins and ends.
pub(crate) trait TaskEnds: Send + Sync {
    /// The first reader has come.
    fn began(&self, key: &TaskKey);

    /// A partition ended with an error.
    fn failed(&self, key: &TaskKey, error: &DataFusionError);

    /// The task has ended; its report follows from [`Task::report`].
    fn ended(&self, task: &Arc<Task>);
}

pub(crate) struct Task {
    pub(crate) key: TaskKey,
    pub(crate) span: Span,
    /// Of the nodes of its plan.
    streams: Going,
    context: Arc<TaskContext>,
    schema: SchemaRef,
    partitions: usize,
    rows: AtomicU64,
    bytes: AtomicU64,
    state: Mutex<State>,
    ends: Arc<dyn TaskEnds>,
}

struct State {
    /// Let go when the task has reported.
    plan: Option<Arc<dyn ExecutionPlan>>,
    started: Option<(SystemTime, Instant)>,
    /// Of each partition, until somebody takes it.
    streams: Vec<Option<mpsc::Receiver<Item>>>,
    jobs: JoinSet<()>,
    /// Partitions whose reader has not come to an end.
    open: usize,
    dropped: usize,
    error: Option<Arc<DataFusionError>>,
    /// Whether a reader met an error, of which the coordinator was told.
    told: bool,
    /// Why nobody can read from it any more.
    over: Option<Over>,
    ended: Option<Instant>,
}

enum Over {
    /// All of it has been read.
    Read,
    Cancelled(String),
}

enum Item {
    Batch(RecordBatch),
    Failed(Arc<DataFusionError>),
    /// All has been sent. A channel that closes without it was cut off.
    End,
}

impl fmt::Debug for Task {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Task")
            .field("key", &self.key)
            .finish_non_exhaustive()
    }
}

impl Task {
    /// `streams` counts those of the plan's nodes.
    pub(super) fn new(
        key: TaskKey,
        plan: Arc<dyn ExecutionPlan>,
        streams: Going,
        context: Arc<TaskContext>,
        span: Span,
        ends: Arc<dyn TaskEnds>,
    ) -> Self {
        let partitions = plan.output_partitioning().partition_count();
        Self {
            key,
            span,
            streams,
            context,
            schema: plan.schema(),
            partitions,
            rows: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
            state: Mutex::new(State {
                plan: Some(plan),
                started: None,
                streams: vec![],
                jobs: JoinSet::new(),
                open: partitions,
                dropped: 0,
                error: None,
                told: false,
                over: None,
                ended: None,
            }),
            ends,
        }
    }

    /// Schema of its batches.
    pub(crate) fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    /// The reader of a partition, which can be had once. The first one starts the task: all of
    /// its partitions, since those of one plan may wait for each other.
    pub(crate) fn take(self: &Arc<Self>, partition: usize) -> Result<PartitionReader> {
        let mut state = self.state.lock();
        if let Some(over) = &state.over {
            return Err(over.error(&self.key));
        }
        if partition >= self.partitions {
            return exec_err!(
                "task {} has partitions 0 to {}, and {partition} was asked for",
                self.key,
                self.partitions.saturating_sub(1)
            );
        }
        if state.started.is_none() {
            self.start(&mut state);
        }
        let Some(items) = state.streams[partition].take() else {
            return exec_err!(
                "partition {partition} of task {} has been read already",
                self.key
            );
        };
        Ok(PartitionReader {
            task: Arc::clone(self),
            items,
            ended: false,
        })
    }

    fn start(self: &Arc<Self>, state: &mut State) {
        state.started = Some((SystemTime::now(), Instant::now()));
        let Some(plan) = state.plan.clone() else {
            return;
        };
        let _inside = self.span.enter();
        self.ends.began(&self.key);
        for partition in 0..self.partitions {
            let (sender, items) = mpsc::channel(PARTITION_BUFFER);
            let stream = caught("starting a task", || {
                plan.execute(partition, Arc::clone(&self.context))
            });
            let task = Arc::downgrade(self);
            let job = async move {
                let failure = match stream {
                    Ok(stream) => send_all(stream, &sender).await,
                    Err(error) => Some(Arc::new(error)),
                };
                let Some(error) = failure else { return };
                // Before a reader hears of it, who may be the one that stops the task then.
                if let Some(task) = task.upgrade() {
                    task.failed(&error);
                }
                let _left = sender.send(Item::Failed(error)).await;
            };
            state.jobs.spawn(job.instrument(self.span.clone()));
            state.streams.push(Some(items));
        }
    }

    /// A partition has ended with an error. The query fails only if somebody reads that far.
    fn failed(&self, error: &Arc<DataFusionError>) {
        // Else it is that of a task which was stopped.
        if !is_cancellation(error) {
            self.state.lock().error.get_or_insert(Arc::clone(error));
        }
    }

    /// A reader has come to its end, or left.
    fn reader_ended(self: &Arc<Self>, outcome: Outcome) {
        let (failed, last) = {
            let mut state = self.state.lock();
            state.open = state.open.saturating_sub(1);
            let mut failed = None;
            match outcome {
                Outcome::Finished => {}
                Outcome::Dropped => state.dropped += 1,
                Outcome::Failed(error) => {
                    state.dropped += usize::from(is_cancellation(&error));
                    if !state.told && state.over.is_none() {
                        state.told = true;
                        failed = Some(error);
                    }
                }
            }
            let last = state.open == 0 && state.over.is_none();
            if last {
                state.over = Some(Over::Read);
                state.ended = Some(Instant::now());
            }
            (failed, last)
        };
        if let Some(error) = failed {
            self.ends.failed(&self.key, &error);
        }
        if last {
            self.ends.ended(self);
        }
    }

    /// Ends the task now. False if it had ended before.
    pub(crate) fn stop(self: &Arc<Self>, reason: &str) -> bool {
        let streams = {
            let mut state = self.state.lock();
            if state.over.is_some() {
                return false;
            }
            state.over = Some(Over::Cancelled(reason.to_string()));
            state.ended = Some(Instant::now());
            state.dropped += state.open;
            std::mem::take(&mut state.streams)
        };
        drop(streams);
        self.ends.ended(self);
        true
    }

    /// Counts what a reader passes on.
    pub(crate) fn sent(&self, rows: usize, bytes: usize) {
        self.rows.fetch_add(rows as u64, Ordering::Relaxed);
        self.bytes.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    /// What it has done up to now.
    pub(crate) fn progress(&self) -> Progress {
        let state = self.state.lock();
        let until = state.ended.unwrap_or_else(Instant::now);
        Progress {
            status: match (&state.started, &state.over) {
                (None, None) => "accepted",
                (Some(_), None) => "running",
                (_, Some(_)) => state.status().as_str(),
            },
            rows: self.rows.load(Ordering::Relaxed),
            bytes: self.bytes.load(Ordering::Relaxed),
            elapsed_ms: state
                .started
                .map_or(0, |(_, started)| (until - started).as_millis() as u64),
            started_micros: state
                .started
                .and_then(|(at, _)| at.duration_since(UNIX_EPOCH).ok())
                .map_or(0, |since| since.as_micros() as u64),
        }
    }

    /// The report of a task that has ended. Waits until nothing of it runs, so that what its
    /// nodes counted is complete, and their spans end before its own.
    pub(crate) async fn report(&self, hooks: &dyn Hooks) -> TaskReport {
        let mut jobs = std::mem::take(&mut self.state.lock().jobs);
        jobs.shutdown().await;
        let _late = tokio::time::timeout(LINGER, self.streams.none()).await;
        let mut state = self.state.lock();
        let plan = state.plan.take();
        let status = state.status();
        let duration = match (state.started, state.ended) {
            (Some((_, started)), Some(ended)) => ended - started,
            _ => Duration::ZERO,
        };
        let started = state.started.map(|(at, _)| at);
        let (rows, bytes) = (
            self.rows.load(Ordering::Relaxed),
            self.bytes.load(Ordering::Relaxed),
        );
        self.span.record("flightpath.task.status", status.as_str());
        self.span
            .record("flightpath.task.output_rows", number(rows));
        self.span
            .record("flightpath.task.output_bytes", number(bytes));
        let error = state.error.as_ref().map(|error| error.strip_backtrace());
        let error_kind = state.error.as_ref().map(|error| kind_of(error));
        if let (Some(kind), Some(message)) = (error_kind, &error) {
            record_failure(&self.span, kind, message);
        }
        drop(state);
        let report = TaskReport {
            key: self.key,
            // The coordinator knows by which name it reached this worker.
            worker: String::new(),
            status,
            error,
            error_kind: error_kind.map(str::to_string),
            started,
            duration,
            output_rows: rows,
            output_bytes: bytes,
            nodes: plan.as_ref().map(node_reports).unwrap_or_default(),
        };
        if let Some(plan) = &plan {
            hooks.task_ends(&report, plan);
        }
        report
    }
}

impl Over {
    /// What those are told who want to read from it all the same.
    fn error(&self, key: &TaskKey) -> DataFusionError {
        match self {
            Self::Read => exec_datafusion_err!("all of task {key} has been read"),
            Self::Cancelled(reason) => exec_datafusion_err!("{TASK_CANCELLED}{reason}"),
        }
    }
}

impl State {
    fn status(&self) -> TaskStatus {
        match (&self.started, &self.error, self.dropped) {
            (None, _, _) => TaskStatus::Unused,
            (_, Some(_), _) => TaskStatus::Failed,
            (_, _, 0) => TaskStatus::Finished,
            _ => TaskStatus::Cancelled,
        }
    }
}

/// What can be said of a task at any time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Progress {
    pub(crate) status: &'static str,
    pub(crate) rows: u64,
    pub(crate) bytes: u64,
    pub(crate) elapsed_ms: u64,
    /// Since 1970.
    pub(crate) started_micros: u64,
}

/// Runs a stream to its end, or until its reader leaves. Returns the error that it ended with.
async fn send_all(
    mut stream: SendableRecordBatchStream,
    sender: &mpsc::Sender<Item>,
) -> Option<Arc<DataFusionError>> {
    loop {
        let next = tokio::select! {
            next = caught_in("a task", stream.try_next()) => next,
            () = sender.closed() => return None,
        };
        let item = match next {
            Ok(Some(batch)) => Item::Batch(batch),
            Ok(None) => Item::End,
            Err(error) => return Some(Arc::new(error)),
        };
        let last = !matches!(item, Item::Batch(_));
        if sender.send(item).await.is_err() || last {
            return None;
        }
    }
}

enum Outcome {
    Finished,
    Failed(Arc<DataFusionError>),
    Dropped,
}

/// Reads one partition of a task. Dropping it tells the task that nobody reads it any more.
pub(crate) struct PartitionReader {
    task: Arc<Task>,
    items: mpsc::Receiver<Item>,
    ended: bool,
}

impl PartitionReader {
    pub(crate) fn task(&self) -> &Arc<Task> {
        &self.task
    }

    /// The next batch; `None` after the last.
    pub(crate) async fn next(&mut self) -> Option<Result<RecordBatch>> {
        if self.ended {
            return None;
        }
        match self.items.recv().await {
            Some(Item::Batch(batch)) => Some(Ok(batch)),
            Some(Item::End) => {
                self.end(Outcome::Finished);
                None
            }
            Some(Item::Failed(error)) => {
                self.end(Outcome::Failed(Arc::clone(&error)));
                Some(Err(DataFusionError::Shared(error)))
            }
            None => {
                self.end(Outcome::Dropped);
                let state = self.task.state.lock();
                let over = state.over.as_ref().map(|over| over.error(&self.task.key));
                Some(Err(over.unwrap_or_else(|| {
                    exec_datafusion_err!("task {} was cut off", self.task.key)
                })))
            }
        }
    }

    fn end(&mut self, outcome: Outcome) {
        self.ended = true;
        self.task.reader_ended(outcome);
    }
}

impl Drop for PartitionReader {
    fn drop(&mut self) {
        if !self.ended {
            self.end(Outcome::Dropped);
        }
    }
}
