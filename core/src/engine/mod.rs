//! What runs distributed plans: the coordinator's side, and the ways to workers.

pub(crate) mod begun;
pub mod connect;
pub(crate) mod control;
pub mod distributed;
pub(crate) mod exchange;
pub(crate) mod proto;
pub(crate) mod query;
pub mod query_span;
pub mod resolver;
pub(crate) mod rpc;
pub(crate) mod running;
pub(crate) mod settings;
