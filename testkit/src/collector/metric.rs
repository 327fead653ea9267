//! Metrics, as they arrived last.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::common::v1::{AnyValue, KeyValue};
use opentelemetry_proto::tonic::metrics::v1::metric::Data;
use opentelemetry_proto::tonic::metrics::v1::number_data_point::Value as Number;
use opentelemetry_proto::tonic::metrics::v1::{
    HistogramDataPoint, Metric as Sent, NumberDataPoint,
};

/// Attributes of who sent it, as text.
pub(super) type Resource = BTreeMap<String, String>;

/// An instrument, with the last value for each set of attributes of each process.
///
/// Values are what was sent last: totals since the start where the exporter's temporality is
/// cumulative, as it is by default.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Metric {
    /// The instrument's name.
    pub name: String,
    /// Its unit, in UCUM.
    pub unit: String,
    /// What it counts, for people.
    pub description: String,
    /// What kind of instrument it is.
    pub kind: MetricKind,
    /// One value for each set of attributes of each process.
    pub points: Vec<Point>,
}

/// What an instrument does with the values that it is given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum MetricKind {
    /// Adds them; they are never negative.
    Counter,
    /// Adds them.
    UpDownCounter,
    /// Keeps the last.
    Gauge,
    /// Counts them in buckets.
    Histogram,
}

/// A value of an instrument.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Point {
    /// Which process sent it: the attributes of its resource, as text.
    pub resource: Arc<BTreeMap<String, String>>,
    /// What it is a value of, as text.
    pub attributes: BTreeMap<String, String>,
    /// The value.
    pub value: MetricValue,
}

/// What an instrument has measured, in its unit.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum MetricValue {
    /// Of counters and gauges.
    Number(f64),
    /// Of histograms.
    #[non_exhaustive]
    Histogram {
        /// How many values there were.
        count: u64,
        /// Their sum.
        sum: f64,
        /// Upper ends of all buckets but the last, which has none.
        bounds: Vec<f64>,
        /// How many values fell into each bucket.
        counts: Vec<u64>,
    },
}

impl Metric {
    /// The sum over all points: of their numbers, or of what their histograms added up.
    pub fn total(&self) -> f64 {
        let values = self.points.iter().map(|point| match &point.value {
            MetricValue::Number(value) => *value,
            MetricValue::Histogram { sum, .. } => *sum,
        });
        values.sum()
    }

    /// Points whose attribute `key` is `value`.
    pub fn with(&self, key: &str, value: &str) -> Vec<&Point> {
        let same = |point: &&Point| {
            point
                .attributes
                .get(key)
                .is_some_and(|found| found == value)
        };
        self.points.iter().filter(same).collect()
    }
}

/// A line for the instrument, and one for each point.
impl fmt::Display for Metric {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({:?}, {})", self.name, self.kind, self.unit)?;
        for point in &self.points {
            write!(f, "\n  {:?} {:?}", point.attributes, point.value)?;
        }
        Ok(())
    }
}

/// Puts what was sent in the place of what the same process sent for the same attributes before.
pub(super) fn keep(kept: &mut BTreeMap<String, Metric>, sent: Sent, resource: &Arc<Resource>) {
    let (kind, points) = match sent.data {
        Some(Data::Gauge(gauge)) => (MetricKind::Gauge, numbers(gauge.data_points)),
        Some(Data::Sum(sum)) if sum.is_monotonic => (MetricKind::Counter, numbers(sum.data_points)),
        Some(Data::Sum(sum)) => (MetricKind::UpDownCounter, numbers(sum.data_points)),
        Some(Data::Histogram(histogram)) => {
            let points = histogram.data_points.into_iter().map(buckets);
            (MetricKind::Histogram, points.collect())
        }
        // Flightpath has none of these.
        Some(Data::ExponentialHistogram(_) | Data::Summary(_)) | None => return,
    };
    let metric = kept.entry(sent.name.clone()).or_insert_with(|| Metric {
        name: sent.name,
        unit: sent.unit,
        description: sent.description,
        kind,
        points: vec![],
    });
    for (attributes, value) in points {
        let same =
            |point: &&mut Point| point.resource == *resource && point.attributes == attributes;
        match metric.points.iter_mut().find(same) {
            Some(point) => point.value = value,
            None => metric.points.push(Point {
                resource: Arc::clone(resource),
                attributes,
                value,
            }),
        }
    }
}

type Measured = (BTreeMap<String, String>, MetricValue);

fn numbers(points: Vec<NumberDataPoint>) -> Vec<Measured> {
    let number = |value| match value {
        Number::AsDouble(value) => value,
        Number::AsInt(value) => value as f64,
    };
    let measured = |point: NumberDataPoint| {
        let value = MetricValue::Number(number(point.value?));
        Some((texts(point.attributes), value))
    };
    points.into_iter().filter_map(measured).collect()
}

fn buckets(point: HistogramDataPoint) -> Measured {
    let value = MetricValue::Histogram {
        count: point.count,
        sum: point.sum.unwrap_or_default(),
        bounds: point.explicit_bounds,
        counts: point.bucket_counts,
    };
    (texts(point.attributes), value)
}

/// Attributes, with values as people write them.
pub(super) fn texts(attributes: Vec<KeyValue>) -> BTreeMap<String, String> {
    let text = |attribute: KeyValue| (attribute.key, shown(attribute.value.as_ref()));
    attributes.into_iter().map(text).collect()
}

fn shown(value: Option<&AnyValue>) -> String {
    match value.and_then(|value| value.value.as_ref()) {
        Some(Value::StringValue(text)) => text.clone(),
        Some(Value::BoolValue(value)) => value.to_string(),
        Some(Value::IntValue(value)) => value.to_string(),
        Some(Value::DoubleValue(value)) => value.to_string(),
        Some(other) => format!("{other:?}"),
        None => String::new(),
    }
}
