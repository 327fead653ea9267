//! Metrics of types that this crate does not know: how they travel, and what is left without help.

use std::any::Any;
use std::collections::HashSet;
use std::fmt::{self, Debug};
use std::sync::Arc;

use datafusion::physical_plan::Metric;
use datafusion::physical_plan::metrics::{CustomMetricValue, MetricValue, MetricsSet};
use parking_lot::Mutex;

/// Sends user-defined metric values from workers, and restores them on the coordinator.
///
/// Register the same codecs on both. A value that no codec knows arrives as an
/// [`OpaqueMetricValue`].
pub trait MetricCodec: Debug + Send + Sync {
    /// The value as bytes, or `None` if it is of a type that this codec does not know.
    fn encode(&self, value: &dyn CustomMetricValue) -> Option<EncodedMetric>;

    /// The value that [`encode`](Self::encode) wrote, or `None` if the type is unknown or the bytes
    /// are not of that type.
    fn decode(&self, type_name: &str, bytes: &[u8]) -> Option<Arc<dyn CustomMetricValue>>;
}

/// A user-defined metric value on its way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EncodedMetric {
    /// Names the type among all codecs, so best with the crate in it.
    pub type_name: String,
    /// The value, as its codec writes it.
    pub bytes: Vec<u8>,
}

/// All registered codecs; the first that knows a type handles it.
#[derive(Clone, Debug, Default)]
pub struct MetricCodecs(Vec<Arc<dyn MetricCodec>>);

impl MetricCodecs {
    /// No codecs.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a codec after those that are there.
    pub fn with_codec(mut self, codec: Arc<dyn MetricCodec>) -> Self {
        self.0.push(codec);
        self
    }

    pub(crate) fn encode(&self, value: &dyn CustomMetricValue) -> Option<EncodedMetric> {
        self.0.iter().find_map(|codec| codec.encode(value))
    }

    pub(crate) fn decode(&self, encoded: &EncodedMetric) -> Option<Arc<dyn CustomMetricValue>> {
        let EncodedMetric { type_name, bytes } = encoded;
        self.0
            .iter()
            .find_map(|codec| codec.decode(type_name, bytes))
    }
}

impl FromIterator<Arc<dyn MetricCodec>> for MetricCodecs {
    fn from_iter<I: IntoIterator<Item = Arc<dyn MetricCodec>>>(codecs: I) -> Self {
        Self(codecs.into_iter().collect())
    }
}

/// What is left of user-defined metric values whose type is unknown here: text and number.
///
/// How such values merge is unknown too, so aggregating keeps them side by side.
#[derive(Debug, Default)]
pub struct OpaqueMetricValue(Mutex<Vec<Reading>>);

/// One value of an unknown type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Reading {
    pub(crate) text: String,
    pub(crate) value: usize,
}

impl OpaqueMetricValue {
    /// A single value, as it displays and as a number.
    pub fn new(text: impl Into<String>, value: usize) -> Self {
        Self::from_iter([Reading {
            text: text.into(),
            value,
        }])
    }

    /// Each value, in the order in which they were brought together.
    pub(crate) fn readings(&self) -> Vec<Reading> {
        self.0.lock().clone()
    }

    /// The readings of a value of any type: those it holds if it is opaque, else one of its own.
    pub(crate) fn readings_of(value: &dyn CustomMetricValue) -> Vec<Reading> {
        match value.as_any().downcast_ref::<Self>() {
            Some(opaque) => opaque.readings(),
            None => vec![Reading {
                text: value.to_string(),
                value: value.as_usize(),
            }],
        }
    }
}

impl FromIterator<Reading> for OpaqueMetricValue {
    fn from_iter<I: IntoIterator<Item = Reading>>(readings: I) -> Self {
        Self(Mutex::new(readings.into_iter().collect()))
    }
}

impl fmt::Display for OpaqueMetricValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, reading) in self.0.lock().iter().enumerate() {
            let separator = if i == 0 { "" } else { ", " };
            write!(f, "{separator}{}", reading.text)?;
        }
        Ok(())
    }
}

impl CustomMetricValue for OpaqueMetricValue {
    fn new_empty(&self) -> Arc<dyn CustomMetricValue> {
        Arc::new(Self::default())
    }

    fn aggregate(&self, other: Arc<dyn CustomMetricValue>) {
        // Read before locking: `other` may be this very value.
        let readings = Self::readings_of(other.as_ref());
        self.0.lock().extend(readings);
    }

    fn as_any(&self) -> &dyn Any {
        self
    }

    /// The number, if there is exactly one; several do not add up to anything that is known.
    fn as_usize(&self) -> usize {
        match self.0.lock()[..] {
            [Reading { value, .. }] => value,
            _ => 0,
        }
    }

    fn is_eq(&self, other: &Arc<dyn CustomMetricValue>) -> bool {
        let other = other.as_any().downcast_ref::<Self>();
        other.is_some_and(|other| self.readings() == other.readings())
    }
}

/// Makes custom metrics opaque whose name is shared by an opaque one.
///
/// Workers may differ in what codecs they have. DataFusion merges metrics by name, and most
/// implementations of [`CustomMetricValue::aggregate`] panic on a type that is not their own.
pub(crate) fn settle_kinds(metrics: MetricsSet) -> MetricsSet {
    let is_opaque = |value: &dyn CustomMetricValue| value.as_any().is::<OpaqueMetricValue>();
    let opaque_names: HashSet<String> = metrics
        .iter()
        .filter_map(|metric| match metric.value() {
            MetricValue::Custom { name, value } if is_opaque(value.as_ref()) => {
                Some(name.to_string())
            }
            _ => None,
        })
        .collect();
    if opaque_names.is_empty() {
        return metrics;
    }
    let settle = |metric: Arc<Metric>| match metric.value() {
        MetricValue::Custom { name, value }
            if opaque_names.contains(name.as_ref()) && !is_opaque(value.as_ref()) =>
        {
            let readings = OpaqueMetricValue::readings_of(value.as_ref());
            let value = MetricValue::Custom {
                name: name.clone(),
                value: Arc::new(readings.into_iter().collect::<OpaqueMetricValue>()),
            };
            Arc::new(with_value(&metric, value))
        }
        _ => metric,
    };
    metrics.into_iter().map(settle).collect()
}

/// A metric that differs from another in its value alone.
pub(crate) fn with_value(metric: &Metric, value: MetricValue) -> Metric {
    let copy = Metric::new_with_labels(value, metric.partition(), metric.labels().to_vec())
        .with_type(metric.metric_type());
    match metric.metric_category() {
        Some(category) => copy.with_category(category),
        None => copy,
    }
}

#[cfg(test)]
#[path = "metric_codec_tests.rs"]
pub(crate) mod tests;
