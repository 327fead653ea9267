//! Distributes Apache DataFusion queries over Arrow Flight as one flattened plan.

pub mod config;
pub mod model;
mod wire;
