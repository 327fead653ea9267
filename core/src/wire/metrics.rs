//! Task reports between the model and the wire.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use chrono::{DateTime, Utc};
use datafusion::common::exec_datafusion_err;
use datafusion::error::Result;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::metrics::{
    Count, Gauge, Label, Metric, MetricCategory, MetricType, MetricValue, MetricsSet,
    PruningMetrics, RatioMergeStrategy, RatioMetrics, Time, Timestamp,
};

use super::metrics_proto as proto;
use crate::model::metric_codec::{
    EncodedMetric, MetricCodecs, OpaqueMetricValue, Reading, with_value,
};
use crate::model::report::{NodeReport, TaskReport, TaskStatus};
use crate::model::stage::{QueryId, TaskKey};
use crate::model::wrapper::innermost;

/// What the nodes of a plan measured, in pre-order, under the names of the nodes behind wrappers.
///
/// A node without metrics reports an empty set: the order is what pairs reports with nodes.
pub(crate) fn node_reports(plan: &Arc<dyn ExecutionPlan>) -> Vec<NodeReport> {
    let mut reports = Vec::new();
    let mut pending = vec![plan];
    while let Some(node) = pending.pop() {
        reports.push(NodeReport {
            name: innermost(node.as_ref()).name().to_owned(),
            metrics: node.metrics().unwrap_or_default(),
        });
        pending.extend(node.children().into_iter().rev());
    }
    reports
}

/// Adds the labels that tell the metrics of one task from those of the others.
pub(crate) fn label(metrics: MetricsSet, key: TaskKey) -> MetricsSet {
    let stage = Label::new("stage", key.stage.to_string());
    let task = Label::new("task", key.task.to_string());
    let labelled = |metric: Arc<Metric>| {
        let copy = with_value(&metric, metric.value().clone());
        Arc::new(copy.with_label(stage.clone()).with_label(task.clone()))
    };
    metrics.into_iter().map(labelled).collect()
}

/// A report as it travels. User-defined metrics carry text and number beside what a codec wrote.
pub(crate) fn encode_report(report: &TaskReport, codecs: &MetricCodecs) -> proto::Report {
    let encode_node = |node: &NodeReport| proto::Node {
        name: node.name.clone(),
        metrics: node
            .metrics
            .iter()
            .map(|metric| encode_metric(metric, codecs))
            .collect(),
    };
    proto::Report {
        key: Some(encode_key(&report.key)),
        worker: report.worker.clone(),
        status: proto::Status::from(&report.status).into(),
        error: report.error.clone(),
        error_kind: report.error_kind.clone(),
        started: report.started.map(encode_system_time),
        duration_nanos: u64::try_from(report.duration.as_nanos()).unwrap_or(u64::MAX),
        output_rows: report.output_rows,
        output_bytes: report.output_bytes,
        nodes: report.nodes.iter().map(encode_node).collect(),
    }
}

/// The report that [`encode_report`] wrote; an error says what in it makes no sense.
pub(crate) fn decode_report(report: proto::Report, codecs: &MetricCodecs) -> Result<TaskReport> {
    let decode_node = |node: proto::Node| {
        let metrics = node.metrics.into_iter();
        let metrics = metrics.map(|metric| decode_metric(metric, codecs).map(Arc::new));
        Ok(NodeReport {
            name: node.name,
            metrics: metrics.collect::<Result<_>>()?,
        })
    };
    Ok(TaskReport {
        key: decode_key(report.key.ok_or_else(|| malformed("no task key"))?)?,
        worker: report.worker,
        status: mirrored::<proto::Status, TaskStatus>(report.status)?,
        error: report.error,
        error_kind: report.error_kind,
        started: report.started.map(decode_system_time).transpose()?,
        duration: Duration::from_nanos(report.duration_nanos),
        output_rows: report.output_rows,
        output_bytes: report.output_bytes,
        nodes: report
            .nodes
            .into_iter()
            .map(decode_node)
            .collect::<Result<_>>()?,
    })
}

/// A task's key as it travels.
pub(crate) fn encode_key(key: &TaskKey) -> proto::Key {
    proto::Key {
        query_id: key.query_id.as_bytes().to_vec(),
        stage: key.stage as u64,
        task: key.task as u64,
        attempt: key.attempt,
    }
}

/// The key that [`encode_key`] wrote.
pub(crate) fn decode_key(key: proto::Key) -> Result<TaskKey> {
    Ok(TaskKey {
        query_id: QueryId::from_slice(&key.query_id)
            .ok_or_else(|| malformed("a query id that is not 16 bytes long"))?,
        stage: size(key.stage),
        task: size(key.task),
        attempt: key.attempt,
    })
}

fn encode_metric(metric: &Metric, codecs: &MetricCodecs) -> proto::Metric {
    let encode_label = |label: &Label| proto::Label {
        name: label.name().to_owned(),
        value: label.value().to_owned(),
    };
    proto::Metric {
        partition: metric.partition().map(|partition| partition as u64),
        labels: metric.labels().iter().map(encode_label).collect(),
        verbosity: proto::Verbosity::from(&metric.metric_type()).into(),
        category: metric
            .metric_category()
            .map(|c| proto::Category::from(&c).into()),
        value: Some(encode_value(metric.value(), codecs)),
    }
}

