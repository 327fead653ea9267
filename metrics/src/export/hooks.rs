//! Measures queries as they run.

use std::sync::Arc;

use datafusion::common::DataFusionError;
use datafusion::execution::runtime_env::RuntimeEnv;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::metrics::MetricValue;
use flightpath_core::{
    BoundaryKind, ClientLeft, Hooks, NetworkBoundaryExt, NodeReport, QueryId, Stage, TaskKey,
    TaskReport, Transfer, kind_of,
};
use opentelemetry::KeyValue;
use opentelemetry::metrics::Meter;

use super::instruments::{
    ERROR_TYPE, EXCHANGE_LOCAL, IO_DIRECTION, Instruments, TASK_STATUS, boundary_kind,
};
use super::memory::Pools;
use super::operators::Operators;
use super::queries::Queries;

/// What boundaries call the time for which a partition of theirs was blocked on producers.
const EXCHANGE_WAIT: &str = "exchange_wait";

/// Records the instruments of Flightpath through the metrics API of OpenTelemetry.
///
/// One can serve a coordinator and its workers in one process, and nothing counts twice:
///
/// | instrument | kind, unit | attributes | recorded by |
/// |---|---|---|---|
/// | `flightpath.query.duration` | histogram, s | `error.type` | coordinator |
/// | `flightpath.query.retries` | counter, {retry} | `error.type` | coordinator |
/// | `flightpath.stage.duration` | histogram, s | `flightpath.boundary.kind` | coordinator |
/// | `flightpath.stage.skew` | histogram, 1 | `flightpath.boundary.kind` | coordinator |
/// | `flightpath.metrics.missing` | counter, {task} | `error.type` | coordinator |
/// | `flightpath.task.duration` | histogram, s | `flightpath.task.status` | worker |
/// | `flightpath.task.active` | up-down counter, {task} | | worker |
/// | `flightpath.exchange.wait` | histogram, s | `flightpath.boundary.kind` | worker |
/// | `flightpath.operator.rows` | counter, {row} | `datafusion.operator` | worker |
/// | `flightpath.operator.time` | counter, s | `datafusion.operator` | worker |
/// | `flightpath.operator.spill` | counter, By | `datafusion.operator` | worker |
/// | `flightpath.memory.reserved` | up-down counter, By | | worker |
/// | `flightpath.exchange.io` | counter, By | `network.io.direction`, `flightpath.boundary.kind`, `flightpath.exchange.local` | each at its end |
///
/// `error.type` is the kind of the [`DataFusionError`], `cancelled` where the client stopped
/// reading, and `timeout` for reports that did not come in time although the query went well; a
/// query without errors has none. A stage whose tasks have not all reported has neither duration
/// nor skew, and one of which fewer than two tasks ran has no skew.
///
/// All attributes are bounded. Of operators, the first hundred names are told apart, and what
/// comes later is `other`.
#[derive(Debug)]
pub struct MetricsHooks {
    instruments: Instruments,
    operators: Operators,
    pools: Pools,
    queries: Queries,
}

impl MetricsHooks {
    /// Records with this meter. One is enough for a process; several of one meter would each
    /// observe memory on their own, and the last would win.
    pub fn new(meter: &Meter) -> Self {
        Self {
            instruments: Instruments::new(meter),
            operators: Operators::default(),
            pools: Pools::observed(meter),
            queries: Queries::default(),
        }
    }

    fn node(&self, node: &NodeReport, boundary: Option<BoundaryKind>) {
        let instruments = &self.instruments;
        let operator = [self.operators.attribute(&node.name)];
        if let Some(rows) = node.metrics.output_rows() {
            instruments.operator_rows.add(rows as u64, &operator);
        }
        if let Some(nanos) = node.metrics.elapsed_compute() {
            instruments.operator_time.add(nanos as f64 / 1e9, &operator);
        }
        if let Some(bytes) = node.metrics.spilled_bytes() {
            instruments.operator_spill.add(bytes as u64, &operator);
        }
        let Some(kind) = boundary else { return };
        for metric in node.metrics.iter() {
            if let MetricValue::Time { name, time } = metric.value()
                && name == EXCHANGE_WAIT
            {
                let seconds = time.value() as f64 / 1e9;
                instruments
                    .exchange_wait
                    .record(seconds, &[boundary_kind(kind)]);
            }
        }
    }
}

