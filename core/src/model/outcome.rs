//! How numbers and failures show on spans.

use datafusion::common::DataFusionError;
use tracing::Span;

/// How the error of those begins who read from a task that was cancelled.
pub(crate) const TASK_CANCELLED: &str = "the task was cancelled: ";

/// How it begins if they come when nothing is left of the query on the task's worker.
pub(crate) const QUERY_GONE: &str = "this worker takes no part in query ";

/// Whether an error tells only that a task was stopped, or its query, which is no failure of who
/// meets it.
pub fn is_cancellation(error: &DataFusionError) -> bool {
    match error.find_root() {
        DataFusionError::Execution(message) => [TASK_CANCELLED, QUERY_GONE]
            .iter()
            .any(|start| message.starts_with(start)),
        _ => false,
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stopped_task_is_no_failure_of_its_reader_however_deep_it_says_so() {
        let stopped = || DataFusionError::Execution(format!("{TASK_CANCELLED}the client has left"));
        assert!(is_cancellation(&stopped()));
        let gone = DataFusionError::Execution(format!("{QUERY_GONE}7: it has ended"));
        assert!(is_cancellation(&gone));
        assert!(is_cancellation(&stopped().context("worker w, stage 1")));
        assert!(is_cancellation(&DataFusionError::Shared(stopped().into())));
        for failed in [
            DataFusionError::Execution("divided by zero".to_string()),
            DataFusionError::Plan(format!("{TASK_CANCELLED}by name")),
        ] {
            assert!(!is_cancellation(&failed), "{failed}");
        }
    }
}
