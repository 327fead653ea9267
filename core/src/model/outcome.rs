//! How numbers and failures show on spans.

use tracing::Span;

/// A number for a span. OpenTelemetry's are signed, and tracing-opentelemetry turns what is
/// unsigned into text.
pub(crate) fn number(value: impl TryInto<i64>) -> i64 {
    value.try_into().unwrap_or(i64::MAX)
}

/// Marks a span as failed. It must have been opened with the fields `error.type`,
/// `otel.status_code` and `otel.status_description`.
pub(crate) fn record_failure(span: &Span, kind: &str, message: &str) {
    span.record("error.type", kind);
    span.record("otel.status_code", "ERROR");
    span.record("otel.status_description", message);
}
