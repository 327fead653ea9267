//! Operators that wrote to disk for lack of memory.

use super::{Finding, FindingKind};
use crate::analysis::tasks::{compute, sum, total};
use crate::numbers::{bytes, plural};
use crate::profile::QueryProfile;
use crate::profile::metric::Metric;

/// Below this, writing costs nothing that anybody notices: a disk takes it in a few milliseconds.
const MIN_BYTES: u64 = 1 << 20;

pub(super) fn spills(profile: &QueryProfile) -> Vec<Finding> {
    let mut findings = Vec::new();
    for stage in &profile.stages {
        for (index, node) in stage.nodes.iter().enumerate() {
            let coordinator = profile.coordinator.get(index).filter(|_| stage.id == 0);
            let tasks = profile
                .tasks_of(stage.id)
                .filter_map(|task| task.nodes.get(index));
            let runs: Vec<&Vec<Metric>> = coordinator.into_iter().chain(tasks).collect();
            let wrote = |metrics: &&&Vec<Metric>| sum(metrics, "spilled_bytes") > 0;
            let spilling: Vec<_> = runs.iter().filter(wrote).collect();
            let spilled = |name: &str| total(spilling.iter().map(|metrics| sum(metrics, name)));
            if spilled("spilled_bytes") < MIN_BYTES {
                continue;
            }
            let longest = spilling.iter().map(|metrics| compute(metrics)).max();
            let longest = longest.unwrap_or(0) as f64;
            let place = match stage.id {
                0 => "on the coordinator".to_owned(),
                id => format!(
                    "in {} of {} of stage {id}",
                    spilling.len(),
                    plural(stage.tasks, "task")
                ),
            };
            let text = format!(
                "{} wrote {} to disk, in {}, {place}: it had less memory than it needed.",
                node.name,
                bytes(spilled("spilled_bytes")),
                plural(spilled("spill_count") as usize, "file"),
            );
            findings.push(Finding {
                stage: Some(stage.id),
                node: Some(index),
                ..Finding::new(
                    FindingKind::Spill,
                    longest / profile.duration_ns.max(1) as f64,
                    text,
                )
            });
        }
    }
    findings
}
