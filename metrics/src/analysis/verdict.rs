//! A query in one sentence.

use super::operators::OperatorTime;
use crate::numbers::{count, share, time};
use crate::profile::{NodeProfile, QueryProfile, QueryStatus, TaskState};

/// Up to here, of the task where an operator computed longest over the average, its work counts as
/// spread evenly.
const EVEN: f64 = 1.5;

impl QueryProfile {
    /// The query in one sentence: the first of its [`findings`](Self::findings), or where its time
    /// went if nothing stands out.
    pub fn verdict(&self) -> String {
        if let Some(first) = self.findings().into_iter().next() {
            return first.text;
        }
        let duration = time(self.duration());
        match self.status {
            QueryStatus::Planned => "The query has not been run.".to_owned(),
            QueryStatus::Running => {
                let open = [TaskState::Waiting, TaskState::Running];
                let done = self
                    .tasks
                    .iter()
                    .filter(|task| !open.contains(&task.status));
                format!(
                    "Running for {duration}: {} of {} tasks are done, {} rows are out.",
                    done.count(),
                    self.tasks.len(),
                    count(self.output_rows)
                )
            }
            QueryStatus::Cancelled => format!(
                "Cancelled after {duration}: its reader left, with {} rows.",
                count(self.output_rows)
            ),
            QueryStatus::Local => match &self.local_reason {
                Some(reason) => format!(
                    "It ran on the coordinator alone ({reason}){}",
                    self.hottest(": ")
                ),
                None => format!("It ran on the coordinator alone{}", self.hottest(": ")),
            },
            // A failed query has a finding.
            QueryStatus::Finished | QueryStatus::Failed => {
                format!("Nothing stands out{}", self.hottest(": "))
            }
        }
    }

    fn hottest(&self, before: &str) -> String {
        let operators = self.operators();
        let Some(first) = operators.first().filter(|first| first.compute_ns > 0) else {
            return ".".to_owned();
        };
        let even = match first.spread {
            Some(spread) if spread <= EVEN => ", spread evenly",
            _ => "",
        };
        format!(
            "{before}{} of the compute time is {}{even}.",
            share(first.share),
            self.what(first)
        )
    }

    fn what(&self, operator: &OperatorTime) -> String {
        let node = (self.stage(operator.stage)).and_then(|stage| stage.nodes.get(operator.node));
        if let Some(table) = node.and_then(NodeProfile::table) {
            return format!("the scan of {table}");
        }
        match operator.stage {
            0 => format!("{} on the coordinator", operator.name),
            stage => format!("{} in stage {stage}", operator.name),
        }
    }
}

impl NodeProfile {
    /// The table that a scan of files reads, as the first file's name tells it: tables are files of
    /// their own, or folders of numbered parts. `None` for all other nodes.
    pub fn table(&self) -> Option<&str> {
        let files = self.text.split_once("file_groups={")?.1;
        let first = files.split_once("[[")?.1.split([',', ']']).next()?;
        let first = first.split(':').next()?;
        let mut parts = first.rsplit('/');
        let stem = parts.next()?.split('.').next()?;
        let numbered =
            stem.is_empty() || stem.contains(|c: char| c.is_ascii_digit()) || stem == "part";
        let named = if numbered { parts.next()? } else { stem };
        (!named.is_empty()).then_some(named)
    }
}
