//! Metrics of real queries, as those who watch a process get them.
#![allow(clippy::unwrap_used)]

mod dashboard;
mod failures;
mod instruments;
mod otlp;
mod prometheus;
mod support;
