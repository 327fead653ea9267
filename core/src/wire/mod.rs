//! How plans, batches and metrics travel.

pub(crate) mod batch;
mod compact;
#[cfg(test)]
mod batch_tests;
