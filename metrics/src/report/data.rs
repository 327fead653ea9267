//! What the script shows on selection, as JSON in the page: every metric by task and partition.
//!
//! Texts that tables hold already are not repeated here. A large query has millions of readings:
//! the finest level of detail that leaves the page small is taken, and the page says which.

use serde::Serialize;

use super::view::{self, View};
use crate::analysis::total;
use crate::{Metric, MetricKind, StageProfile, Value};

/// Of the page's bytes, what numbers may take.
const BUDGET: usize = 1_400_000;

/// Partitions past this many are counted with the last: so many bars nobody looks at.
const MOST_PARTITIONS: usize = 4096;

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
    let mut data = data(view);
    let mut text = String::new();
    for detail in DETAILS {
        data.reduce(detail);
        // Nothing in it can fail to be written: no maps, no types that refuse.
        text = serde_json::to_string(&data).unwrap_or_default();
        if text.len() <= BUDGET {
            break;
        }
    }
    // Only strings can hold this character, and there the escape means the same.
    text.replace('<', "\\u003c")
}

impl Data<'_> {
    fn reduce(&mut self, detail: Detail) {
        self.detail = detail;
        let nodes = self.stages.iter_mut().flat_map(|stage| &mut stage.nodes);
        for series in nodes.flat_map(|node| &mut node.metrics) {
            let essential = matches!(series.name.as_str(), "output_rows" | "elapsed_compute");
            match detail {
                Detail::Partitions => {}
                Detail::Tasks => {
                    for (_, numbers) in &mut series.by {
                        *numbers = vec![total(numbers.iter().copied())];
                    }
                }
                Detail::Essential if essential => {}
                Detail::Essential | Detail::Totals => series.by.clear(),
            }
        }
    }
}

fn data<'a>(view: &View<'a>) -> Data<'a> {
    let stages = view.profile.stages.iter();
    Data {
        detail: Detail::Partitions,
        stages: stages.map(|stage| of_stage(view, stage)).collect(),
    }
}

fn of_stage<'a>(view: &View<'a>, stage: &'a StageProfile) -> Stage<'a> {
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
            metrics: series(view, stage.id, index),
        }
    });
    Stage {
        id: stage.id,
        name: view::stage_name(stage.id),
        tasks: tasks.collect(),
        nodes: nodes.collect(),
    }
}

fn series(view: &View<'_>, stage: usize, node: usize) -> Vec<Series> {
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
        let by = match total {
            Some(1..) => readings(view, stage, node, metric),
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

fn readings(view: &View<'_>, stage: usize, node: usize, of: &Metric) -> Vec<(usize, Vec<u64>)> {
    let coordinator = view.profile.coordinator.get(node).filter(|_| stage == 0);
    let tasks = view.profile.tasks_of(stage);
    let tasks = tasks.map(|task| task.nodes.get(node));
    let measured = coordinator.into_iter().map(Some).chain(tasks);
    let by = measured.enumerate().filter_map(|(index, metrics)| {
        let same = |metric: &&Metric| metric.name == of.name && metric.labels == of.labels;
        let mut numbers: Vec<u64> = Vec::new();
        for metric in metrics?.iter().filter(same) {
            let partition = metric.partition.unwrap_or(0).min(MOST_PARTITIONS - 1);
            if numbers.len() <= partition {
                numbers.resize(partition + 1, 0);
            }
            let number = metric.value.number().unwrap_or(0);
            numbers[partition] = numbers[partition].saturating_add(number);
        }
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
            count(pruned.saturating_add(*matched)),
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
