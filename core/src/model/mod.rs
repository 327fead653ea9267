//! What a distributed plan is made of, apart from the engine that runs it.

pub mod boundaries;
pub mod boundary;
mod boundary_exec;
pub(crate) mod child;
pub mod display;
pub mod forward;
pub mod hooks;
pub mod isolator;
pub mod metric_codec;
pub mod metrics_wrapper;
pub(crate) mod outcome;
pub mod pairing;
pub(crate) mod panic;
pub mod report;
pub mod reports;
pub mod slot;
pub mod stage;
pub mod staged;
pub mod summary;
pub mod trace;
pub mod visitor;
pub(crate) mod waiting;
pub mod wrapper;
