//! Looking through wrappers: nodes that stand in front of another node and act as if they were it.
//!
//! `downcast_ref` and `is` go straight to the node that is wrapped, so a
//! wrapper itself is invisible to them. These helpers step along
//! [`ExecutionPlan::downcast_delegate`] instead, and see every layer.

use std::any::Any;
use std::iter;

use datafusion::physical_plan::ExecutionPlan;

/// The layers of one plan node: outermost wrapper first, the wrapped node last.
pub fn layers(plan: &dyn ExecutionPlan) -> impl Iterator<Item = &dyn ExecutionPlan> {
    iter::successors(Some(plan), |layer| layer.downcast_delegate())
}

/// The node under all wrappers: `plan` itself if it has none.
pub fn innermost(plan: &dyn ExecutionPlan) -> &dyn ExecutionPlan {
    layers(plan).last().unwrap_or(plan)
}

/// The outermost layer of type `T`, be it a wrapper or the wrapped node.
pub fn find_layer<T: ExecutionPlan>(plan: &dyn ExecutionPlan) -> Option<&T> {
    layers(plan).find_map(|layer| (layer as &dyn Any).downcast_ref())
}