fn decode_metric(metric: proto::Metric, codecs: &MetricCodecs) -> Result<Metric> {
    let value = metric
        .value
        .ok_or_else(|| malformed("a metric without a value"))?;
    let labels = metric
        .labels
        .into_iter()
        .map(|label| Label::new(label.name, label.value));
    let decoded = Metric::new_with_labels(
        decode_value(value, codecs)?,
        metric.partition.map(size),
        labels.collect(),
    )
    .with_type(mirrored::<proto::Verbosity, MetricType>(metric.verbosity)?);
    Ok(match metric.category {
        Some(category) => {
            decoded.with_category(mirrored::<proto::Category, MetricCategory>(category)?)
        }
        None => decoded,
    })
}

fn encode_value(value: &MetricValue, codecs: &MetricCodecs) -> proto::Value {
    use proto::Value;

    let named = |name: &str, value: usize| proto::Named {
        name: name.to_owned(),
        value: value as u64,
    };
    let timestamp = |timestamp: &Timestamp| proto::Timestamp {
        at: timestamp.value().map(encode_date_time),
    };
    match value {
        MetricValue::OutputRows(count) => Value::OutputRows(count.value() as u64),
        MetricValue::ElapsedCompute(time) => Value::ElapsedCompute(time.value() as u64),
        MetricValue::SpillCount(count) => Value::SpillCount(count.value() as u64),
        MetricValue::SpilledBytes(count) => Value::SpilledBytes(count.value() as u64),
        MetricValue::OutputBytes(count) => Value::OutputBytes(count.value() as u64),
        MetricValue::OutputBatches(count) => Value::OutputBatches(count.value() as u64),
        MetricValue::SpilledRows(count) => Value::SpilledRows(count.value() as u64),
        MetricValue::CurrentMemoryUsage(gauge) => Value::CurrentMemoryUsage(gauge.value() as u64),
        MetricValue::Count { name, count } => Value::Count(named(name, count.value())),
        MetricValue::Gauge { name, gauge } => Value::Gauge(named(name, gauge.value())),
        MetricValue::PeakMemoryUsage { name, gauge } => {
            Value::PeakMemoryUsage(named(name, gauge.value()))
        }
        MetricValue::Time { name, time } => Value::Time(named(name, time.value())),
        MetricValue::StartTimestamp(at) => Value::StartTimestamp(timestamp(at)),
        MetricValue::EndTimestamp(at) => Value::EndTimestamp(timestamp(at)),
        MetricValue::PruningMetrics {
            name,
            pruning_metrics,
        } => Value::Pruning(proto::Pruning {
            name: name.to_string(),
            pruned: pruning_metrics.pruned() as u64,
            matched: pruning_metrics.matched() as u64,
            fully_matched: pruning_metrics.fully_matched() as u64,
        }),
        MetricValue::Ratio {
            name,
            ratio_metrics,
        } => Value::Ratio(proto::Ratio {
            name: name.to_string(),
            part: ratio_metrics.part() as u64,
            total: ratio_metrics.total() as u64,
            merge: proto::Merge::from(ratio_metrics.merge_strategy()).into(),
            display_raw_values: ratio_metrics.display_raw_values(),
        }),
        MetricValue::Custom { name, value } => Value::Custom(proto::Custom {
            name: name.to_string(),
            encoded: codecs.encode(value.as_ref()).map(|encoded| proto::Encoded {
                type_name: encoded.type_name,
                bytes: encoded.bytes,
            }),
            readings: OpaqueMetricValue::readings_of(value.as_ref())
                .into_iter()
                .map(|Reading { text, value }| proto::Reading {
                    text,
                    value: value as u64,
                })
                .collect(),
        }),
    }
}

