//! From an optimized DataFusion plan to a distributed one.

mod distribute;
pub mod leaf;
pub mod local;
