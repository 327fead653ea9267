//! What one task, or the coordinator's part, spent its time on.

use std::collections::BTreeMap;

use crate::profile::metric::{Metric, Value};
use crate::profile::{NodeProfile, QueryProfile, StageProfile, TaskProfile};

/// How a task, or the coordinator's part, spent its time. All of it is by one machine's clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TaskFigures {
    /// From its first reader to its end; of the coordinator's part, the query's duration.
    pub duration_ns: u64,
    /// Of its partition that computed longest: how long.
    pub compute_ns: u64,
    /// How long it was blocked on what it reads, as far as its boundaries measured that.
    pub wait_ns: u64,
    /// Rows that it read, through boundaries and from tables.
    pub input_rows: u64,
    /// Bytes that it wrote to disk for lack of memory.
    pub spilled_bytes: u64,
    /// Most memory that its nodes can have held at once, as far as they measured that.
    pub peak_memory_bytes: u64,
}

impl TaskFigures {
    /// The part of its duration that is its own: what it did not wait, and at least what it
    /// computed.
    ///
    /// Partitions run side by side, and one may wait while another computes; so neither number
    /// says it alone. What readers of the task made it wait is in it: nobody measures that.
    pub fn own_ns(&self) -> u64 {
        let not_waiting = self.duration_ns.saturating_sub(self.wait_ns);
        not_waiting.max(self.compute_ns).min(self.duration_ns)
    }
}

impl QueryProfile {
    /// The figures of a task that has reported; all zero for one that has not.
    pub fn task_figures(&self, task: &TaskProfile) -> TaskFigures {
        match self.stage(task.stage) {
            Some(stage) => figures(stage, &task.nodes, task.duration_ns),
            None => TaskFigures::default(),
        }
    }

    /// The figures of the coordinator's part.
    pub fn coordinator_figures(&self) -> TaskFigures {
        match self.stages.first() {
            Some(stage) => figures(stage, &self.coordinator, self.duration_ns),
            None => TaskFigures::default(),
        }
    }
}

fn figures(stage: &StageProfile, metrics: &[Vec<Metric>], duration_ns: u64) -> TaskFigures {
    let mut figures = TaskFigures {
        duration_ns,
        ..TaskFigures::default()
    };
    let mut compute: BTreeMap<Option<usize>, u64> = BTreeMap::new();
    let mut wait = 0_u64;
    for (index, (node, metrics)) in stage.nodes.iter().zip(metrics).enumerate() {
        for (partition, ns) in compute_by_partition(metrics) {
            let so_far: &mut u64 = compute.entry(partition).or_default();
            *so_far = so_far.saturating_add(ns);
        }
        wait = total([wait, node_wait(node, metrics)]);
        if is_leaf(stage, index) {
            figures.input_rows = total([figures.input_rows, sum(metrics, "output_rows")]);
        }
        figures.spilled_bytes = total([figures.spilled_bytes, sum(metrics, "spilled_bytes")]);
        figures.peak_memory_bytes = total([figures.peak_memory_bytes, peak_memory(metrics)]);
    }
    figures.compute_ns = compute.into_values().max().unwrap_or(0);
    figures.wait_ns = wait.min(duration_ns);
    figures
}

/// How long a boundary was blocked: partitions wait side by side, so the longest counts.
pub(super) fn node_wait(node: &NodeProfile, metrics: &[Metric]) -> u64 {
    if node.reads.is_none() {
        return 0;
    }
    let waits = metrics
        .iter()
        .filter(|metric| metric.name == "exchange_wait");
    waits
        .filter_map(|metric| metric.value.number())
        .max()
        .unwrap_or(0)
}

/// Rows that went into the node which computed longest in `task`, and came out of it: in `other`, a
/// task of the same stage. Rows elsewhere do not explain its time; a join makes many of few.
pub(super) fn rows_where_hot(stage: &StageProfile, task: &TaskProfile, other: &TaskProfile) -> u64 {
    let nodes = 0..stage.nodes.len().min(task.nodes.len());
    let Some(hot) = nodes.max_by_key(|index| compute(&task.nodes[*index])) else {
        return 0;
    };
    let depth = stage.nodes[hot].depth;
    let below = (hot + 1..stage.nodes.len()).take_while(|index| stage.nodes[*index].depth > depth);
    let inputs = below.filter(|index| stage.nodes[*index].depth == depth + 1);
    let metrics = inputs
        .chain([hot])
        .filter_map(|index| other.nodes.get(index));
    total(metrics.map(|metrics| sum(metrics, "output_rows")))
}

pub(super) fn is_leaf(stage: &StageProfile, index: usize) -> bool {
    let next = stage.nodes.get(index + 1);
    next.is_none_or(|next| next.depth <= stage.nodes[index].depth)
}

/// A sum that ends at the largest number: profiles are files, and files may say anything.
pub(crate) fn total(numbers: impl IntoIterator<Item = u64>) -> u64 {
    numbers.into_iter().fold(0, u64::saturating_add)
}

/// The sum of a node's counts, times or gauges of one name.
pub(super) fn sum(metrics: &[Metric], name: &str) -> u64 {
    let found = metrics.iter().filter(|metric| metric.name == name);
    total(found.filter_map(|metric| metric.value.number()))
}

/// How long a node itself computed, without its inputs.
pub(super) fn compute(metrics: &[Metric]) -> u64 {
    total(compute_by_partition(metrics).map(|(_, ns)| ns))
}

fn compute_by_partition(metrics: &[Metric]) -> impl Iterator<Item = (Option<usize>, u64)> {
    // Scans of files measure decoding by the second, some by both, and then the second has more of it.
    let names = ["elapsed_compute", "time_elapsed_processing"];
    let name = names.into_iter().max_by_key(|name| sum(metrics, name));
    metrics
        .iter()
        .filter(move |metric| Some(metric.name.as_str()) == name)
        .filter_map(|metric| Some((metric.partition, metric.value.number()?)))
}

fn peak_memory(metrics: &[Metric]) -> u64 {
    let gauge = |metric: &&Metric| {
        matches!(metric.value, Value::Gauge { .. }) && metric.name.contains("mem_used")
    };
    // Nodes that measure a peak measure what they use now as well.
    let peak = metrics
        .iter()
        .filter(gauge)
        .filter(|m| m.name.contains("peak"));
    match total(peak.filter_map(|metric| metric.value.number())) {
        0 => sum(metrics, "mem_used"),
        peak => peak,
    }
}
