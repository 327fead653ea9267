//! The bridge's part in queries.

use std::sync::Arc;

use datafusion::common::{Result, config_datafusion_err};
use datafusion::physical_plan::ExecutionPlan;
use flightpath_core::{Headers, Hooks, TaskKey, TraceDetail, TraceOptions};
use opentelemetry::propagation::TextMapCompositePropagator;
use opentelemetry::trace::{SpanContext, SpanId, TraceContextExt, TraceFlags, TraceId, TraceState};
use tracing::Span;
use tracing_opentelemetry::{OpenTelemetrySpanExt, SetParentError};

use crate::operator::{Instrumentation, Links};
use crate::outcome::is_sampled;
use crate::propagation;

/// Makes the spans of a query one trace, across processes, down to every operator.
///
/// Give it to the coordinator and to every worker:
///
/// ```
/// use std::sync::Arc;
///
/// use flightpath_core::{Coordinator, StaticWorkers, Worker};
/// use flightpath_tracing_bridge::TracingHooks;
///
/// # fn main() -> datafusion::common::Result<()> {
/// let worker = Worker::builder().with_hooks(Arc::new(TracingHooks::from_env()?));
/// let workers = StaticWorkers::new(["http://127.0.0.1:50051"])?;
/// let coordinator = Coordinator::new(workers).with_hooks(Arc::new(TracingHooks::from_env()?));
/// # Ok(())
/// # }
/// ```
///
/// Where spans go is the subscriber's business: it needs a layer of tracing-opentelemetry, such as
/// [`init`](crate::init) sets up. Without one, and in queries that are not sampled, plans run as
/// they are. A worker never begins a trace of its own: a task that comes with no `traceparent`, or
/// a malformed one, is not sampled. Baggage of more than 8,192 bytes is not carried on.
#[derive(Debug)]
pub struct TracingHooks {
    propagator: TextMapCompositePropagator,
    operators: Instrumentation,
    links: Arc<Links>,
}

impl TracingHooks {
    /// As `OTEL_PROPAGATORS` says, by default `tracecontext,baggage`.
    ///
    /// # Errors
    /// If it names a propagator that is unknown.
    pub fn from_env() -> Result<Self> {
        let names = std::env::var("OTEL_PROPAGATORS").ok();
        let propagator = propagation::propagator(names.as_deref())
            .map_err(|message| config_datafusion_err!("{message}"))?;
        let links = Arc::new(Links::default());
        Ok(Self {
            propagator,
            operators: Instrumentation::try_new(Arc::clone(&links))?,
            links,
        })
    }

    /// The span as a child of the one that headers name; not sampled if they name none.
    fn in_trace(&self, span: Span, headers: &Headers) -> Span {
        if span.is_disabled() {
            return span;
        }
        let mut parent = propagation::extract(&self.propagator, headers);
        if !parent.span().span_context().is_valid() {
            parent = parent.with_remote_span_context(unsampled());
        }
        match span.set_parent(parent) {
            // Without the layer there is nothing that could have a parent.
            Ok(()) | Err(SetParentError::LayerNotFound | SetParentError::SpanDisabled) => {}
            Err(error) => tracing::warn!("a span is not in its query's trace: {error}"),
        }
        span
    }
}

impl Hooks for TracingHooks {
    fn task_headers(&self, _task: &TaskKey) -> Headers {
        propagation::inject(&self.propagator, &Span::current().context())
    }

    fn task_span(&self, span: Span, _task: &TaskKey, headers: &Headers) -> Span {
        match span.is_none() {
            false => self.in_trace(span, headers),
            // The trace does not show tasks, so what is opened in one begins no trace of its own.
            true => self.in_trace(tracing::info_span!(parent: None, "task"), &vec![]),
        }
    }

    fn wrap_plan(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        _task: Option<(&TaskKey, &Headers)>,
        trace: TraceOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        if trace.detail < TraceDetail::Operator || !is_sampled(&Span::current()) {
            return Ok(plan);
        }
        self.operators.wrap(plan, trace)
    }

    fn stream_headers(&self, _producer: &TaskKey) -> Headers {
        self.request_headers()
    }

    fn stream_opened(&self, producer: &TaskKey, headers: &Headers) {
        if headers.is_empty() {
            return;
        }
        let context = propagation::extract(&self.propagator, headers);
        let answered = context.span().span_context().clone();
        self.links.add(&Span::current(), producer, answered);
    }

    fn request_headers(&self) -> Headers {
        let span = Span::current();
        match is_sampled(&span) {
            true => propagation::inject(&self.propagator, &span.context()),
            false => vec![],
        }
    }

    fn request_span(&self, span: Span, headers: &Headers) -> Span {
        self.in_trace(span, headers)
    }
}

/// A parent that was not sampled, so that its child is not.
fn unsampled() -> SpanContext {
    SpanContext::new(
        TraceId::from_bytes([1; 16]),
        SpanId::from_bytes([1; 8]),
        TraceFlags::NOT_SAMPLED,
        true,
        TraceState::NONE,
    )
}
