//! Writing a transparent wrapper: a node that stands in front of another and acts as if it were it.
//!
//! `ExecutionPlan` has 35 methods, most with a default that is right for a node and wrong for a
//! wrapper. A wrapper that forgets one changes plans without a word. Here they are forwarded once,
//! for all wrappers.

use std::any::{Any, TypeId};
use std::fmt;
use std::sync::Arc;

use datafusion::error::Result;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::metrics::MetricsSet;
use datafusion::physical_plan::{DisplayFormatType, ExecutionPlan, replace_children_if_necessary};

use super::wrapper::innermost;

/// What tells one transparent wrapper from another.
///
/// [`inner`](Self::inner) and [`rewrap`](Self::rewrap) are required. The others forward to the
/// wrapped node, and are there to be overridden by wrappers that watch or replace what it does.
/// [`transparent_execution_plan!`](crate::transparent_execution_plan) makes the type an
/// [`ExecutionPlan`]:
///
/// ```
/// use std::sync::Arc;
///
/// use datafusion::physical_plan::ExecutionPlan;
/// use flightpath_core::{TransparentWrapper, transparent_execution_plan};
///
/// #[derive(Debug)]
/// struct NoopExec(Arc<dyn ExecutionPlan>);
///
/// impl TransparentWrapper for NoopExec {
///     fn inner(&self) -> &Arc<dyn ExecutionPlan> {
///         &self.0
///     }
///
///     fn rewrap(&self, inner: Arc<dyn ExecutionPlan>) -> Arc<dyn ExecutionPlan> {
///         Arc::new(Self(inner))
///     }
/// }
///
/// transparent_execution_plan!(NoopExec);
/// ```
pub trait TransparentWrapper: ExecutionPlan {
    /// The node behind this wrapper, which may be another wrapper.
    fn inner(&self) -> &Arc<dyn ExecutionPlan>;

    /// This wrapper around a node that takes the place of [`inner`](Self::inner).
    fn rewrap(&self, inner: Arc<dyn ExecutionPlan>) -> Arc<dyn ExecutionPlan>;

    /// See [`ExecutionPlan::execute`].
    fn execute(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        self.inner().execute(partition, context)
    }

    /// See [`ExecutionPlan::metrics`].
    fn metrics(&self) -> Option<MetricsSet> {
        self.inner().metrics()
    }

    /// See [`DisplayAs::fmt_as`](datafusion::physical_plan::DisplayAs::fmt_as).
    fn fmt_as(&self, format: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner().fmt_as(format, f)
    }
}

/// Puts a wrapper back onto its node in a plan that may have been built around or without that node.
///
/// A projection that is pushed into a node may leave a rest of itself on top; pushing filters may
/// remove a `FilterExec` and give back its input, which has wrappers of its own. Wrapping the top in
/// any case, as if it were the node, would leave the node bare in the first case, and put a second
/// wrapper on another node in the second. So the node is looked for, by type, at the top and right
/// below; if it is gone, so is its wrapper.
#[doc(hidden)] // For the macro.
pub fn rewrap_survivor(
    wrapper: &impl TransparentWrapper,
    plan: Arc<dyn ExecutionPlan>,
) -> Result<Arc<dyn ExecutionPlan>> {
    let inner = wrapper.inner();
    let survives = |candidate: &Arc<dyn ExecutionPlan>| {
        concrete_type(candidate.as_ref()) == concrete_type(inner.as_ref())
            && !inner
                .children()
                .iter()
                .any(|child| Arc::ptr_eq(child, candidate))
    };
    if survives(&plan) {
        return Ok(wrapper.rewrap(plan));
    }
    let below = match plan.children()[..] {
        [child] if survives(child) => wrapper.rewrap(Arc::clone(child)),
        _ => return Ok(plan),
    };
    replace_children_if_necessary(plan, vec![below])
}

fn concrete_type(plan: &dyn ExecutionPlan) -> TypeId {
    (innermost(plan) as &dyn Any).type_id()
}

