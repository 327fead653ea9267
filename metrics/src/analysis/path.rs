//! What the query's duration is made of.

use super::tasks::{TaskFigures, node_wait};
use crate::profile::{QueryProfile, StageProfile};

/// The chain of tasks that the query's end waited for, from the coordinator's part down.
///
/// Each step accounts for the time in which it did not wait for a step below it, measured by the
/// clock of the machine that it ran on. What no step accounts for is [`rest_ns`](Self::rest_ns), so
/// that all together is the query's duration.
#[derive(Clone, Debug, PartialEq)]
pub struct CriticalPath {
    /// The coordinator's part first, then one task of each stage on the way.
    pub steps: Vec<PathStep>,
    /// Planning of tasks, their way to workers, streams that open, and inputs beside the path.
    pub rest_ns: u64,
}

/// One step of a [`CriticalPath`].
#[derive(Clone, Debug, PartialEq)]
pub struct PathStep {
    /// Its stage; 0 is the coordinator's part.
    pub stage: usize,
    /// The task; `None` in the coordinator's part.
    pub task: Option<usize>,
    /// URL of the task's worker; `None` in the coordinator's part.
    pub worker: Option<String>,
    /// How much of the query's duration it accounts for.
    pub own_ns: u64,
    /// The same as a part of the query's duration, between 0 and 1.
    pub share: f64,
}

impl QueryProfile {
    /// What the query's duration is made of: at each stage, the way goes on to the stage below
    /// that it waited for most, and there to the task that took most time of its own.
    pub fn critical_path(&self) -> CriticalPath {
        let mut path = CriticalPath {
            steps: Vec::new(),
            rest_ns: self.duration_ns,
        };
        let Some(mut stage) = self.stages.first() else {
            return path;
        };
        let mut figures = self.coordinator_figures();
        let mut task = None;
        loop {
            // A step that waits for nobody accounts for what is left, but for no more than it took.
            let own = figures.own_ns().min(path.rest_ns);
            path.rest_ns -= own;
            path.steps.push(PathStep {
                stage: stage.id,
                task,
                worker: self.worker_of(stage.id, task),
                own_ns: own,
                share: own as f64 / self.duration_ns.max(1) as f64,
            });
            let Some(next) = self.most_waited_for(stage, task) else {
                return path;
            };
            let Some((slowest, of_slowest)) = self.slowest(next) else {
                return path;
            };
            (stage, task, figures) = (next, Some(slowest), of_slowest);
        }
    }

    fn worker_of(&self, stage: usize, task: Option<usize>) -> Option<String> {
        let found = self.tasks_of(stage).find(|found| Some(found.task) == task);
        found.map(|found| found.worker.clone())
    }

    fn slowest(&self, stage: &StageProfile) -> Option<(usize, TaskFigures)> {
        let ran = self.ran(stage.id).into_iter();
        let slowest = ran.max_by_key(|(_, figures)| figures.own_ns());
        slowest.map(|(task, figures)| (task.task, figures))
    }

    /// The stage below that a task waited for most. What merges streams in order measures no wait;
    /// then the highest is as good as any.
    fn most_waited_for(&self, stage: &StageProfile, task: Option<usize>) -> Option<&StageProfile> {
        let metrics = match task {
            None => Some(&self.coordinator),
            Some(task) => {
                let mut attempts = self.tasks_of(stage.id).filter(|found| found.task == task);
                attempts.next_back().map(|found| &found.nodes)
            }
        };
        let nodes = stage.nodes.iter().enumerate();
        let waits = nodes.filter_map(|(index, node)| {
            let metrics = metrics.and_then(|metrics| metrics.get(index));
            let wait = metrics.map_or(0, |metrics| node_wait(node, metrics));
            Some((wait, node.reads?))
        });
        let (_, most) = waits.max()?;
        // Always lower, or nothing would end this.
        self.stage(most)
            .filter(|next| next.id > 0 && (stage.id == 0 || next.id < stage.id))
    }
}
