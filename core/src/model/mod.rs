//! What a distributed plan is made of, apart from the engine that runs it.

pub mod boundaries;
pub mod boundary;
pub mod isolator;
pub mod forward;
pub mod metric_codec;
pub mod metrics_wrapper;
pub mod report;
pub mod slot;
pub mod stage;
pub mod wrapper;
