//! What people and tools see of a distributed plan: stages, tasks, nodes, metrics.
#![allow(clippy::unwrap_used)]

mod datafusion_displays;
mod display;
mod pairing;
mod plans;
mod reports;
mod visitor;
