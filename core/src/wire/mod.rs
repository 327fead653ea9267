//! How plans, batches, metrics and errors travel.

pub(crate) mod error;
pub(crate) mod metrics;
pub(crate) mod metrics_proto;