/// Implements `ExecutionPlan` and `DisplayAs` for a [`TransparentWrapper`], given its name.
///
/// Everything is forwarded to the inner node, and what makes a new node of it comes back wrapped:
/// `replace_children`, `with_new_children`, `with_new_children_and_same_properties`,
/// `with_new_state`, `reset_state`, `repartitioned`, `with_fetch`, `with_preserve_order` and
/// `try_pushdown_sort`. After `try_swapping_with_projection` and `handle_child_pushdown_result` the
/// node may be one level down, or gone: the wrapper then is too.
///
/// [`TransparentWrapper`]: crate::TransparentWrapper
#[macro_export]
macro_rules! transparent_execution_plan {
    ($wrapper:ident) => {
        const _: () = {
            use $crate::model::forward::__private::*;

            impl DisplayAs for $wrapper {
                fn fmt_as(
                    &self,
                    format: DisplayFormatType,
                    f: &mut ::std::fmt::Formatter<'_>,
                ) -> ::std::fmt::Result {
                    TransparentWrapper::fmt_as(self, format, f)
                }
            }

            // The lint keeps this list complete when DataFusion adds a method.
            #[warn(clippy::missing_trait_methods)]
            #[allow(deprecated)]
            impl ExecutionPlan for $wrapper {
                fn name(&self) -> &str {
                    TransparentWrapper::inner(self).name()
                }

                fn static_name() -> &'static str {
                    ::std::stringify!($wrapper)
                }

                fn downcast_delegate(&self) -> Option<&dyn ExecutionPlan> {
                    Some(TransparentWrapper::inner(self).as_ref())
                }

                fn schema(&self) -> SchemaRef {
                    TransparentWrapper::inner(self).schema()
                }

                fn properties(&self) -> &Arc<PlanProperties> {
                    TransparentWrapper::inner(self).properties()
                }

                fn check_invariants(&self, check: InvariantLevel) -> Result<()> {
                    TransparentWrapper::inner(self).check_invariants(check)
                }

                fn dynamic_expressions_produced(&self) -> Vec<Arc<dyn PhysicalExpr>> {
                    TransparentWrapper::inner(self).dynamic_expressions_produced()
                }

                fn required_input_distribution(&self) -> Vec<Distribution> {
                    TransparentWrapper::inner(self).required_input_distribution()
                }

                fn input_distribution_requirements(&self) -> InputDistributionRequirements {
                    TransparentWrapper::inner(self).input_distribution_requirements()
                }

                fn required_input_ordering(&self) -> Vec<Option<OrderingRequirements>> {
                    TransparentWrapper::inner(self).required_input_ordering()
                }

                fn maintains_input_order(&self) -> Vec<bool> {
                    TransparentWrapper::inner(self).maintains_input_order()
                }

                fn benefits_from_input_partitioning(&self) -> Vec<bool> {
                    TransparentWrapper::inner(self).benefits_from_input_partitioning()
                }

                fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
                    TransparentWrapper::inner(self).children()
                }

                fn replace_children(
                    self: Arc<Self>,
                    children: Vec<Arc<dyn ExecutionPlan>>,
                    options: ReplaceChildrenOptions,
                ) -> Result<Arc<dyn ExecutionPlan>> {
                    let inner = Arc::clone(TransparentWrapper::inner(&*self));
                    let replaced = inner.replace_children(children, options)?;
                    Ok(self.rewrap(replaced))
                }

                fn apply_expressions(
                    &self,
                    f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
                ) -> Result<TreeNodeRecursion> {
                    TransparentWrapper::inner(self).apply_expressions(f)
                }

                fn with_new_children(
                    self: Arc<Self>,
                    children: Vec<Arc<dyn ExecutionPlan>>,
                ) -> Result<Arc<dyn ExecutionPlan>> {
                    let inner = Arc::clone(TransparentWrapper::inner(&*self));
                    Ok(self.rewrap(inner.with_new_children(children)?))
                }

                fn with_new_children_and_same_properties(
                    self: Arc<Self>,
                    children: Vec<Arc<dyn ExecutionPlan>>,
                ) -> Result<Arc<dyn ExecutionPlan>> {
                    let inner = Arc::clone(TransparentWrapper::inner(&*self));
                    Ok(self.rewrap(inner.with_new_children_and_same_properties(children)?))
                }

                fn reset_state(self: Arc<Self>) -> Result<Arc<dyn ExecutionPlan>> {
                    let inner = Arc::clone(TransparentWrapper::inner(&*self));
                    Ok(self.rewrap(inner.reset_state()?))
                }

                fn repartitioned(
                    &self,
                    target_partitions: usize,
                    config: &ConfigOptions,
                ) -> Result<Option<Arc<dyn ExecutionPlan>>> {
                    let inner = TransparentWrapper::inner(self);
                    let repartitioned = inner.repartitioned(target_partitions, config)?;
                    Ok(repartitioned.map(|plan| self.rewrap(plan)))
                }

                fn execute(
                    &self,
                    partition: usize,
                    context: Arc<TaskContext>,
                ) -> Result<SendableRecordBatchStream> {
                    TransparentWrapper::execute(self, partition, context)
                }

                fn metrics(&self) -> Option<MetricsSet> {
                    TransparentWrapper::metrics(self)
                }

                fn partition_statistics(
                    &self,
                    partition: Option<usize>,
                ) -> Result<Arc<Statistics>> {
                    TransparentWrapper::inner(self).partition_statistics(partition)
                }

                fn statistics_from_inputs(
                    &self,
                    input_stats: &[Arc<Statistics>],
                    args: &StatisticsArgs,
                ) -> Result<Arc<Statistics>> {
                    TransparentWrapper::inner(self).statistics_from_inputs(input_stats, args)
                }

                fn child_stats_requests(&self, partition: Option<usize>) -> Vec<ChildStats> {
                    TransparentWrapper::inner(self).child_stats_requests(partition)
                }

                fn supports_limit_pushdown(&self) -> bool {
                    TransparentWrapper::inner(self).supports_limit_pushdown()
                }

                fn with_fetch(&self, limit: Option<usize>) -> Option<Arc<dyn ExecutionPlan>> {
                    let limited = TransparentWrapper::inner(self).with_fetch(limit)?;
                    Some(self.rewrap(limited))
                }

                fn fetch(&self) -> Option<usize> {
                    TransparentWrapper::inner(self).fetch()
                }

                fn cardinality_effect(&self) -> CardinalityEffect {
                    TransparentWrapper::inner(self).cardinality_effect()
                }

                fn try_swapping_with_projection(
                    &self,
                    projection: &ProjectionExec,
                ) -> Result<Option<Arc<dyn ExecutionPlan>>> {
                    let inner = TransparentWrapper::inner(self);
                    let swapped = inner.try_swapping_with_projection(projection)?;
                    swapped.map(|plan| rewrap_survivor(self, plan)).transpose()
                }

                fn gather_filters_for_pushdown(
                    &self,
                    phase: FilterPushdownPhase,
                    parent_filters: Vec<Arc<dyn PhysicalExpr>>,
                    config: &ConfigOptions,
                ) -> Result<FilterDescription> {
                    let inner = TransparentWrapper::inner(self);
                    inner.gather_filters_for_pushdown(phase, parent_filters, config)
                }

                fn handle_child_pushdown_result(
                    &self,
                    phase: FilterPushdownPhase,
                    child_pushdown_result: ChildPushdownResult,
                    config: &ConfigOptions,
                ) -> Result<FilterPushdownPropagation<Arc<dyn ExecutionPlan>>> {
                    let inner = TransparentWrapper::inner(self);
                    let mut propagation =
                        inner.handle_child_pushdown_result(phase, child_pushdown_result, config)?;
                    propagation.updated_node = propagation
                        .updated_node
                        .map(|plan| rewrap_survivor(self, plan))
                        .transpose()?;
                    Ok(propagation)
                }

                fn with_new_state(
                    &self,
                    state: Arc<dyn Any + Send + Sync>,
                ) -> Option<Arc<dyn ExecutionPlan>> {
                    let changed = TransparentWrapper::inner(self).with_new_state(state)?;
                    Some(self.rewrap(changed))
                }

                fn try_pushdown_sort(
                    &self,
                    order: &[PhysicalSortExpr],
                ) -> Result<SortOrderPushdownResult<Arc<dyn ExecutionPlan>>> {
                    let result = TransparentWrapper::inner(self).try_pushdown_sort(order)?;
                    Ok(result.map(|plan| self.rewrap(plan)))
                }

                fn with_preserve_order(
                    &self,
                    preserve_order: bool,
                ) -> Option<Arc<dyn ExecutionPlan>> {
                    let inner = TransparentWrapper::inner(self);
                    let ordered = inner.with_preserve_order(preserve_order)?;
                    Some(self.rewrap(ordered))
                }

                fn try_to_proto(
                    &self,
                    ctx: &ExecutionPlanEncodeCtx<'_>,
                ) -> Result<Option<PhysicalPlanNode>> {
                    TransparentWrapper::inner(self).try_to_proto(ctx)
                }
            }
        };
    };
}

