//! The messages of task reports.
//!
//! Numbers of fields and variants are what other versions read: add, never renumber.

use datafusion::physical_plan::metrics::{MetricCategory, MetricType, RatioMergeStrategy};

use crate::model::report::TaskStatus;

/// An enumeration of the wire with the variants of one of the model, and the ways between them.
macro_rules! mirror {
    ($name:ident of $model:ident { $($variant:ident = $number:literal),+ $(,)? }) => {
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, prost::Enumeration)]
        #[repr(i32)]
        #[allow(clippy::enum_variant_names)] // They are the model's.
        pub(crate) enum $name {
            $($variant = $number),+
        }

        impl From<&$model> for $name {
            fn from(model: &$model) -> Self {
                match model {
                    $($model::$variant => Self::$variant),+
                }
            }
        }

        impl From<$name> for $model {
            fn from(wire: $name) -> Self {
                match wire {
                    $($name::$variant => Self::$variant),+
                }
            }
        }
    };
}

mirror!(Status of TaskStatus { Finished = 0, Failed = 1, Cancelled = 2, Unused = 3 });
mirror!(Verbosity of MetricType { Summary = 0, Dev = 1 });
mirror!(Category of MetricCategory { Rows = 0, Bytes = 1, Timing = 2, Uncategorized = 3 });
mirror!(Merge of RatioMergeStrategy {
    AddPartAddTotal = 0,
    AddPartSetTotal = 1,
    SetPartAddTotal = 2,
});

/// A [`TaskKey`](crate::model::stage::TaskKey).
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct Key {
    #[prost(bytes = "vec", tag = "1")]
    pub(crate) query_id: Vec<u8>,
    #[prost(uint64, tag = "2")]
    pub(crate) stage: u64,
    #[prost(uint64, tag = "3")]
    pub(crate) task: u64,
    #[prost(uint32, tag = "4")]
    pub(crate) attempt: u32,
}

/// A [`TaskReport`](crate::model::report::TaskReport).
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct Report {
    #[prost(message, optional, tag = "1")]
    pub(crate) key: Option<Key>,
    #[prost(string, tag = "2")]
    pub(crate) worker: String,
    #[prost(enumeration = "Status", tag = "3")]
    pub(crate) status: i32,
    #[prost(string, optional, tag = "4")]
    pub(crate) error: Option<String>,
    #[prost(message, optional, tag = "5")]
    pub(crate) started: Option<Instant>,
    #[prost(uint64, tag = "6")]
    pub(crate) duration_nanos: u64,
    #[prost(uint64, tag = "7")]
    pub(crate) output_rows: u64,
    #[prost(uint64, tag = "8")]
    pub(crate) output_bytes: u64,
    #[prost(message, repeated, tag = "9")]
    pub(crate) nodes: Vec<Node>,
    #[prost(string, optional, tag = "10")]
    pub(crate) error_kind: Option<String>,
}

/// A [`NodeReport`](crate::model::report::NodeReport).
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct Node {
    #[prost(string, tag = "1")]
    pub(crate) name: String,
    #[prost(message, repeated, tag = "2")]
    pub(crate) metrics: Vec<Metric>,
}

/// A point in time, from the start of 1970 in UTC.
#[derive(Clone, Copy, PartialEq, prost::Message)]
pub(crate) struct Instant {
    #[prost(int64, tag = "1")]
    pub(crate) seconds: i64,
    #[prost(uint32, tag = "2")]
    pub(crate) nanos: u32,
}

/// One metric of a node, as a rule of one partition.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct Metric {
    #[prost(uint64, optional, tag = "1")]
    pub(crate) partition: Option<u64>,
    #[prost(message, repeated, tag = "2")]
    pub(crate) labels: Vec<Label>,
    #[prost(enumeration = "Verbosity", tag = "3")]
    pub(crate) verbosity: i32,
    #[prost(enumeration = "Category", optional, tag = "4")]
    pub(crate) category: Option<i32>,
    #[prost(
        oneof = "Value",
        tags = "5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21"
    )]
    pub(crate) value: Option<Value>,
}

