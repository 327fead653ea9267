//! Every instrument, with the numbers that the queries themselves report.

use std::collections::BTreeMap;
use std::sync::Arc;

use datafusion::execution::memory_pool::MemoryConsumer;
use flightpath_core::{QueryReports, TaskReport};
use flightpath_testkit::collector::{Collector, Metric, MetricKind, MetricValue};

use crate::support::{FAILING, GROUPS, Measured, SORTED, over_grpc, within};

/// Names, units and kinds, and the attributes that each point has. The two that count what goes
/// wrong are in `failures`.
const CONTRACT: [(&str, &str, MetricKind, &[&str]); 11] = [
    ("flightpath.query.duration", "s", MetricKind::Histogram, &[]),
    (
        "flightpath.stage.duration",
        "s",
        MetricKind::Histogram,
        &["flightpath.boundary.kind"],
    ),
    (
        "flightpath.task.duration",
        "s",
        MetricKind::Histogram,
        &["flightpath.task.status"],
    ),
    (
        "flightpath.task.active",
        "{task}",
        MetricKind::UpDownCounter,
        &[],
    ),
    (
        "flightpath.stage.skew",
        "1",
        MetricKind::Histogram,
        &["flightpath.boundary.kind"],
    ),
    (
        "flightpath.exchange.io",
        "By",
        MetricKind::Counter,
        &[
            "flightpath.boundary.kind",
            "flightpath.exchange.local",
            "network.io.direction",
        ],
    ),
    (
        "flightpath.exchange.wait",
        "s",
        MetricKind::Histogram,
        &["flightpath.boundary.kind"],
    ),
    (
        "flightpath.operator.rows",
        "{row}",
        MetricKind::Counter,
        &["datafusion.operator"],
    ),
    (
        "flightpath.operator.time",
        "s",
        MetricKind::Counter,
        &["datafusion.operator"],
    ),
    (
        "flightpath.operator.spill",
        "By",
        MetricKind::Counter,
        &["datafusion.operator"],
    ),
    (
        "flightpath.memory.reserved",
        "By",
        MetricKind::UpDownCounter,
        &[],
    ),
];

/// What the tasks of several queries reported.
struct Told(Vec<Arc<TaskReport>>);

impl Told {
    fn by(queries: &[Arc<QueryReports>]) -> Self {
        Self(queries.iter().flat_map(|query| query.reports()).collect())
    }

    /// For each operator, the sum of what its nodes say.
    fn operators(
        &self,
        number: fn(&flightpath_core::NodeReport) -> Option<usize>,
    ) -> BTreeMap<String, f64> {
        let mut sums = BTreeMap::new();
        for node in self.0.iter().flat_map(|report| &report.nodes) {
            if let Some(number) = number(node) {
                *sums.entry(node.name.clone()).or_insert(0.0) += number as f64;
            }
        }
        sums
    }

    fn waits(&self) -> Vec<f64> {
        let nodes = self.0.iter().flat_map(|report| &report.nodes);
        let metrics = nodes.flat_map(|node| node.metrics.iter());
        let waits = metrics.filter(|metric| metric.value().name() == "exchange_wait");
        waits.map(|wait| wait.value().as_usize() as f64).collect()
    }
}

/// By an attribute, the sums of a metric.
fn by(metric: &Metric, attribute: &str) -> BTreeMap<String, f64> {
    let mut sums = BTreeMap::new();
    for point in &metric.points {
        let value = match &point.value {
            MetricValue::Number(value) => *value,
            MetricValue::Histogram { sum, .. } => *sum,
            other => panic!("{} has {other:?}", metric.name),
        };
        *sums
            .entry(point.attributes[attribute].clone())
            .or_insert(0.0) += value;
    }
    sums
}

fn count(metric: &Metric) -> u64 {
    let counts = metric.points.iter().map(|point| match &point.value {
        MetricValue::Histogram { count, .. } => *count,
        other => panic!("{} has {other:?}, no histogram", metric.name),
    });
    counts.sum()
}

