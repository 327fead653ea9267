//! The profile of a query: what ran where, when, and with which numbers.
//!
//! # As JSON
//!
//! A profile is one JSON object, written by [`QueryProfile::to_json`] and read by
//! [`QueryProfile::from_json`]. Its fields are those of [`QueryProfile`], under the same names:
//!
//! - `format` is `"flightpath-profile"`, and `version` a number; both come first. A reader takes
//!   its own version and those before it, and says so of others. Fields that it does not know are
//!   skipped: adding one keeps the version.
//! - Names that end in `_ns` are nanoseconds, and names in `_unix_ns` nanoseconds since 1970. All
//!   other times are since the query began. What a coordinator measured and what a worker measured
//!   come from two clocks; only `duration_ns` may be compared across machines.
//! - Numbers are whole and go up to 2⁶⁴; JavaScript rounds those above 2⁵³.
//! - What is unknown is left out: a task that has not started has no `started_unix_ns`.
//! - A metric names its `kind`, which says how it merges: see [`Value`](metric::Value).
//!
//! ```
//! use flightpath_metrics::{QueryProfile, QueryStatus};
//!
//! let text = r#"{
//!   "format": "flightpath-profile", "version": 1,
//!   "query_id": "0190a3c4-7f00-7000-8000-000000000000",
//!   "sql": "SELECT * FROM t",
//!   "status": "finished",
//!   "started_unix_ns": 1750000000000000000, "duration_ns": 1500000, "output_rows": 7,
//!   "workers": ["http://127.0.0.1:50051"],
//!   "stages": [
//!     { "id": 0, "tasks": 0, "nodes": [
//!       { "depth": 0, "name": "DistributedExec", "text": "DistributedExec" },
//!       { "depth": 1, "parent": 0, "name": "NetworkCoalesceExec",
//!         "text": "NetworkCoalesceExec: stage=1, tasks=1", "reads": 1 } ] },
//!     { "id": 1, "tasks": 1,
//!       "boundary": { "kind": "coalesce", "name": "NetworkCoalesceExec" },
//!       "nodes": [{ "depth": 0, "name": "DataSourceExec", "text": "DataSourceExec: ..." }] } ],
//!   "coordinator": [
//!     [],
//!     [{ "name": "output_rows", "kind": "count", "value": 7, "partition": 0 },
//!      { "name": "exchange_bytes", "kind": "count", "value": 96, "partition": 0 }] ],
//!   "tasks": [
//!     { "stage": 1, "task": 0, "worker": "http://127.0.0.1:50051", "status": "finished",
//!       "dispatched_ns": 200000, "reported_ns": 1400000, "started_unix_ns": 1750000000000300000,
//!       "duration_ns": 900000, "output_rows": 7, "output_bytes": 96,
//!       "nodes": [[{ "name": "elapsed_compute", "kind": "time", "ns": 4100, "partition": 0 }]] } ]
//! }"#;
//! let profile = QueryProfile::from_json(text)?;
//! assert_eq!(profile.status, QueryStatus::Finished);
//! assert_eq!(profile.stages[1].nodes[0].name, "DataSourceExec");
//! # Ok::<(), flightpath_metrics::ProfileError>(())
//! ```

mod build;
mod conserved;
mod json;
pub mod metric;
mod model;
mod shape;

pub(crate) use build::distributed;
pub use json::{FORMAT, ProfileError, VERSION};
pub use model::{
    BoundaryProfile, NodeProfile, QueryProfile, QueryStatus, StageProfile, TaskProfile, TaskState,
    UnmatchedNode,
};
