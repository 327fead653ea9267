//! The span of one node, over all of its partitions.

use std::sync::{Arc, OnceLock, Weak};

use datafusion::common::{DataFusionError, Result};
use datafusion::execution::SendableRecordBatchStream;
use datafusion::physical_plan::metrics::{MetricValue, MetricsSet};
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties};
use flightpath_core::{NetworkBoundaryExec, NetworkBoundaryExt, is_cancellation, own_metrics};
use parking_lot::Mutex;
use tracing::Span;
use tracing_opentelemetry::OpenTelemetrySpanExt;

use super::links::{Links, as_i64};
use crate::outcome;

/// The span of one node in one task.
pub(super) struct OperatorSpan {
    partitions: usize,
    links: Arc<Links>,
    /// Held while the span is opened, which must happen once.
    opening: Mutex<()>,
    state: Mutex<State>,
    /// Of the topmost node of a plan: the spans of all nodes, inputs before those that read them.
    plan: OnceLock<Vec<Weak<OperatorSpan>>>,
}

#[derive(Default)]
struct State {
    /// In which span the node was first run: all of its partitions are run in it, from wherever
    /// they are asked for.
    parent: Option<Span>,
    open: Option<Open>,
    done: usize,
}

/// While the span is open.
struct Open {
    span: Span,
    node: Arc<dyn ExecutionPlan>,
    failed: bool,
    /// While this stream is alive, `InstrumentedExec` opens no second span.
    keeper: Option<SendableRecordBatchStream>,
}

impl OperatorSpan {
    pub(super) fn new(node: &Arc<dyn ExecutionPlan>, links: Arc<Links>) -> Self {
        Self {
            partitions: node.output_partitioning().partition_count(),
            links,
            opening: Mutex::default(),
            state: Mutex::default(),
            plan: OnceLock::new(),
        }
    }

    /// Has these spans end with this one, since nobody asks for more of their nodes then.
    pub(super) fn ends(&self, plan: &[Arc<OperatorSpan>]) {
        self.plan
            .get_or_init(|| plan.iter().map(Arc::downgrade).collect());
    }

    /// Opens the span, if it is not open, by running the stream that keeps it. Returns the span in
    /// which the node is to be run.
    pub(super) fn keep(
        &self,
        run: impl FnOnce() -> Result<SendableRecordBatchStream>,
    ) -> Result<Span> {
        let _opening = self.opening.lock();
        let parent = {
            let mut state = self.state.lock();
            let open = state.open.is_some();
            let parent = state.parent.get_or_insert_with(Span::current).clone();
            if open {
                return Ok(parent);
            }
            parent
        };
        // `run` comes back to `entered`.
        let keeper = parent.in_scope(run)?;
        if let Some(open) = &mut self.state.lock().open {
            open.keeper.get_or_insert(keeper);
        }
        Ok(parent)
    }

    /// Called inside the operator's span.
    pub(super) fn entered(&self, span: Span, node: &Arc<dyn ExecutionPlan>) {
        if let Some(boundary) = node.as_network_boundary() {
            self.links.begin(&span);
            describe_boundary(&span, boundary);
        }
        self.state.lock().open.get_or_insert(Open {
            span,
            node: Arc::clone(node),
            failed: false,
            keeper: None,
        });
    }

    /// An error arose in the node, or went through it.
    pub(super) fn failed(&self, error: &DataFusionError) {
        if is_cancellation(error) {
            return;
        }
        let mut state = self.state.lock();
        let Some(open) = &mut state.open else { return };
        if !std::mem::replace(&mut open.failed, true) {
            outcome::failed(&open.span, error);
        }
    }

    /// A partition has been read to its end, or left.
    pub(super) fn partition_done(&self) {
        {
            let mut state = self.state.lock();
            state.done += 1;
            if state.done < self.partitions {
                return;
            }
        }
        for span in self.plan.get().into_iter().flatten() {
            if let Some(span) = span.upgrade() {
                span.end();
            }
        }
        self.end();
    }

    /// Should the node run again, that is another execution.
    fn end(&self) {
        let open = std::mem::take(&mut *self.state.lock()).open;
        self.close(open);
    }

    fn close(&self, open: Option<Open>) {
        let Some(open) = open else { return };
        let partitions = as_i64(self.partitions);
        open.span.set_attribute("datafusion.partitions", partitions);
        let metrics = own_metrics(&open.node).unwrap_or_default();
        let boundary = open.node.as_network_boundary().is_some();
        record_metrics(&open.span, &metrics, boundary);
        self.links.end(&open.span);
    }
}

impl Drop for OperatorSpan {
    /// The plan is gone, and some of its partitions were never asked for.
    fn drop(&mut self) {
        let open = self.state.get_mut().open.take();
        self.close(open);
    }
}

fn describe_boundary(span: &Span, boundary: &NetworkBoundaryExec) {
    let kind = boundary.boundary().kind().as_str();
    span.set_attribute("flightpath.boundary.kind", kind);
    let input = as_i64(boundary.stage_id());
    span.set_attribute("flightpath.boundary.input_stage", input);
}

/// Puts a node's metrics on its span, as numbers: counts, bytes, nanoseconds, summed over its
/// partitions. Ratios and the like have no one number, and are left to metric reports.
fn record_metrics(span: &Span, metrics: &MetricsSet, boundary: bool) {
    for metric in metrics.aggregate_by_name().iter() {
        let Some(number) = number(metric.value()) else {
            continue;
        };
        let name = metric.value().name();
        span.set_attribute(format!("datafusion.metrics.{name}"), number);
        if !boundary {
            continue;
        }
        match name {
            "exchange_bytes" => span.set_attribute("flightpath.exchange.bytes", number),
            "output_rows" => span.set_attribute("flightpath.exchange.rows", number),
            "exchange_wait" => span.set_attribute("flightpath.exchange.wait_ns", number),
            _ => {}
        }
    }
}

fn number(value: &MetricValue) -> Option<i64> {
    match value {
        MetricValue::StartTimestamp(at) | MetricValue::EndTimestamp(at) => {
            at.value().and_then(|at| at.timestamp_nanos_opt())
        }
        MetricValue::PruningMetrics { .. } | MetricValue::Ratio { .. } => None,
        MetricValue::Custom { .. } => None,
        counted => Some(as_i64(counted.as_usize())),
    }
}
