//! What a distributed plan is made of, apart from the engine that runs it.

pub mod boundaries;
pub mod boundary;
pub mod isolator;
pub mod report;
pub mod stage;
