//! What stands out in a query, in plain words.

mod balance;
mod lost;
mod spill;

use std::fmt;

use crate::profile::{QueryProfile, QueryStatus};

/// Something that stands out in a query, in plain words and with the numbers behind it.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Finding {
    /// What it is about.
    pub kind: FindingKind,
    /// What a person should know, in one or two sentences.
    pub text: String,
    /// The stage it speaks of, if it speaks of one.
    pub stage: Option<usize>,
    /// The task of that stage that it speaks of, if it speaks of one.
    pub task: Option<usize>,
    /// The node of that stage that it speaks of, as an index, if it speaks of one.
    pub node: Option<usize>,
    /// URL of the worker that it speaks of, if it speaks of one.
    pub worker: Option<String>,
    /// About what part of the query's duration it cost, between 0 and 1; 1 if it cost the result.
    pub weight: f64,
}

/// What a [`Finding`] is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FindingKind {
    /// Tasks did not report, so their numbers are not in the profile; a worker may be lost.
    Missing,
    /// The query failed.
    Failure,
    /// A task had more to do than the others.
    Skew,
    /// A worker was slower than the others with as much to do.
    Straggler,
    /// Memory was short, and an operator wrote to disk.
    Spill,
}

impl FindingKind {
    /// The word for it in reports.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Missing => "missing",
            Self::Failure => "failure",
            Self::Skew => "skew",
            Self::Straggler => "straggler",
            Self::Spill => "spill",
        }
    }
}

impl fmt::Display for FindingKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl Finding {
    fn new(kind: FindingKind, weight: f64, text: String) -> Self {
        Self {
            kind,
            text,
            stage: None,
            task: None,
            node: None,
            worker: None,
            weight: weight.clamp(0.0, 1.0),
        }
    }
}

impl QueryProfile {
    /// What stands out, the most important first; empty for a healthy query.
    ///
    /// What cost the result, or some of the profile's numbers, comes before what cost time.
    pub fn findings(&self) -> Vec<Finding> {
        let mut findings = lost::missing(self);
        findings.extend(lost::failure(self));
        if self.status != QueryStatus::Planned {
            findings.extend(balance::skews(self));
            findings.extend(balance::stragglers(self));
            findings.extend(spill::spills(self));
        }
        // Stable: of equals, the cause was put first.
        findings.sort_by(|one, other| other.weight.total_cmp(&one.weight));
        findings
    }
}
