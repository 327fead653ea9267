//! How numbers and failures show on spans.

use datafusion::common::DataFusionError;
use tracing::Span;

/// The kind of an error, for `error.type`: the variant of [`DataFusionError`] at its root, a bounded
/// set of words.
pub fn error_type(error: &DataFusionError) -> &'static str {
    match error {
        DataFusionError::Context(_, inner) | DataFusionError::Diagnostic(_, inner) => {
            error_type(inner)
        }
        DataFusionError::Shared(inner) => error_type(inner),
        DataFusionError::Collection(errors) => errors.first().map_or("Collection", error_type),
        DataFusionError::ArrowError(..) => "ArrowError",
        DataFusionError::ObjectStore(_) => "ObjectStore",
        DataFusionError::IoError(_) => "IoError",
        DataFusionError::NotImplemented(_) => "NotImplemented",
        DataFusionError::Internal(_) => "Internal",
        DataFusionError::Plan(_) => "Plan",
        DataFusionError::Configuration(_) => "Configuration",
        DataFusionError::SchemaError(..) => "SchemaError",
        DataFusionError::Execution(_) => "Execution",
        DataFusionError::ExecutionJoin(_) => "ExecutionJoin",
        DataFusionError::ResourcesExhausted(_) => "ResourcesExhausted",
        DataFusionError::External(_) => "External",
        DataFusionError::Substrait(_) => "Substrait",
        DataFusionError::Ffi(_) => "Ffi",
        // Variants of DataFusion's features: which there are depends on the build.
        #[allow(unreachable_patterns)]
        _ => "Other",
    }
}

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
