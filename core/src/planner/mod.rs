//! From an optimized DataFusion plan to a distributed one.

mod coordinator;
mod distribute;
pub mod leaf;
pub mod local;
mod rewrite;
mod rule;

use std::fmt::Debug;
use std::sync::Arc;

use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::ExecutionPlan;

pub(crate) use coordinator::Parts;
pub use coordinator::{Coordinator, SessionStateBuilderExt};
pub use rule::DistributedRule;

use crate::model::boundary::NetworkBoundary;

/// What has to happen to rows between two stages.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum Exchanged<'a> {
    /// Equal keys have to meet in one of `partitions` partitions of one task.
    Keyed {
        /// By what rows are split.
        keys: &'a [Arc<dyn PhysicalExpr>],
        /// Partitions of each consumer task.
        partitions: usize,
    },
    /// Each consumer task has to see every row.
    Replicated,
    /// One task has to see every row.
    Gathered,
}

/// Chooses boundaries other than the built-in ones.
pub trait BoundaryPlanner: Debug + Send + Sync {
    /// The boundary for rows of `input` on their way to `consumer_tasks` tasks; `None` leaves the
    /// choice to the next planner, and at last to the built-in boundaries.
    fn boundary(
        &self,
        exchanged: &Exchanged<'_>,
        input: &Arc<dyn ExecutionPlan>,
        consumer_tasks: usize,
    ) -> Option<Arc<dyn NetworkBoundary>>;
}
