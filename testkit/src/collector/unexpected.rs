//! What was not as expected.

use std::error::Error;
use std::fmt;

/// An expectation that does not hold, with what was seen instead.
///
/// Its `Debug` is its `Display`, so that `unwrap` and tests that return it print the tree of spans.
#[derive(Clone)]
pub struct Unexpected {
    message: String,
    seen: String,
}

impl Unexpected {
    pub(super) fn new(message: impl Into<String>, seen: impl Into<String>) -> Self {
        Self {
            message: message.into(),
            seen: seen.into(),
        }
    }
}

impl fmt::Display for Unexpected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.seen.is_empty() {
            true => write!(f, "{}; nothing has arrived", self.message),
            false => write!(f, "{}; seen:\n{}", self.message, self.seen),
        }
    }
}

impl fmt::Debug for Unexpected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Error for Unexpected {}
