//! How much of a query its trace shows.

use std::fmt;
use std::str::FromStr;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use datafusion::common::config::{ConfigField, Visit};
use datafusion::common::{DataFusionError, Result, config_err};

/// Down to which level a trace has spans; each level has those above it too.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum TraceDetail {
    /// One span for the query, and one for its planning.
    Query,
    /// One for each stage.
    Stage,
    /// One for each task.
    Task,
    /// One for each node of each task.
    #[default]
    Operator,
    /// Two for each request between coordinator and workers: of its client and of its server.
    Rpc,
}

impl fmt::Display for TraceDetail {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Query => "query",
            Self::Stage => "stage",
            Self::Task => "task",
            Self::Operator => "operator",
            Self::Rpc => "rpc",
        })
    }
}

impl FromStr for TraceDetail {
    type Err = DataFusionError;

    fn from_str(text: &str) -> Result<Self> {
        match text.to_ascii_lowercase().as_str() {
            "query" => Ok(Self::Query),
            "stage" => Ok(Self::Stage),
            "task" => Ok(Self::Task),
            "operator" => Ok(Self::Operator),
            "rpc" => Ok(Self::Rpc),
            _ => config_err!(
                "flightpath.trace_detail is query, stage, task, operator or rpc, not {text:?}"
            ),
        }
    }
}

impl ConfigField for TraceDetail {
    fn visit<V: Visit>(&self, v: &mut V, key: &str, description: &'static str) {
        v.some(key, self, description);
    }

    fn set(&mut self, _key: &str, value: &str) -> Result<()> {
        *self = value.parse()?;
        Ok(())
    }
}

/// What the trace of a part of a query shows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct TraceOptions {
    /// Down to which level it has spans.
    pub detail: TraceDetail,
    /// Whether texts are shown that may hold literals of the query: its SQL, and its nodes.
    pub sql: bool,
    /// How many rows of each node's output are shown; 0 for none.
    pub preview_rows: usize,
}

/// How many spans a query may still have.
#[derive(Debug)]
pub(crate) struct SpanBudget {
    left: AtomicUsize,
    truncated: AtomicBool,
}

impl SpanBudget {
    pub(crate) fn new(spans: usize) -> Self {
        Self {
            left: AtomicUsize::new(spans),
            truncated: AtomicBool::new(false),
        }
    }

    /// Takes `spans`, all of them or none. Once a part did not get what it asked for, none does.
    pub(crate) fn take(&self, spans: usize) -> bool {
        if self.is_truncated() {
            return false;
        }
        let taken = self
            .left
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| {
                left.checked_sub(spans)
            });
        if taken.is_err() {
            self.truncated.store(true, Ordering::Relaxed);
        }
        taken.is_ok()
    }

    /// Whether something did not get what it asked for.
    pub(crate) fn is_truncated(&self) -> bool {
        self.truncated.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    const ALL: [TraceDetail; 5] = [
        TraceDetail::Query,
        TraceDetail::Stage,
        TraceDetail::Task,
        TraceDetail::Operator,
        TraceDetail::Rpc,
    ];

    #[test]
    fn details_are_written_as_they_are_read_and_in_order() {
        for detail in ALL {
            assert_eq!(detail.to_string().parse::<TraceDetail>().unwrap(), detail);
        }
        assert!(ALL.is_sorted());
        let message = "all".parse::<TraceDetail>().unwrap_err().to_string();
        assert!(
            message.contains("\"all\"") && message.contains("rpc"),
            "{message}"
        );
    }

    #[test]
    fn a_budget_is_never_exceeded() {
        let budget = SpanBudget::new(10);
        assert!(budget.take(4) && budget.take(6) && budget.take(0));
        assert!(!budget.is_truncated());
        assert!(!budget.take(1) && budget.is_truncated());
        let small = SpanBudget::new(10);
        assert!(
            !small.take(11) && !small.take(1),
            "parts after it get none either"
        );
    }
}
