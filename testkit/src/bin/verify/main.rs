//! Runs queries on one machine and on workers, and says whether the answers are equal.

mod outcome;
mod query;

use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Parser;
use datafusion::common::{Result, exec_datafusion_err};
use datafusion::prelude::SessionContext;
use flightpath_testkit::{Cluster, cli, tables, tpch};
use futures::future::join_all;
use tokio::runtime::Handle;
use tracing_subscriber::filter::LevelFilter;

use outcome::Outcome;
use query::Query;

/// Runs each query locally and on workers in this process, and compares the answers.
///
/// Rows are compared in any order, floats within a tolerance; if a query asks for an order, that
/// is checked too. Exits with 0 only if every query gave equal answers.
#[derive(Parser)]
struct Args {
    /// Folder of *.sql files: one query each, of one or more statements.
    #[arg(long, value_name = "DIR")]
    queries: PathBuf,

    /// Folder of tables: each *.parquet file, or folder of such files, is one.
    #[arg(long, value_name = "DIR")]
    data: PathBuf,

    /// Make the tables of TPC-H at this scale in the data folder first, unless they are there.
    #[arg(long, value_name = "SCALE")]
    tpch: Option<f64>,

    /// In how many workers to run the queries, one count after the other.
    #[arg(long, value_delimiter = ',', default_value = "1,2,4,7")]
    workers: Vec<NonZeroUsize>,

    /// Where to write the answers of the largest number of workers, as Parquet, for another judge.
    #[arg(long, value_name = "DIR")]
    answers: Option<PathBuf>,

    /// Fail if a query was not distributed.
    #[arg(long)]
    expect_distributed: bool,

    /// Seconds that one run of a query may take.
    #[arg(long, value_name = "SECONDS", default_value_t = 300)]
    timeout: u64,
}

/// How long workers may take to stop, once every query has ended or was given up.
const STOPPING: Duration = Duration::from_secs(10);

fn main() {
    cli::init_logging(LevelFilter::WARN);
    let args = Args::parse();
    let code = match run(args) {
        Ok(true) => 0,
        Ok(false) => 1,
        Err(error) => {
            eprintln!("error: {}", cli::explain(&error));
            2
        }
    };
    // Returning would wait for queries that were given up and do not yield.
    std::process::exit(code);
}

/// Queries and workers have a runtime of their own: some queries never yield, and when they have
/// taken all of its threads, the clock that gives them up has to go on.
fn run(args: Args) -> Result<bool> {
    let engine = tokio::runtime::Runtime::new()?;
    let judge = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let result = judge.block_on(verify(args, engine.handle()));
    engine.shutdown_background();
    result
}

/// Whether everything was as it should be.
async fn verify(args: Args, engine: &Handle) -> Result<bool> {
    let queries = Query::read_all(&args.queries)?;
    if let Some(scale) = args.tpch {
        tpch::ensure(&args.data, scale, true)?;
    }
    let limit = Duration::from_secs(args.timeout);
    if let Some(dir) = &args.answers {
        std::fs::create_dir_all(dir)?;
    }
    let mut counts: Vec<usize> = args.workers.iter().map(|count| count.get()).collect();
    counts.sort_unstable();
    counts.dedup();
    let mut clusters = vec![];
    for count in counts {
        let started = engine.spawn(Cluster::start(count)).await;
        clusters.push(started.map_err(|panic| exec_datafusion_err!("{panic}"))??);
    }

    let (mut equal, mut distributed) = (0, 0);
    let width = queries.iter().map(|query| query.name.len()).max();
    for query in &queries {
        let local = query.run(&local(&args.data).await?, limit, engine).await;
        let mut outcome = Outcome::new(query, local);
        for cluster in &clusters {
            let ctx = cluster.context()?;
            tables::register(&ctx, &args.data).await?;
            let run = query.run(&ctx, limit, engine).await;
            outcome.add(cluster.urls().len(), run);
        }
        if let Some(dir) = &args.answers {
            outcome.write_answer(dir)?;
        }
        println!("{}", outcome.describe(width.unwrap_or(0)));
        equal += usize::from(outcome.is_equal());
        distributed += usize::from(outcome.is_distributed());
    }
    // All answers are in: a worker that is still busy with a query that was given up, or whose stop
    // fails, changes nothing of them.
    let stops = clusters
        .into_iter()
        .map(|cluster| engine.spawn(cluster.stop()));
    let _ = tokio::time::timeout(STOPPING, join_all(stops)).await;

    let all = queries.len();
    println!("{distributed} of {all} ran distributed");
    println!("{equal} of {all} queries equal");
    Ok(equal == all && (distributed == all || !args.expect_distributed))
}

/// A session as anyone would have it, for one query: a view of one must not be there for the next.
async fn local(data: &Path) -> Result<SessionContext> {
    let ctx = SessionContext::new();
    tables::register(&ctx, data).await?;
    Ok(ctx)
}
