//! What each stage of an execution did, in a few numbers.

use std::sync::Arc;
use std::time::Duration;

use datafusion::common::Result;
use datafusion::physical_plan::ExecutionPlan;

use super::boundary::BoundaryKind;
use super::report::TaskReport;
use super::reports::QueryReports;
use super::staged::{StageView, StagedPlan};

/// One stage of one execution. Numbers are of the tasks that have reported.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StageSummary {
    /// Id of the stage.
    pub stage: usize,
    /// Name of the boundary that reads it.
    pub boundary: String,
    /// What that boundary does with rows.
    pub kind: BoundaryKind,
    /// In how many tasks it was planned to run.
    pub tasks: usize,
    /// How many of them have reported.
    pub reported: usize,
    /// Rows that left its tasks.
    pub output_rows: u64,
    /// Bytes that left its tasks.
    pub output_bytes: u64,
    /// Median duration of the tasks that ran; of an even number, the mean of the middle two.
    pub median: Duration,
    /// Duration of the slowest task.
    pub slowest: Duration,
    /// Which task that is; `None` if none ran.
    pub slowest_task: Option<usize>,
    /// URL of the worker that ran the slowest task.
    pub slowest_worker: Option<String>,
}

/// Summaries of the stages that run on workers, sorted by id.
///
/// # Errors
/// If two boundaries name one stage and do not mean the same.
pub fn stage_summaries(
    plan: &Arc<dyn ExecutionPlan>,
    reports: &QueryReports,
) -> Result<Vec<StageSummary>> {
    Ok(StagedPlan::try_new(plan)?.summaries(reports))
}

impl StagedPlan {
    /// See [`stage_summaries`].
    pub fn summaries(&self, reports: &QueryReports) -> Vec<StageSummary> {
        let summaries = self.remote().filter_map(|stage| {
            let tasks = (0..stage.tasks).filter_map(|task| reports.report(stage.id, task));
            summarize(stage, &tasks.collect::<Vec<_>>())
        });
        summaries.collect()
    }
}

fn summarize(stage: &StageView, reports: &[Arc<TaskReport>]) -> Option<StageSummary> {
    let boundary = stage.boundary.as_ref()?;
    // Tasks that nobody read from took no time, which says nothing about those that ran.
    let mut ran: Vec<_> = (reports.iter())
        .filter(|report| report.started.is_some())
        .collect();
    ran.sort_by_key(|report| report.duration);
    let slowest = ran.last();
    let total = |of: fn(&TaskReport) -> u64| {
        let numbers = reports.iter().map(|report| of(report));
        numbers.fold(0, u64::saturating_add)
    };
    Some(StageSummary {
        stage: stage.id,
        boundary: boundary.name.clone(),
        kind: boundary.kind,
        tasks: stage.tasks,
        reported: reports.len(),
        output_rows: total(|report| report.output_rows),
        output_bytes: total(|report| report.output_bytes),
        median: median(ran.len(), |task| ran[task].duration),
        slowest: slowest.map_or(Duration::ZERO, |report| report.duration),
        slowest_task: slowest.map(|report| report.key.task),
        slowest_worker: slowest.map(|report| report.worker.clone()),
    })
}

/// The middle of `count` durations that `sorted` gives in order; of an even number, the mean of the
/// middle two.
pub(crate) fn median(count: usize, sorted: impl Fn(usize) -> Duration) -> Duration {
    match count {
        0 => Duration::ZERO,
        n => (sorted((n - 1) / 2) + sorted(n / 2)) / 2,
    }
}
