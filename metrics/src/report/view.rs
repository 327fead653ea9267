//! What the parts of a page have in common: the numbers of each node and stage, and names.

use std::collections::BTreeMap;

use crate::analysis::{Finding, StageFigures, total};
use crate::{NodeProfile, QueryProfile, StageProfile, TaskProfile};

/// A profile with what a page says of it worked out.
pub(super) struct View<'a> {
    pub(super) profile: &'a QueryProfile,
    pub(super) verdict: String,
    pub(super) findings: Vec<Finding>,
    /// The tasks that the query's end waited for, the first of them first, as indices.
    pub(super) critical: Vec<usize>,
    nodes: BTreeMap<(usize, usize), NodeNumbers>,
    figures: BTreeMap<usize, StageFigures>,
}

/// The numbers of a node, of all its tasks and partitions.
#[derive(Default)]
pub(super) struct NodeNumbers {
    pub(super) compute_ns: u64,
    /// Of the compute time of the query, between 0 and 1.
    pub(super) share: f64,
    /// Rows that it put out; `None` if it does not count them.
    pub(super) rows: Option<u64>,
    pub(super) read_bytes: u64,
    /// Of its tasks and partitions, which wait side by side, the longest wait for a stage below.
    pub(super) wait_ns: u64,
    pub(super) spilled_bytes: u64,
}

/// The numbers of a stage, of all its tasks.
pub(super) struct StageNumbers {
    pub(super) rows: u64,
    pub(super) bytes: u64,
    pub(super) read_bytes: u64,
    /// Of the tasks that ran: the shortest, the median, the longest.
    pub(super) durations: Option<[u64; 3]>,
    /// The longest over the median.
    pub(super) skew: Option<f64>,
    pub(super) spilled_bytes: u64,
    /// The longest that one of its tasks waited for what it reads.
    pub(super) wait_ns: u64,
    /// Of the compute time of the query, between 0 and 1.
    pub(super) share: f64,
}

impl<'a> View<'a> {
    pub(super) fn of(profile: &'a QueryProfile) -> Self {
        let nodes = profile.operators().into_iter().map(|operator| {
            let key = (operator.stage, operator.node);
            let mut numbers = NodeNumbers {
                compute_ns: operator.compute_ns,
                share: operator.share,
                ..NodeNumbers::default()
            };
            for metric in profile.merged_metrics(operator.stage, operator.node) {
                let number = metric.value.number().unwrap_or(0);
                // Metrics of one name that differ in labels add up.
                let add = |sum: &mut u64| *sum = sum.saturating_add(number);
                match metric.name.as_str() {
                    "output_rows" => add(numbers.rows.get_or_insert(0)),
                    "exchange_bytes" => add(&mut numbers.read_bytes),
                    "spilled_bytes" => add(&mut numbers.spilled_bytes),
                    _ => {}
                }
            }
            let measured = profile.metrics_of(operator.stage, operator.node);
            let waits = measured.filter(|(_, metric)| metric.name == "exchange_wait");
            let waits = waits.filter_map(|(_, metric)| metric.value.number());
            numbers.wait_ns = waits.max().unwrap_or(0);
            (key, numbers)
        });
        let figures = profile.stage_figures().into_iter();
        let steps = profile.critical_path().steps.into_iter().rev();
        let critical = steps.filter_map(|step| {
            let tasks = profile.tasks.iter();
            // Of several attempts the last one counts.
            tasks
                .clone()
                .rposition(|task| task.stage == step.stage && Some(task.task) == step.task)
        });
        Self {
            profile,
            verdict: profile.verdict(),
            findings: profile.findings(),
            critical: critical.collect(),
            nodes: nodes.collect(),
            figures: figures.map(|figures| (figures.stage, figures)).collect(),
        }
    }

