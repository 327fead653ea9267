//! What goes in comes out, and nothing takes longer than the whole.

use super::model::{QueryProfile, QueryStatus, TaskState};

/// By how much two machines' monotonic clocks may run apart while a task runs: far more than the
/// rates of clocks differ.
const CLOCK_RATES: f64 = 0.01;

/// What rounding and the order of two readings of a clock may make of it.
const CLOCK_GRAIN_NS: u64 = 1_000_000;

impl QueryProfile {
    pub(super) fn check_times(&self, faults: &mut Vec<String>) {
        for task in &self.tasks {
            let (Some(dispatched), Some(reported)) = (task.dispatched_ns, task.reported_ns) else {
                continue;
            };
            let known = reported.saturating_sub(dispatched);
            let apart = (known as f64 * CLOCK_RATES) as u64;
            let allowed = known.saturating_add(apart).saturating_add(CLOCK_GRAIN_NS);
            if task.duration_ns > allowed {
                faults.push(format!(
                    "task {task} ran for {} ns, and its report came {known} ns after it was sent",
                    task.duration_ns
                ));
            }
        }
    }

    /// What came to its end on both sides: nothing was read that was not sent. Less may have been, where a reader had
    /// its fill: a limit, say, or a join with nothing on one side.
    pub(super) fn check_conserved(&self, faults: &mut Vec<String>) {
        if self.status != QueryStatus::Finished {
            return;
        }
        let whole = |stage: usize| {
            let mut tasks = self.tasks_of(stage);
            tasks.all(|task| task.status == TaskState::Finished && task.unmatched.is_empty())
        };
        for passed in self.exchanged() {
            let reads = |stage: usize| {
                let stage = self.stage(stage);
                stage.is_some_and(|stage| stage.reads().any(|read| read == passed.stage))
            };
            let mut readers = self.stages.iter().map(|stage| stage.id);
            let both = whole(passed.stage)
                && self.tasks_of(passed.stage).next().is_some()
                && readers.all(|reader| !reads(reader) || whole(reader));
            if !both {
                continue;
            }
            let sent = (passed.sent_rows, passed.sent_bytes);
            let read = (passed.read_rows, passed.read_bytes);
            if read.0 > sent.0 || read.1 > sent.1 {
                faults.push(format!(
                    "stage {} sent {} rows in {} bytes, and its readers had {} rows in {} bytes",
                    passed.stage, sent.0, sent.1, read.0, read.1
                ));
            }
        }
    }
}
