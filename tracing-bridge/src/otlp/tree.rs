//! A trace as text, for terminals.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use opentelemetry::trace::{SpanId, Status, TraceId};
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::trace::{SpanData, SpanExporter};
use parking_lot::Mutex;

/// Keeps spans in memory in place of sending them, and draws them as trees with durations.
///
/// It keeps all spans of all queries: it is for programs that run a few, look, and end.
#[derive(Clone, Debug, Default)]
pub struct SpanTree(Arc<Mutex<Vec<SpanData>>>);

/// Which of a task's attributes tell it from its siblings.
const SHOWN: [(&str, &str); 4] = [
    ("flightpath.task.index", "task"),
    ("flightpath.worker.url", "on"),
    ("flightpath.task.status", "status"),
    ("datafusion.metrics.output_rows", "rows"),
];

impl SpanTree {
    /// The spans that have ended, as the trees that they are.
    pub fn draw(&self) -> String {
        self.to_string()
    }
}

impl fmt::Display for SpanTree {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let spans = self.0.lock();
        let key = |span: &SpanData| (span.span_context.trace_id(), span.span_context.span_id());
        let known: HashSet<(TraceId, SpanId)> = spans.iter().map(key).collect();
        let mut roots = vec![];
        let mut children: HashMap<(TraceId, SpanId), Vec<&SpanData>> = HashMap::new();
        for span in spans.iter() {
            let parent = (span.span_context.trace_id(), span.parent_span_id);
            if known.contains(&parent) {
                children.entry(parent).or_default().push(span);
            } else {
                roots.push(span);
            }
        }
        let by_start = |spans: &mut Vec<&SpanData>| spans.sort_by_key(|span| span.start_time);
        by_start(&mut roots);
        children.values_mut().for_each(by_start);
        // From the last, since they are taken from the end.
        let mut pending: Vec<(&SpanData, usize)> =
            roots.into_iter().rev().map(|root| (root, 0)).collect();
        while let Some((span, depth)) = pending.pop() {
            writeln!(f, "{}", Line { span, depth })?;
            let below = children.remove(&key(span)).unwrap_or_default();
            pending.extend(below.into_iter().rev().map(|child| (child, depth + 1)));
        }
        Ok(())
    }
}

struct Line<'a> {
    span: &'a SpanData,
    depth: usize,
}

impl fmt::Display for Line<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { span, depth } = self;
        let took = span.end_time.duration_since(span.start_time);
        let took = took.unwrap_or(Duration::ZERO);
        let name = format!("{:indent$}{}", "", span.name, indent = depth * 2);
        write!(f, "{name:<48} {:>9.1} ms", took.as_secs_f64() * 1000.0)?;
        for (key, label) in SHOWN {
            let found = span
                .attributes
                .iter()
                .find(|found| found.key.as_str() == key);
            if let Some(found) = found {
                write!(f, "  {label} {}", found.value)?;
            }
        }
        if !span.links.is_empty() {
            write!(f, "  links {}", span.links.len())?;
        }
        match &span.status {
            Status::Error { description } => write!(f, "  ERROR {description}"),
            _ => Ok(()),
        }
    }
}

impl SpanExporter for SpanTree {
    async fn export(&self, batch: Vec<SpanData>) -> OTelSdkResult {
        self.0.lock().extend(batch);
        Ok(())
    }
}
