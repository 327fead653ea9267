//! The engine, tested through its public interfaces on real workers.
#![allow(clippy::unwrap_used)]

mod big_rows;
mod boundary_of_a_third_party;
mod cancel;
mod compression;
mod conservation;
mod explain;
mod failures;
mod fixture;
mod foreign_flight_client;
mod harness;
mod hooks;
mod inline_tables;
mod limits;
mod local_exchange;
mod many_files;
mod many_queries;
mod runtimes;
mod settings;
mod spill;
mod stalled_reader;
mod twice;
mod types;
mod user_metric;
mod wrapped;
