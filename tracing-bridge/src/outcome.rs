//! How spans of queries end, and whether they are exported at all.

use datafusion::common::DataFusionError;
use flightpath_core::kind_of;
use opentelemetry::trace::{Status, TraceContextExt};
use tracing::Span;
use tracing_opentelemetry::OpenTelemetrySpanExt;

/// Marks a span as failed.
pub(crate) fn failed(span: &Span, error: &DataFusionError) {
    if !span.is_disabled() {
        span.set_attribute("error.type", kind_of(error));
        span.set_status(Status::error(error.strip_backtrace()));
    }
}

/// Whether a span is part of a trace that is kept.
pub(crate) fn is_sampled(span: &Span) -> bool {
    !span.is_disabled() && span.context().span().span_context().is_sampled()
}
