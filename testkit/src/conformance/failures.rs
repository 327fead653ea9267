//! What a wrapper does otherwise than its node.

use std::error::Error;
use std::fmt;

/// How much of a problem is shown, in characters: some answers of nodes fill pages.
const SHOWN: usize = 300;

/// A method that is not transparent, and how.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Deviation {
    /// The method of `ExecutionPlan`, or what else was checked.
    pub method: &'static str,
    /// What is wrong, for people.
    pub problem: String,
}

impl Deviation {
    pub(super) fn of(method: &'static str, verdict: Result<(), String>) -> Option<Self> {
        let mut problem = verdict.err()?;
        if let Some((end, _)) = problem.char_indices().nth(SHOWN) {
            problem.replace_range(end.., "...");
        }
        Some(Self { method, problem })
    }
}

/// Everything that is wrong with a wrapper.
///
/// Its `Debug` is its `Display`, a line for each failure, so that `unwrap` prints the list.
#[derive(Clone)]
pub struct Failures(Vec<Deviation>);

impl Failures {
    pub(super) fn none_of(failures: Vec<Deviation>) -> Result<(), Self> {
        match failures.is_empty() {
            true => Ok(()),
            false => Err(Self(failures)),
        }
    }

    /// The failures, in the order of checks; at least one.
    pub fn iter(&self) -> impl Iterator<Item = &Deviation> {
        self.0.iter()
    }

    /// The methods that failed, each once.
    pub fn methods(&self) -> Vec<&'static str> {
        let mut methods: Vec<_> = self.iter().map(|failure| failure.method).collect();
        methods.dedup();
        methods
    }
}

impl fmt::Display for Failures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the wrapper is not transparent:")?;
        for Deviation { method, problem } in self.iter() {
            write!(f, "\n  {method} {problem}")?;
        }
        f.write_str("\nTransparentExec of flightpath-tracing-bridge around it forwards them all")
    }
}

impl fmt::Debug for Failures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Error for Failures {}
