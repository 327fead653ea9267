//! Stages in numbers.

use super::tasks::{TaskFigures, compute, sum, total};
use crate::profile::{QueryProfile, StageProfile, TaskProfile};

/// A stage that runs on workers, in numbers.
#[derive(Clone, Debug, PartialEq)]
pub struct StageFigures {
    /// Its id.
    pub stage: usize,
    /// In how many tasks it is to run.
    pub tasks: usize,
    /// How many attempts at them have reported.
    pub reported: usize,
    /// Rows that left its tasks.
    pub output_rows: u64,
    /// Bytes that left its tasks.
    pub output_bytes: u64,
    /// Duration of the fastest task that ran.
    pub min_ns: u64,
    /// Median duration of the tasks that ran; of an even number, the mean of the middle two.
    pub median_ns: u64,
    /// Duration of the slowest task.
    pub max_ns: u64,
    /// Which task that is; `None` if none ran.
    pub slowest_task: Option<usize>,
    /// URL of the worker that ran the slowest task.
    pub slowest_worker: Option<String>,
    /// The longest that one of its tasks was blocked on what it reads.
    pub max_wait_ns: u64,
    /// Of all its tasks and partitions together: how long they computed.
    pub compute_ns: u64,
    /// Bytes that its tasks wrote to disk for lack of memory.
    pub spilled_bytes: u64,
    /// Most memory that its tasks can have held at once, as far as their nodes measured that.
    pub peak_memory_bytes: u64,
}

impl StageFigures {
    /// The slowest task's duration over the median; `None` if none ran.
    pub fn skew(&self) -> Option<f64> {
        (self.median_ns > 0).then(|| self.max_ns as f64 / self.median_ns as f64)
    }
}

/// What passed the boundary of a stage.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exchanged {
    /// The stage whose rows passed.
    pub stage: usize,
    /// What its boundary does: `shuffle`, `coalesce`, `broadcast` or `custom`.
    pub kind: String,
    /// Rows that its tasks say they sent.
    pub sent_rows: u64,
    /// Bytes that its tasks say they sent.
    pub sent_bytes: u64,
    /// Rows that its readers say they had.
    pub read_rows: u64,
    /// Bytes that its readers say they had.
    pub read_bytes: u64,
}

impl QueryProfile {
    /// The stages that run on workers, in numbers, from the lowest id.
    pub fn stage_figures(&self) -> Vec<StageFigures> {
        let stages = self.stages.iter().filter(|stage| stage.id > 0);
        stages.map(|stage| self.figures_of(stage)).collect()
    }

    fn figures_of(&self, stage: &StageProfile) -> StageFigures {
        let all: Vec<&TaskProfile> = self.tasks_of(stage.id).collect();
        let of_tasks = |of: fn(&TaskProfile) -> u64| total(all.iter().map(|task| of(task)));
        let mut ran = self.ran(stage.id);
        ran.sort_by_key(|(task, _)| task.duration_ns);
        let slowest = ran.last().map(|(task, _)| *task);
        let durations: Vec<u64> = ran.iter().map(|(task, _)| task.duration_ns).collect();
        let computed = (0..stage.nodes.len()).map(|node| {
            let nodes = all.iter().filter_map(|task| task.nodes.get(node));
            total(nodes.map(|metrics| compute(metrics)))
        });
        StageFigures {
            stage: stage.id,
            tasks: stage.tasks,
            reported: all.iter().filter(|task| task.status.has_reported()).count(),
            output_rows: of_tasks(|task| task.output_rows),
            output_bytes: of_tasks(|task| task.output_bytes),
            min_ns: durations.first().copied().unwrap_or(0),
            median_ns: median(&durations),
            max_ns: durations.last().copied().unwrap_or(0),
            slowest_task: slowest.map(|task| task.task),
            slowest_worker: slowest.map(|task| task.worker.clone()),
            max_wait_ns: ran
                .iter()
                .map(|(_, figures)| figures.wait_ns)
                .max()
                .unwrap_or(0),
            compute_ns: total(computed),
            spilled_bytes: total(ran.iter().map(|(_, figures)| figures.spilled_bytes)),
            peak_memory_bytes: total(ran.iter().map(|(_, figures)| figures.peak_memory_bytes)),
        }
    }

    /// The tasks of a stage that have reported and had a reader: those that nobody read from took
    /// no time, which says nothing about the others.
    pub(super) fn ran(&self, stage: usize) -> Vec<(&TaskProfile, TaskFigures)> {
        let tasks = self.tasks_of(stage);
        tasks
            .filter(|task| task.status.has_reported() && task.started_unix_ns.is_some())
            .map(|task| (task, self.task_figures(task)))
            .collect()
    }

    /// What passed each boundary, from the lowest stage. In a query that ended well, both sides say
    /// the same of stages whose tasks came to their end and whose readers read all.
    pub fn exchanged(&self) -> Vec<Exchanged> {
        let stages = self.stages.iter().filter_map(|stage| {
            let kind = stage.boundary.as_ref()?.kind.clone();
            let mut exchanged = Exchanged {
                stage: stage.id,
                kind,
                sent_rows: total(self.tasks_of(stage.id).map(|task| task.output_rows)),
                sent_bytes: total(self.tasks_of(stage.id).map(|task| task.output_bytes)),
                read_rows: 0,
                read_bytes: 0,
            };
            for reader in &self.stages {
                let nodes = reader.nodes.iter().enumerate();
                for (index, _) in nodes.filter(|(_, node)| node.reads == Some(stage.id)) {
                    let metrics = self.merged_metrics(reader.id, index);
                    exchanged.read_rows =
                        total([exchanged.read_rows, sum(&metrics, "output_rows")]);
                    let bytes = sum(&metrics, "exchange_bytes");
                    exchanged.read_bytes = total([exchanged.read_bytes, bytes]);
                }
            }
            Some(exchanged)
        });
        stages.collect()
    }
}

/// The middle of sorted numbers; of an even number of them, the mean of the middle two.
pub(super) fn median(sorted: &[u64]) -> u64 {
    match sorted.len() {
        0 => 0,
        n => {
            let (low, high) = (sorted[(n - 1) / 2], sorted[n / 2]);
            low + (high - low) / 2
        }
    }
}