fn decode_value(value: proto::Value, codecs: &MetricCodecs) -> Result<MetricValue> {
    use proto::Value;

    Ok(match value {
        Value::OutputRows(value) => MetricValue::OutputRows(count(value)),
        Value::ElapsedCompute(nanos) => MetricValue::ElapsedCompute(time(nanos)),
        Value::SpillCount(value) => MetricValue::SpillCount(count(value)),
        Value::SpilledBytes(value) => MetricValue::SpilledBytes(count(value)),
        Value::OutputBytes(value) => MetricValue::OutputBytes(count(value)),
        Value::OutputBatches(value) => MetricValue::OutputBatches(count(value)),
        Value::SpilledRows(value) => MetricValue::SpilledRows(count(value)),
        Value::CurrentMemoryUsage(value) => MetricValue::CurrentMemoryUsage(gauge(value)),
        Value::Count(proto::Named { name, value }) => MetricValue::Count {
            name: name.into(),
            count: count(value),
        },
        Value::Gauge(proto::Named { name, value }) => MetricValue::Gauge {
            name: name.into(),
            gauge: gauge(value),
        },
        Value::PeakMemoryUsage(proto::Named { name, value }) => MetricValue::PeakMemoryUsage {
            name: name.into(),
            gauge: gauge(value),
        },
        Value::Time(proto::Named { name, value }) => MetricValue::Time {
            name: name.into(),
            time: time(value),
        },
        Value::StartTimestamp(at) => MetricValue::StartTimestamp(decode_timestamp(at)?),
        Value::EndTimestamp(at) => MetricValue::EndTimestamp(decode_timestamp(at)?),
        Value::Pruning(pruning) => {
            let pruning_metrics = PruningMetrics::new();
            pruning_metrics.add_pruned(size(pruning.pruned));
            pruning_metrics.add_matched(size(pruning.matched));
            pruning_metrics.add_fully_matched(size(pruning.fully_matched));
            MetricValue::PruningMetrics {
                name: pruning.name.into(),
                pruning_metrics,
            }
        }
        Value::Ratio(ratio) => {
            let ratio_metrics = RatioMetrics::new()
                .with_merge_strategy(mirrored::<proto::Merge, RatioMergeStrategy>(ratio.merge)?)
                .with_display_raw_values(ratio.display_raw_values);
            ratio_metrics.set_part(size(ratio.part));
            ratio_metrics.set_total(size(ratio.total));
            MetricValue::Ratio {
                name: ratio.name.into(),
                ratio_metrics,
            }
        }
        Value::Custom(custom) => decode_custom(custom, codecs),
    })
}

fn decode_custom(custom: proto::Custom, codecs: &MetricCodecs) -> MetricValue {
    let name = Cow::Owned(custom.name);
    let known = custom
        .encoded
        .and_then(|proto::Encoded { type_name, bytes }| {
            codecs.decode(&EncodedMetric { type_name, bytes })
        });
    let value = known.unwrap_or_else(|| {
        let readings = custom.readings.into_iter();
        let readings = readings.map(|proto::Reading { text, value }| Reading {
            text,
            value: size(value),
        });
        Arc::new(readings.collect::<OpaqueMetricValue>())
    });
    MetricValue::Custom { name, value }
}

fn count(value: u64) -> Count {
    let count = Count::new();
    count.add(size(value));
    count
}

fn gauge(value: u64) -> Gauge {
    let gauge = Gauge::new();
    gauge.set(size(value));
    gauge
}

fn time(nanos: u64) -> Time {
    let time = Time::new();
    // Adding nothing adds a nanosecond, to tell "very short" from "not recorded".
    if nanos > 0 {
        time.add_duration(Duration::from_nanos(nanos));
    }
    time
}

fn decode_timestamp(timestamp: proto::Timestamp) -> Result<Timestamp> {
    let decoded = Timestamp::new();
    if let Some(at) = timestamp.at {
        decoded.set(decode_date_time(at)?);
    }
    Ok(decoded)
}

fn encode_date_time(at: DateTime<Utc>) -> proto::Instant {
    proto::Instant {
        seconds: at.timestamp(),
        nanos: at.timestamp_subsec_nanos(),
    }
}

fn decode_date_time(at: proto::Instant) -> Result<DateTime<Utc>> {
    DateTime::from_timestamp(at.seconds, at.nanos)
        .ok_or_else(|| malformed(format!("a timestamp out of range: {} s", at.seconds)))
}

/// A clock that is set to before 1970 is wrong in any case; it travels as the start of 1970.
fn encode_system_time(at: SystemTime) -> proto::Instant {
    let since = at.duration_since(UNIX_EPOCH).unwrap_or_default();
    proto::Instant {
        seconds: i64::try_from(since.as_secs()).unwrap_or(i64::MAX),
        nanos: since.subsec_nanos(),
    }
}

fn decode_system_time(at: proto::Instant) -> Result<SystemTime> {
    u64::try_from(at.seconds)
        .ok()
        .and_then(|seconds| UNIX_EPOCH.checked_add(Duration::new(seconds, at.nanos)))
        .ok_or_else(|| malformed(format!("a start time out of range: {} s", at.seconds)))
}

/// The model's variant for a number of one of the wire's enumerations.
fn mirrored<Wire, Model>(number: i32) -> Result<Model>
where
    Wire: TryFrom<i32, Error = prost::UnknownEnumValue> + Into<Model>,
{
    Wire::try_from(number)
        .map(Into::into)
        .map_err(|error| malformed(error.to_string()))
}

/// Counts fit on any machine that could have counted them; a 32-bit coordinator shows its maximum.
fn size(value: u64) -> usize {
    usize::try_from(value).unwrap_or(usize::MAX)
}

fn malformed(what: impl std::fmt::Display) -> datafusion::error::DataFusionError {
    exec_datafusion_err!("malformed task report: {what}")
}

#[cfg(test)]
#[path = "metrics_tests.rs"]
mod tests;