    /// A task; of several attempts the last one.
    pub(super) fn task(&self, stage: usize, task: usize) -> Option<&'a TaskProfile> {
        let attempts = self.profile.tasks.iter();
        attempts
            .rev()
            .find(|known| known.stage == stage && known.task == task)
    }

    pub(super) fn node(&self, stage: usize, node: usize) -> &NodeNumbers {
        &self.nodes[&(stage, node)]
    }

    pub(super) fn stage(&self, stage: &StageProfile) -> StageNumbers {
        let nodes = || (0..stage.nodes.len()).map(|index| self.node(stage.id, index));
        let mut numbers = StageNumbers {
            rows: self.profile.output_rows,
            bytes: 0,
            read_bytes: total(nodes().map(|node| node.read_bytes)),
            durations: None,
            skew: None,
            spilled_bytes: total(nodes().map(|node| node.spilled_bytes)),
            wait_ns: self.profile.coordinator_figures().wait_ns,
            share: nodes().map(|node| node.share).sum(),
        };
        if let Some(figures) = self.figures.get(&stage.id) {
            numbers.rows = figures.output_rows;
            numbers.bytes = figures.output_bytes;
            numbers.wait_ns = figures.max_wait_ns;
            if figures.slowest_task.is_some() {
                numbers.durations = Some([figures.min_ns, figures.median_ns, figures.max_ns]);
            }
            numbers.skew = figures.skew().filter(|_| figures.tasks > 1);
        }
        numbers
    }

    /// The words that flag a stage (`node` is `None`) or one of its nodes, each once.
    pub(super) fn flags(&self, stage: usize, node: Option<usize>) -> Vec<&'static str> {
        let here = |finding: &&Finding| finding.stage == Some(stage) && finding.node == node;
        words(self.findings.iter().filter(here))
    }

    /// The words that flag a task, each once.
    pub(super) fn task_flags(&self, task: &TaskProfile) -> Vec<&'static str> {
        let here = |finding: &&Finding| {
            finding.stage == Some(task.stage) && finding.task == Some(task.task)
        };
        words(self.findings.iter().filter(here))
    }

    /// Most memory that the query can have held at once, as far as its nodes measured that.
    pub(super) fn peak_memory_bytes(&self) -> u64 {
        let stages = self.figures.values().map(|stage| stage.peak_memory_bytes);
        total(stages.chain([self.profile.coordinator_figures().peak_memory_bytes]))
    }

    pub(super) fn spilled_bytes(&self) -> u64 {
        total(self.nodes.values().map(|node| node.spilled_bytes))
    }
}

fn words<'a>(findings: impl Iterator<Item = &'a Finding>) -> Vec<&'static str> {
    let mut words = Vec::new();
    for finding in findings {
        let word = finding.kind.as_str();
        if !words.contains(&word) {
            words.push(word);
        }
    }
    words
}

pub(super) fn ratio(part: u64, whole: u64) -> f64 {
    if whole == 0 {
        return 0.0;
    }
    part as f64 / whole as f64
}

/// The stage as people speak of it.
pub(super) fn stage_name(stage: usize) -> String {
    match stage {
        0 => "Coordinator".to_owned(),
        id => format!("Stage {id}"),
    }
}

/// The class that gives a stage its colour; they repeat after eight.
pub(super) fn stage_class(stage: usize) -> String {
    match stage {
        0 => "c0".to_owned(),
        id => format!("c{}", (id - 1) % 8 + 1),
    }
}

/// What tells a worker from the others: its address without the scheme.
pub(super) fn worker_name(url: &str) -> &str {
    url.split_once("://").map_or(url, |(_, rest)| rest)
}

/// Names by which the address, the script and the parts of the page speak of one thing.
pub(super) fn stage_id(stage: usize) -> String {
    format!("stage-{stage}")
}

pub(super) fn node_id(stage: usize, node: usize) -> String {
    format!("op-{stage}-{node}")
}

pub(super) fn task_id(task: &TaskProfile) -> String {
    match task.attempt {
        0 => format!("task-{}-{}", task.stage, task.task),
        attempt => format!("task-{}-{}-{attempt}", task.stage, task.task),
    }
}

/// What a node works on, in a few words of the line by which `EXPLAIN` shows it.
pub(super) fn gist(node: &NodeProfile) -> String {
    if let Some(stage) = node.reads {
        return format!("reads stage {stage}");
    }
    if let Some(table) = node.table() {
        return table.to_owned();
    }
    let mut details = node.details();
    // Names of what comes first take the room of what it is.
    for name in ["mode=", "partitioning=", "expr="] {
        details = details.strip_prefix(name).unwrap_or(details);
    }
    details.replacen("join_type=", "", 1)
}

/// A text cut to so many characters, the last of them an ellipsis if anything is missing.
pub(super) fn cut(text: &str, limit: usize) -> String {
    if text.chars().count() <= limit {
        return text.to_owned();
    }
    let mut cut: String = text.chars().take(limit - 1).collect();
    cut.truncate(cut.trim_end().len());
    cut.push('…');
    cut
}

/// A number with all its digits: `1,234,567`.
pub(super) fn exact(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}
