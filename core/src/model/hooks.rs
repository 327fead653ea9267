//! Where other crates take part in queries without the engine knowing them.

use std::fmt::Debug;
use std::sync::Arc;

use datafusion::common::{DataFusionError, Result};
use datafusion::physical_plan::ExecutionPlan;

use super::report::TaskReport;
use super::stage::{QueryId, TaskKey};
use super::trace::TraceOptions;

/// Names and values that travel with tasks and streams, in message bodies.
pub type Headers = Vec<(String, Vec<u8>)>;

/// Takes part in queries; every method has a default that does nothing.
///
/// The methods run inside the span that the event belongs to: the query's, the stage's or the
/// task's. They must not block.
pub trait Hooks: Debug + Send + Sync {
    /// On the coordinator: an execution begins.
    fn query_begins(&self, _query: QueryId) {}

    /// On the coordinator: it ended, with every report that will come.
    fn query_ends(&self, _query: QueryId, _result: std::result::Result<(), &DataFusionError>) {}

    /// On the coordinator: a task is dispatched, with these headers.
    fn task_headers(&self, _task: &TaskKey) -> Headers {
        vec![]
    }

    /// On the coordinator: a task has reported.
    fn task_reports(&self, _report: &TaskReport) {}

    /// On a worker: a span for the task whose headers came with it, if its trace shows tasks.
    /// Everything that the task does is inside it. By default a child of nothing, named `task`.
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

    /// Where a stream starts: the producing task answers with these headers.
    fn stream_headers(&self, _producer: &TaskKey) -> Headers {
        vec![]
    }

    /// Where a stream is read: what the producer answered. For streams within a worker too.
    fn stream_opened(&self, _producer: &TaskKey, _headers: &Headers) {}

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

/// Hooks that do nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoHooks;

impl Hooks for NoHooks {}
