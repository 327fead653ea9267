//! Metrics that keep their kind.

use datafusion::physical_plan::metrics::{
    MetricCategory, MetricValue, MetricsSet, RatioMergeStrategy, Timestamp,
};
use serde::{Deserialize, Serialize};

/// What a node measured, in one partition or as a whole.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Metric {
    /// Its name, such as `output_rows`.
    pub name: String,
    /// What was measured.
    #[serde(flatten)]
    pub value: Value,
    /// In which output partition of the node; `None` if it is not of one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub partition: Option<usize>,
    /// What else tells it from others of its name, as names and values.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub labels: Vec<(String, String)>,
    /// What it counts, as its node says.
    #[serde(default, skip_serializing_if = "MetricKind::is_other")]
    pub of: MetricKind,
}

/// What a metric counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MetricKind {
    /// Rows, batches and the like.
    Rows,
    /// Bytes.
    Bytes,
    /// Time.
    Timing,
    /// Something else, or it was not said.
    #[default]
    Other,
}

impl MetricKind {
    fn is_other(&self) -> bool {
        *self == Self::Other
    }
}

/// The value of a metric. In JSON its `kind` is one of `count`, `time`, `gauge`, `start`, `end`,
/// `pruning`, `ratio` and `custom`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Value {
    /// How many. Merged by addition.
    Count {
        /// The number.
        value: u64,
    },
    /// How long. Merged by addition, so over partitions it may exceed the time that passed.
    Time {
        /// Nanoseconds.
        ns: u64,
    },
    /// A level, such as memory in use. Merged by addition, as parts that are in use side by side:
    /// of peaks that is the most that can have been in use at once.
    Gauge {
        /// The level.
        value: u64,
    },
    /// When something started. Of several, the earliest. Of one machine's clock.
    Start {
        /// Nanoseconds since 1970; `None` if it did not start.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        unix_ns: Option<i64>,
    },
    /// When something ended. Of several, the latest. Of one machine's clock.
    End {
        /// Nanoseconds since 1970; `None` if it did not end.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        unix_ns: Option<i64>,
    },
    /// What a scan left out. Merged by addition.
    Pruning {
        /// Left out.
        pruned: u64,
        /// Looked into.
        matched: u64,
        /// Looked into and known to match as a whole.
        fully_matched: u64,
    },
    /// A share. Merged part by part: `merge` says which parts add up and which are the same for all.
    Ratio {
        /// The part.
        part: u64,
        /// The whole.
        total: u64,
        /// How several are merged.
        #[serde(default)]
        merge: RatioMerge,
    },
    /// A value of a type of its own. How such values merge is unknown here: they are kept side by
    /// side.
    Custom {
        /// Each value, in the order of tasks and partitions.
        readings: Vec<Reading>,
    },
}

/// How several ratios are merged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RatioMerge {
    /// Parts add up, and so do wholes.
    #[default]
    AddBoth,
    /// Parts add up, and the whole is the same for all.
    AddPart,
    /// Wholes add up, and the part is the same for all.
    AddTotal,
}

/// A value of a type of its own, as text and as a number.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reading {
    /// As it displays.
    pub text: String,
    /// As a number; what it means is up to its type.
    pub value: u64,
}

impl Value {
    /// The one number that it comes to: a count, nanoseconds, or a level. `None` if it is none or
    /// more than one.
    pub fn number(&self) -> Option<u64> {
        match self {
            Self::Count { value } | Self::Gauge { value } => Some(*value),
            Self::Time { ns } => Some(*ns),
            Self::Custom { readings } => match &readings[..] {
                [reading] => Some(reading.value),
                _ => None,
            },
            Self::Start { .. } | Self::End { .. } | Self::Pruning { .. } | Self::Ratio { .. } => {
                None
            }
        }
    }

    /// Takes another value in, as its kind says. False, and nothing changes, if the two are not of
    /// one kind.
    pub fn merge(&mut self, other: &Self) -> bool {
        match (self, other) {
            (Self::Count { value: into }, Self::Count { value })
            | (Self::Gauge { value: into }, Self::Gauge { value })
            | (Self::Time { ns: into }, Self::Time { ns: value }) => add(into, *value),
            (Self::Start { unix_ns: into }, Self::Start { unix_ns }) => {
                *into = into.iter().chain(unix_ns).min().copied();
            }
            (Self::End { unix_ns: into }, Self::End { unix_ns }) => {
                *into = into.iter().chain(unix_ns).max().copied();
            }
            (
                Self::Pruning {
                    pruned,
                    matched,
                    fully_matched,
                },
                Self::Pruning {
                    pruned: more_pruned,
                    matched: more_matched,
                    fully_matched: more_fully,
                },
            ) => {
                add(pruned, *more_pruned);
                add(matched, *more_matched);
                add(fully_matched, *more_fully);
            }
            (
                Self::Ratio { part, total, merge },
                Self::Ratio {
                    part: other_part,
                    total: other_total,
                    merge: other_merge,
                },
            ) if merge == other_merge => {
                match merge {
                    RatioMerge::AddTotal => *part = *other_part,
                    RatioMerge::AddBoth | RatioMerge::AddPart => add(part, *other_part),
                }
                match merge {
                    RatioMerge::AddPart => *total = *other_total,
                    RatioMerge::AddBoth | RatioMerge::AddTotal => add(total, *other_total),
                }
            }
            (Self::Custom { readings: into }, Self::Custom { readings }) => {
                into.extend_from_slice(readings);
            }
            _ => return false,
        }
        true
    }
}

