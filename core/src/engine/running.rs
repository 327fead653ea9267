//! A stage while its tasks run.

use std::time::Duration;

use tracing::Span;
use tracing::field::Empty;

use crate::model::boundary::BoundaryKind;
use crate::model::outcome::{number, record_failure};
use crate::model::report::{TaskReport, TaskStatus};
use crate::model::stage::{QueryId, Stage};
use crate::model::summary::median;

/// What `error.type` is where nothing more is known.
const OTHER: &str = "_OTHER";

/// A stage that has been dispatched.
#[derive(Debug)]
pub(crate) struct Running {
    pub(crate) tasks: usize,
    reported: usize,
    /// Of the tasks that ran, and which they are.
    durations: Vec<(Duration, usize)>,
    rows: u64,
    bytes: u64,
    failed: bool,
    /// Open until the last task has reported.
    pub(crate) span: Option<Span>,
}

impl Running {
    pub(crate) fn new(tasks: usize, span: Span) -> Self {
        Self {
            tasks,
            reported: 0,
            durations: vec![],
            rows: 0,
            bytes: 0,
            failed: false,
            span: Some(span),
        }
    }

    /// A task failed. The first failure is what its span shows.
    pub(crate) fn failed(&mut self, kind: &str, message: &str) {
        if let (false, Some(span)) = (self.failed, &self.span) {
            record_failure(span, kind, message);
            self.failed = true;
        }
    }

    /// Takes the report of a task in; with the last one the stage's span ends.
    pub(crate) fn reported(&mut self, report: &TaskReport) {
        self.reported += 1;
        // Tasks that nobody read from took no time, which says nothing about those that ran.
        if report.started.is_some() {
            self.durations.push((report.duration, report.key.task));
        }
        self.rows += report.output_rows;
        self.bytes += report.output_bytes;
        if report.status == TaskStatus::Failed {
            let kind = report.error_kind.as_deref().unwrap_or(OTHER);
            self.failed(kind, report.error.as_deref().unwrap_or("a task failed"));
        }
        if self.reported >= self.tasks {
            self.end();
        }
    }

    /// Says what is known, and ends the span.
    pub(crate) fn end(&mut self) {
        let Some(span) = self.span.take() else { return };
        span.record("flightpath.stage.output_rows", number(self.rows));
        span.record("flightpath.stage.output_bytes", number(self.bytes));
        self.durations.sort_unstable();
        if let (Some((least, _)), Some((most, slowest))) =
            (self.durations.first(), self.durations.last())
        {
            let median = median(self.durations.len(), |task| self.durations[task].0);
            let seconds = |name: &str, duration: Duration| {
                span.record(name, duration.as_secs_f64());
            };
            seconds("flightpath.stage.task_duration.min", *least);
            seconds("flightpath.stage.task_duration.median", median);
            seconds("flightpath.stage.task_duration.max", *most);
            span.record("flightpath.stage.slowest_task", number(*slowest));
        }
        // A span ends when it is left for the last time.
        span.in_scope(|| {});
    }
}

/// Opens the span of a stage, in that of its query.
pub(crate) fn stage_span(query: &Span, id: QueryId, stage: &Stage, kind: BoundaryKind) -> Span {
    let span = tracing::info_span!(
        parent: query,
        "stage",
        otel.name = Empty,
        flightpath.query.id = Empty,
        flightpath.stage.id = number(stage.id),
        flightpath.stage.task_count = number(stage.tasks),
        flightpath.boundary.kind = kind.as_str(),
        flightpath.stage.output_rows = Empty,
        flightpath.stage.output_bytes = Empty,
        flightpath.stage.task_duration.min = Empty,
        flightpath.stage.task_duration.median = Empty,
        flightpath.stage.task_duration.max = Empty,
        flightpath.stage.slowest_task = Empty,
        "error.type" = Empty,
        otel.status_code = Empty,
        otel.status_description = Empty,
    );
    if !span.is_disabled() {
        span.record("otel.name", format!("stage {}", stage.id));
        span.record("flightpath.query.id", tracing::field::display(id));
    }
    span
}
