//! What the bridge does, on real clusters.

#![allow(clippy::unwrap_used)]

mod collector;
mod conformance;
mod detail;
mod endpoints;
mod export;
mod hooks;
mod object_store;
mod planning;
mod requests;
mod shapes;
mod sql;
mod support;
mod traces;
mod wrappers;
