//! Distributes Apache DataFusion queries over Arrow Flight as one flattened plan.

pub mod config;
pub mod model;
mod wire;

pub use model::display::{StageDisplay, display_stages};
pub use model::forward::TransparentWrapper;
pub use model::metric_codec::{EncodedMetric, MetricCodec, MetricCodecs, OpaqueMetricValue};
pub use model::metrics_wrapper::MetricsWrapperExec;
pub use model::pairing::{StageSlots, wrap_stages};
pub use model::reports::{MissingTask, PlannedTask, QueryReports, TaskCounts, TaskProgress};
pub use model::slot::MetricsSlot;
pub use model::staged::{
    BoundaryDetector, BoundaryView, NetworkBoundaries, StageNode, StageView, StagedPlan, stages,
};
pub use model::summary::{StageSummary, stage_summaries};
pub use model::visitor::{
    NodeVisit, PlanVisitor, TaskVisit, Visited, visit_stages, visit_stages_with,
};
pub use model::wrapper::{find_layer, innermost, layers};
