//! The engine, from outside: queries on real workers over real sockets.

#![allow(clippy::unwrap_used, missing_docs)]

mod bad_input;
mod big;
mod cancellation;
mod errors;
mod fixture;
mod joins;
mod listening;
mod lost_worker;
mod not_a_worker;
mod pair;
mod shapes_of_plans;
mod shutdown;
mod stays_local;
mod unknown_functions;
mod wire;
