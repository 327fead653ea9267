#![allow(clippy::unwrap_used)]

use datafusion::arrow::datatypes::Schema;
use datafusion::physical_plan::empty::EmptyExec;
use datafusion::physical_plan::metrics::CustomMetricValue;
use datafusion::physical_plan::union::UnionExec;
use prost::Message;

use super::*;
use crate::model::metric_codec::tests::{Total, TotalCodec, custom};

fn key(task: usize) -> TaskKey {
    TaskKey {
        query_id: QueryId::new(),
        stage: 3,
        task,
        attempt: 1,
    }
}

fn report(nodes: Vec<NodeReport>) -> TaskReport {
    TaskReport {
        key: key(5),
        worker: "http://worker:1234".to_owned(),
        status: TaskStatus::Cancelled,
        error: Some("not my day".to_owned()),
        error_kind: Some("Execution".to_owned()),
        started: Some(UNIX_EPOCH + Duration::new(1_700_000_000, 123_456_789)),
        duration: Duration::from_nanos(42_000_000_001),
        output_rows: 1 << 40,
        output_bytes: 1 << 50,
        nodes,
    }
}

fn codecs() -> MetricCodecs {
    MetricCodecs::new().with_codec(Arc::new(TotalCodec))
}

/// Through bytes, as on the wire.
fn travel(report: &TaskReport, sender: &MetricCodecs, receiver: &MetricCodecs) -> TaskReport {
    let bytes = encode_report(report, sender).encode_to_vec();
    decode_report(proto::Report::decode(bytes.as_slice()).unwrap(), receiver).unwrap()
}

fn travel_set(metrics: MetricsSet, sender: &MetricCodecs, receiver: &MetricCodecs) -> MetricsSet {
    let report = report(vec![NodeReport {
        name: "FilterExec".to_owned(),
        metrics,
    }]);
    travel(&report, sender, receiver).nodes.remove(0).metrics
}

fn ratio(merge: RatioMergeStrategy, raw: bool, part: usize, total: usize) -> RatioMetrics {
    let ratio = RatioMetrics::new()
        .with_merge_strategy(merge)
        .with_display_raw_values(raw);
    ratio.set_part(part);
    ratio.set_total(total);
    ratio
}

fn pruning(pruned: usize, matched: usize, fully_matched: usize) -> PruningMetrics {
    let pruning = PruningMetrics::new();
    pruning.add_pruned(pruned);
    pruning.add_matched(matched);
    pruning.add_fully_matched(fully_matched);
    pruning
}

fn at(seconds: i64, nanos: u32) -> Timestamp {
    let timestamp = Timestamp::new();
    timestamp.set(DateTime::from_timestamp(seconds, nanos).unwrap());
    timestamp
}

/// One value of each kind, and each variant within; `seed` makes tasks differ.
fn every_kind(seed: usize) -> Vec<MetricValue> {
    let n = seed as u64;
    vec![
        MetricValue::OutputRows(count(n)),
        MetricValue::ElapsedCompute(time(n * 1_000_001)),
        MetricValue::SpillCount(count(2 + n)),
        MetricValue::SpilledBytes(count(u64::MAX - n)),
        MetricValue::OutputBytes(count(3 + n)),
        MetricValue::OutputBatches(count(4 + n)),
        MetricValue::SpilledRows(count(5 + n)),
        MetricValue::CurrentMemoryUsage(gauge(6 + n)),
        MetricValue::Count {
            name: "count".into(),
            count: count(7 + n),
        },
        MetricValue::Gauge {
            name: "gauge".into(),
            gauge: gauge(8 + n),
        },
        MetricValue::PeakMemoryUsage {
            name: "peak".into(),
            gauge: gauge(9 + n),
        },
        MetricValue::Time {
            name: "time".into(),
            time: time(10 + n),
        },
        MetricValue::Time {
            name: "no time".into(),
            time: time(0),
        },
        MetricValue::StartTimestamp(at(1_700_000_000 + seed as i64, 123_456_789)),
        MetricValue::EndTimestamp(Timestamp::new()),
        MetricValue::PruningMetrics {
            name: "files".into(),
            pruning_metrics: pruning(8, 2, seed),
        },
        MetricValue::Ratio {
            name: "add add".into(),
            ratio_metrics: ratio(RatioMergeStrategy::AddPartAddTotal, true, 1 + seed, 10),
        },
        MetricValue::Ratio {
            name: "add set".into(),
            ratio_metrics: ratio(RatioMergeStrategy::AddPartSetTotal, false, 2 + seed, 20),
        },
        MetricValue::Ratio {
            name: "set add".into(),
            ratio_metrics: ratio(RatioMergeStrategy::SetPartAddTotal, true, 3 + seed, 30),
        },
        custom(Total::arc(11 + seed)),
    ]
}

