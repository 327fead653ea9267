//! Each row to the task that its key belongs to.

use std::fmt;
use std::sync::Arc;

use datafusion::common::{Result, internal_err};
use datafusion::physical_expr::{LexOrdering, PhysicalExpr};
use datafusion::physical_plan::repartition::RepartitionExec;
use datafusion::physical_plan::{
    ExecutionPlan, ExecutionPlanProperties, Partitioning, PlanProperties,
};

use crate::model::boundary::{
    BoundaryKind, ExchangeShape, NetworkBoundary, StreamKey, mixed_equivalences,
};

/// Sends each row to the consumer task and partition that the hash of its key belongs to.
///
/// With `C` consumer tasks of `P` partitions, producers split into `C * P`; number `c * P + p`
/// is partition `p` of consumer `c`:
///
/// ```text
/// producer 0: 0 1 2 3     consumer 0, partition 0: 0 of every producer
/// producer 1: 0 1 2 3     consumer 0, partition 1: 1 of every producer
///                         consumer 1, partition 0: 2 of every producer ...
/// ```
#[derive(Clone, Debug)]
pub struct NetworkShuffle {
    keys: Vec<Arc<dyn PhysicalExpr>>,
    partitions: usize,
    order: Option<LexOrdering>,
}

impl NetworkShuffle {
    /// Shuffles by `keys` into `partitions` of each consumer task. With an `order`, which the
    /// input must have, it is kept: producers split stably, consumers merge.
    pub fn new(
        keys: Vec<Arc<dyn PhysicalExpr>>,
        partitions: usize,
        order: Option<LexOrdering>,
    ) -> Self {
        Self {
            keys,
            partitions,
            order,
        }
    }
}

impl NetworkBoundary for NetworkShuffle {
    fn name(&self) -> &str {
        "NetworkShuffleExec"
    }

    fn kind(&self) -> BoundaryKind {
        BoundaryKind::Shuffle
    }

    fn stage_head(
        &self,
        input: Arc<dyn ExecutionPlan>,
        consumer_tasks: usize,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let split = Partitioning::Hash(self.keys.clone(), self.partitions * consumer_tasks);
        let mut head = RepartitionExec::try_new(input, split)?;
        if self.order.is_some() {
            head = head.with_preserve_order();
        }
        Ok(Arc::new(head))
    }

    fn properties(
        &self,
        head: &Arc<dyn ExecutionPlan>,
        shape: &ExchangeShape,
    ) -> Result<PlanProperties> {
        if shape.producer_partitions != self.partitions * shape.consumer_tasks {
            return internal_err!(
                "a shuffle to {} tasks of {} partitions reads {} from each producer, not {}",
                shape.consumer_tasks,
                self.partitions,
                self.partitions * shape.consumer_tasks,
                shape.producer_partitions
            );
        }
        let mut equivalences = mixed_equivalences(head);
        if let Some(order) = &self.order {
            equivalences.add_ordering(order.clone());
        }
        Ok(PlanProperties::new(
            equivalences,
            Partitioning::Hash(self.keys.clone(), self.partitions),
            head.pipeline_behavior(),
            head.boundedness(),
        ))
    }

    fn reads(&self, consumer: usize, partition: usize, shape: &ExchangeShape) -> Vec<StreamKey> {
        (0..shape.producer_tasks)
            .map(|task| StreamKey {
                task,
                partition: consumer * self.partitions + partition,
            })
            .collect()
    }

    fn merge_order(&self) -> Option<&LexOrdering> {
        self.order.as_ref()
    }

    fn fmt_details(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let keys: Vec<String> = self.keys.iter().map(ToString::to_string).collect();
        write!(
            f,
            ", keys=[{}], partitions={}",
            keys.join(", "),
            self.partitions
        )
    }
}
