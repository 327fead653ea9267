//! How far a query is, while it runs.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use datafusion::physical_plan::ExecutionPlan;
use flightpath_core::{DistributedExec, QueryReports};
use futures::{Stream, stream};

use crate::profile::distributed;

/// How far a query was at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Progress {
    /// Since the query began, or from its beginning to its end.
    pub elapsed: Duration,
    /// Whether it has ended, in whatever way.
    pub ended: bool,
    /// Rows that it has put out.
    pub output_rows: u64,
    /// The stages that have been sent to workers, from the lowest id.
    pub stages: Vec<StageProgress>,
}

/// How far a stage was at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct StageProgress {
    /// Its id.
    pub stage: usize,
    /// Its tasks.
    pub tasks: usize,
    /// How many of them have reported, or will not report any more.
    pub done: usize,
    /// Rows that had left its tasks when they were last heard of.
    pub output_rows: u64,
    /// Bytes that had left its tasks when they were last heard of.
    pub output_bytes: u64,
}

impl Progress {
    /// What an execution has come to so far.
    pub fn of(reports: &QueryReports) -> Self {
        // First, so that the tasks of an ended query are all done.
        let ended = reports.outcome().is_some();
        let mut stages: BTreeMap<usize, StageProgress> = BTreeMap::new();
        for task in reports.tasks() {
            let stage = stages.entry(task.key.stage).or_insert(StageProgress {
                stage: task.key.stage,
                ..StageProgress::default()
            });
            let (rows, bytes) = match (&task.report, task.progress) {
                (Some(report), _) => (report.output_rows, report.output_bytes),
                (None, Some(progress)) => (progress.output_rows, progress.output_bytes),
                (None, None) => (0, 0),
            };
            stage.tasks += 1;
            stage.done += usize::from(ended || task.report.is_some() || task.missing.is_some());
            stage.output_rows += rows;
            stage.output_bytes += bytes;
        }
        Self {
            elapsed: reports.elapsed(),
            ended,
            output_rows: reports.output_rows(),
            stages: stages.into_values().collect(),
        }
    }

    /// Tasks of all stages, and how many of them are done.
    pub fn tasks(&self) -> (usize, usize) {
        let add = |(tasks, done): (usize, usize), stage: &StageProgress| {
            (tasks + stage.tasks, done + stage.done)
        };
        self.stages.iter().fold((0, 0), add)
    }
}

/// Follows the latest execution of a plan: begin to execute it first. `None` if no worker takes part
/// in it.
///
/// The first item comes at once, the others when something has changed, and the last when the query
/// has ended. Who reads slowly sees the latest state and misses some in between.
///
/// ```
/// use std::sync::Arc;
///
/// use datafusion::physical_plan::execute_stream;
/// use futures::{StreamExt, TryStreamExt};
/// # use flightpath_testkit::Cluster;
///
/// # #[tokio::main]
/// # async fn main() -> datafusion::common::Result<()> {
/// # let cluster = Cluster::start(2).await?;
/// # let ctx = cluster.context()?;
/// # ctx.sql("CREATE TABLE t AS SELECT value AS v FROM generate_series(1, 9)").await?;
/// let frame = ctx.sql("SELECT v % 3, count(*) FROM t GROUP BY v % 3").await?;
/// let task = Arc::new(frame.task_ctx());
/// let plan = frame.create_physical_plan().await?;
/// let rows = execute_stream(Arc::clone(&plan), task)?;
/// if let Some(progress) = flightpath_metrics::progress(&plan) {
///     tokio::spawn(progress.for_each(|progress| async move {
///         let (tasks, done) = progress.tasks();
///         eprintln!("{done} of {tasks} tasks are done");
///     }));
/// }
/// let rows: Vec<_> = rows.try_collect().await?;
/// # drop(rows);
/// # cluster.stop().await
/// # }
/// ```
pub fn progress(
    plan: &Arc<dyn ExecutionPlan>,
) -> Option<impl Stream<Item = Progress> + Send + Unpin + use<>> {
    distributed(plan)
        .and_then(DistributedExec::last_query)
        .map(progress_of)
}

/// Follows one execution of a plan, like [`progress`].
pub fn progress_of(reports: Arc<QueryReports>) -> impl Stream<Item = Progress> + Send + Unpin {
    let changes = reports.changes();
    let state = Some((reports, changes, true));
    Box::pin(stream::unfold(state, |state| async move {
        let (reports, mut changes, first) = state?;
        if !first {
            // The sender lives as long as the reports, which are held here.
            changes.changed().await.ok()?;
        }
        let progress = Progress::of(&reports);
        let next = (!progress.ended).then_some((reports, changes, false));
        Some((progress, next))
    }))
}
