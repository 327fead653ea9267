//! How plans, batches and metrics travel.

pub(crate) mod metrics;
pub(crate) mod metrics_proto;
pub(crate) mod batch;
mod compact;
#[cfg(test)]
mod batch_tests;
