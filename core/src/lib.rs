//! Distributes Apache DataFusion queries over Arrow Flight as one flattened plan.

pub mod config;
pub mod engine;
pub mod model;
mod wire;

pub use engine::resolver::{DnsWorkers, StaticWorkers, WorkerResolver};
pub use model::forward::TransparentWrapper;
pub use model::metric_codec::{EncodedMetric, MetricCodec, MetricCodecs, OpaqueMetricValue};
pub use model::metrics_wrapper::MetricsWrapperExec;
pub use model::slot::MetricsSlot;
pub use model::wrapper::{find_layer, innermost, layers};
pub use wire::error::{Origin, origin_of};
