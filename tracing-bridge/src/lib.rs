//! One OpenTelemetry trace per distributed query, from SQL to every operator on every worker.
//!
//! ```
//! use std::sync::Arc;
//!
//! use datafusion::execution::SessionStateBuilder;
//! use datafusion::prelude::SessionContext;
//! use flightpath_core::{
//!     Coordinator, SessionStateBuilderExt, StaticWorkers, Worker, WorkerServer,
//! };
//! use flightpath_tracing_bridge::{Role, TracedSql, TracingHooks, init};
//!
//! # #[tokio::main]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! // In every process: spans go where OTEL_EXPORTER_OTLP_ENDPOINT says, and nowhere without it.
//! let telemetry = init(Role::Coordinator)?;
//! let hooks = Arc::new(TracingHooks::from_env()?);
//!
//! // On each worker.
//! let worker = Worker::builder().with_hooks(hooks.clone()).build();
//! let server = WorkerServer::bind("127.0.0.1:0".parse()?, worker, false).await?;
//!
//! // On the coordinator.
//! let workers = StaticWorkers::new([server.url().as_str()])?;
//! let state = SessionStateBuilder::new()
//!     .with_default_features()
//!     .with_flightpath(Coordinator::new(workers).with_hooks(hooks))
//!     .build();
//! let ctx = SessionContext::new_with_state(state);
//! ctx.traced_sql("SELECT 1 AS one").await?.show().await?;
//!
//! let summary = telemetry.shutdown().await;
//! assert_eq!(summary.failed + summary.dropped, 0);
//! # server.shutdown(std::time::Duration::from_secs(1)).await?;
//! # Ok(())
//! # }
//! ```
//!
//! # The trace
//!
//! ```text
//! query                       from traced_sql, or else from where the plan is run
//!   plan                      only with traced_sql; phases and rules are below it
//!   stage 2                   from its first dispatch to the last report of its tasks
//!     task                    on a worker
//!       SortExec              one span per node and task, over all of its partitions
//!         NetworkShuffleExec  linked to the tasks of stage 1 that it read
//!   stage 1
//!     task
//!       RepartitionExec
//! ```
//!
//! Metrics of nodes are on their spans as numbers, `datafusion.metrics.*`; failures set the status
//! and `error.type` on every span that they went through. Trace context and baggage travel with tasks
//! and streams, so a query is part of its caller's trace, and sampled as the caller is.
//!
//! # What it shows
//!
//! Settings of the session, which travel with each query:
//!
//! | `flightpath.` | default | what it does |
//! |---|---|---|
//! | `trace_detail` | `operator` | down to which level there are spans: `query`, `stage`, `task`, `operator` or `rpc` |
//! | `trace_span_budget` | 10,000 | tasks past it have only their own span, and the query `flightpath.trace.truncated` |
//! | `trace_sql` | `false` | texts that hold literals: SQL, nodes, and plans on spans of planning |
//! | `trace_preview_rows` | 0 | how many rows of each node's output are shown |
//!
//! Without `trace_sql`, what can still hold values are the messages of errors: DataFusion quotes some, such as a text
//! that cannot be cast.
//!
//! With `rpc`, each request has a span at both ends. A worker whose own session says `rpc` shows
//! actions of other Flight clients too, if they come with a `traceparent`.
//!
//! # Parts
//!
//! - [`init`] sends the spans of this process to OTLP, as the standard `OTEL_*` variables say;
//! - [`init_tree`] keeps them in memory, and draws them;
//! - [`TracingHooks`], given to the coordinator and to each worker, make them one trace;
//! - [`TracedSql::traced_sql`] has the trace cover planning as well;
//! - [`TransparentExec`] makes wrappers transparent that know nothing of boundaries;
//!   [`wrap_every_node`] and [`WrapEveryNode`] put any wrapper on every node.
//!
//! # Features
//!
//! | feature | default | what it adds |
//! |---|---|---|
//! | `sql` | yes | [`TracedSql`] |
//! | `tls` | yes | OTLP to https endpoints |

mod hooks;
mod operator;
mod otlp;
mod outcome;
#[cfg(feature = "sql")]
mod planning;
mod propagation;
#[cfg(feature = "sql")]
mod sql;
mod transparent;

pub use hooks::TracingHooks;
pub use otlp::{
    Endpoint, ExportSummary, OtlpSettings, Protocol, Role, SpanTree, Telemetry, init, init_tree,
    trace_id,
};
#[cfg(feature = "sql")]
pub use sql::TracedSql;
pub use transparent::{TransparentExec, Wrap, WrapEveryNode, wrap_every_node};