/// What [`transparent_execution_plan!`](crate::transparent_execution_plan) names, so that crates
/// that use it need not depend on all of it.
#[doc(hidden)]
pub mod __private {
    pub use std::any::Any;
    pub use std::sync::Arc;

    pub use datafusion::arrow::datatypes::SchemaRef;
    pub use datafusion::common::Statistics;
    pub use datafusion::common::tree_node::TreeNodeRecursion;
    pub use datafusion::config::ConfigOptions;
    pub use datafusion::error::Result;
    pub use datafusion::execution::{SendableRecordBatchStream, TaskContext};
    pub use datafusion::physical_expr::{Distribution, OrderingRequirements, PhysicalSortExpr};
    pub use datafusion::physical_plan::execution_plan::{CardinalityEffect, InvariantLevel};
    pub use datafusion::physical_plan::filter_pushdown::{
        ChildPushdownResult, FilterDescription, FilterPushdownPhase, FilterPushdownPropagation,
    };
    pub use datafusion::physical_plan::metrics::MetricsSet;
    pub use datafusion::physical_plan::projection::ProjectionExec;
    pub use datafusion::physical_plan::proto::ExecutionPlanEncodeCtx;
    pub use datafusion::physical_plan::{
        ChildStats, DisplayAs, DisplayFormatType, ExecutionPlan, InputDistributionRequirements,
        PhysicalExpr, PlanProperties, ReplaceChildrenOptions, SortOrderPushdownResult,
        StatisticsArgs,
    };
    pub use datafusion_proto::protobuf::PhysicalPlanNode;

    pub use super::{TransparentWrapper, rewrap_survivor};
}