fn set(values: Vec<MetricValue>) -> MetricsSet {
    let metrics = values.into_iter().enumerate();
    metrics
        .map(|(i, value)| Arc::new(Metric::new(value, Some(i))))
        .collect()
}

#[test]
fn every_kind_survives() {
    for seed in [0, 1, 12_345] {
        let sent = every_kind(seed);
        let received = travel_set(set(sent.clone()), &codecs(), &codecs());
        for (sent, received) in sent.iter().zip(received.iter()) {
            assert_eq!(sent, received.value());
            // Equality leaves out fully matched files and the strategy of a ratio; Debug does not.
            assert_eq!(format!("{sent:?}"), format!("{:?}", received.value()));
        }
        assert_eq!(received.iter().count(), sent.len());
    }
}

#[test]
fn timestamps_before_1970_survive() {
    let sent = MetricValue::EndTimestamp(at(-1, 999_999_999));
    let received = travel_set(set(vec![sent.clone()]), &codecs(), &codecs());
    assert_eq!(&sent, received.iter().next().unwrap().value());
}

#[test]
fn merging_after_the_trip_equals_merging_before() {
    let tasks = || [set(every_kind(1)), set(every_kind(2)), set(every_kind(3))];
    let merge = |sets: Vec<MetricsSet>| {
        let all: MetricsSet = sets.into_iter().flatten().collect();
        format!("{:?}", all.aggregate_by_name().sorted_for_display())
    };
    let travelled = tasks().map(|task| travel_set(task, &codecs(), &codecs()));
    assert_eq!(merge(travelled.to_vec()), merge(tasks().to_vec()));
}

#[test]
fn everything_beside_the_value_survives() {
    let rows = || MetricValue::OutputRows(count(1));
    let labels = vec![Label::new("file", "a=b".to_owned()), Label::new("", "")];
    let sent: MetricsSet = [
        Metric::new(rows(), None).with_type(MetricType::Summary),
        Metric::new_with_labels(rows(), Some(0), labels).with_type(MetricType::Dev),
        Metric::new(rows(), Some(7)).with_category(MetricCategory::Rows),
        Metric::new(rows(), Some(7)).with_category(MetricCategory::Bytes),
        Metric::new(rows(), Some(7)).with_category(MetricCategory::Timing),
        Metric::new(rows(), Some(7)).with_category(MetricCategory::Uncategorized),
    ]
    .map(Arc::new)
    .into_iter()
    .collect();
    let received = travel_set(sent.clone(), &codecs(), &codecs());
    assert_eq!(format!("{sent:?}"), format!("{received:?}"));
}

#[test]
fn the_report_around_the_metrics_survives() {
    let empty = |name: &str| NodeReport {
        name: name.to_owned(),
        metrics: MetricsSet::new(),
    };
    let full = report(vec![empty("A"), empty("B")]);
    let bare = TaskReport {
        error: None,
        error_kind: None,
        started: None,
        nodes: vec![],
        ..report(vec![])
    };
    let statuses = [
        TaskStatus::Finished,
        TaskStatus::Failed,
        TaskStatus::Cancelled,
        TaskStatus::Unused,
    ];
    let of_status = statuses.map(|status| TaskReport {
        status,
        ..bare.clone()
    });
    for sent in [full, bare].into_iter().chain(of_status) {
        let received = travel(&sent, &codecs(), &codecs());
        assert_eq!(format!("{sent:?}"), format!("{received:?}"));
    }
}

#[test]
fn user_defined_values_are_kept_per_task_if_one_side_has_no_codec() {
    let none = MetricCodecs::new();
    for (sender, receiver) in [(&none, &none), (&codecs(), &none), (&none, &codecs())] {
        let tasks = [4, 5].map(|value| {
            let received = travel_set(set(vec![custom(Total::arc(value))]), sender, receiver);
            // Once more, as when one coordinator reports to another.
            let received = travel_set(received, receiver, receiver);
            assert_eq!(received.iter().next().unwrap().value().as_usize(), value);
            received
        });
        let all: MetricsSet = tasks.into_iter().flatten().collect();
        assert_eq!(
            all.aggregate_by_name().to_string(),
            "total=total 4, total 5"
        );
    }
}

