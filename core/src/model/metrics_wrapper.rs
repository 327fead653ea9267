//! The wrapper that shows, on a node of the coordinator's plan, what its copies measured that ran.

use std::sync::Arc;

use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::metrics::MetricsSet;

use super::forward::TransparentWrapper;
use super::slot::MetricsSlot;
use super::wrapper::find_layer;

/// A transparent wrapper whose metrics are those of the latest execution of its node: what tasks reported, or what
/// the copy of it measures that runs on the coordinator.
///
/// It is live: its slot fills as tasks report, so anything that reads
/// [`metrics`](ExecutionPlan::metrics) (`EXPLAIN ANALYZE`, `displayable(..)`, a visitor) sees
/// distributed metrics with no special case. As long as there are none, it answers with what the inner node measured;
/// it never mixes the two, because a node that ran here *and* reported would be counted twice.
/// [`own_metrics`] asks a node for its own alone, where several executions of a plan are told apart.
///
/// [`find_layer`] finds it in a plan.
#[derive(Clone, Debug)]
pub struct MetricsWrapperExec {
    inner: Arc<dyn ExecutionPlan>,
    slot: MetricsSlot,
}

impl MetricsWrapperExec {
    /// Wraps a node over the slot that its reports go to.
    pub fn new(inner: Arc<dyn ExecutionPlan>, slot: MetricsSlot) -> Self {
        Self { inner, slot }
    }

    /// The wrapped node.
    pub fn inner(&self) -> &Arc<dyn ExecutionPlan> {
        &self.inner
    }

    /// Where the reports of this node go. Nodes that are made from this one share it.
    pub fn slot(&self) -> &MetricsSlot {
        &self.slot
    }
}

impl TransparentWrapper for MetricsWrapperExec {
    fn inner(&self) -> &Arc<dyn ExecutionPlan> {
        &self.inner
    }

    fn rewrap(&self, inner: Arc<dyn ExecutionPlan>) -> Arc<dyn ExecutionPlan> {
        Arc::new(Self::new(inner, self.slot.clone()))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        self.slot.metrics().or_else(|| self.inner.metrics())
    }
}

crate::transparent_execution_plan!(MetricsWrapperExec);

/// What this node itself measured in this process, whatever copies of it did in other executions.
pub fn own_metrics(node: &Arc<dyn ExecutionPlan>) -> Option<MetricsSet> {
    without_slot(node).metrics()
}

/// The node below its [`MetricsWrapperExec`], if it has one.
pub(crate) fn without_slot(node: &Arc<dyn ExecutionPlan>) -> &Arc<dyn ExecutionPlan> {
    find_layer(node.as_ref()).map_or(node, MetricsWrapperExec::inner)
}

#[cfg(test)]
#[path = "metrics_wrapper_tests.rs"]
mod tests;
