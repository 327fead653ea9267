//! Nodes with one child.

use std::sync::Arc;

use datafusion::common::{Result, internal_err};
use datafusion::physical_plan::ExecutionPlan;

/// The child that `name` is given in place of its own.
///
/// # Errors
/// If it is not one.
pub(crate) fn only_child(
    name: &str,
    children: &[Arc<dyn ExecutionPlan>],
) -> Result<Arc<dyn ExecutionPlan>> {
    match children {
        [child] => Ok(Arc::clone(child)),
        _ => internal_err!("{name} takes 1 child, not {}", children.len()),
    }
}
