//! The testkit, tested: a check that cannot fail, or fails for no reason, is worse than none.
#![allow(clippy::unwrap_used)]

mod collector;
mod compare;
mod conformance;
mod tpch;
mod verify;