fn assert_close(found: f64, expected: f64, what: &str) {
    let off = (found - expected).abs();
    assert!(
        off <= expected.abs() * 1e-6 + 1e-9,
        "{what}: {found}, not {expected}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn they_agree_with_what_tasks_report() {
    within(120, async {
        let collector = Collector::start().unwrap();
        let metrics = over_grpc(&collector);
        let measured = Measured::start(&metrics).await;
        let mut queries = vec![];
        for sql in [GROUPS, SORTED, GROUPS] {
            let (rows, reports) = measured.run(sql).await;
            assert!(!rows.unwrap().is_empty());
            queries.push(reports);
        }
        metrics.shutdown().await;

        for (name, unit, kind, attributes) in CONTRACT {
            let metric = collector.expect_metric(name, |_| true).await.unwrap();
            assert_eq!((metric.unit.as_str(), metric.kind), (unit, kind), "{name}");
            assert!(!metric.description.is_empty(), "{name}");
            for point in &metric.points {
                let keys: Vec<&str> = point.attributes.keys().map(String::as_str).collect();
                assert_eq!(keys, attributes, "{name}");
                assert_eq!(point.resource["service.name"], "flightpath-worker");
                if let (MetricValue::Histogram { bounds, .. }, "s") = (&point.value, unit) {
                    assert_eq!((bounds[0], bounds[bounds.len() - 1]), (0.001, 1_000.0));
                }
            }
        }

        let told = Told::by(&queries);
        let metric = async |name: &str| {
            let name = format!("flightpath.{name}");
            collector.expect_metric(&name, |_| true).await.unwrap()
        };
        assert_eq!(count(&metric("query.duration").await), 3);
        // Sorting needs one stage, grouping two.
        let stages = metric("stage.duration").await;
        assert_eq!(count(&stages), 5);
        let kinds: Vec<_> = by(&stages, "flightpath.boundary.kind")
            .into_keys()
            .collect();
        assert_eq!(kinds, ["coalesce", "shuffle"]);
        let skew = metric("stage.skew").await;
        assert_eq!(count(&skew), 5);
        assert!(skew.total() >= 5.0, "no task is faster than the slowest");

        let tasks = metric("task.duration").await;
        assert_eq!(count(&tasks), told.0.len() as u64);
        let seconds = told.0.iter().map(|report| report.duration.as_secs_f64());
        assert_close(tasks.total(), seconds.sum(), "task durations");
        let statuses = by(&tasks, "flightpath.task.status").into_keys();
        assert_eq!(statuses.collect::<Vec<_>>(), ["finished"]);
        assert_eq!(metric("task.active").await.total(), 0.0);

        let sent: u64 = told.0.iter().map(|report| report.output_bytes).sum();
        let io = metric("exchange.io").await;
        let ways = by(&io, "network.io.direction");
        let expected = [("receive", sent), ("transmit", sent)];
        assert_eq!(
            ways,
            expected
                .map(|(way, sent)| (way.to_owned(), sent as f64))
                .into()
        );
        let shuffled = told.0.iter().filter(|report| {
            // Grouping shuffles what its first stage puts out.
            report.key.stage == 1 && report.nodes[0].name == "RepartitionExec"
        });
        let shuffled: u64 = shuffled.map(|report| report.output_bytes).sum();
        assert!(shuffled > 0);
        assert_eq!(
            by(&io, "flightpath.boundary.kind")["shuffle"],
            2.0 * shuffled as f64
        );
        assert_eq!(by(&io, "flightpath.exchange.local").len(), 2);

        let waits = metric("exchange.wait").await;
        assert!(!told.waits().is_empty());
        assert_eq!(count(&waits), told.waits().len() as u64);
        assert_close(
            waits.total(),
            told.waits().iter().sum::<f64>() / 1e9,
            "waits",
        );

        let rows = by(&metric("operator.rows").await, "datafusion.operator");
        assert_eq!(rows, told.operators(|node| node.metrics.output_rows()));
        assert_eq!(rows["SortExec"], 40_000.0);
        let spill = by(&metric("operator.spill").await, "datafusion.operator");
        assert_eq!(spill, told.operators(|node| node.metrics.spilled_bytes()));
        assert!(spill["SortExec"] > 0.0, "{spill:?}");
        let times = by(&metric("operator.time").await, "datafusion.operator");
        let expected = told.operators(|node| node.metrics.elapsed_compute());
        assert_eq!(
            Vec::from_iter(times.keys()),
            Vec::from_iter(expected.keys())
        );
        for (operator, nanos) in expected {
            assert_close(times[&operator], nanos / 1e9, &operator);
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn failed_queries_and_tasks_say_how() {
    within(60, async {
        let collector = Collector::start().unwrap();
        let metrics = over_grpc(&collector);
        let measured = Measured::start(&metrics).await;
        let (rows, reports) = measured.run(FAILING).await;
        assert!(rows.is_err());
        metrics.shutdown().await;

        let queries = collector.expect_metric("flightpath.query.duration", |_| true);
        let queries = queries.await.unwrap();
        assert_eq!(
            queries.with("error.type", "ArrowError").len(),
            1,
            "{queries}"
        );
        assert_eq!(count(&queries), 1);
        let tasks = collector.expect_metric("flightpath.task.duration", |_| true);
        let tasks = tasks.await.unwrap();
        let counts = reports.counts();
        assert!(counts.failed > 0);
        for (status, number) in [
            ("finished", counts.finished),
            ("failed", counts.failed),
            ("cancelled", counts.cancelled),
            ("unused", counts.unused),
        ] {
            let found = tasks.with("flightpath.task.status", status);
            let found = found.first().map_or(0, |point| match point.value {
                MetricValue::Histogram { count, .. } => count,
                _ => 0,
            });
            assert_eq!(found, number as u64, "{status}");
        }
        let active = collector.expect_metric("flightpath.task.active", |_| true);
        assert_eq!(active.await.unwrap().total(), 0.0);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn memory_is_what_the_pools_say_now() {
    within(60, async {
        let collector = Collector::start().unwrap();
        let metrics = over_grpc(&collector);
        let measured = Measured::start(&metrics).await;
        let holders: Vec<_> = (measured.runtimes.iter())
            .map(|runtime| MemoryConsumer::new("test").register(&runtime.memory_pool))
            .collect();
        holders[0].try_grow(12_000).unwrap();
        holders[1].try_grow(345).unwrap();
        metrics.shutdown().await;
        let memory = collector.expect_metric("flightpath.memory.reserved", |_| true);
        assert_eq!(memory.await.unwrap().total(), 12_345.0);
        drop(measured);
    })
    .await;
}
