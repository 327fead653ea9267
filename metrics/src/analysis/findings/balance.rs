//! Tasks that held the others up: for having more to do, or for being slow at it.

use std::collections::BTreeMap;

use super::{Finding, FindingKind};
use crate::analysis::stages::median;
use crate::analysis::tasks::{TaskFigures, is_leaf, rows_where_hot, sum, total};
use crate::numbers::{nanos, share, times};
use crate::profile::{QueryProfile, StageProfile, TaskProfile, TaskState};

/// A task that costs less than this part of the query's duration is not worth anybody's time.
const MIN_WEIGHT: f64 = 0.1;

/// Below this, schedulers and caches decide which task is the slowest.
const MIN_EXCESS_NS: u64 = 50_000_000;

/// From here on a share is uneven: hashing alone spreads rows within a few percent, and files differ
/// in size by less than this.
const SKEWED: f64 = 2.0;

/// From here on a worker is slow, at the same number of rows: above what a busy neighbour on the same
/// machine takes away.
const SLOW: f64 = 2.5;

type Ran<'a> = (&'a TaskProfile, TaskFigures);

/// The tasks of a stage that came to their end. What was cut short, be it by a LIMIT or with the
/// query, says nothing about what it would have taken.
fn finished(profile: &QueryProfile, stage: usize) -> Vec<Ran<'_>> {
    let mut ran = profile.ran(stage);
    ran.retain(|(task, _)| task.status == TaskState::Finished);
    ran
}

/// How a task compares with others.
struct Comparison {
    own_ns: u64,
    typical_ns: u64,
    time: f64,
    compute: f64,
    rows: f64,
    weight: f64,
}

impl Comparison {
    /// `None` if there is nobody to compare with, or it costs too little.
    fn new(profile: &QueryProfile, task: &Ran<'_>, others: &[&Ran<'_>]) -> Option<Self> {
        let median_of = |of: &dyn Fn(&Ran<'_>) -> u64| {
            let mut of_others: Vec<u64> = others.iter().map(|other| of(other)).collect();
            of_others.sort_unstable();
            median(&of_others)
        };
        let ratio = |of: &dyn Fn(&Ran<'_>) -> u64| {
            // One more on both sides: nothing at all is not infinitely less than one row.
            (of(task) as f64 + 1.0) / (median_of(of) as f64 + 1.0)
        };
        let stage = profile.stage(task.0.stage)?;
        let own = |(_, figures): &Ran<'_>| figures.own_ns();
        let (own_ns, typical_ns) = (own(task), median_of(&own));
        let excess = own_ns.saturating_sub(typical_ns);
        let weight = excess as f64 / profile.duration_ns.max(1) as f64;
        let matters = !others.is_empty() && excess >= MIN_EXCESS_NS && weight >= MIN_WEIGHT;
        matters.then(|| Self {
            own_ns,
            typical_ns,
            time: ratio(&own),
            compute: ratio(&|(_, figures)| figures.compute_ns),
            rows: ratio(&|(other, _)| rows_where_hot(stage, task.0, other)),
            weight,
        })
    }

    /// How many times as long the task took for as many rows.
    fn time_per_row(&self) -> f64 {
        self.time / self.rows.max(1.0)
    }

    fn is_skew(&self) -> bool {
        self.time >= SKEWED && self.rows >= SKEWED && self.rows >= self.time_per_row()
    }

    /// Readers hold up the tasks that they read from, which counts as those tasks' own time; what a
    /// task computes tells that from being slow.
    fn is_slow(&self) -> bool {
        let compute_per_row = self.compute / self.rows.max(1.0);
        self.time_per_row() >= SLOW && compute_per_row >= SLOW && !self.is_skew()
    }
}

