//! What a distributed query did, where its time went, and what stands out.
//!
//! A [`QueryProfile`] is a snapshot of a query, made from a plan that ran or runs. It owns all it
//! says: it can be kept, sent and read on another machine, without the plan.
//!
//! ```
//! use std::sync::Arc;
//!
//! use datafusion::physical_plan::collect;
//! use flightpath_metrics::QueryProfile;
//! # use flightpath_testkit::Cluster;
//!
//! # #[tokio::main]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let cluster = Cluster::start(2).await?;
//! # let ctx = cluster.context()?;
//! # ctx.sql("CREATE TABLE t AS SELECT value AS v FROM generate_series(1, 9)").await?;
//! let frame = ctx.sql("SELECT v % 3, count(*) FROM t GROUP BY v % 3").await?;
//! let task = Arc::new(frame.task_ctx());
//! let plan = frame.create_physical_plan().await?;
//! collect(Arc::clone(&plan), task).await?;
//!
//! let profile = QueryProfile::of(&plan)?;
//! assert_eq!(profile.output_rows, 3);
//!
//! let kept = profile.to_json()?;
//! assert_eq!(QueryProfile::from_json(&kept)?, profile);
//! # cluster.stop().await?;
//! # Ok(())
//! # }
//! ```
//!
//! [`export`] measures a process with instruments of OpenTelemetry, and brings them to an OTLP
//! endpoint and to Prometheus.
//!
//! # The JSON form
//!
//! One object, which is [`QueryProfile`] field by field; [`profile`] describes it.

pub mod analysis;
#[cfg(feature = "export")]
pub mod export;
pub(crate) mod numbers;
pub mod profile;
pub mod progress;
pub mod report;
pub mod text;

pub use analysis::{
    CriticalPath, Exchanged, Finding, FindingKind, OperatorTime, PathStep, StageFigures,
    TaskFigures,
};
pub use profile::metric::{Metric, MetricKind, Reading, Value};
pub use profile::{
    BoundaryProfile, NodeProfile, ProfileError, QueryProfile, QueryStatus, StageProfile,
    TaskProfile, TaskState, UnmatchedNode,
};
pub use progress::{Progress, StageProgress, progress, progress_of};
pub use text::Text;

/// The visitor of plans, for what a profile does not say.
pub use flightpath_core::{NodeVisit, PlanVisitor, TaskVisit, Visited, visit_stages};
