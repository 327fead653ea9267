//! In-process clusters, data and checks for Flightpath and for what plugs into it.
//!
//! - [`tpch`] makes the tables of TPC-H, [`tables`] registers what lies in a folder;
//! - [`statements`] runs SQL texts and keeps the plans;
//! - [`compare`] says whether two answers are the same.

pub mod compare;
pub mod statements;
pub mod tables;
pub mod tpch;