impl Hooks for MetricsHooks {
    fn worker_begins(&self, runtime: &Arc<RuntimeEnv>) {
        self.pools.add(&runtime.memory_pool);
    }

    fn query_begins(&self, query: QueryId) {
        self.queries.begin(query);
    }

    fn query_retries(&self, query: QueryId, error: &DataFusionError) {
        self.queries.retry(query);
        self.instruments.query_retries.add(1, &[error_type(error)]);
    }

    fn query_ends(&self, query: QueryId, result: Result<(), &DataFusionError>) {
        let Some(ended) = self.queries.end(query) else {
            return;
        };
        let error = result.err().map(error_type);
        let seconds = ended.duration.as_secs_f64();
        self.instruments
            .query_duration
            .record(seconds, error.as_slice());
        if ended.missing > 0 {
            let reason = error.unwrap_or_else(|| KeyValue::new(ERROR_TYPE, "timeout"));
            self.instruments
                .metrics_missing
                .add(ended.missing as u64, &[reason]);
        }
    }

    fn stage_begins(&self, query: QueryId, stage: &Stage, kind: BoundaryKind) {
        self.queries.begin_stage(query, stage.id, stage.tasks, kind);
    }

    fn task_reports(&self, report: &TaskReport) {
        let Some(stage) = self.queries.report(report) else {
            return;
        };
        let kind = [boundary_kind(stage.kind)];
        let seconds = stage.duration.as_secs_f64();
        self.instruments.stage_duration.record(seconds, &kind);
        if let Some(skew) = stage.skew {
            self.instruments.stage_skew.record(skew, &kind);
        }
    }

    fn task_begins(&self, _task: &TaskKey) {
        self.instruments.task_active.add(1, &[]);
    }

    fn task_ends(&self, report: &TaskReport, plan: &Arc<dyn ExecutionPlan>) {
        if report.started.is_some() {
            self.instruments.task_active.add(-1, &[]);
        }
        let status = KeyValue::new(TASK_STATUS, report.status.as_str());
        let seconds = report.duration.as_secs_f64();
        self.instruments.task_duration.record(seconds, &[status]);
        for (node, boundary) in report.nodes.iter().zip(boundaries(plan)) {
            self.node(node, boundary);
        }
    }

    fn transferred(&self, transfer: &Transfer) {
        let attributes = [
            KeyValue::new(IO_DIRECTION, transfer.direction.as_str()),
            boundary_kind(transfer.kind),
            KeyValue::new(EXCHANGE_LOCAL, transfer.local),
        ];
        self.instruments
            .exchange_io
            .add(transfer.bytes as u64, &attributes);
    }
}

/// Which nodes of a task's plan are boundaries, in the order in which tasks report nodes.
fn boundaries(plan: &Arc<dyn ExecutionPlan>) -> Vec<Option<BoundaryKind>> {
    let mut kinds = vec![];
    let mut pending = vec![plan];
    while let Some(node) = pending.pop() {
        let boundary = node.as_network_boundary();
        kinds.push(boundary.map(|boundary| boundary.boundary().kind()));
        pending.extend(node.children().into_iter().rev());
    }
    kinds
}

fn error_type(error: &DataFusionError) -> KeyValue {
    let left = match error.find_root() {
        DataFusionError::External(error) => error.is::<ClientLeft>(),
        _ => false,
    };
    KeyValue::new(ERROR_TYPE, if left { "cancelled" } else { kind_of(error) })
}