fn add(into: &mut u64, value: u64) {
    *into = into.saturating_add(value);
}

/// Merges metrics over partitions and tasks: one for each name, kind and set of labels, in the order
/// in which they first come.
pub fn merged<'a>(metrics: impl IntoIterator<Item = &'a Metric>) -> Vec<Metric> {
    let mut merged: Vec<Metric> = Vec::new();
    for metric in metrics {
        let found = merged.iter_mut().any(|known| {
            known.name == metric.name
                && known.labels == metric.labels
                && known.value.merge(&metric.value)
        });
        if !found {
            merged.push(Metric {
                partition: None,
                ..metric.clone()
            });
        }
    }
    merged
}

/// The metrics of a node, as it recorded them.
pub(super) fn of_set(metrics: &MetricsSet) -> Vec<Metric> {
    let metrics = metrics.iter().map(|metric| Metric {
        name: metric.value().name().to_owned(),
        value: of_value(metric.value()),
        partition: metric.partition(),
        labels: (metric.labels().iter())
            .map(|label| (label.name().to_owned(), label.value().to_owned()))
            .collect(),
        of: match metric.metric_category() {
            Some(MetricCategory::Rows) => MetricKind::Rows,
            Some(MetricCategory::Bytes) => MetricKind::Bytes,
            Some(MetricCategory::Timing) => MetricKind::Timing,
            _ => kind_of(metric.value()),
        },
    });
    metrics.collect()
}

/// What a metric counts whose node does not say so.
fn kind_of(value: &MetricValue) -> MetricKind {
    match value {
        MetricValue::OutputRows(_)
        | MetricValue::SpilledRows(_)
        | MetricValue::OutputBatches(_)
        | MetricValue::PruningMetrics { .. } => MetricKind::Rows,
        MetricValue::SpilledBytes(_)
        | MetricValue::OutputBytes(_)
        | MetricValue::CurrentMemoryUsage(_)
        | MetricValue::PeakMemoryUsage { .. } => MetricKind::Bytes,
        MetricValue::ElapsedCompute(_)
        | MetricValue::Time { .. }
        | MetricValue::StartTimestamp(_)
        | MetricValue::EndTimestamp(_) => MetricKind::Timing,
        // Bytes are what the field counts under such names, its own metrics included.
        MetricValue::Count { name, .. } | MetricValue::Gauge { name, .. } if is_bytes(name) => {
            MetricKind::Bytes
        }
        _ => MetricKind::Other,
    }
}

fn is_bytes(name: &str) -> bool {
    name.split('_').any(|word| word == "bytes")
}

fn of_value(value: &MetricValue) -> Value {
    let at = |timestamp: &Timestamp| timestamp.value().and_then(|at| at.timestamp_nanos_opt());
    let count = |value: usize| Value::Count {
        value: value as u64,
    };
    let gauge = |value: usize| Value::Gauge {
        value: value as u64,
    };
    match value {
        MetricValue::OutputRows(value)
        | MetricValue::SpillCount(value)
        | MetricValue::SpilledBytes(value)
        | MetricValue::OutputBytes(value)
        | MetricValue::OutputBatches(value)
        | MetricValue::SpilledRows(value)
        | MetricValue::Count { count: value, .. } => count(value.value()),
        MetricValue::CurrentMemoryUsage(value)
        | MetricValue::Gauge { gauge: value, .. }
        | MetricValue::PeakMemoryUsage { gauge: value, .. } => gauge(value.value()),
        MetricValue::ElapsedCompute(time) | MetricValue::Time { time, .. } => Value::Time {
            ns: time.value() as u64,
        },
        MetricValue::StartTimestamp(start) => Value::Start { unix_ns: at(start) },
        MetricValue::EndTimestamp(end) => Value::End { unix_ns: at(end) },
        MetricValue::PruningMetrics {
            pruning_metrics: pruning,
            ..
        } => Value::Pruning {
            pruned: pruning.pruned() as u64,
            matched: pruning.matched() as u64,
            fully_matched: pruning.fully_matched() as u64,
        },
        MetricValue::Ratio { ratio_metrics, .. } => Value::Ratio {
            part: ratio_metrics.part() as u64,
            total: ratio_metrics.total() as u64,
            merge: match ratio_metrics.merge_strategy() {
                RatioMergeStrategy::AddPartAddTotal => RatioMerge::AddBoth,
                RatioMergeStrategy::AddPartSetTotal => RatioMerge::AddPart,
                RatioMergeStrategy::SetPartAddTotal => RatioMerge::AddTotal,
            },
        },
        MetricValue::Custom { value, .. } => Value::Custom {
            readings: vec![Reading {
                text: value.to_string(),
                value: value.as_usize() as u64,
            }],
        },
    }
}

#[cfg(test)]
#[path = "metric_tests.rs"]
mod tests;
