//! Profiles of plans that ran or run.

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use datafusion::common::Result;
use datafusion::physical_plan::metrics::MetricsSet;
use datafusion::physical_plan::{ExecutionPlan, displayable};
use flightpath_core::{
    DistributedExec, QueryOutcome, QueryReports, StageNode, StageView, StagedPlan, TaskReport,
    TaskStatus, find_layer, local_reason, own_metrics,
};

use super::json::{FORMAT, VERSION};
use super::metric::{Metric, Value, of_set};
use super::model::{
    BoundaryProfile, NodeProfile, QueryProfile, QueryStatus, StageProfile, TaskProfile, TaskState,
    UnmatchedNode,
};

impl QueryProfile {
    /// The profile of the latest execution of a plan, be it over or not.
    ///
    /// The part that workers run is found below whatever is on top of it. A plan that runs on the
    /// coordinator alone has one stage, 0, and times if its nodes say when they started and ended;
    /// one that has not been run is [`QueryStatus::Planned`].
    ///
    /// # Errors
    /// If two boundaries of the plan name one stage and do not mean the same.
    pub fn of(plan: &Arc<dyn ExecutionPlan>) -> Result<Self> {
        let reports = distributed(plan).and_then(DistributedExec::last_query);
        match reports {
            Some(reports) => Self::of_execution(plan, &reports),
            None => Self::without_workers(plan),
        }
    }

    /// The profile of one execution of a plan, which need not be its latest.
    ///
    /// # Errors
    /// If two boundaries of the plan name one stage and do not mean the same.
    pub fn of_execution(plan: &Arc<dyn ExecutionPlan>, reports: &QueryReports) -> Result<Self> {
        // Read before the tasks: when a query has ended, all reports are there.
        let outcome = reports.outcome();
        let elapsed = reports.elapsed();
        let staged = StagedPlan::try_new(plan)?;
        let executed = reports.plan().map(|plan| StagedPlan::try_new(&plan));
        let executed = executed.transpose()?;
        let top = coordinator_nodes(&staged, executed.as_ref());
        let local = matches!(outcome, Some(QueryOutcome::Local { .. }));
        // A plan that has fallen back to local has no other stages.
        let remote = executed.as_ref().unwrap_or(&staged).remote();
        let mut profile = Self::new(&top);
        profile.query_id = Some(reports.query_id().to_string());
        profile.started_unix_ns = unix_ns(reports.began());
        profile.duration_ns = nanos(elapsed);
        profile.output_rows = reports.output_rows();
        for stage in remote {
            profile.stages.push(of_stage(stage));
            if local {
                continue;
            }
            let tasks = reports.tasks();
            let tasks = tasks.into_iter().filter(|task| task.key.stage == stage.id);
            profile
                .tasks
                .extend(tasks.map(|task| of_task(task, stage, outcome.is_some())));
        }
        let workers = profile.tasks.iter().map(|task| task.worker.clone());
        profile.workers = workers.collect();
        profile.workers.sort_unstable();
        profile.workers.dedup();
        profile.ended(outcome);
        Ok(profile)
    }

    /// Adds the text of the query.
    pub fn with_sql(mut self, sql: impl Into<String>) -> Self {
        self.sql = Some(sql.into());
        self
    }

    /// Adds the id of the query's trace, 32 hexadecimal digits.
    pub fn with_trace_id(mut self, trace_id: impl Into<String>) -> Self {
        self.trace_id = Some(trace_id.into());
        self
    }

    fn new(top: &[StageNode]) -> Self {
        let metrics = top.iter().map(|node| own_metrics(&node.plan));
        let metrics = metrics.map(|metrics| of_set(&metrics.unwrap_or_default()));
        Self {
            format: FORMAT.to_owned(),
            version: VERSION,
            query_id: None,
            trace_id: None,
            sql: None,
            status: QueryStatus::Planned,
            local_reason: None,
            error_kind: None,
            error: None,
            started_unix_ns: None,
            duration_ns: 0,
            output_rows: 0,
            workers: Vec::new(),
            stages: vec![StageProfile {
                id: 0,
                boundary: None,
                tasks: 0,
                nodes: of_nodes(top),
            }],
            coordinator: metrics.collect(),
            tasks: Vec::new(),
        }
    }

    fn ended(&mut self, outcome: Option<QueryOutcome>) {
        self.status = match outcome {
            None => QueryStatus::Running,
            Some(QueryOutcome::Finished) => QueryStatus::Finished,
            Some(QueryOutcome::Cancelled) => QueryStatus::Cancelled,
            Some(QueryOutcome::Failed { kind, message }) => {
                (self.error_kind, self.error) = (Some(kind), Some(message));
                QueryStatus::Failed
            }
            Some(QueryOutcome::Local { reason }) => {
                self.local_reason = Some(reason);
                QueryStatus::Local
            }
        };
    }

    /// Of a plan that no worker knows of.
    fn without_workers(plan: &Arc<dyn ExecutionPlan>) -> Result<Self> {
        let staged = StagedPlan::try_new(plan)?;
        let mut profile = Self::new(&coordinator_nodes(&staged, None));
        profile.stages.extend(staged.remote().map(of_stage));
        profile.local_reason = local_reason(plan);
        // All of these were taken by this machine's clock.
        let values = || profile.coordinator.iter().flatten().map(|node| &node.value);
        let starts = values().filter_map(|value| match value {
            Value::Start { unix_ns } => *unix_ns,
            _ => None,
        });
        let ends = values().filter_map(|value| match value {
            Value::End { unix_ns } => *unix_ns,
            _ => None,
        });
        if let Some(start) = starts.min() {
            let end = ends.max().unwrap_or(start);
            profile.duration_ns = u64::try_from(end.saturating_sub(start)).unwrap_or(0);
            profile.started_unix_ns = u64::try_from(start).ok();
            profile.status = QueryStatus::Local;
        } else if values().any(|value| value.number().is_some_and(|number| number > 0)) {
            profile.status = QueryStatus::Local;
        }
        let top = plan.metrics().and_then(|metrics| metrics.output_rows());
        profile.output_rows = top.unwrap_or(0) as u64;
        Ok(profile)
    }
}

