#![allow(clippy::unwrap_used)]

use std::borrow::Cow;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::*;

/// Merges by adding, and panics on other types, as DataFusion's own example does.
#[derive(Debug, Default)]
pub(crate) struct Total(AtomicUsize);

impl Total {
    pub(crate) fn arc(value: usize) -> Arc<dyn CustomMetricValue> {
        Arc::new(Self(AtomicUsize::new(value)))
    }
}

impl fmt::Display for Total {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "total {}", self.as_usize())
    }
}

impl CustomMetricValue for Total {
    fn new_empty(&self) -> Arc<dyn CustomMetricValue> {
        Self::arc(0)
    }

    fn aggregate(&self, other: Arc<dyn CustomMetricValue>) {
        let other = other.as_any().downcast_ref::<Self>().unwrap();
        self.0.fetch_add(other.as_usize(), Ordering::Relaxed);
    }

    fn as_any(&self) -> &dyn Any {
        self
    }

    fn as_usize(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }

    fn is_eq(&self, other: &Arc<dyn CustomMetricValue>) -> bool {
        other.as_any().is::<Self>() && self.as_usize() == other.as_usize()
    }
}

#[derive(Debug)]
pub(crate) struct TotalCodec;

impl MetricCodec for TotalCodec {
    fn encode(&self, value: &dyn CustomMetricValue) -> Option<EncodedMetric> {
        let total = value.as_any().downcast_ref::<Total>()?;
        Some(EncodedMetric {
            type_name: "test.Total".to_owned(),
            bytes: (total.as_usize() as u64).to_be_bytes().to_vec(),
        })
    }

    fn decode(&self, type_name: &str, bytes: &[u8]) -> Option<Arc<dyn CustomMetricValue>> {
        let bytes = bytes.try_into().ok()?;
        (type_name == "test.Total").then(|| Total::arc(u64::from_be_bytes(bytes) as usize))
    }
}

pub(crate) fn custom(value: Arc<dyn CustomMetricValue>) -> MetricValue {
    MetricValue::Custom {
        name: Cow::Borrowed("total"),
        value,
    }
}

fn set(values: impl IntoIterator<Item = Arc<dyn CustomMetricValue>>) -> MetricsSet {
    let metrics = values
        .into_iter()
        .map(|value| Metric::new(custom(value), None));
    metrics.map(Arc::new).collect()
}

fn merged(metrics: &MetricsSet) -> String {
    metrics.aggregate_by_name().to_string()
}

#[test]
fn opaque_values_stay_side_by_side() {
    let values: [Arc<dyn CustomMetricValue>; 2] = [
        Arc::new(OpaqueMetricValue::new("total 1", 1)),
        Arc::new(OpaqueMetricValue::new("total 2", 2)),
    ];
    assert_eq!(values[0].as_usize(), 1);
    assert_eq!(merged(&set(values)), "total=total 1, total 2");
}

#[test]
fn opaque_values_are_equal_by_content() {
    let one = OpaqueMetricValue::new("total 1", 1);
    let same: Arc<dyn CustomMetricValue> = Arc::new(OpaqueMetricValue::new("total 1", 1));
    let other: Arc<dyn CustomMetricValue> = Arc::new(OpaqueMetricValue::new("total 1", 2));
    assert!(one.is_eq(&same));
    assert!(!one.is_eq(&other));
    assert!(!one.is_eq(&Total::arc(1)));
}

#[test]
fn opaque_value_can_be_merged_with_itself() {
    let value: Arc<dyn CustomMetricValue> = Arc::new(OpaqueMetricValue::new("x", 1));
    value.aggregate(Arc::clone(&value));
    assert_eq!(value.to_string(), "x, x");
    assert_eq!(value.as_usize(), 0);
}

#[test]
fn a_worker_without_the_codec_does_not_make_merging_panic() {
    let mixed = set([
        Total::arc(1),
        Arc::new(OpaqueMetricValue::new("total 2", 2)) as _,
    ]);
    assert_eq!(merged(&settle_kinds(mixed)), "total=total 1, total 2");

    let known = set([Total::arc(1), Total::arc(2)]);
    assert_eq!(merged(&settle_kinds(known)), "total=total 3");
}