/// Of each stage, the task that took longest, if that is for having more to do.
pub(super) fn skews(profile: &QueryProfile) -> Vec<Finding> {
    let stages = profile.stages.iter();
    let findings = stages.filter_map(|stage| {
        let ran = finished(profile, stage.id);
        let slowest = ran.iter().max_by_key(|(_, figures)| figures.own_ns())?;
        let others: Vec<_> = ran
            .iter()
            .filter(|(task, _)| task.task != slowest.0.task)
            .collect();
        let found = Comparison::new(profile, slowest, &others)?;
        if !found.is_skew() {
            return None;
        }
        let all = total(ran.iter().map(|(_, figures)| figures.input_rows));
        let part = slowest.1.input_rows as f64 / all.max(1) as f64;
        let (task, id) = (slowest.0, stage.id);
        let text = format!(
            "Stage {id}: task {task} took {} times as long as the median of the others ({} against \
             {}); it read {} of the rows: {}.",
            times(found.time),
            nanos(found.own_ns),
            nanos(found.typical_ns),
            share(part),
            reason(stage, task),
        );
        Some(Finding {
            stage: Some(id),
            task: Some(task.task),
            worker: Some(task.worker.clone()),
            ..Finding::new(FindingKind::Skew, found.weight, text)
        })
    });
    findings.collect()
}

/// Where a task's many rows came from.
fn reason(stage: &StageProfile, task: &TaskProfile) -> String {
    let leaves = (0..stage.nodes.len()).filter(|index| is_leaf(stage, *index));
    let rows = |index: &usize| {
        task.nodes
            .get(*index)
            .map(|metrics| sum(metrics, "output_rows"))
    };
    let most = leaves
        .max_by_key(rows)
        .and_then(|index| stage.nodes.get(index));
    match most.map(|node| (node.reads, &node.name)) {
        Some((Some(input), _)) => {
            format!("the keys by which stage {input} is spread are skewed")
        }
        Some((None, name)) => format!("its share of what {name} reads is larger"),
        None => "its share is larger".to_owned(),
    }
}

/// Workers that were slow, with the stage where that cost most.
pub(super) fn stragglers(profile: &QueryProfile) -> Vec<Finding> {
    let mut of_worker: BTreeMap<&str, Vec<(Comparison, &TaskProfile)>> = BTreeMap::new();
    let all: Vec<Vec<Ran<'_>>> = (profile.stages.iter())
        .map(|stage| finished(profile, stage.id))
        .collect();
    for ran in &all {
        let Some(slowest) = ran.iter().max_by_key(|(_, figures)| figures.own_ns()) else {
            continue;
        };
        let worker = &slowest.0.worker;
        let others: Vec<_> = ran
            .iter()
            .filter(|(task, _)| task.worker != *worker)
            .collect();
        let found = Comparison::new(profile, slowest, &others);
        if let Some(found) = found.filter(Comparison::is_slow) {
            of_worker
                .entry(worker)
                .or_default()
                .push((found, slowest.0));
        }
    }
    let findings = of_worker.into_iter().filter_map(|(worker, mut found)| {
        found.sort_by(|one, other| other.0.weight.total_cmp(&one.0.weight));
        let (worst, task) = found.first()?;
        let also: Vec<String> = found[1..]
            .iter()
            .map(|(_, task)| task.stage.to_string())
            .collect();
        let also = match also.is_empty() {
            true => String::new(),
            false => format!(" It was slow in stage {} too.", also.join(", ")),
        };
        let rows = match worst.rows {
            0.9..1.1 => "as many rows".to_owned(),
            rows => format!("{} times as many rows", times(rows)),
        };
        let text = format!(
            "{worker} is slow: its task {task} took {} times as long as those of other workers, with \
             {rows} ({} against {}).{also}",
            times(worst.time),
            nanos(worst.own_ns),
            nanos(worst.typical_ns),
        );
        Some(Finding {
            stage: Some(task.stage),
            task: Some(task.task),
            worker: Some(worker.to_owned()),
            ..Finding::new(FindingKind::Straggler, worst.weight, text)
        })
    });
    findings.collect()
}
