//! Where the reports about one plan node come together.

use std::collections::BTreeMap;
use std::sync::Arc;

use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::metrics::MetricsSet;
use parking_lot::Mutex;

use super::metric_codec::settle_kinds;
use super::stage::{QueryId, TaskKey};

/// What the latest execution measured of one plan node: what its tasks reported, or what the copy of it measures
/// that runs on the coordinator.
///
/// A handle: clones share the same reports. A plan may run twice, even twice at once; the execution
/// that began last is the one that is kept, and late reports of an earlier one are ignored.
#[derive(Clone, Debug, Default)]
pub struct MetricsSlot(Arc<Mutex<Reports>>);

#[derive(Debug, Default)]
struct Reports {
    query_id: Option<QueryId>,
    /// The node that runs in this process.
    running: Option<Arc<dyn ExecutionPlan>>,
    /// By stage and task: that of the latest attempt.
    tasks: BTreeMap<(usize, usize), (u32, MetricsSet)>,
}

impl MetricsSlot {
    /// A slot without reports.
    pub fn new() -> Self {
        Self::default()
    }

    /// Forgets earlier executions; does nothing if this one, or a later one, has begun already.
    pub fn begin(&self, query_id: QueryId) {
        self.0.lock().begin(query_id);
    }

    /// Keeps what a task reported, in place of what this task, or an earlier attempt at it,
    /// reported before.
    pub fn record(&self, key: TaskKey, metrics: MetricsSet) {
        let mut reports = self.0.lock();
        if !reports.begin(key.query_id) {
            return;
        }
        let latest = reports.tasks.entry((key.stage, key.task)).or_default();
        if key.attempt >= latest.0 {
            *latest = (key.attempt, metrics);
        }
    }

    /// Shows what this node measures, which an execution runs in this process, as long as no task reports.
    pub fn run(&self, query_id: QueryId, node: Arc<dyn ExecutionPlan>) {
        let mut reports = self.0.lock();
        if reports.begin(query_id) {
            reports.running = Some(node);
        }
    }

    /// The metrics of all tasks, in the order of the tasks, or those of the node that runs here; `None` as long as
    /// none has reported and none runs.
    pub fn metrics(&self) -> Option<MetricsSet> {
        let reports = self.0.lock();
        if reports.tasks.is_empty() {
            let running = reports.running.clone();
            drop(reports);
            return running?.metrics();
        }
        let all = reports
            .tasks
            .values()
            .flat_map(|(_, metrics)| metrics.iter().cloned());
        Some(settle_kinds(all.collect()))
    }
}

impl Reports {
    /// Whether `query_id` is now the execution that is kept.
    fn begin(&mut self, query_id: QueryId) -> bool {
        if self.query_id < Some(query_id) {
            *self = Self {
                query_id: Some(query_id),
                ..Self::default()
            };
        }
        self.query_id == Some(query_id)
    }
}

#[cfg(test)]
#[path = "slot_tests.rs"]
mod tests;
