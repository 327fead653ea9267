//! How plans, batches and metrics travel.

pub(crate) mod metrics;
pub(crate) mod metrics_proto;
