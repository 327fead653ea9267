//! Where other crates take part in queries without the engine knowing them.

use std::fmt::{self, Debug};
use std::sync::Arc;

use datafusion::common::{DataFusionError, Result};
use datafusion::execution::runtime_env::RuntimeEnv;
use datafusion::physical_plan::ExecutionPlan;

use super::boundary::BoundaryKind;
use super::report::TaskReport;
use super::stage::{QueryId, Stage, TaskKey};
use super::trace::TraceOptions;

/// Names and values that travel with tasks and streams, in message bodies.
pub type Headers = Vec<(String, Vec<u8>)>;

/// Which end of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Direction {
    /// The producing task's.
    Transmit,
    /// The reader's: another task, or the coordinator.
    Receive,
}

impl Direction {
    /// The word for it in metrics.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Transmit => "transmit",
            Self::Receive => "receive",
        }
    }
}

/// Rows on their way from one task to another, or to the coordinator, seen at one end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transfer {
    /// The task that they come from.
    pub producer: TaskKey,
    /// Seen at which end.
    pub direction: Direction,
    /// What the boundary that reads them does.
    pub kind: BoundaryKind,
    /// Whether they stay within a worker. Both ends are seen there.
    pub local: bool,
    /// As in [`TaskReport::output_bytes`].
    pub bytes: usize,
}

/// Takes part in queries; every method has a default that does nothing.
///
/// The methods run inside the span that the event belongs to: the query's, the stage's or the
/// task's. They must not block.
pub trait Hooks: Debug + Send + Sync {
    /// A worker is built, whose tasks run in this environment.
    fn worker_begins(&self, _runtime: &Arc<RuntimeEnv>) {}

    /// On the coordinator: an execution begins.
    fn query_begins(&self, _query: QueryId) {}

    /// On the coordinator: an execution was stopped by this error and is run once more, be it
    /// here without workers. It has not ended.
    fn query_retries(&self, _query: QueryId, _error: &DataFusionError) {}

    /// On the coordinator: it ended, with every report that will come. Follows every
    /// [`query_begins`](Self::query_begins), once.
    fn query_ends(&self, _query: QueryId, _result: std::result::Result<(), &DataFusionError>) {}

    /// On the coordinator: a stage is about to be dispatched, which a boundary of this kind reads.
    fn stage_begins(&self, _query: QueryId, _stage: &Stage, _kind: BoundaryKind) {}

    /// On the coordinator: a task is dispatched, with these headers.
    fn task_headers(&self, _task: &TaskKey) -> Headers {
        vec![]
    }

    /// On the coordinator: a task has reported.
    fn task_reports(&self, _report: &TaskReport) {}

    /// On a worker: a span for the task whose headers came with it; none if its trace does not show
    /// tasks. Everything that the task does is inside it. By default a child of nothing, named `task`.
    fn task_span(&self, span: tracing::Span, _task: &TaskKey, _headers: &Headers) -> tracing::Span {
        span
    }

    /// Where a plan is about to run: on a worker after decoding, with the task and its headers;
    /// on the coordinator for its own part, with neither. `trace` says what its trace shows.
    ///
    /// # Errors
    /// If it cannot be wrapped; the task or query then fails.
    fn wrap_plan(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        _task: Option<(&TaskKey, &Headers)>,
        _trace: TraceOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(plan)
    }

    /// On a worker: somebody reads from a task for the first time, so it runs now.
    fn task_begins(&self, _task: &TaskKey) {}

    /// On a worker: a task has ended, or was stopped before it [began](Self::task_begins). This
    /// is what it ran, as it was wrapped, and what it is about to report; the name of the worker
    /// is left to the coordinator.
    fn task_ends(&self, _report: &TaskReport, _plan: &Arc<dyn ExecutionPlan>) {}

    /// Where a stream starts: the producing task answers with these headers.
    fn stream_headers(&self, _producer: &TaskKey) -> Headers {
        vec![]
    }

