//! A plan as text, one box for each stage.

use std::fmt;
use std::sync::Arc;

use datafusion::physical_plan::ExecutionPlan;

use super::metric_codec::settle_kinds;
use super::report::TaskReport;
use super::reports::QueryReports;
use super::staged::{BoundaryDetector, NetworkBoundaries, StageView, StagedPlan, one_line};

/// Shows the stages of a plan, each once, in a box with its nodes: first what runs on the
/// coordinator, then the others, each below those that read it.
///
/// ```text
/// ┌─ Coordinator ────────────────────────────┐
/// │ SortPreservingMergeExec: [a@0 ASC]       │
/// │   NetworkCoalesceExec: stage=1, tasks=4  │
/// └──────────────────────────────────────────┘
/// ┌─ Stage 1 · 4 tasks · coalesce ───────────┐
/// │ SortExec: expr=[a@0 ASC]                 │
/// │   DataSourceExec: file_groups={...}      │
/// └──────────────────────────────────────────┘
/// ```
pub fn display_stages(plan: &Arc<dyn ExecutionPlan>) -> StageDisplay<'_> {
    StageDisplay {
        plan,
        detector: &NetworkBoundaries,
        reports: None,
        metrics: false,
        width: usize::MAX,
    }
}

/// What [`display_stages`] shows; the methods add to it.
#[derive(Clone, Copy)]
pub struct StageDisplay<'a> {
    plan: &'a Arc<dyn ExecutionPlan>,
    detector: &'a dyn BoundaryDetector,
    reports: Option<&'a QueryReports>,
    metrics: bool,
    width: usize,
}

impl<'a> StageDisplay<'a> {
    /// Knows boundaries of other crates, too.
    pub fn with_detector(mut self, detector: &'a dyn BoundaryDetector) -> Self {
        self.detector = detector;
        self
    }

    /// Lists the tasks of each stage: how each ended and where.
    pub fn with_reports(mut self, reports: &'a QueryReports) -> Self {
        self.reports = Some(reports);
        self
    }

    /// Shows metrics of nodes, merged over tasks and partitions: those of the reports if there are
    /// [some](Self::with_reports), else those of the plan.
    pub fn with_metrics(mut self) -> Self {
        self.metrics = true;
        self
    }

    /// Cuts off what does not fit into so many columns.
    pub fn with_max_width(mut self, columns: usize) -> Self {
        self.width = columns;
        self
    }

    fn node_lines(&self, stage: &StageView) -> Vec<String> {
        let reported: Option<Vec<_>> = self.reports.map(|reports| {
            let tasks = (0..stage.tasks).filter_map(|task| reports.report(stage.id, task));
            tasks.filter(|report| stage.matches(report)).collect()
        });
        let lines = stage.nodes.iter().enumerate().map(|(index, node)| {
            let indent = "  ".repeat(node.depth);
            let shown = format!("{indent}{}", one_line(&node.plan));
            let metrics = match &reported {
                _ if !self.metrics => None,
                Some(reported) if !stage.is_coordinator() => {
                    let nodes = reported.iter().map(|report| &report.nodes[index]);
                    let all = nodes.flat_map(|node| node.metrics.iter().cloned());
                    Some(settle_kinds(all.collect()))
                }
                _ => node.plan.metrics(),
            };
            let metrics = metrics.map(|metrics| {
                let merged = metrics.aggregate_by_name();
                merged.sorted_for_display().timestamps_removed().to_string()
            });
            match metrics {
                Some(metrics) if !metrics.is_empty() => format!("{shown}, metrics=[{metrics}]"),
                _ => shown,
            }
        });
        lines.collect()
    }

    fn task_lines(&self, stage: &StageView) -> Vec<String> {
        let Some(reports) = self.reports else {
            return Vec::new();
        };
        let missing = reports.missing();
        let lines = (0..stage.tasks).map(|task| {
            let name = format!("{}.{task}", stage.id);
            if let Some(report) = reports.report(stage.id, task) {
                return format!("{name} · {}", ended(&report));
            }
            let known = missing.iter().rev();
            let mut known = known.filter(|m| (m.key.stage, m.key.task) == (stage.id, task));
            match known.next() {
                Some(missing) => {
                    format!("{name} · missing · {} · {}", missing.worker, missing.reason)
                }
                None => format!("{name} · not planned yet"),
            }
        });
        lines.collect()
    }

    fn fmt_box(&self, stage: &StageView, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let inside = self.width.saturating_sub(4);
        let title = truncated(&title(stage), inside.saturating_sub(2));
        let cut = |lines: Vec<String>| -> Vec<String> {
            lines.iter().map(|line| truncated(line, inside)).collect()
        };
        let nodes = cut(self.node_lines(stage));
        let tasks = cut(self.task_lines(stage));
        let columns = nodes.iter().chain(&tasks).map(|line| line.chars().count());
        let columns = columns.max().unwrap_or(0).max(title.chars().count() + 2);

        let rule = "─".repeat(columns - title.chars().count() - 1);
        writeln!(f, "┌─ {title} {rule}┐")?;
        for line in &nodes {
            writeln!(f, "│ {line:columns$} │")?;
        }
        if !tasks.is_empty() {
            writeln!(f, "├{}┤", "─".repeat(columns + 2))?;
        }
        for line in &tasks {
            writeln!(f, "│ {line:columns$} │")?;
        }
        writeln!(f, "└{}┘", "─".repeat(columns + 2))
    }
}

impl fmt::Display for StageDisplay<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match StagedPlan::with_detector(self.plan, self.detector) {
            Ok(staged) => (staged.stages().iter()).try_for_each(|stage| self.fmt_box(stage, f)),
            // Failing here would make `to_string` panic.
            Err(error) => writeln!(f, "this plan has no stages to show: {error}"),
        }
    }
}

impl fmt::Debug for StageDisplay<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

fn title(stage: &StageView) -> String {
    match &stage.boundary {
        None => "Coordinator".to_owned(),
        Some(boundary) => {
            let tasks = if stage.tasks == 1 { "task" } else { "tasks" };
            let kind = boundary.kind.as_str();
            format!("Stage {} · {} {tasks} · {kind}", stage.id, stage.tasks)
        }
    }
}

/// How a task ended, where, and what came out of it.
fn ended(report: &TaskReport) -> String {
    let mut line = format!(
        "{} · {} rows · {:.1?} · {}",
        report.status, report.output_rows, report.duration, report.worker
    );
    if let Some(first) = report.error.as_ref().and_then(|error| error.lines().next()) {
        line += " · ";
        line += first;
    }
    line
}

fn truncated(line: &str, columns: usize) -> String {
    if line.chars().count() <= columns {
        return line.to_owned();
    }
    let kept = line.chars().take(columns.saturating_sub(1));
    kept.chain(['…']).collect()
}
