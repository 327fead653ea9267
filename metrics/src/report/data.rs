//! What the script shows on selection, as JSON in the page: every metric by task and partition.
//!
//! Texts that tables hold already are not repeated here. A large query has millions of readings:
//! the finest level of detail that leaves the page small is taken, and the page says which.

use std::collections::BTreeMap;

use serde::Serialize;

use super::view::{self, View};
use crate::{Metric, MetricKind, StageProfile, Value};

/// Of the page's bytes, what numbers may take.
const BUDGET: usize = 1_400_000;

/// How much of the metrics is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum Detail {
    /// Every partition of every task.
    Partitions,
    /// Every task.
    Tasks,
    /// Every task, for rows and compute time only.
    Essential,
    /// Only what tasks come to together.
    Totals,
}

const DETAILS: [Detail; 4] = [
    Detail::Partitions,
    Detail::Tasks,
    Detail::Essential,
    Detail::Totals,
];

#[derive(Serialize)]
struct Data<'a> {
    detail: Detail,
    stages: Vec<Stage<'a>>,
}

#[derive(Serialize)]
struct Stage<'a> {
    id: usize,
    name: String,
    /// In the order of the readings of metrics; empty for the coordinator's part.
    tasks: Vec<Task<'a>>,
    nodes: Vec<Node<'a>>,
}

#[derive(Serialize)]
struct Task<'a> {
    id: String,
    name: String,
    worker: &'a str,
    status: &'a str,
    ns: u64,
    rows: u64,
    bytes: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<&'a str>,
}

#[derive(Serialize)]
struct Node<'a> {
    name: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    parent: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reads: Option<usize>,
    share: f64,
    stage_share: f64,
    metrics: Vec<Series>,
}

#[derive(Serialize)]
struct Series {
    name: String,
    unit: &'static str,
    /// What all tasks and partitions come to.
    #[serde(skip_serializing_if = "Option::is_none")]
    total: Option<u64>,
    /// Instead of numbers, for what is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<String>,
    /// For each task that measured it, its index and the numbers of its partitions.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    by: Vec<(usize, Vec<u64>)>,
}

/// The JSON, safe inside a script element.
pub(super) fn json(view: &View<'_>) -> String {
    let mut text = String::new();
    for detail in DETAILS {
        // Nothing in it can fail to be written: no maps, no types that refuse.
        text = serde_json::to_string(&data(view, detail)).unwrap_or_default();
        if text.len() <= BUDGET {
            break;
        }
    }
    // Only strings can hold this character, and there the escape means the same.
    text.replace('<', "\\u003c")
}

fn data<'a>(view: &View<'a>, detail: Detail) -> Data<'a> {
    let stages = view.profile.stages.iter();
    Data {
        detail,
        stages: stages.map(|stage| of_stage(view, stage, detail)).collect(),
    }
}

fn of_stage<'a>(view: &View<'a>, stage: &'a StageProfile, detail: Detail) -> Stage<'a> {
    let tasks = view.profile.tasks_of(stage.id).map(|task| Task {
        id: view::task_id(task).trim_start_matches("task-").to_owned(),
        name: task.to_string(),
        worker: view::worker_name(&task.worker),
        status: task.status.as_str(),
        ns: task.duration_ns,
        rows: task.output_rows,
        bytes: task.output_bytes,
        error: task.error.as_deref(),
    });
    let of_stage = view.stage(stage).share;
    let nodes = stage.nodes.iter().enumerate().map(|(index, node)| {
        let share = view.node(stage.id, index).share;
        Node {
            name: &node.name,
            parent: node.parent,
            reads: node.reads,
            share,
            stage_share: if of_stage > 0.0 {
                share / of_stage
            } else {
                0.0
            },
            metrics: series(view, stage.id, index, detail),
        }
    });
    Stage {
        id: stage.id,
        name: view::stage_name(stage.id),
        tasks: tasks.collect(),
        nodes: nodes.collect(),
    }
}

fn series(view: &View<'_>, stage: usize, node: usize, detail: Detail) -> Vec<Series> {
    let merged = view.profile.merged_metrics(stage, node);
    let merged = merged.iter().filter_map(|metric| {
        let (total, text) = match &metric.value {
            // Times of day say nothing that the timeline does not.
            Value::Start { .. } | Value::End { .. } => return None,
            value => match value.number() {
                Some(number) => (Some(number), None),
                None => (None, Some(text(value))),
            },
        };
        let essential = matches!(metric.name.as_str(), "output_rows" | "elapsed_compute");
        let told = match detail {
            Detail::Totals => false,
            Detail::Essential => essential,
            Detail::Tasks | Detail::Partitions => true,
        };
        let by = match total {
            Some(1..) if told => readings(view, stage, node, metric, detail == Detail::Partitions),
            _ => Vec::new(),
        };
        Some(Series {
            name: name(metric),
            unit: unit(metric),
            total,
            text,
            by,
        })
    });
    merged.collect()
}

fn readings(
    view: &View<'_>,
    stage: usize,
    node: usize,
    of: &Metric,
    partitions: bool,
) -> Vec<(usize, Vec<u64>)> {
    let coordinator = view.profile.coordinator.get(node).filter(|_| stage == 0);
    let tasks = view
        .profile
        .tasks_of(stage)
        .map(|task| task.nodes.get(node));
    let measured = coordinator.into_iter().map(Some).chain(tasks);
    let by = measured.enumerate().filter_map(|(index, metrics)| {
        let mut by_partition: BTreeMap<Option<usize>, u64> = BTreeMap::new();
        let same = |metric: &&Metric| metric.name == of.name && metric.labels == of.labels;
        for metric in metrics?.iter().filter(same) {
            let partition = metric.partition.filter(|_| partitions);
            *by_partition.entry(partition).or_default() += metric.value.number().unwrap_or(0);
        }
        let numbers: Vec<u64> = by_partition.into_values().collect();
        (!numbers.is_empty()).then_some((index, numbers))
    });
    by.collect()
}

fn name(metric: &Metric) -> String {
    if metric.labels.is_empty() {
        return metric.name.clone();
    }
    let labels = metric
        .labels
        .iter()
        .map(|(name, value)| format!("{name}={value}"));
    format!(
        "{} ({})",
        metric.name,
        labels.collect::<Vec<_>>().join(", ")
    )
}

fn unit(metric: &Metric) -> &'static str {
    match (&metric.value, metric.of) {
        (Value::Time { .. }, _) => "ns",
        (Value::Count { .. } | Value::Gauge { .. }, MetricKind::Timing) => "ns",
        (Value::Count { .. } | Value::Gauge { .. }, MetricKind::Bytes) => "bytes",
        _ => "",
    }
}

fn text(value: &Value) -> String {
    use crate::numbers::{count, share};
    match value {
        Value::Pruning {
            pruned,
            matched,
            fully_matched,
        } => format!(
            "{} of {} left out{}",
            count(*pruned),
            count(pruned + matched),
            match fully_matched {
                0 => String::new(),
                fully => format!(", {} fully matched", count(*fully)),
            }
        ),
        Value::Ratio { part, total, .. } => {
            let of = format!("{} of {}", count(*part), count(*total));
            format!("{} ({of})", share(view::ratio(*part, *total)))
        }
        Value::Custom { readings } => {
            let texts: Vec<&str> = readings
                .iter()
                .map(|reading| reading.text.as_str())
                .collect();
            texts.join(", ")
        }
        _ => String::new(),
    }
}
