//! Hooks and spans: what other crates see of a query.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

use datafusion::common::DataFusionError;
use datafusion::execution::SessionStateBuilder;
use datafusion::prelude::SessionContext;
use flightpath_core::{
    Direction, Headers, Hooks, QueryId, SessionStateBuilderExt, TaskKey, TaskReport, TraceOptions,
    Transfer,
};
use flightpath_testkit::Cluster;
use tracing::field::{Field, Visit};
use tracing::{Subscriber, span};
use tracing_subscriber::layer::{Context, Layer, SubscriberExt};
use tracing_subscriber::registry::LookupSpan;

use crate::harness::{config, register, reports, rows, run, run_as_local, within};

const SQL: &str = "SELECT g, count(*), sum(k) FROM t GROUP BY g";

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    Begins(QueryId),
    Ends(QueryId, bool),
    Dispatched(TaskKey),
    Reported(TaskKey),
    Arrived(TaskKey, Headers),
    Wrapped(TaskKey, Headers),
    Opened(TaskKey, Headers),
}

#[derive(Debug, Default)]
struct Recorder(Mutex<Vec<Event>>);

impl Recorder {
    fn record(&self, event: Event) {
        self.0.lock().unwrap().push(event);
    }

    fn take(&self) -> Vec<Event> {
        std::mem::take(&mut self.0.lock().unwrap())
    }
}

fn headers(of: &str, key: &TaskKey) -> Headers {
    vec![(of.to_string(), format!("{key}\0").into_bytes())]
}

impl Hooks for Recorder {
    fn query_begins(&self, query: QueryId) {
        self.record(Event::Begins(query));
    }

    fn query_ends(&self, query: QueryId, result: Result<(), &DataFusionError>) {
        self.record(Event::Ends(query, result.is_ok()));
    }

    fn task_headers(&self, task: &TaskKey) -> Headers {
        self.record(Event::Dispatched(*task));
        headers("task", task)
    }

    fn task_reports(&self, report: &TaskReport) {
        self.record(Event::Reported(report.key));
    }

    fn task_span(&self, span: tracing::Span, task: &TaskKey, headers: &Headers) -> tracing::Span {
        self.record(Event::Arrived(*task, headers.clone()));
        span
    }

    fn wrap_plan(
        &self,
        plan: Arc<dyn datafusion::physical_plan::ExecutionPlan>,
        task: Option<(&TaskKey, &Headers)>,
        _trace: TraceOptions,
    ) -> datafusion::common::Result<Arc<dyn datafusion::physical_plan::ExecutionPlan>> {
        if let Some((task, headers)) = task {
            self.record(Event::Wrapped(*task, headers.clone()));
        }
        Ok(plan)
    }

    fn stream_headers(&self, producer: &TaskKey) -> Headers {
        headers("stream", producer)
    }

    fn stream_opened(&self, producer: &TaskKey, headers: &Headers) {
        self.record(Event::Opened(*producer, headers.clone()));
    }
}

/// A cluster of two workers and its session, with these hooks on both sides.
async fn hooked(hooks: Arc<dyn Hooks>) -> (Cluster, SessionContext) {
    let cluster = Cluster::start_with(2, |builder| builder.with_hooks(Arc::clone(&hooks)))
        .await
        .unwrap();
    let state = SessionStateBuilder::new()
        .with_config(config(&[("datafusion.execution.target_partitions", "2")]))
        .with_default_features()
        .with_flightpath(cluster.coordinator().unwrap().with_hooks(hooks))
        .build();
    let ctx = SessionContext::new_with_state(state);
    register(&ctx, "t", rows(4, 1_000, 8));
    (cluster, ctx)
}

