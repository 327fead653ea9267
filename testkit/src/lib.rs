//! In-process clusters, data and checks for Flightpath and for what plugs into it.
//!
//! - [`Cluster`] runs workers on loopback sockets of this process;
//! - [`WorkerProcess`] is a worker that can be killed;
//! - [`tpch`] makes the tables of TPC-H, [`tables`] registers what lies in a folder;
//! - [`statements`] runs SQL texts, with their plans at hand;
//! - [`compare`] says whether two answers are the same;
//! - [`collector`] takes traces and metrics over OTLP, and is asked what arrived;
//! - [`conformance`] says whether a wrapper around plan nodes is transparent.
//!
//! The program `verify` puts them together: it runs a folder of queries locally and on workers,
//! and compares.

pub mod cli;
pub mod cluster;
pub mod collector;
pub mod compare;
pub mod conformance;
pub mod process;
pub mod statements;
pub mod tables;
pub mod tpch;

pub use cluster::Cluster;
pub use process::WorkerProcess;
