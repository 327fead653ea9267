//! Small rewrites that stages are put together from.

use std::sync::Arc;

use datafusion::common::{DataFusionError, JoinType, Result};
use datafusion::physical_expr::{
    LexOrdering, OrderingRequirements, PhysicalExpr, PhysicalSortExpr,
};
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::repartition::RepartitionExec;
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::sorts::sort_preserving_merge::SortPreservingMergeExec;
use datafusion::physical_plan::{
    Distribution, ExecutionPlan, ExecutionPlanProperties, Partitioning,
    replace_children_if_necessary,
};

use crate::model::boundary::NetworkBoundaryExt;
use crate::model::isolator::PartitionIsolatorExec;

/// Whether each task that has a copy of the build side would put out rows of it.
pub(super) fn emits_build_rows(join: &JoinType) -> bool {
    match join {
        JoinType::Inner
        | JoinType::Right
        | JoinType::RightSemi
        | JoinType::RightAnti
        | JoinType::RightMark => false,
        JoinType::Left
        | JoinType::Full
        | JoinType::LeftSemi
        | JoinType::LeftAnti
        | JoinType::LeftMark => true,
    }
}

/// The plan split by `keys` within this task, as a node that needs it there expects.
pub(super) fn keyed_here(
    plan: Arc<dyn ExecutionPlan>,
    keys: &[Arc<dyn PhysicalExpr>],
    node: &Arc<dyn ExecutionPlan>,
) -> Result<Arc<dyn ExecutionPlan>> {
    let before = node
        .children()
        .first()
        .map_or(1, |child| child.output_partitioning().partition_count());
    if before == 1 {
        return merged(plan);
    }
    let required = Distribution::KeyPartitioned(keys.to_vec());
    let partitioning = plan.output_partitioning();
    if partitioning.partition_count() == before
        && partitioning
            .satisfaction(&required, plan.equivalence_properties(), false)
            .is_satisfied()
    {
        return Ok(plan);
    }
    Ok(Arc::new(RepartitionExec::try_new(
        plan,
        Partitioning::Hash(keys.to_vec(), before),
    )?))
}

/// Sorts inputs that lost an order which the node needs.
pub(super) fn ordered_as_required(
    node: &Arc<dyn ExecutionPlan>,
    children: Vec<Arc<dyn ExecutionPlan>>,
) -> Result<Vec<Arc<dyn ExecutionPlan>>> {
    children
        .into_iter()
        .zip(node.required_input_ordering())
        .map(|(child, required)| {
            let Some(OrderingRequirements::Hard(alternatives)) = required else {
                return Ok(child);
            };
            let required = alternatives[0].clone();
            if child
                .equivalence_properties()
                .ordering_satisfy_requirement(required.clone())?
            {
                return Ok(child);
            }
            let order = LexOrdering::new(required.into_iter().map(PhysicalSortExpr::from));
            let Some(order) = order else {
                return Ok(child);
            };
            Ok(
                Arc::new(SortExec::new(order, child).with_preserve_partitioning(true))
                    as Arc<dyn ExecutionPlan>,
            )
        })
        .collect()
}

pub(super) fn interleavable(children: &[Arc<dyn ExecutionPlan>]) -> bool {
    datafusion::physical_plan::union::can_interleave(children.iter())
}

/// One partition, in order where there is one.
pub(super) fn merged(plan: Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
    if plan.output_partitioning().partition_count() == 1 {
        return Ok(plan);
    }
    Ok(match plan.output_ordering().cloned() {
        Some(order) => Arc::new(SortPreservingMergeExec::new(order, plan)),
        None => Arc::new(CoalescePartitionsExec::new(plan)),
    })
}

/// What is below a `CoalescePartitionsExec` that has no limit of its own.
pub(super) fn unmerged(plan: &Arc<dyn ExecutionPlan>) -> &Arc<dyn ExecutionPlan> {
    match plan.downcast_ref::<CoalescePartitionsExec>() {
        Some(merge) if merge.fetch().is_none() => plan.children()[0],
        _ => plan,
    }
}

/// Puts an isolator on each leaf of a stage's plan.
pub(super) fn isolated(
    plan: &Arc<dyn ExecutionPlan>,
    tasks: usize,
) -> Result<Arc<dyn ExecutionPlan>> {
    if tasks == 1 || plan.as_network_boundary().is_some() {
        return Ok(Arc::clone(plan));
    }
    if plan.children().is_empty() {
        return Ok(Arc::new(PartitionIsolatorExec::new(
            Arc::clone(plan),
            tasks,
        )));
    }
    let children = plan
        .children()
        .into_iter()
        .map(|child| isolated(child, tasks))
        .collect::<Result<_, DataFusionError>>()?;
    replace_children_if_necessary(Arc::clone(plan), children)
}
