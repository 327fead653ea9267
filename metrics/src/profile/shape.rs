//! What holds of every profile.

use std::collections::{BTreeMap, BTreeSet};

use super::json::ProfileError;
use super::model::{QueryProfile, QueryStatus, StageProfile, TaskProfile, TaskState};

impl QueryProfile {
    /// Checks that the profile does not contradict itself: stages, nodes and tasks name each other
    /// as they should, and every planned task is there; no task ran for longer than it was known to
    /// the coordinator; and of stages whose tasks and readers all came to their end, no more was read
    /// than was sent, in rows and in bytes.
    ///
    /// # Errors
    /// [`ProfileError::Inconsistent`], with all that is wrong.
    pub fn invariants(&self) -> Result<(), ProfileError> {
        let mut faults = Vec::new();
        self.check_stages(&mut faults);
        self.check_tasks(&mut faults);
        self.check_status(&mut faults);
        self.check_times(&mut faults);
        self.check_conserved(&mut faults);
        match faults.is_empty() {
            true => Ok(()),
            false => Err(ProfileError::Inconsistent(faults)),
        }
    }

    fn check_stages(&self, faults: &mut Vec<String>) {
        if self.stages.first().is_none_or(|stage| stage.id != 0) {
            faults.push("the first stage is not stage 0, the coordinator's part".to_owned());
        }
        if !self.stages.is_sorted_by(|one, next| one.id < next.id) {
            faults.push("the stages are not in the order of their ids, each once".to_owned());
        }
        for stage in &self.stages {
            check_nodes(stage, faults);
            if (stage.id == 0) != stage.boundary.is_none() || (stage.id == 0 && stage.tasks > 0) {
                faults.push(format!(
                    "stage {} has {} tasks and {} boundary: stage 0 has neither, all others have both",
                    stage.id,
                    stage.tasks,
                    if stage.boundary.is_some() { "a" } else { "no" },
                ));
            }
            for reads in stage.reads() {
                let below = stage.id == 0 || reads < stage.id;
                if reads == 0 || !below || self.stage(reads).is_none() {
                    faults.push(format!(
                        "stage {} reads stage {reads}, which is not one below it",
                        stage.id
                    ));
                }
            }
        }
        let nodes = self.stages.first().map_or(0, |stage| stage.nodes.len());
        if self.coordinator.len() != nodes {
            faults.push(format!(
                "stage 0 has {nodes} nodes and metrics of {}",
                self.coordinator.len()
            ));
        }
    }

    fn check_tasks(&self, faults: &mut Vec<String>) {
        let key = |task: &TaskProfile| (task.stage, task.task, task.attempt);
        if !self.tasks.is_sorted_by(|one, next| key(one) < key(next)) {
            faults.push("the tasks are not in the order of stages and tasks, each once".to_owned());
        }
        let mut seen: BTreeMap<usize, BTreeSet<usize>> = BTreeMap::new();
        for task in &self.tasks {
            seen.entry(task.stage).or_default().insert(task.task);
            match self.stage(task.stage).filter(|stage| stage.id > 0) {
                Some(stage) => check_task(task, stage, faults),
                None => faults.push(format!("task {task} is of a stage that there is not")),
            }
            if !self.workers.contains(&task.worker) {
                faults.push(format!(
                    "task {task} is on {}, which is not among the workers",
                    task.worker
                ));
            }
        }
        for (stage, tasks) in seen {
            let planned = self.stage(stage).map_or(0, |stage| stage.tasks);
            if planned != tasks.len() {
                faults.push(format!(
                    "stage {stage} has {planned} tasks, and {} are told of",
                    tasks.len()
                ));
            }
        }
    }

    fn check_status(&self, faults: &mut Vec<String>) {
        let status = self.status;
        if (status == QueryStatus::Failed) != self.error.is_some() {
            faults.push(format!(
                "the query is {status}, and {} error is told of",
                if self.error.is_some() { "an" } else { "no" },
            ));
        }
        let ended = !matches!(status, QueryStatus::Planned | QueryStatus::Running);
        let open =
            |task: &&TaskProfile| matches!(task.status, TaskState::Waiting | TaskState::Running);
        if let Some(task) = self.tasks.iter().find(open).filter(|_| ended) {
            faults.push(format!(
                "the query is {status}, and task {task} is {}",
                task.status
            ));
        }
    }
}

fn check_nodes(stage: &StageProfile, faults: &mut Vec<String>) {
    let id = stage.id;
    if stage.nodes.is_empty() {
        faults.push(format!("stage {id} has no nodes"));
    }
    for (index, node) in stage.nodes.iter().enumerate() {
        let parent = node.parent.filter(|parent| *parent < index);
        let parent = parent.and_then(|parent| stage.nodes.get(parent));
        let right = match parent {
            None => index == 0 && node.parent.is_none() && node.depth == 0,
            Some(parent) => {
                node.depth.checked_sub(1) == Some(parent.depth) && parent.reads.is_none()
            }
        };
        if !right {
            faults.push(format!(
                "node {index} of stage {id} ({}) is not below the node that it names as its parent",
                node.name
            ));
        }
    }
}

fn check_task(task: &TaskProfile, stage: &StageProfile, faults: &mut Vec<String>) {
    if task.task >= stage.tasks {
        faults.push(format!(
            "task {task} is one too many: stage {} has {} tasks",
            stage.id, stage.tasks
        ));
    }
    let expected = task.status.has_reported() && task.unmatched.is_empty();
    let nodes = if expected { stage.nodes.len() } else { 0 };
    if task.nodes.len() != nodes {
        faults.push(format!(
            "task {task} is {} and has metrics of {} nodes, not of {nodes}",
            task.status,
            task.nodes.len()
        ));
    }
    if let (Some(dispatched), Some(reported)) = (task.dispatched_ns, task.reported_ns)
        && reported < dispatched
    {
        faults.push(format!("task {task} reported before it was dispatched"));
    }
}