/// A label of a metric.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct Label {
    #[prost(string, tag = "1")]
    pub(crate) name: String,
    #[prost(string, tag = "2")]
    pub(crate) value: String,
}

/// A [`MetricValue`](datafusion::physical_plan::metrics::MetricValue); times are in nanoseconds.
#[derive(Clone, PartialEq, prost::Oneof)]
pub(crate) enum Value {
    #[prost(uint64, tag = "5")]
    OutputRows(u64),
    #[prost(uint64, tag = "6")]
    ElapsedCompute(u64),
    #[prost(uint64, tag = "7")]
    OutputBytes(u64),
    #[prost(uint64, tag = "8")]
    OutputBatches(u64),
    #[prost(message, tag = "9")]
    StartTimestamp(Timestamp),
    #[prost(message, tag = "10")]
    EndTimestamp(Timestamp),
    #[prost(message, tag = "11")]
    Count(Named),
    #[prost(message, tag = "12")]
    Time(Named),
    #[prost(message, tag = "13")]
    Gauge(Named),
    #[prost(message, tag = "14")]
    PeakMemoryUsage(Named),
    #[prost(uint64, tag = "15")]
    SpillCount(u64),
    #[prost(uint64, tag = "16")]
    SpilledBytes(u64),
    #[prost(uint64, tag = "17")]
    SpilledRows(u64),
    #[prost(uint64, tag = "18")]
    CurrentMemoryUsage(u64),
    #[prost(message, tag = "19")]
    Pruning(Pruning),
    #[prost(message, tag = "20")]
    Ratio(Ratio),
    #[prost(message, tag = "21")]
    Custom(Custom),
}

/// A timestamp that may not have been recorded.
#[derive(Clone, Copy, PartialEq, prost::Message)]
pub(crate) struct Timestamp {
    #[prost(message, optional, tag = "1")]
    pub(crate) at: Option<Instant>,
}

/// A number under a name that its operator chose.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct Named {
    #[prost(string, tag = "1")]
    pub(crate) name: String,
    #[prost(uint64, tag = "2")]
    pub(crate) value: u64,
}

/// What a scan could leave out.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct Pruning {
    #[prost(string, tag = "1")]
    pub(crate) name: String,
    #[prost(uint64, tag = "2")]
    pub(crate) pruned: u64,
    #[prost(uint64, tag = "3")]
    pub(crate) matched: u64,
    #[prost(uint64, tag = "4")]
    pub(crate) fully_matched: u64,
}

/// A part of a total, and how such ratios merge and display.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct Ratio {
    #[prost(string, tag = "1")]
    pub(crate) name: String,
    #[prost(uint64, tag = "2")]
    pub(crate) part: u64,
    #[prost(uint64, tag = "3")]
    pub(crate) total: u64,
    #[prost(enumeration = "Merge", tag = "4")]
    pub(crate) merge: i32,
    #[prost(bool, tag = "5")]
    pub(crate) display_raw_values: bool,
}

/// A user-defined value: as its codec writes it, if one does, and readable without it in any case.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct Custom {
    #[prost(string, tag = "1")]
    pub(crate) name: String,
    #[prost(message, optional, tag = "2")]
    pub(crate) encoded: Option<Encoded>,
    #[prost(message, repeated, tag = "3")]
    pub(crate) readings: Vec<Reading>,
}

/// An [`EncodedMetric`](crate::model::metric_codec::EncodedMetric).
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct Encoded {
    #[prost(string, tag = "1")]
    pub(crate) type_name: String,
    #[prost(bytes = "vec", tag = "2")]
    pub(crate) bytes: Vec<u8>,
}

/// A user-defined value as text and number.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct Reading {
    #[prost(string, tag = "1")]
    pub(crate) text: String,
    #[prost(uint64, tag = "2")]
    pub(crate) value: u64,
}
