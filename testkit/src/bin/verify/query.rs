//! Queries from files, and one run of one.

use std::fmt;
use std::path::Path;
use std::time::{Duration, Instant};

use datafusion::arrow::array::RecordBatch;
use datafusion::common::{DataFusionError, Result, exec_datafusion_err};
use datafusion::prelude::SessionContext;
use flightpath_testkit::cli;
use flightpath_testkit::statements::{self, Planned};
use tokio::runtime::Handle;

/// A file of SQL.
pub(crate) struct Query {
    /// Name of the file, without `.sql`.
    pub(crate) name: String,
    sql: String,
}

/// What a run gave, and in what time.
pub(crate) struct Run {
    /// Of each statement, up to one that failed.
    pub(crate) plans: Vec<Planned>,
    /// Rows of each statement.
    pub(crate) answers: Result<Vec<Vec<RecordBatch>>, Failure>,
    pub(crate) time: Duration,
}

/// Why there is no answer.
pub(crate) enum Failure {
    Error(DataFusionError),
    Late(Duration),
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Error(error) => f.write_str(&cli::explain(error)),
            Self::Late(limit) => write!(f, "no answer within {limit:?}"),
        }
    }
}

impl Query {
    /// Reads `dir/*.sql`, by name, numbers in names as numbers: q2 comes before q10.
    pub(crate) fn read_all(dir: &Path) -> Result<Vec<Self>> {
        let unreadable = |error| exec_datafusion_err!("no queries in {}: {error}", dir.display());
        let mut queries = vec![];
        for entry in std::fs::read_dir(dir).map_err(unreadable)? {
            let path = entry.map_err(unreadable)?.path();
            if path.extension().is_some_and(|extension| extension == "sql") {
                let name = path.file_stem().unwrap_or_default();
                let sql = std::fs::read_to_string(&path).map_err(|error| {
                    exec_datafusion_err!("cannot read {}: {error}", path.display())
                })?;
                queries.push(Self {
                    name: name.to_string_lossy().into_owned(),
                    sql,
                });
            }
        }
        if queries.is_empty() {
            return Err(exec_datafusion_err!("{} holds no .sql file", dir.display()));
        }
        queries.sort_by_cached_key(|query| natural(&query.name));
        Ok(queries)
    }

    /// Runs all statements on `engine`, for at most `limit`.
    pub(crate) async fn run(&self, ctx: &SessionContext, limit: Duration, engine: &Handle) -> Run {
        let start = Instant::now();
        let mut task = engine.spawn(run_all(ctx.clone(), self.sql.clone()));
        let ended = tokio::time::timeout(limit, &mut task).await;
        let time = start.elapsed();
        let (plans, answers) = match ended {
            Ok(Ok((plans, answers))) => (plans, answers.map_err(Failure::Error)),
            Ok(Err(panic)) => {
                let error = exec_datafusion_err!("it panicked: {panic}");
                (vec![], Err(Failure::Error(error)))
            }
            Err(_) => {
                task.abort();
                (vec![], Err(Failure::Late(limit)))
            }
        };
        Run {
            plans,
            answers,
            time,
        }
    }
}

/// Every statement's plan, up to one that fails, and every statement's rows, if none does.
async fn run_all(
    ctx: SessionContext,
    sql: String,
) -> (Vec<Planned>, Result<Vec<Vec<RecordBatch>>>) {
    let mut plans = vec![];
    let answers = async {
        let mut answers = vec![];
        for statement in statements::split(&sql)? {
            let planned = statements::plan(&ctx, statement).await?;
            let answer = planned.collect().await;
            plans.push(planned);
            answers.push(answer?);
        }
        Ok(answers)
    };
    let answers = answers.await;
    (plans, answers)
}

/// Sort key: the text with each run of digits padded to one width.
fn natural(name: &str) -> String {
    let mut key = String::new();
    let mut digits = String::new();
    for c in name.chars().chain(['\0']) {
        if c.is_ascii_digit() {
            digits.push(c);
            continue;
        }
        if !digits.is_empty() {
            key += &format!("{digits:0>20}");
            digits.clear();
        }
        key.push(c);
    }
    key
}
