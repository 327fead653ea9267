//! Links from boundaries to the tasks that they read.

use std::collections::{HashMap, HashSet};

use flightpath_core::TaskKey;
use opentelemetry::KeyValue;
use opentelemetry::trace::SpanContext;
use parking_lot::Mutex;
use tracing::{Id, Span};
use tracing_opentelemetry::OpenTelemetrySpanExt;

/// Which producers each boundary's span is linked to: each once, however many streams are read.
#[derive(Debug, Default)]
pub(crate) struct Links(Mutex<HashMap<Id, HashSet<TaskKey>>>);

impl Links {
    /// From now on `span` takes links.
    pub(crate) fn begin(&self, span: &Span) {
        if let Some(id) = span.id() {
            self.0.lock().insert(id, HashSet::new());
        }
    }

    pub(crate) fn end(&self, span: &Span) {
        if let Some(id) = span.id() {
            self.0.lock().remove(&id);
        }
    }

    /// Links `span` to the task that it reads, if it is that of a boundary.
    pub(crate) fn add(&self, span: &Span, producer: &TaskKey, context: SpanContext) {
        let Some(id) = span.id() else { return };
        let is_new = self
            .0
            .lock()
            .get_mut(&id)
            .is_some_and(|linked| linked.insert(*producer));
        if is_new {
            let attributes = vec![
                KeyValue::new("flightpath.stage.id", as_i64(producer.stage)),
                KeyValue::new("flightpath.task.index", as_i64(producer.task)),
            ];
            span.add_link_with_attributes(context, attributes);
        }
    }
}

/// Attributes are signed; what does not fit is as large as can be.
pub(super) fn as_i64(value: usize) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}
