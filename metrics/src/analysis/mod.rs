//! What a profile comes to: where the time went, and what stands out.
//!
//! All of this is computed from the profile alone. Durations are taken from one machine's clock
//! each; two machines' clocks are never subtracted.

mod findings;
mod operators;
mod path;
mod stages;
mod tasks;
mod verdict;

pub use findings::{Finding, FindingKind};
pub use operators::OperatorTime;
pub use path::{CriticalPath, PathStep};
pub use stages::{Exchanged, StageFigures};
pub use tasks::TaskFigures;
pub(crate) use tasks::total;

#[cfg(test)]
mod tests;
