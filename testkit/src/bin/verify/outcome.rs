//! Judges the runs of one query.

use std::fs::File;
use std::path::Path;

use datafusion::arrow::array::RecordBatch;
use datafusion::common::{DataFusionError, Result};
use flightpath_core::{local_reason, stages};
use flightpath_testkit::compare::{Difference, in_order, same_rows, same_schema};
use flightpath_testkit::statements::{self, Planned};
use parquet::arrow::ArrowWriter;

use crate::query::{Failure, Query, Run};

/// One query on one machine, and on each number of workers.
pub(crate) struct Outcome<'a> {
    query: &'a Query,
    local: Run,
    /// By number of workers, ascending.
    remote: Vec<Remote>,
}

struct Remote {
    workers: usize,
    run: Run,
    difference: Option<String>,
    place: Place,
}

/// Where a query ran.
enum Place {
    Distributed { stages: usize, tasks: usize },
    Local(String),
}

impl<'a> Outcome<'a> {
    pub(crate) fn new(query: &'a Query, local: Run) -> Self {
        let remote = vec![];
        Self {
            query,
            local,
            remote,
        }
    }

    pub(crate) fn add(&mut self, workers: usize, run: Run) {
        let difference = difference(&self.local, &run);
        let place = Place::of(&run);
        self.remote.push(Remote {
            workers,
            run,
            difference,
            place,
        });
    }

    /// Whether every number of workers gave the local answer, or the local error.
    pub(crate) fn is_equal(&self) -> bool {
        self.remote.iter().all(|remote| remote.difference.is_none())
    }

    /// Whether it ran on workers, whatever their number.
    pub(crate) fn is_distributed(&self) -> bool {
        let mut places = self.remote.iter().map(|remote| &remote.place);
        places.all(|place| matches!(place, Place::Distributed { .. }))
    }

    /// Writes what the most workers answered as `NAME.parquet`; nothing if there was no answer.
    pub(crate) fn write_answer(&self, dir: &Path) -> Result<()> {
        let Some(run) = self.remote.last().map(|remote| &remote.run) else {
            return Ok(());
        };
        let Ok(answers) = &run.answers else {
            return Ok(());
        };
        // Statements around the query, which make and drop views, answer without columns.
        let mut answers = run.plans.iter().zip(answers).rev();
        let answer = answers.find(|(planned, _)| !planned.plan.schema().fields().is_empty());
        let Some((planned, batches)) = answer else {
            return Ok(());
        };
        let file = File::create(dir.join(format!("{}.parquet", self.query.name)))?;
        let mut writer = ArrowWriter::try_new(file, planned.plan.schema(), None)?;
        for batch in batches {
            writer.write(batch)?;
        }
        writer.close()?;
        Ok(())
    }

    /// One line, and what differs below it. Numbers are those of the most workers.
    pub(crate) fn describe(&self, width: usize) -> String {
        let verdict = if self.is_equal() {
            "equal    "
        } else {
            "DIFFERENT"
        };
        let mut text = format!("{:width$}  {verdict}  ", self.query.name);
        if let Some(last) = self.remote.last() {
            text += &last.place.describe();
            // A query may be distributed over many workers and not over one.
            let others = self.remote.iter().rev().skip(1);
            if let Place::Distributed { .. } = last.place
                && let Some((workers, reason)) = others.filter_map(Remote::stayed_local).next()
            {
                text += &format!("  (local with {}: {reason})", number_of(workers));
            }
            let times = [self.local.time, last.run.time].map(|time| time.as_secs_f64());
            let workers = number_of(last.workers);
            text += &format!("  {:.2} s local  {:.2} s on {workers}", times[0], times[1]);
        }
        if let Err(failure) = &self.local.answers {
            let failure = failure.to_string();
            let first = failure.lines().next().unwrap_or_default();
            text += &format!("  fails locally: {first}");
        }
        for remote in &self.remote {
            if let Some(difference) = &remote.difference {
                let difference = difference.replace('\n', "\n    ");
                text += &format!("\n  on {}: {difference}", number_of(remote.workers));
            }
        }
        text
    }
}

impl Remote {
    fn stayed_local(&self) -> Option<(usize, &str)> {
        match &self.place {
            Place::Local(reason) => Some((self.workers, reason)),
            Place::Distributed { .. } => None,
        }
    }
}

impl Place {
    fn of(run: &Run) -> Self {
        let mut plans = run.plans.iter().map(|planned| &planned.plan);
        let distributed = |plan| Some((plan, statements::distributed_part(plan)?));
        if let Some((plan, part)) = plans.clone().find_map(distributed) {
            // A plan that a worker refused was run again, here: no task of it ever started.
            let reports = part.last_query().map(|query| query.reports());
            let started = reports.iter().flatten().any(|task| task.started.is_some());
            if run.answers.is_ok() && !started {
                return Self::Local("no worker ran it, see the warning".into());
            }
            // That two boundaries disagree on a stage would have failed the query itself.
            let stages = stages(plan).unwrap_or_default();
            return Self::Distributed {
                stages: stages.len(),
                tasks: stages.iter().map(|stage| stage.tasks).sum(),
            };
        }
        let reason = plans.find_map(local_reason);
        let unknown = || match run.answers {
            Ok(_) => "it reads no table".into(),
            Err(Failure::Error(_)) => "it could not be planned".into(),
            Err(Failure::Late(_)) => "it was given up".into(),
        };
        Self::Local(reason.unwrap_or_else(unknown))
    }

    fn describe(&self) -> String {
        match self {
            Self::Distributed { stages, tasks } => {
                format!("distributed  {stages:2} stages {tasks:3} tasks")
            }
            Self::Local(reason) => format!("local ({reason})"),
        }
    }
}

fn difference(local: &Run, remote: &Run) -> Option<String> {
    match (&local.answers, &remote.answers) {
        (Ok(expected), Ok(actual)) => {
            // Both come from one text, so there are as many statements on both sides.
            let plans = local.plans.iter().zip(&remote.plans);
            let mut statements = plans.zip(expected.iter().zip(actual));
            statements.find_map(|((local, remote), (expected, actual))| {
                let same = same_answer(local, remote, expected, actual);
                same.err().map(|difference| difference.to_string())
            })
        }
        // Nobody knows what would have come: two runs that are late are not equal.
        (Err(Failure::Late(_)), _) => Some("there is no local answer to compare with".into()),
        (Err(Failure::Error(expected)), Err(Failure::Error(actual))) => {
            same_error(expected, actual).err()
        }
        (Err(_), Ok(_)) => Some("gave an answer".into()),
        (_, Err(failure)) => Some(format!("failed: {failure}")),
    }
}

fn same_answer(
    local: &Planned,
    remote: &Planned,
    expected: &[RecordBatch],
    actual: &[RecordBatch],
) -> Result<(), Difference> {
    same_schema(&local.plan.schema(), &remote.plan.schema())?;
    same_rows(expected, actual)?;
    // The local plan knows best what the order is: a distributed one might have lost its claim.
    local
        .order()
        .map_or(Ok(()), |order| in_order(actual, &order))
}

fn same_error(expected: &DataFusionError, actual: &DataFusionError) -> Result<(), String> {
    let [expected, actual] = [expected, actual].map(|e| e.find_root().strip_backtrace());
    if expected == actual {
        return Ok(());
    }
    Err(format!("failed with another error: {actual}"))
}

fn number_of(workers: usize) -> String {
    let plural = if workers == 1 { "" } else { "s" };
    format!("{workers} worker{plural}")
}
