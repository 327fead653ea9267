//! The instruments, by the names under which they are public.

use opentelemetry::KeyValue;
use opentelemetry::metrics::{Counter, Histogram, Meter, UpDownCounter};

/// Upper ends of the buckets of durations, in seconds: from 1 ms to 1,000 s.
const DURATIONS: [f64; 19] = [
    0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 25.0, 50.0,
    100.0, 250.0, 500.0, 1_000.0,
];

/// Upper ends of the buckets of skews: 1 is an even stage.
const SKEWS: [f64; 11] = [1.0, 1.1, 1.25, 1.5, 2.0, 3.0, 5.0, 10.0, 20.0, 50.0, 100.0];

pub(super) const BOUNDARY_KIND: &str = "flightpath.boundary.kind";
pub(super) const ERROR_TYPE: &str = "error.type";
pub(super) const EXCHANGE_LOCAL: &str = "flightpath.exchange.local";
pub(super) const IO_DIRECTION: &str = "network.io.direction";
pub(super) const OPERATOR: &str = "datafusion.operator";
pub(super) const TASK_STATUS: &str = "flightpath.task.status";

/// See [`MetricsHooks`](super::MetricsHooks) for who records what.
#[derive(Clone, Debug)]
pub(super) struct Instruments {
    pub(super) query_duration: Histogram<f64>,
    pub(super) query_retries: Counter<u64>,
    pub(super) stage_duration: Histogram<f64>,
    pub(super) stage_skew: Histogram<f64>,
    pub(super) task_duration: Histogram<f64>,
    pub(super) task_active: UpDownCounter<i64>,
    pub(super) exchange_io: Counter<u64>,
    pub(super) exchange_wait: Histogram<f64>,
    pub(super) operator_rows: Counter<u64>,
    pub(super) operator_time: Counter<f64>,
    pub(super) operator_spill: Counter<u64>,
    pub(super) metrics_missing: Counter<u64>,
}

impl Instruments {
    pub(super) fn new(meter: &Meter) -> Self {
        let duration = |name: &'static str, description: &'static str| {
            meter
                .f64_histogram(name)
                .with_description(description)
                .with_unit("s")
                .with_boundaries(DURATIONS.to_vec())
                .build()
        };
        let counter = |name: &'static str, unit: &'static str, description: &'static str| {
            meter
                .u64_counter(name)
                .with_description(description)
                .with_unit(unit)
                .build()
        };
        Self {
            query_duration: duration(
                "flightpath.query.duration",
                "Executions of distributed plans, from first poll to end",
            ),
            query_retries: counter(
                "flightpath.query.retries",
                "{retry}",
                "Executions that were stopped and run once more",
            ),
            stage_duration: duration(
                "flightpath.stage.duration",
                "Stages, from dispatch to the report of the last task",
            ),
            stage_skew: meter
                .f64_histogram("flightpath.stage.skew")
                .with_description("Slowest task of a stage over the median, of two tasks or more")
                .with_unit("1")
                .with_boundaries(SKEWS.to_vec())
                .build(),
            task_duration: duration(
                "flightpath.task.duration",
                "Tasks, from the first reader to the end",
            ),
            task_active: meter
                .i64_up_down_counter("flightpath.task.active")
                .with_description("Tasks that run now")
                .with_unit("{task}")
                .build(),
            exchange_io: counter(
                "flightpath.exchange.io",
                "By",
                "Bytes of rows between tasks: as encoded, or what they weigh within a worker",
            ),
            exchange_wait: duration(
                "flightpath.exchange.wait",
                "Time that a partition of a boundary was blocked on its producers",
            ),
            operator_rows: counter(
                "flightpath.operator.rows",
                "{row}",
                "Rows put out by operators",
            ),
            operator_time: meter
                .f64_counter("flightpath.operator.time")
                .with_description("Time that operators computed")
                .with_unit("s")
                .build(),
            operator_spill: counter(
                "flightpath.operator.spill",
                "By",
                "Bytes that operators wrote to disk for want of memory",
            ),
            metrics_missing: counter(
                "flightpath.metrics.missing",
                "{task}",
                "Tasks whose report did not come",
            ),
        }
    }
}

pub(super) fn boundary_kind(kind: flightpath_core::BoundaryKind) -> KeyValue {
    KeyValue::new(BOUNDARY_KIND, kind.as_str())
}
