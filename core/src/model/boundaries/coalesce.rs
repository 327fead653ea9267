//! All rows to one task.

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::physical_plan::{
    ExecutionPlan, ExecutionPlanProperties, Partitioning, PlanProperties,
};

use crate::model::boundary::{BoundaryKind, ExchangeShape, NetworkBoundary, StreamKey};

/// Brings every partition of every producer task to one consumer task, side by side.
///
/// Partition `t * P + p` of the consumer is partition `p` of producer `t`, unmixed: each keeps
/// its order, and what merges them is an ordinary node above.
#[derive(Clone, Copy, Debug, Default)]
pub struct NetworkCoalesce;

impl NetworkBoundary for NetworkCoalesce {
    fn name(&self) -> &str {
        "NetworkCoalesceExec"
    }

    fn kind(&self) -> BoundaryKind {
        BoundaryKind::Coalesce
    }

    fn stage_head(
        &self,
        input: Arc<dyn ExecutionPlan>,
        _consumer_tasks: usize,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(input)
    }

    fn properties(
        &self,
        head: &Arc<dyn ExecutionPlan>,
        shape: &ExchangeShape,
    ) -> Result<PlanProperties> {
        Ok(side_by_side(
            head,
            shape.producer_tasks * shape.producer_partitions,
        ))
    }

    fn reads(&self, _consumer: usize, partition: usize, shape: &ExchangeShape) -> Vec<StreamKey> {
        vec![StreamKey {
            task: partition / shape.producer_partitions,
            partition: partition % shape.producer_partitions,
        }]
    }
}

/// Properties of a node whose partitions are, each, one of `head`'s.
pub(super) fn side_by_side(head: &Arc<dyn ExecutionPlan>, partitions: usize) -> PlanProperties {
    PlanProperties::new(
        head.equivalence_properties().clone(),
        Partitioning::UnknownPartitioning(partitions),
        head.pipeline_behavior(),
        head.boundedness(),
    )
}
