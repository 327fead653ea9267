//! How plans, batches, metrics and errors travel.

pub(crate) mod batch;
#[cfg(test)]
mod batch_tests;
mod boundary_node;
pub(crate) mod codec;
pub(crate) mod compact;
pub(crate) mod error;
pub(crate) mod metrics;
pub(crate) mod metrics_proto;
pub(crate) mod plan;
