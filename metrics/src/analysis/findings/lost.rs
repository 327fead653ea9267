//! Queries that failed, and tasks of which nothing is known.

use std::collections::BTreeMap;

use super::{Finding, FindingKind};
use crate::numbers::plural;
use crate::profile::{QueryProfile, TaskProfile, TaskState};

/// One finding for each worker of which reports are missing, or do not fit the plan.
pub(super) fn missing(profile: &QueryProfile) -> Vec<Finding> {
    let mut of_worker: BTreeMap<(&str, &str), Vec<&TaskProfile>> = BTreeMap::new();
    for task in profile.missing() {
        let reason = task.error.as_deref().unwrap_or("nothing is known of it");
        of_worker
            .entry((&task.worker, reason))
            .or_default()
            .push(task);
    }
    for task in profile
        .tasks
        .iter()
        .filter(|task| !task.unmatched.is_empty())
    {
        let reason = "the report was of other operators than those of the stage";
        of_worker
            .entry((&task.worker, reason))
            .or_default()
            .push(task);
    }
    let findings = of_worker.into_iter().map(|((worker, reason), tasks)| {
        // If the query failed for this, it is the cause; else some numbers are lacking.
        let cause = (profile.error.as_deref()).is_some_and(|error| error.contains(worker));
        let names: Vec<String> = tasks.iter().take(NAMED).map(ToString::to_string).collect();
        let more = tasks.len().saturating_sub(NAMED);
        let more = if more > 0 {
            format!(" and {more} more")
        } else {
            String::new()
        };
        let text = format!(
            "No report of {} on {worker} ({}{more}): {reason}. What they did is in no number here.",
            plural(tasks.len(), "task"),
            names.join(", "),
        );
        Finding {
            stage: tasks.first().map(|task| task.stage),
            task: tasks.first().map(|task| task.task),
            worker: Some(worker.to_owned()),
            ..Finding::new(FindingKind::Missing, if cause { 1.0 } else { BESIDE }, text)
        }
    });
    findings.collect()
}

/// Tasks that a finding names one by one: as many as fit into a line.
const NAMED: usize = 5;

/// Weight of reports that are missing from a query that they did not fail: below a failure, above
/// all that is told by numbers, since those may be incomplete.
const BESIDE: f64 = 0.999;

/// Why the query failed.
pub(super) fn failure(profile: &QueryProfile) -> Option<Finding> {
    let error = profile.error.as_deref()?;
    let failed: Vec<&TaskProfile> = profile
        .tasks
        .iter()
        .filter(|task| task.status == TaskState::Failed)
        .collect();
    // Who reads from a task that failed fails of the same, and may be the first to report.
    let passed_on = |task: &TaskProfile| {
        let stage = profile.stages.iter().find(|stage| stage.id == task.stage);
        let mut read = stage.iter().flat_map(|stage| &stage.nodes);
        read.any(|node| failed.iter().any(|task| node.reads == Some(task.stage)))
    };
    let arose = failed.iter().filter(|task| !passed_on(task));
    let first = arose.copied().min_by_key(|task| task.reported_ns);
    let kind = profile.error_kind.as_deref().unwrap_or("error");
    // What an error adds on its way says where it arose; below that is what went wrong.
    let layers = error
        .split("\ncaused by\n")
        .map(|layer| layer.lines().next().unwrap_or_default());
    let text = match first {
        Some(task) => format!(
            "The query failed in task {task} on {} ({kind}): {}",
            task.worker,
            layers.last().unwrap_or_default()
        ),
        None => format!(
            "The query failed ({kind}): {}",
            layers.collect::<Vec<_>>().join(": ")
        ),
    };
    Some(Finding {
        stage: first.map(|task| task.stage),
        task: first.map(|task| task.task),
        worker: first.map(|task| task.worker.clone()),
        ..Finding::new(FindingKind::Failure, 1.0, text)
    })
}