/// The part of a plan that workers run, below whatever is on top of it.
pub(crate) fn distributed(plan: &Arc<dyn ExecutionPlan>) -> Option<&DistributedExec> {
    find_layer(plan.as_ref()).or_else(|| plan.children().into_iter().find_map(distributed))
}

/// The nodes of the coordinator's part: what is on top of the distributed part as it was planned, and
/// below that what was executed, which may be a copy.
fn coordinator_nodes(planned: &StagedPlan, executed: Option<&StagedPlan>) -> Vec<StageNode> {
    let nodes = |staged: &StagedPlan| -> Vec<StageNode> {
        let coordinator = staged.stages().iter().find(|stage| stage.is_coordinator());
        coordinator.map_or_else(Vec::new, |stage| stage.nodes.clone())
    };
    let mut all = nodes(planned);
    let Some(executed) = executed else {
        return all;
    };
    let is_root = |node: &StageNode| find_layer::<DistributedExec>(node.plan.as_ref()).is_some();
    let Some(root) = all.iter().position(is_root) else {
        return all;
    };
    let depth = all[root].depth;
    let below = all[root + 1..].iter().take_while(|node| node.depth > depth);
    let below = root + 1..root + 1 + below.count();
    let executed = nodes(executed).into_iter().map(|mut node| {
        node.depth += depth + 1;
        node
    });
    all.splice(below, executed);
    all
}

fn of_stage(stage: &StageView) -> StageProfile {
    let boundary = stage.boundary.as_ref().map(|boundary| BoundaryProfile {
        kind: boundary.kind.as_str().to_owned(),
        name: boundary.name.clone(),
    });
    StageProfile {
        id: stage.id,
        boundary,
        tasks: stage.tasks,
        nodes: of_nodes(&stage.nodes),
    }
}

fn of_nodes(nodes: &[StageNode]) -> Vec<NodeProfile> {
    // The nodes above the one at hand, from the top.
    let mut above: Vec<usize> = Vec::new();
    let nodes = nodes.iter().enumerate().map(|(index, node)| {
        above.truncate(node.depth);
        let parent = above.last().copied();
        above.push(index);
        let text = displayable(node.plan.as_ref()).one_line().to_string();
        NodeProfile {
            depth: node.depth,
            parent,
            name: node.name().to_owned(),
            text: text.lines().collect::<Vec<_>>().join(" "),
            reads: node.boundary.as_ref().map(|boundary| boundary.stage),
        }
    });
    nodes.collect()
}

fn of_task(task: flightpath_core::TaskSnapshot, stage: &StageView, ended: bool) -> TaskProfile {
    let mut profile = TaskProfile {
        stage: task.key.stage,
        task: task.key.task,
        attempt: task.key.attempt,
        worker: task.worker,
        status: TaskState::Waiting,
        error: None,
        dispatched_ns: task.dispatched.map(nanos),
        reported_ns: task.reported.map(nanos),
        started_unix_ns: None,
        duration_ns: 0,
        output_rows: 0,
        output_bytes: 0,
        nodes: Vec::new(),
        unmatched: Vec::new(),
    };
    if let Some(report) = task.report {
        profile.reported(&report, stage);
        return profile;
    }
    if let Some(progress) = task.progress {
        profile.output_rows = progress.output_rows;
        profile.output_bytes = progress.output_bytes;
        profile.started_unix_ns = progress.started.and_then(unix_ns);
    }
    profile.status = match (&task.missing, ended, profile.started_unix_ns) {
        (Some(_), _, _) | (_, true, _) => TaskState::Missing,
        (_, _, Some(_)) => TaskState::Running,
        _ => TaskState::Waiting,
    };
    if profile.status == TaskState::Missing {
        let reason = task.missing;
        profile.error = Some(reason.unwrap_or_else(|| "no report came".to_owned()));
    }
    profile
}

impl TaskProfile {
    fn reported(&mut self, report: &TaskReport, stage: &StageView) {
        self.status = match report.status {
            TaskStatus::Finished => TaskState::Finished,
            TaskStatus::Failed => TaskState::Failed,
            TaskStatus::Cancelled => TaskState::Cancelled,
            TaskStatus::Unused => TaskState::Unused,
        };
        self.error = report.error.clone();
        self.started_unix_ns = report.started.and_then(unix_ns);
        self.duration_ns = nanos(report.duration);
        self.output_rows = report.output_rows;
        self.output_bytes = report.output_bytes;
        let metrics = |metrics: &MetricsSet| -> Vec<Metric> { of_set(metrics) };
        if stage.matches(report) {
            let nodes = report.nodes.iter().map(|node| metrics(&node.metrics));
            self.nodes = nodes.collect();
            return;
        }
        let nodes = report.nodes.iter().map(|node| UnmatchedNode {
            name: node.name.clone(),
            metrics: metrics(&node.metrics),
        });
        self.unmatched = nodes.collect();
    }
}

/// A time in a profile; what takes longer than 584 years is cut.
fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// `None` for a clock that is set to before 1970.
fn unix_ns(at: SystemTime) -> Option<u64> {
    at.duration_since(UNIX_EPOCH).ok().map(nanos)
}
