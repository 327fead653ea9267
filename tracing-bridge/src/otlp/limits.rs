//! How much is kept of spans.

use std::ops::RangeInclusive;

use datafusion::common::Result;
use flightpath_otlp::Environment;
use opentelemetry_sdk::trace::{
    BatchConfig, BatchConfigBuilder, SdkTracerProvider, TracerProviderBuilder,
};

/// A boundary's span links to each task that it reads; the SDK's default is 128.
const LINKS: u32 = 1024;

/// Room for all metrics of a scan of Parquet files, beside the other attributes; the SDK's default is 128.
const ATTRIBUTES: u32 = 256;

/// Spans of a task end all at once, and those of the whole budget of a query may be of one process; the SDK's default
/// is 2,048.
const QUEUE: usize = 16_384;

const COUNTS: RangeInclusive<u64> = 0..=1_000_000;
const SIZES: RangeInclusive<u64> = 1..=1_000_000;
const TIMES: RangeInclusive<u64> = 1..=3_600_000;

/// How much is kept of spans, and how many of them until they are sent.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    /// Characters of an attribute's text.
    pub(super) value: Option<usize>,
    attributes: u32,
    links: u32,
    queue: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            value: None,
            attributes: ATTRIBUTES,
            links: LINKS,
            queue: QUEUE,
        }
    }
}

impl Limits {
    pub(super) fn read(environment: &Environment) -> Result<Self> {
        // The SDK reads these itself, and goes on without what it does not understand.
        for (name, range) in [
            ("OTEL_BSP_SCHEDULE_DELAY", TIMES),
            ("OTEL_BSP_EXPORT_TIMEOUT", TIMES),
            ("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", SIZES),
            ("OTEL_SPAN_EVENT_COUNT_LIMIT", COUNTS),
        ] {
            environment.number(name, range)?;
        }
        let own = environment.number("OTEL_SPAN_ATTRIBUTE_VALUE_LENGTH_LIMIT", COUNTS)?;
        let general = environment.number("OTEL_ATTRIBUTE_VALUE_LENGTH_LIMIT", COUNTS)?;
        let attributes = environment.number("OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT", COUNTS)?;
        let links = environment.number("OTEL_SPAN_LINK_COUNT_LIMIT", COUNTS)?;
        let queue = environment.number("OTEL_BSP_MAX_QUEUE_SIZE", SIZES)?;
        // All are below a million.
        Ok(Self {
            value: own.or(general).map(|characters| characters as usize),
            attributes: attributes.map_or(ATTRIBUTES, |count| count as u32),
            links: links.map_or(LINKS, |count| count as u32),
            queue: queue.map_or(QUEUE, |spans| spans as usize),
        })
    }

    pub(super) fn queue(&self) -> BatchConfig {
        BatchConfigBuilder::default()
            .with_max_queue_size(self.queue)
            .build()
    }

    pub(super) fn provider(&self) -> TracerProviderBuilder {
        SdkTracerProvider::builder()
            .with_max_links_per_span(self.links)
            .with_max_attributes_per_span(self.attributes)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn read(variables: &[(&str, &str)]) -> Result<Limits> {
        Limits::read(&Environment::of(variables))
    }

    #[test]
    fn the_limit_for_spans_goes_before_the_general_one() {
        const GENERAL: (&str, &str) = ("OTEL_ATTRIBUTE_VALUE_LENGTH_LIMIT", "20");
        const OWN: (&str, &str) = ("OTEL_SPAN_ATTRIBUTE_VALUE_LENGTH_LIMIT", "10");
        assert_eq!(read(&[]).unwrap().value, None);
        assert_eq!(read(&[GENERAL]).unwrap().value, Some(20));
        assert_eq!(read(&[GENERAL, OWN]).unwrap().value, Some(10));
    }

    #[test]
    fn limits_of_the_environment_were_overruled() {
        let limits = read(&[
            ("OTEL_SPAN_LINK_COUNT_LIMIT", "7"),
            ("OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT", "8"),
            ("OTEL_BSP_MAX_QUEUE_SIZE", "9"),
        ]);
        let limits = limits.unwrap();
        assert_eq!((limits.links, limits.attributes, limits.queue), (7, 8, 9));
        let limits = read(&[]).unwrap();
        assert_eq!(
            (limits.links, limits.attributes, limits.queue),
            (LINKS, ATTRIBUTES, QUEUE)
        );
    }

    #[test]
    fn limits_that_are_no_numbers_passed_in_silence() {
        for variable in [
            &[("OTEL_ATTRIBUTE_VALUE_LENGTH_LIMIT", "long")],
            &[("OTEL_BSP_MAX_QUEUE_SIZE", "0")],
            &[("OTEL_BSP_MAX_QUEUE_SIZE", "99999999999")],
            &[("OTEL_BSP_SCHEDULE_DELAY", "5s")],
            &[("OTEL_SPAN_LINK_COUNT_LIMIT", "-1")],
        ] {
            let error = read(variable).unwrap_err().to_string();
            let [(name, value)] = variable;
            assert!(error.contains(name) && error.contains(value), "{error}");
            assert!(error.contains("expected a whole number from"), "{error}");
        }
    }
}
