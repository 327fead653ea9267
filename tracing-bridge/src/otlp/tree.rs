//! A trace as text, for terminals.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use opentelemetry::Value;
use opentelemetry::trace::{SpanId, Status, TraceId};
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::trace::{SpanData, SpanExporter};
use parking_lot::Mutex;

/// Keeps spans in memory in place of sending them, and draws them as trees with durations.
///
/// It keeps all spans of all queries until it is [cleared](Self::clear).
#[derive(Clone, Debug, Default)]
pub struct SpanTree(Arc<Mutex<Vec<SpanData>>>);

/// A span of less time, with nothing below it and nothing to say of the query, is counted in place of drawn: most rules
/// of planning are.
const BRIEF: Duration = Duration::from_millis(1);

const TASK: &str = "flightpath.task.index";

/// Which attributes are drawn, and as what.
const SHOWN: [(&str, &str); 7] = [
    (TASK, "task"),
    ("flightpath.worker.url", "on"),
    ("flightpath.task.status", "status"),
    ("datafusion.metrics.output_rows", "rows"),
    (COMPUTE, "computing"),
    ("flightpath.boundary.input_stage", "reads stage"),
    ("datafusion.optimizer.pass", "pass"),
];

/// Nanoseconds, over all partitions: a span's own time has that of the nodes below it in it.
const COMPUTE: &str = "datafusion.metrics.elapsed_compute";

impl SpanTree {
    /// The spans that have ended, as the trees that they are.
    pub fn draw(&self) -> String {
        self.to_string()
    }

    /// Forgets the spans that have ended.
    pub fn clear(&self) {
        self.0.lock().clear();
    }
}

type Id = (TraceId, SpanId);

fn id(span: &SpanData) -> Id {
    (span.span_context.trace_id(), span.span_context.span_id())
}

fn took(span: &SpanData) -> Duration {
    let took = span.end_time.duration_since(span.start_time);
    took.unwrap_or(Duration::ZERO)
}

fn attribute<'a>(span: &'a SpanData, key: &str) -> Option<&'a Value> {
    let mut attributes = span.attributes.iter();
    let found = attributes.find(|found| found.key.as_str() == key)?;
    Some(&found.value)
}

impl fmt::Display for SpanTree {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let spans = self.0.lock();
        let known: HashSet<Id> = spans.iter().map(id).collect();
        let mut roots = vec![];
        let mut children: HashMap<Id, Vec<&SpanData>> = HashMap::new();
        for span in spans.iter() {
            let parent = (span.span_context.trace_id(), span.parent_span_id);
            if known.contains(&parent) {
                children.entry(parent).or_default().push(span);
            } else {
                roots.push(span);
            }
        }
        // From the last, since they are taken from the end.
        let mut pending = lines(roots, 0, &children);
        pending.reverse();
        while let Some(line) = pending.pop() {
            writeln!(f, "{line}")?;
            if let Drawn::Span(span) = line.drawn {
                let below = children.remove(&id(span)).unwrap_or_default();
                let below = lines(below, line.depth + 1, &children);
                pending.extend(below.into_iter().rev());
            }
        }
        Ok(())
    }
}

struct Line<'a> {
    drawn: Drawn<'a>,
    depth: usize,
}

enum Drawn<'a> {
    Span(&'a SpanData),
    /// How many there are that are not drawn.
    Brief(usize),
}

/// Siblings by the number of their task, or else by start.
fn lines<'a>(
    mut spans: Vec<&'a SpanData>,
    depth: usize,
    children: &HashMap<Id, Vec<&SpanData>>,
) -> Vec<Line<'a>> {
    let all = spans.len();
    spans.retain(|span| {
        let told = span.attributes.iter().any(|told| {
            let key = told.key.as_str();
            key.starts_with("flightpath.") || key.starts_with("datafusion.")
        });
        told || span.status != Status::Unset
            || took(span) >= BRIEF
            || children.contains_key(&id(span))
    });
    let brief = all - spans.len();
    spans.sort_by_key(|span| {
        let task = match attribute(span, TASK) {
            Some(Value::I64(index)) => *index,
            _ => 0,
        };
        (task, span.start_time)
    });
    let drawn = spans.into_iter().map(Drawn::Span);
    let drawn = drawn.chain((brief > 0).then_some(Drawn::Brief(brief)));
    drawn.map(|drawn| Line { drawn, depth }).collect()
}

