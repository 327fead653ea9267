//! What the parts of a page have in common: the numbers of each node and stage, and names.

use std::collections::BTreeMap;

use crate::{Metric, MetricKind, NodeProfile, QueryProfile, StageProfile, TaskProfile, Value};

/// A profile with what a page says of it worked out.
pub(super) struct View<'a> {
    pub(super) profile: &'a QueryProfile,
    nodes: BTreeMap<(usize, usize), NodeNumbers>,
    compute_ns: u64,
    findings: Vec<Finding>,
    pub(super) verdict: String,
    /// The tasks that the query's end waited for, first to last, as indices.
    pub(super) critical: Vec<usize>,
}

/// Something that stands out.
pub(super) struct Finding {
    /// One word for it.
    pub(super) word: String,
    pub(super) text: String,
    pub(super) stage: Option<usize>,
    pub(super) node: Option<usize>,
}

/// The numbers of a node, of all its tasks and partitions.
#[derive(Default)]
pub(super) struct NodeNumbers {
    pub(super) compute_ns: u64,
    /// Of the compute time of the query.
    pub(super) share: f64,
    /// `None` if it does not count them.
    pub(super) rows: Option<u64>,
    pub(super) read_bytes: u64,
    pub(super) wait_ns: u64,
    pub(super) spilled_bytes: u64,
    pub(super) memory_bytes: u64,
}

/// The numbers of a stage, of all its tasks.
#[derive(Default)]
pub(super) struct StageNumbers {
    pub(super) rows: u64,
    pub(super) bytes: u64,
    pub(super) read_bytes: u64,
    /// Of the tasks that have ended: shortest, median, longest.
    pub(super) durations: Option<[u64; 3]>,
    /// Longest to median.
    pub(super) skew: Option<f64>,
    pub(super) spilled_bytes: u64,
    pub(super) wait_ns: u64,
    pub(super) share: f64,
}

impl<'a> View<'a> {
    pub(super) fn of(profile: &'a QueryProfile) -> Self {
        let mut nodes = BTreeMap::new();
        for stage in &profile.stages {
            for index in 0..stage.nodes.len() {
                let numbers = NodeNumbers::of(&profile.merged_metrics(stage.id, index));
                nodes.insert((stage.id, index), numbers);
            }
        }
        let compute_ns: u64 = nodes.values().map(|node| node.compute_ns).sum();
        for node in nodes.values_mut() {
            node.share = ratio(node.compute_ns, compute_ns);
        }
        Self {
            profile,
            nodes,
            compute_ns,
            findings: Vec::new(),
            verdict: String::new(),
            critical: Vec::new(),
        }
    }

    pub(super) fn node(&self, stage: usize, node: usize) -> &NodeNumbers {
        &self.nodes[&(stage, node)]
    }

    pub(super) fn stage(&self, stage: &StageProfile) -> StageNumbers {
        let tasks = || self.profile.tasks_of(stage.id);
        let mut durations: Vec<u64> = tasks()
            .filter(|task| task.duration_ns > 0)
            .map(|task| task.duration_ns)
            .collect();
        durations.sort_unstable();
        let nodes = || (0..stage.nodes.len()).map(|index| self.node(stage.id, index));
        let mut numbers = StageNumbers {
            rows: tasks().map(|task| task.output_rows).sum(),
            bytes: tasks().map(|task| task.output_bytes).sum(),
            read_bytes: nodes().map(|node| node.read_bytes).sum(),
            durations: None,
            skew: None,
            spilled_bytes: nodes().map(|node| node.spilled_bytes).sum(),
            wait_ns: nodes().map(|node| node.wait_ns).sum(),
            share: ratio(nodes().map(|node| node.compute_ns).sum(), self.compute_ns),
        };
        if stage.id == 0 {
            numbers.rows = self.profile.output_rows;
        }
        if let [shortest, .., longest] | [shortest @ longest] = durations[..] {
            let median = durations[durations.len() / 2];
            numbers.durations = Some([shortest, median, longest]);
            numbers.skew = (durations.len() > 1).then(|| ratio(longest, median));
        }
        numbers
    }

    pub(super) fn findings(&self) -> &[Finding] {
        &self.findings
    }

    /// The words to flag a stage (`node` is `None`) or one of its nodes with, each once.
    pub(super) fn flags(&self, stage: usize, node: Option<usize>) -> Vec<&str> {
        let mut words = Vec::new();
        for finding in &self.findings {
            let here = finding.stage == Some(stage) && finding.node == node;
            if here && !words.contains(&finding.word.as_str()) {
                words.push(finding.word.as_str());
            }
        }
        words
    }

    pub(super) fn sum(&self, of: impl Fn(&NodeNumbers) -> u64) -> u64 {
        self.nodes.values().map(of).sum()
    }
}

impl NodeNumbers {
    fn of(metrics: &[Metric]) -> Self {
        let mut numbers = Self::default();
        for metric in metrics {
            let Some(number) = metric.value.number() else {
                continue;
            };
            match metric.name.as_str() {
                "elapsed_compute" => numbers.compute_ns += number,
                "output_rows" => *numbers.rows.get_or_insert(0) += number,
                "exchange_bytes" => numbers.read_bytes += number,
                "exchange_wait" => numbers.wait_ns += number,
                "spilled_bytes" => numbers.spilled_bytes += number,
                _ if matches!(metric.value, Value::Gauge { .. })
                    && metric.of == MetricKind::Bytes =>
                {
                    numbers.memory_bytes = numbers.memory_bytes.max(number);
                }
                _ => {}
            }
        }
        numbers
    }
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
    let details = node.details();
    if let Some(path) = first_file(details) {
        return path;
    }
    // What comes first is usually what matters, and its name says little: `mode=Partial`.
    match details.split_once('=') {
        Some((key, rest)) if key.chars().all(|c| c.is_ascii_lowercase() || c == '_') => {
            rest.to_owned()
        }
        _ => details.to_owned(),
    }
}

/// The table behind a scan, as far as paths tell: of `data/orders/part-0.parquet`, `orders`.
fn first_file(details: &str) -> Option<String> {
    let (_, groups) = details.split_once("file_groups=")?;
    let path = groups.split("[[").nth(1)?;
    let path = path.split([',', ']']).next()?;
    let mut parts = path.rsplit('/');
    let file = parts.next()?.split(':').next()?;
    let stem = file.rsplit_once('.').map_or(file, |(stem, _)| stem);
    let generic = stem.chars().any(|c| c.is_ascii_digit());
    let name = parts.next().filter(|_| generic).unwrap_or(stem);
    Some(name.to_owned())
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