#[tokio::test(flavor = "multi_thread")]
async fn hooks_see_a_query_from_both_sides() {
    within(60, async {
        let recorder = Arc::<Recorder>::default();
        let (_cluster, ctx) = hooked(Arc::clone(&recorder) as Arc<dyn Hooks>).await;
        let ran = run_as_local(&ctx, SQL).await;
        let mut events = recorder.take();
        let reports = ran.reports();
        let id = reports.query_id();
        assert_eq!(events.first(), Some(&Event::Begins(id)));
        assert_eq!(events.last(), Some(&Event::Ends(id, true)));

        let keys: Vec<TaskKey> = reports.reports().iter().map(|report| report.key).collect();
        assert_eq!(keys.len(), 4, "two stages of two tasks:\n{}", ran.text());
        let mut expected = vec![Event::Begins(id), Event::Ends(id, true)];
        for key in &keys {
            expected.extend([
                Event::Dispatched(*key),
                Event::Arrived(*key, headers("task", key)),
                Event::Wrapped(*key, headers("task", key)),
                Event::Reported(*key),
            ]);
            // Four partitions of each producer are shuffled, half of them within a worker; the
            // coordinator reads two of each task.
            let streams = if key.stage == 1 { 4 } else { 2 };
            expected.extend(vec![Event::Opened(*key, headers("stream", key)); streams]);
        }
        expected.sort();
        events.sort();
        assert_eq!(events, expected);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failed_query_ends_once_too() {
    within(60, async {
        let recorder = Arc::<Recorder>::default();
        let (_cluster, ctx) = hooked(Arc::clone(&recorder) as Arc<dyn Hooks>).await;
        let failed = run(&ctx, "SELECT g, sum(1 / (k - 7)) FROM t GROUP BY g").await;
        assert!(failed.is_err());
        let events = recorder.take();
        let ends: Vec<_> = events
            .iter()
            .filter(|event| matches!(event, Event::Ends(..)))
            .collect();
        assert!(matches!(ends[..], [Event::Ends(_, false)]), "{ends:?}");
        assert_eq!(
            events
                .iter()
                .filter(|event| matches!(event, Event::Begins(_)))
                .count(),
            1
        );
        let of = |picked: fn(&Event) -> Option<TaskKey>| {
            events.iter().filter_map(picked).collect::<Vec<_>>()
        };
        let mut dispatched = of(|event| match event {
            Event::Dispatched(key) => Some(*key),
            _ => None,
        });
        let mut reported = of(|event| match event {
            Event::Reported(key) => Some(*key),
            _ => None,
        });
        dispatched.sort();
        reported.sort();
        assert_eq!(dispatched, reported);
    })
    .await;
}

/// A closed or open span: its name, parent, and what was recorded in it.
#[derive(Clone, Debug, Default)]
struct Seen {
    name: &'static str,
    parent: Option<&'static str>,
    fields: BTreeMap<&'static str, String>,
}

#[derive(Clone, Default)]
struct Spans(Arc<Mutex<Vec<(u64, Seen)>>>);

impl Visit for Seen {
    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        self.fields.insert(
            field.name(),
            format!("{value:?}").trim_matches('"').to_string(),
        );
    }
}

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for Spans {
    fn on_new_span(
        &self,
        attributes: &span::Attributes<'_>,
        id: &span::Id,
        context: Context<'_, S>,
    ) {
        let parent = context
            .span(id)
            .and_then(|span| Some(span.parent()?.name()));
        let name = attributes.metadata().name();
        let mut seen = Seen {
            name,
            parent,
            ..Seen::default()
        };
        attributes.record(&mut seen);
        self.0.lock().unwrap().push((id.into_u64(), seen));
    }

    fn on_record(&self, id: &span::Id, values: &span::Record<'_>, _context: Context<'_, S>) {
        // Ids of closed spans are used again.
        let mut spans = self.0.lock().unwrap();
        let latest = spans.iter_mut().rev().find(|(of, _)| *of == id.into_u64());
        if let Some((_, seen)) = latest {
            values.record(seen);
        }
    }
}

impl Spans {
    fn named(&self, name: &str) -> Vec<Seen> {
        let spans = self.0.lock().unwrap();
        let spans = spans.iter().map(|(_, seen)| seen);
        spans.filter(|seen| seen.name == name).cloned().collect()
    }
}

/// On one thread, so that the subscriber can be this test's own.
#[tokio::test]
async fn spans_say_what_ran_where() {
    let spans = Spans::default();
    // With one subscriber alone, the thread that first comes by a span decides for all threads
    // whether it is seen, and threads of other tests see none.
    let _second = tracing::Dispatch::new(tracing_subscriber::registry());
    let subscriber = tracing_subscriber::registry().with(spans.clone());
    let _own = tracing::subscriber::set_default(subscriber);
    within(60, async {
        let (cluster, ctx) = hooked(Arc::new(flightpath_core::NoHooks)).await;
        let ran = run(&ctx, SQL).await.unwrap();
        let reports = reports(&ran.plan);
        let id = reports.query_id().to_string();

        let [query] = &spans.named("query")[..] else {
            panic!("one query ran")
        };
        assert_eq!(query.parent, None);
        assert_eq!(query.fields["db.system.name"], "datafusion");
        assert_eq!(query.fields["flightpath.query.id"], id);

        let stages = spans.named("stage");
        assert_eq!(stages.len(), 2);
        for stage in &stages {
            assert_eq!(stage.parent, Some("query"));
            assert_eq!(stage.fields["flightpath.query.id"], id);
            let number: usize = stage.fields["flightpath.stage.id"].parse().unwrap();
            assert_eq!(stage.fields["otel.name"], format!("stage {number}"));
            assert_eq!(stage.fields["flightpath.stage.task_count"], "2");
            let tasks = (0..2).map(|task| reports.report(number, task).unwrap());
            let (rows, bytes) = tasks.fold((0, 0), |(rows, bytes), report| {
                (rows + report.output_rows, bytes + report.output_bytes)
            });
            assert_eq!(
                stage.fields["flightpath.stage.output_rows"],
                rows.to_string()
            );
            assert_eq!(
                stage.fields["flightpath.stage.output_bytes"],
                bytes.to_string()
            );
        }

        let tasks = spans.named("task");
        let mut found = BTreeSet::new();
        for task in &tasks {
            assert_eq!(task.parent, None, "its parent comes with the headers");
            assert_eq!(task.fields["flightpath.query.id"], id);
            let [stage, index] = ["flightpath.stage.id", "flightpath.task.index"]
                .map(|name| task.fields[name].parse::<usize>().unwrap());
            let report = reports.report(stage, index).unwrap();
            assert_eq!(task.fields["flightpath.task.attempt"], "0");
            assert_eq!(task.fields["flightpath.worker.url"], report.worker);
            assert_eq!(task.fields["flightpath.task.status"], "finished");
            assert_eq!(
                task.fields["flightpath.task.output_rows"],
                report.output_rows.to_string()
            );
            assert_eq!(
                task.fields["flightpath.task.output_bytes"],
                report.output_bytes.to_string()
            );
            found.insert((stage, index));
        }
        assert_eq!(tasks.len(), 4);
        assert_eq!(found.len(), 4);
        drop(cluster);
    })
    .await;
}

#[test]
fn the_core_needs_no_opentelemetry() {
    let lock = include_str!("../../../Cargo.lock");
    let packages: BTreeMap<&str, Vec<&str>> = lock
        .split("[[package]]")
        .filter_map(|package| {
            let name = package
                .lines()
                .find_map(|line| line.strip_prefix("name = \""))?;
            let needs = package.lines().filter_map(|line| line.strip_prefix(" \""));
            let first_word = |line: &'static str| line.split(['"', ' ']).next().unwrap();
            Some((name.trim_end_matches('"'), needs.map(first_word).collect()))
        })
        .collect();
    let mut needed = BTreeSet::from(["flightpath-core"]);
    let mut next = vec!["flightpath-core"];
    while let Some(package) = next.pop() {
        for need in &packages[package] {
            if needed.insert(need) {
                next.push(need);
            }
        }
    }
    assert!(
        needed.contains("tracing"),
        "the lock file was not understood"
    );
    let found: Vec<_> = needed
        .iter()
        .filter(|name| name.contains("opentelemetry"))
        .collect();
    assert!(found.is_empty(), "{found:?}");
}

/// Fails where a worker has sent a batch.
#[derive(Debug)]
struct Broken;

impl Hooks for Broken {
    fn transferred(&self, transfer: &Transfer) {
        assert_ne!(
            transfer.direction,
            Direction::Transmit,
            "the hook is broken"
        );
    }
}

#[tokio::test]
async fn a_panic_while_sending_was_the_end_of_the_rows() {
    within(60, async {
        let (cluster, ctx) = hooked(Arc::new(Broken)).await;
        let answer = run(&ctx, "SELECT k FROM t WHERE k % 2 = 0").await;
        let answer = answer.map(|ran| ran.rows.iter().map(|batch| batch.num_rows()).sum::<usize>());
        let error = answer.unwrap_err();
        let message = error.find_root().strip_backtrace();
        assert!(message.contains("the hook is broken"), "{message}");
        cluster.stop().await.unwrap();
    })
    .await;
}