impl fmt::Display for Line<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let indent = self.depth * 2;
        let span = match self.drawn {
            Drawn::Span(span) => span,
            Drawn::Brief(spans) => {
                return write!(f, "{:indent$}({spans} of less than 1 ms)", "");
            }
        };
        let name = format!("{:indent$}{}", "", span.name);
        write!(
            f,
            "{name:<48} {:>9.1} ms",
            took(span).as_secs_f64() * 1000.0
        )?;
        for (key, label) in SHOWN {
            match attribute(span, key) {
                Some(Value::I64(nanos)) if key == COMPUTE => {
                    write!(f, "  {label} {:.1} ms", *nanos as f64 / 1e6)?;
                }
                Some(value) => write!(f, "  {label} {value}")?,
                None => {}
            }
        }
        if let Status::Error { description } = &span.status {
            // A line of its own would be taken for a span.
            let description: Vec<_> = description.lines().map(str::trim).collect();
            write!(f, "  ERROR {}", description.join(" "))?;
        }
        Ok(())
    }
}

impl SpanExporter for SpanTree {
    async fn export(&self, batch: Vec<SpanData>) -> OTelSdkResult {
        self.0.lock().extend(batch);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::time::SystemTime;

    use opentelemetry::trace::{Span, TraceContextExt, Tracer, TracerProvider};
    use opentelemetry::{Context, KeyValue};
    use opentelemetry_sdk::trace::SdkTracerProvider;

    use super::*;

    #[test]
    fn tasks_came_by_their_start_and_rules_of_no_time_filled_the_tree() {
        let tree = SpanTree::default();
        let provider = SdkTracerProvider::builder()
            .with_simple_exporter(tree.clone())
            .build();
        let tracer = provider.tracer("test");
        let at = |micros| SystemTime::UNIX_EPOCH + Duration::from_micros(micros);
        let span = |name, begin, end, attributes: &[KeyValue], parent: &Context| {
            let builder = tracer
                .span_builder(name)
                .with_start_time(at(begin))
                .with_attributes(attributes.to_vec());
            let mut span = tracer.build_with_context(builder, parent);
            span.end_with_timestamp(at(end));
            Context::new().with_remote_span_context(span.span_context().clone())
        };
        let none = Context::new();
        let root = span("query", 0, 9_000, &[], &none);
        let plan = span("plan", 0, 8_000, &[], &root);
        for rule in 0..3 {
            span("rule", rule, rule + 10, &[], &plan);
        }
        span("slow rule", 4, 5_004, &[], &plan);
        let phase = span("phase", 6_000, 6_001, &[], &plan);
        span("rule", 6_000, 7_000, &[], &phase);
        let stage = span("stage", 1_000, 8_000, &[], &root);
        for (index, begin) in [(1, 1_000), (0, 1_010)] {
            let index = KeyValue::new(TASK, index);
            span("task", begin, begin + 1, &[index], &stage);
        }
        let computing = KeyValue::new(COMPUTE, 2_500_000);
        span("FilterExec", 2_000, 6_000, &[computing], &stage);
        let drawn = tree.draw();
        let seen: Vec<_> = drawn
            .lines()
            .map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "))
            .collect();
        assert_eq!(
            seen,
            [
                "query 9.0 ms",
                "plan 8.0 ms",
                "slow rule 5.0 ms",
                "phase 0.0 ms",
                "rule 1.0 ms",
                "(3 of less than 1 ms)",
                "stage 7.0 ms",
                "task 0.0 ms task 0",
                "FilterExec 4.0 ms computing 2.5 ms",
                "task 0.0 ms task 1",
            ]
        );
    }
}
