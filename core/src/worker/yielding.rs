//! Tasks that can be stopped at any time.

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::coop::make_cooperative;
use datafusion::physical_plan::execution_plan::SchedulingType;

use crate::model::forward::TransparentWrapper;
use crate::transparent_execution_plan;

/// A node that gives its thread back after every so many batches.
///
/// DataFusion sees to that where rows are read, which is enough while no node puts out much more
/// than it reads. A join does: for one batch read it can put out thousands, all consumed without a
/// pause, and for as long the task cannot be stopped, nor its worker give a sign of life.
#[derive(Debug)]
struct YieldingExec(Arc<dyn ExecutionPlan>);

impl TransparentWrapper for YieldingExec {
    fn inner(&self) -> &Arc<dyn ExecutionPlan> {
        &self.0
    }

    fn rewrap(&self, inner: Arc<dyn ExecutionPlan>) -> Arc<dyn ExecutionPlan> {
        Arc::new(Self(inner))
    }

    fn execute(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        Ok(make_cooperative(self.0.execute(partition, context)?))
    }
}

transparent_execution_plan!(YieldingExec);

/// `plan`, in which every node yields that does not by itself.
pub(super) fn yielding(plan: Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
    plan.transform_up(|node| {
        Ok(match node.properties().scheduling_type {
            SchedulingType::Cooperative => Transformed::no(node),
            SchedulingType::NonCooperative => Transformed::yes(Arc::new(YieldingExec(node))),
        })
    })
    .data()
}
