//! The engine, tested through its public interfaces on real workers.
#![allow(clippy::unwrap_used)]

mod boundary_of_a_third_party;
mod cancel;
mod conservation;
mod explain;
mod failures;
mod fixture;
mod limits;
mod settings;
mod twice;
mod user_metric;
mod wrapped;
