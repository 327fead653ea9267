//! What a distributed plan is made of, apart from the engine that runs it.

pub mod report;
pub mod stage;
