//! One OpenTelemetry trace per distributed query, from SQL to every operator on every worker.
//!
//! - [`init`] sends the spans of this process to OTLP, as the standard `OTEL_*` variables say;
//! - [`init_tree`] keeps them in memory, and draws them;
//! - [`TracingHooks`], given to the coordinator and to each worker, make them one trace;
//! - [`TracedSql::traced_sql`] has the trace cover planning as well;
//! - [`TransparentExec`] makes wrappers transparent that know nothing of boundaries;
//!   [`wrap_every_node`] and [`WrapEveryNode`] put any wrapper on every node.

mod hooks;
mod operator;
mod otlp;
mod propagation;
mod sql;
mod transparent;

pub use hooks::TracingHooks;
pub use otlp::{
    ExportSummary, OtlpSettings, Protocol, Role, SpanTree, Telemetry, init, init_tree, trace_id,
};
pub use sql::TracedSql;
pub use transparent::{TransparentExec, Wrap, WrapEveryNode, wrap_every_node};