#[test]
fn joined_opaque_values_stay_apart_when_they_travel() {
    let joined: Arc<dyn CustomMetricValue> = Arc::new(OpaqueMetricValue::new("a", 1));
    joined.aggregate(Arc::new(OpaqueMetricValue::new("b", 2)));
    let sent = custom(joined);
    let received = travel_set(set(vec![sent.clone()]), &codecs(), &codecs());
    assert_eq!(&sent, received.iter().next().unwrap().value());
}

#[test]
fn labels_name_stage_and_task() {
    let metric = Metric::new_with_labels(
        MetricValue::OutputRows(count(8)),
        Some(1),
        vec![Label::new("file", "f")],
    );
    let metric = metric
        .with_type(MetricType::Summary)
        .with_category(MetricCategory::Rows);
    let labelled = label(std::iter::once(Arc::new(metric)).collect(), key(5));
    assert_eq!(
        labelled.to_string(),
        "output_rows{partition=1, file=f, stage=3, task=5}=8"
    );
    let metric = labelled.iter().next().unwrap();
    assert_eq!(metric.metric_type(), MetricType::Summary);
    assert_eq!(metric.metric_category(), Some(MetricCategory::Rows));
}

#[test]
fn nonsense_is_an_error_that_says_what_is_wrong() {
    let good = || encode_report(&report(vec![]), &codecs());
    let node = |metric| {
        vec![proto::Node {
            name: String::new(),
            metrics: vec![metric],
        }]
    };
    let endless = proto::Instant {
        seconds: i64::MAX,
        nanos: u32::MAX,
    };
    let metric = |value| proto::Metric {
        value,
        ..Default::default()
    };
    let end = proto::Value::EndTimestamp(proto::Timestamp { at: Some(endless) });
    let cases = [
        (
            proto::Report {
                key: None,
                ..good()
            },
            "no task key",
        ),
        (
            proto::Report {
                key: Some(proto::Key::default()),
                ..good()
            },
            "16 bytes",
        ),
        (
            proto::Report {
                status: 99,
                ..good()
            },
            "99",
        ),
        (
            proto::Report {
                started: Some(proto::Instant {
                    seconds: -1,
                    nanos: 0,
                }),
                ..good()
            },
            "start time",
        ),
        (
            proto::Report {
                nodes: node(metric(None)),
                ..good()
            },
            "without a value",
        ),
        (
            proto::Report {
                nodes: node(metric(Some(end))),
                ..good()
            },
            "timestamp",
        ),
    ];
    for (report, expected) in cases {
        let error = decode_report(report, &codecs()).unwrap_err().to_string();
        assert!(
            error.contains(expected),
            "{error:?} should name {expected:?}"
        );
    }
}

#[test]
fn nodes_report_in_pre_order() {
    let leaf = || Arc::new(EmptyExec::new(Arc::new(Schema::empty()))) as Arc<dyn ExecutionPlan>;
    let inner = UnionExec::try_new(vec![leaf(), leaf()]).unwrap();
    let plan = UnionExec::try_new(vec![inner, leaf()]).unwrap();
    let reports = node_reports(&plan);
    let names: Vec<_> = reports.iter().map(|report| report.name.as_str()).collect();
    assert_eq!(
        names,
        [
            "UnionExec",
            "UnionExec",
            "EmptyExec",
            "EmptyExec",
            "EmptyExec"
        ]
    );
    assert_eq!(reports[4].metrics.iter().count(), 0);
}

#[test]
fn a_thousand_tasks_of_two_hundred_nodes_are_no_burden() {
    let node = NodeReport {
        name: "ProjectionExec".to_owned(),
        metrics: set(every_kind(9)),
    };
    let big = report(vec![node; 200]);
    let bytes = encode_report(&big, &codecs()).encoded_len();
    // 1,000 such reports are to stay well below what a coordinator can hold at once.
    assert!(
        bytes < 200_000,
        "{bytes} bytes for 200 nodes with 20 metrics each"
    );
    for _ in 0..10 {
        assert_eq!(travel(&big, &codecs(), &codecs()).nodes.len(), 200);
    }
}
