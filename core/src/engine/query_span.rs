//! The span of an execution.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use datafusion::common::DataFusionError;
use tracing::Span;
use tracing::field::Empty;

use crate::model::outcome::record_failure;
use crate::wire::error::kind_of;

const NAME: &str = "query";

/// The span that covers one execution.
///
/// [`DistributedExec`](super::distributed::DistributedExec) opens one for each execution, unless
/// the session config has one as an extension or it runs inside of one, which then covers more: planning, say.
#[derive(Clone, Debug)]
pub struct QuerySpan {
    span: Span,
    failed: Arc<AtomicBool>,
}

impl QuerySpan {
    /// Opens it within the current span.
    pub fn open() -> Self {
        let span = tracing::info_span!(
            NAME,
            db.system.name = "datafusion",
            db.query.text = Empty,
            flightpath.query.id = Empty,
            flightpath.stage.count = Empty,
            flightpath.task.count = Empty,
            flightpath.worker.count = Empty,
            flightpath.retry.count = Empty,
            flightpath.trace.truncated = Empty,
            "error.type" = Empty,
            otel.status_code = Empty,
            otel.status_description = Empty,
        );
        Self {
            span,
            failed: Arc::default(),
        }
    }

    /// The current span if it is one of these, whose owner sees to failures, or else a new one within it.
    pub(crate) fn current_or_open() -> Self {
        let span = Span::current();
        let is_query = span
            .metadata()
            .is_some_and(|metadata| metadata.name() == NAME && metadata.target() == module_path!());
        match is_query {
            true => Self {
                span,
                failed: Arc::new(AtomicBool::new(true)),
            },
            false => Self::open(),
        }
    }

    /// The span itself.
    pub fn span(&self) -> &Span {
        &self.span
    }

    /// The query failed; an error that comes by more than once is shown once.
    pub fn failed(&self, error: &DataFusionError) {
        if !self.span.is_disabled() && !self.failed.swap(true, Ordering::Relaxed) {
            record_failure(&self.span, kind_of(error), &error.strip_backtrace());
        }
    }
}
