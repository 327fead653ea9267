//! The engine, from outside: real workers on loopback sockets, real queries.
#![allow(clippy::unwrap_used)]

mod harness;

mod big_rows;
mod compression;
mod foreign_flight_client;
mod hooks;
mod inline_tables;
mod local_exchange;
mod many_files;
mod many_queries;
mod runtimes;
mod spill;
mod stalled_reader;
mod types;
