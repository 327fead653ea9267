//! A leaf of which each task reads its own share.

use std::fmt;
use std::sync::Arc;

use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{Result, internal_err};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::execution_plan::{ChildrenPropertiesMode, ReplaceChildrenOptions};
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties, Partitioning,
    PlanProperties,
};

use crate::model::child::only_child;

/// Stands over a leaf whose partitions are dealt out to `tasks` tasks, round robin: partition `p`
/// of task `t` is partition `p * tasks + t` of the leaf.
///
/// Choosing partitions is not enough to isolate a task, since the partitions of a file scan share
/// one queue of files and would read each other's. So on its way to a task the leaf is cut down
/// to what that task reads, and this node passes through what is left ([`Self::narrowed`]).
#[derive(Clone, Debug)]
pub struct PartitionIsolatorExec {
    input: Arc<dyn ExecutionPlan>,
    tasks: usize,
    narrowed: bool,
    properties: Arc<PlanProperties>,
}

impl PartitionIsolatorExec {
    /// Deals the partitions of `leaf` out to `tasks` tasks.
    pub fn new(leaf: Arc<dyn ExecutionPlan>, tasks: usize) -> Self {
        Self::with(leaf, tasks, false)
    }

    /// Over a leaf that has been cut down to what one of `tasks` tasks reads.
    pub fn narrowed(leaf: Arc<dyn ExecutionPlan>, tasks: usize) -> Self {
        Self::with(leaf, tasks, true)
    }

    fn with(input: Arc<dyn ExecutionPlan>, tasks: usize, narrowed: bool) -> Self {
        let all = input.output_partitioning().partition_count();
        let partitions = if narrowed { all } else { all.div_ceil(tasks) };
        let properties = PlanProperties::new(
            input.equivalence_properties().clone(),
            Partitioning::UnknownPartitioning(partitions),
            input.pipeline_behavior(),
            input.boundedness(),
        );
        Self {
            input,
            tasks,
            narrowed,
            properties: Arc::new(properties),
        }
    }

    /// The leaf.
    pub fn input(&self) -> &Arc<dyn ExecutionPlan> {
        &self.input
    }

    /// How many tasks share the leaf.
    pub fn tasks(&self) -> usize {
        self.tasks
    }
}

impl DisplayAs for PartitionIsolatorExec {
    fn fmt_as(&self, t: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let partitions = self.properties.output_partitioning().partition_count();
        match t {
            DisplayFormatType::TreeRender => write!(f, "partitions per task={partitions}"),
            _ => write!(
                f,
                "PartitionIsolatorExec: tasks={}, partitions per task={partitions}",
                self.tasks
            ),
        }
    }
}

impl ExecutionPlan for PartitionIsolatorExec {
    fn name(&self) -> &str {
        "PartitionIsolatorExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.input]
    }

    fn maintains_input_order(&self) -> Vec<bool> {
        vec![true]
    }

    fn benefits_from_input_partitioning(&self) -> Vec<bool> {
        vec![false]
    }

    fn apply_expressions(
        &self,
        _f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn replace_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
        _options: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let input = only_child(self.name(), &children)?;
        Ok(Arc::new(Self::with(input, self.tasks, self.narrowed)))
    }

    fn with_new_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        self.replace_children(
            children,
            ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute),
        )
    }

    fn execute(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        if !self.narrowed {
            return internal_err!(
                "PartitionIsolatorExec runs in a task, over a leaf that was cut down to that task"
            );
        }
        self.input.execute(partition, context)
    }
}
