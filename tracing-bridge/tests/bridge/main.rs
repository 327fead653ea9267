//! What the bridge does, on real clusters.

#![allow(clippy::unwrap_used)]

mod collector;
mod conformance;
mod export;
mod hooks;
mod sql;
mod support;
mod traces;
mod wrappers;