    /// Where a stream is read: what the producer answered. For streams within a worker too.
    fn stream_opened(&self, _producer: &TaskKey, _headers: &Headers) {}

    /// At each end of a stream, for each batch: it leaves, or it came. A reader on another machine
    /// sees parts of a batch one by one.
    fn transferred(&self, _transfer: &Transfer) {}

    /// Where a request to a worker is made that has a span of its own: it travels with these
    /// headers.
    fn request_headers(&self) -> Headers {
        vec![]
    }

    /// On a worker: a span for a request whose headers came with it.
    fn request_span(&self, span: tracing::Span, _headers: &Headers) -> tracing::Span {
        span
    }
}

/// What a query ends with whose client stopped reading before its last row; an
/// [`External`](DataFusionError::External) error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClientLeft;

impl fmt::Display for ClientLeft {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the client stopped reading")
    }
}

impl std::error::Error for ClientLeft {}

/// Hooks that do nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoHooks;

impl Hooks for NoHooks {}

/// Two hooks as one: the first is asked first, and the second is given what it answered.
#[derive(Debug)]
pub(crate) struct Both(pub(crate) Arc<dyn Hooks>, pub(crate) Arc<dyn Hooks>);

#[warn(clippy::missing_trait_methods)]
impl Hooks for Both {
    fn worker_begins(&self, runtime: &Arc<RuntimeEnv>) {
        self.0.worker_begins(runtime);
        self.1.worker_begins(runtime);
    }

    fn query_begins(&self, query: QueryId) {
        self.0.query_begins(query);
        self.1.query_begins(query);
    }

    fn query_retries(&self, query: QueryId, error: &DataFusionError) {
        self.0.query_retries(query, error);
        self.1.query_retries(query, error);
    }

    fn query_ends(&self, query: QueryId, result: std::result::Result<(), &DataFusionError>) {
        self.0.query_ends(query, result);
        self.1.query_ends(query, result);
    }

    fn stage_begins(&self, query: QueryId, stage: &Stage, kind: BoundaryKind) {
        self.0.stage_begins(query, stage, kind);
        self.1.stage_begins(query, stage, kind);
    }

    fn task_headers(&self, task: &TaskKey) -> Headers {
        let mut headers = self.0.task_headers(task);
        headers.extend(self.1.task_headers(task));
        headers
    }

    fn task_reports(&self, report: &TaskReport) {
        self.0.task_reports(report);
        self.1.task_reports(report);
    }

    fn task_span(&self, span: tracing::Span, task: &TaskKey, headers: &Headers) -> tracing::Span {
        let span = self.0.task_span(span, task, headers);
        self.1.task_span(span, task, headers)
    }

    fn wrap_plan(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        task: Option<(&TaskKey, &Headers)>,
        trace: TraceOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        self.1
            .wrap_plan(self.0.wrap_plan(plan, task, trace)?, task, trace)
    }

    fn task_begins(&self, task: &TaskKey) {
        self.0.task_begins(task);
        self.1.task_begins(task);
    }

    fn task_ends(&self, report: &TaskReport, plan: &Arc<dyn ExecutionPlan>) {
        self.0.task_ends(report, plan);
        self.1.task_ends(report, plan);
    }

    fn stream_headers(&self, producer: &TaskKey) -> Headers {
        let mut headers = self.0.stream_headers(producer);
        headers.extend(self.1.stream_headers(producer));
        headers
    }

    fn stream_opened(&self, producer: &TaskKey, headers: &Headers) {
        self.0.stream_opened(producer, headers);
        self.1.stream_opened(producer, headers);
    }

    fn transferred(&self, transfer: &Transfer) {
        self.0.transferred(transfer);
        self.1.transferred(transfer);
    }

    fn request_headers(&self) -> Headers {
        let mut headers = self.0.request_headers();
        headers.extend(self.1.request_headers());
        headers
    }

    fn request_span(&self, span: tracing::Span, headers: &Headers) -> tracing::Span {
        let span = self.0.request_span(span, headers);
        self.1.request_span(span, headers)
    }
}
