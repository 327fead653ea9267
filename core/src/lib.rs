//! Distributes Apache DataFusion queries over Arrow Flight as one flattened plan.
//!
//! A distributed plan is an ordinary DataFusion plan: stages are subtrees below network
//! boundaries, so `EXPLAIN`, `EXPLAIN ANALYZE` and everything else that walks plans shows the whole
//! query, with the metrics of every task on it.
//!
//! Going distributed is three calls: say where the workers are, put the planner on a session,
//! serve a worker. A fourth gives the worker a session of its own, with functions, object stores
//! and memory limits.
//!
//! ```
//! use datafusion::execution::SessionStateBuilder;
//! use datafusion::prelude::{CsvReadOptions, SessionContext};
//! use flightpath_core::{
//!     Coordinator, SessionStateBuilderExt, StaticWorkers, Worker, WorkerServer,
//! };
//!
//! # #[tokio::main]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! // On each worker; port 0 takes a free one.
//! let session = SessionStateBuilder::new().with_default_features().build();
//! let worker = Worker::builder().with_session_state(session).build();
//! let server = WorkerServer::bind("127.0.0.1:0".parse()?, worker, false).await?;
//!
//! // On the coordinator.
//! let workers = StaticWorkers::new([server.url().as_str()])?;
//! let state = SessionStateBuilder::new()
//!     .with_default_features()
//!     .with_flightpath(Coordinator::new(workers))
//!     .build();
//! let ctx = SessionContext::new_with_state(state);
//!
//! # let dir = std::env::temp_dir().join(format!("flightpath-doc-{}", std::process::id()));
//! # std::fs::create_dir_all(&dir)?;
//! # for part in 0..2 {
//! #     std::fs::write(dir.join(format!("{part}.csv")), "city,people\nUlm,1\nUlm,2\nBonn,3\n")?;
//! # }
//! ctx.register_csv("visits", dir.to_string_lossy(), CsvReadOptions::new()).await?;
//! let totals = ctx
//!     .sql("SELECT city, sum(people) AS people FROM visits GROUP BY city ORDER BY city")
//!     .await?
//!     .collect()
//!     .await?;
//! assert_eq!(totals[0].num_rows(), 2);
//! # std::fs::remove_dir_all(&dir)?;
//! # server.shutdown(std::time::Duration::from_secs(1)).await?;
//! # Ok(())
//! # }
//! ```
//!
//! # Words
//!
//! | word | what it is |
//! |---|---|
//! | coordinator | the session that plans a query and puts out its result |
//! | worker | a Flight service that runs tasks; see [`Worker`] |
//! | stage | a subtree that runs on workers, once per task; see [`Stage`] |
//! | task | one run of a stage's plan, over its share of the data; see [`TaskKey`] |
//! | boundary | where rows cross from one stage to the next; see [`NetworkBoundary`] |
//! | report | what a task says of itself when it ends; see [`TaskReport`] |
//!
//! # Two floors
//!
//! [`model`] is what a distributed plan is made of, and knows no engine: boundaries, stages,
//! reports, wrappers, visitors, display. [`engine`], [`planner`] and [`worker`] run it. What plugs
//! in is written against the model and its [`Hooks`].
//!
//! # Settings
//!
//! Every value that planning and execution use is a setting under `flightpath.`, with `SET` and
//! `SHOW`; see [`FlightpathConfig`].
//!
//! # Features
//!
//! | feature | default | what it adds |
//! |---|---|---|
//! | `parquet` | yes | scans of Parquet files run on workers |
//! | `sql` | no | errors of the SQL parser come back from workers as what they were |

pub mod config;
pub mod engine;
pub mod model;
pub mod planner;
mod wire;
pub mod worker;

pub use config::{Compression, FlightpathConfig, Timeout};
pub use engine::connect::{Connector, TcpConnector};
pub use engine::distributed::DistributedExec;
pub use engine::query_span::QuerySpan;
pub use engine::resolver::{DnsWorkers, StaticWorkers, WorkerResolver};
pub use model::boundary::{
    BoundaryEdit, BoundaryKind, ExchangeShape, NetworkBoundary, NetworkBoundaryExec,
    NetworkBoundaryExt, StreamKey, edit_boundary,
};
pub use model::display::{StageDisplay, display_stages};
pub use model::forward::TransparentWrapper;
pub use model::hooks::{ClientLeft, Direction, Headers, Hooks, NoHooks, Transfer};
pub use model::isolator::PartitionIsolatorExec;
pub use model::metric_codec::{EncodedMetric, MetricCodec, MetricCodecs, OpaqueMetricValue};

pub use model::metrics_wrapper::{MetricsWrapperExec, own_metrics};
pub use model::outcome::is_cancellation;
pub use model::pairing::{StageSlots, wrap_stages};
pub use model::report::{NodeReport, TaskReport, TaskStatus};
pub use model::reports::{
    MissingTask, PlannedTask, QueryOutcome, QueryReports, TaskCounts, TaskProgress, TaskSnapshot,
};
pub use model::slot::MetricsSlot;
pub use model::stage::{QueryId, Stage, TaskKey};
pub use model::staged::{
    BoundaryDetector, BoundaryView, NetworkBoundaries, StageNode, StageView, StagedPlan, stages,
};
pub use model::summary::{StageSummary, stage_summaries};
pub use model::trace::{TraceDetail, TraceOptions};
pub use model::visitor::{
    NodeVisit, PlanVisitor, TaskVisit, Visited, visit_stages, visit_stages_with,
};
pub use model::wrapper::{find_layer, innermost, layers};
pub use planner::leaf::LeafSplitter;
pub use planner::local::{LocalExec, local_reason};
pub use planner::{
    BoundaryPlanner, Coordinator, DistributedRule, Exchanged, SessionStateBuilderExt,
};
pub use wire::error::{Origin, kind_of, origin_of};
pub use worker::{ShutdownSummary, Worker, WorkerBuilder, WorkerServer};
