//! Distributes Apache DataFusion queries over Arrow Flight as one flattened plan.

pub mod config;
pub mod engine;
pub mod model;
pub mod planner;
mod wire;
pub mod worker;

pub use config::FlightpathConfig;
pub use engine::connect::{Connector, TcpConnector};
pub use engine::distributed::DistributedExec;
pub use engine::resolver::{DnsWorkers, StaticWorkers, WorkerResolver};
pub use model::boundary::{
    BoundaryEdit, BoundaryKind, ExchangeShape, NetworkBoundary, NetworkBoundaryExec,
    NetworkBoundaryExt, StreamKey, edit_boundary,
};
pub use model::forward::TransparentWrapper;
pub use model::hooks::{Headers, Hooks, NoHooks};
pub use model::isolator::PartitionIsolatorExec;
pub use model::metric_codec::{EncodedMetric, MetricCodec, MetricCodecs, OpaqueMetricValue};
pub use model::metrics_wrapper::MetricsWrapperExec;
pub use model::report::{NodeReport, TaskReport, TaskStatus};
pub use model::reports::{MissingTask, QueryReports, TaskCounts, TaskProgress};
pub use model::slot::MetricsSlot;
pub use model::stage::{QueryId, Stage, TaskKey};
pub use model::staged::{BoundaryView, stages};
pub use model::visitor::{PlanVisitor, visit_stages};
pub use model::wrapper::{find_layer, innermost, layers};
pub use planner::leaf::LeafSplitter;
pub use planner::local::{LocalExec, local_reason};
pub use planner::{
    BoundaryPlanner, Coordinator, DistributedRule, Exchanged, SessionStateBuilderExt,
};
pub use wire::error::{Origin, origin_of};
pub use worker::{ShutdownSummary, Worker, WorkerBuilder, WorkerServer};
