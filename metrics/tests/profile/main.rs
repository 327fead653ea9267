//! Profiles of queries that real workers run.
#![allow(clippy::unwrap_used)]

mod findings;
mod fixture;
mod lost;
mod outcomes;
mod progress;
mod queries;
mod reading;
mod visitor;
