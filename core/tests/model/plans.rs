//! Plans with boundaries, built by hand, and what their tasks report.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use datafusion::arrow::array::{Int32Array, RecordBatch};
use datafusion::datasource::memory::MemorySourceConfig;
use datafusion::physical_expr::expressions::col;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::metrics::{ExecutionPlanMetricsSet, MetricBuilder, MetricsSet};
use flightpath_core::model::boundaries::{NetworkCoalesce, NetworkShuffle};
use flightpath_core::model::boundary::{NetworkBoundary, NetworkBoundaryExec};
use flightpath_core::model::report::{NodeReport, TaskReport, TaskStatus};
use flightpath_core::model::stage::{QueryId, TaskKey};
use flightpath_core::{TransparentWrapper, transparent_execution_plan};

pub(crate) type Plan = Arc<dyn ExecutionPlan>;

#[derive(Debug)]
pub(crate) struct NoopExec(Plan);

impl TransparentWrapper for NoopExec {
    fn inner(&self) -> &Plan {
        &self.0
    }

    fn rewrap(&self, inner: Plan) -> Plan {
        Arc::new(Self(inner))
    }
}

transparent_execution_plan!(NoopExec);

/// `plan` in `depth` wrappers.
pub(crate) fn wrapped(plan: Plan, depth: usize) -> Plan {
    (0..depth).fold(plan, |plan, _| Arc::new(NoopExec(plan)))
}

/// Every node of `plan`, also across boundaries, in `depth` wrappers.
pub(crate) fn all_wrapped(plan: &Plan, depth: usize) -> Plan {
    let children = plan.children().into_iter();
    let children = children.map(|child| all_wrapped(child, depth)).collect();
    let plan = datafusion::physical_plan::replace_children_if_necessary(plan.clone(), children);
    wrapped(plan.unwrap(), depth)
}

pub(crate) fn source() -> Plan {
    let values = Arc::new(Int32Array::from(vec![1, 2, 3]));
    let batch = RecordBatch::try_from_iter([("a", values as _)]).unwrap();
    let schema = batch.schema();
    MemorySourceConfig::try_new_exec(&[vec![batch]], schema, None).unwrap()
}

pub(crate) fn boundary(
    boundary: impl NetworkBoundary + 'static,
    input: Plan,
    stage: usize,
    tasks: usize,
    consumers: usize,
) -> Plan {
    let boundary = Arc::new(boundary);
    Arc::new(NetworkBoundaryExec::try_new(boundary, input, stage, tasks, consumers).unwrap())
}

pub(crate) fn shuffle(input: Plan, stage: usize, tasks: usize, consumers: usize) -> Plan {
    let key = col("a", &input.schema()).unwrap();
    let hash = NetworkShuffle::new(vec![key], 2, None);
    boundary(hash, input, stage, tasks, consumers)
}

pub(crate) fn coalesce(input: Plan, stage: usize, tasks: usize) -> Plan {
    boundary(NetworkCoalesce, input, stage, tasks, 1)
}

pub(crate) fn merge(input: Plan) -> Plan {
    Arc::new(CoalescePartitionsExec::new(input))
}

/// Three levels: the coordinator, stage 2 of two tasks, stage 1 of three.
pub(crate) fn two_stages() -> Plan {
    merge(coalesce(merge(shuffle(source(), 1, 3, 2)), 2, 2))
}

pub(crate) fn rows(count: usize) -> MetricsSet {
    let set = ExecutionPlanMetricsSet::new();
    MetricBuilder::new(&set).output_rows(0).add(count);
    set.clone_inner()
}

pub(crate) fn key(query_id: QueryId, stage: usize, task: usize) -> TaskKey {
    TaskKey {
        query_id,
        stage,
        task,
        attempt: 0,
    }
}

/// A finished task that took `millis`; each of its nodes put out as many rows as that.
pub(crate) fn report(key: TaskKey, nodes: &[&str], millis: usize) -> TaskReport {
    let node = |name: &&str| NodeReport {
        name: (*name).to_owned(),
        metrics: rows(millis),
    };
    TaskReport {
        key,
        worker: format!("http://worker-{}", key.task),
        status: TaskStatus::Finished,
        error: None,
        error_kind: None,
        started: Some(SystemTime::UNIX_EPOCH),
        duration: Duration::from_millis(millis as u64),
        output_rows: millis as u64,
        output_bytes: 8 * millis as u64,
        nodes: nodes.iter().map(node).collect(),
    }
}

/// The nodes that tasks of [`two_stages`] report.
pub(crate) const STAGE_1: [&str; 2] = ["RepartitionExec", "DataSourceExec"];
pub(crate) const STAGE_2: [&str; 2] = ["CoalescePartitionsExec", "NetworkShuffleExec"];
