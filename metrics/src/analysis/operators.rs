//! Which operators computed how long.

use super::tasks::{compute, sum, total};
use crate::profile::QueryProfile;

/// An operator, and how long it computed.
#[derive(Clone, Debug, PartialEq)]
pub struct OperatorTime {
    /// Its stage; 0 is the coordinator's part.
    pub stage: usize,
    /// Its index among the nodes of its stage.
    pub node: usize,
    /// Its name.
    pub name: String,
    /// How long it computed itself, without its inputs, in all tasks and partitions together.
    pub compute_ns: u64,
    /// What part that is of the compute time of all operators; between 0 and 1.
    pub share: f64,
    /// Rows that it put out.
    pub output_rows: u64,
    /// Of the task in which it computed longest: how many times as long as on average. `None` if it
    /// did not run in several tasks.
    pub spread: Option<f64>,
}

impl QueryProfile {
    /// All operators, the one that computed longest first.
    pub fn operators(&self) -> Vec<OperatorTime> {
        let mut operators = Vec::new();
        for stage in &self.stages {
            for (node, profile) in stage.nodes.iter().enumerate() {
                let of_tasks = self
                    .tasks_of(stage.id)
                    .filter_map(|task| task.nodes.get(node));
                let of_tasks: Vec<u64> = of_tasks.map(|metrics| compute(metrics)).collect();
                let coordinator = self.coordinator.get(node).filter(|_| stage.id == 0);
                let here = coordinator.map_or(0, |metrics| compute(metrics));
                let all = total(of_tasks.iter().copied().chain([here]));
                let mean = all as f64 / of_tasks.len().max(1) as f64;
                let longest = of_tasks.iter().max().copied().unwrap_or(0) as f64;
                operators.push(OperatorTime {
                    stage: stage.id,
                    node,
                    name: profile.name.clone(),
                    compute_ns: all,
                    share: 0.0,
                    output_rows: sum(&self.merged_metrics(stage.id, node), "output_rows"),
                    spread: (of_tasks.len() > 1 && mean > 0.0).then(|| longest / mean),
                });
            }
        }
        let all = total(operators.iter().map(|operator| operator.compute_ns));
        for operator in &mut operators {
            operator.share = operator.compute_ns as f64 / all.max(1) as f64;
        }
        operators.sort_by_key(|operator| std::cmp::Reverse(operator.compute_ns));
        operators
    }
}
