//! A query, and a page that shows where its time went.

use std::path::{Path, PathBuf};
use std::time::Instant;

use clap::Parser;
use datafusion::common::{Result, exec_datafusion_err};
use datafusion::execution::SessionStateBuilder;
use datafusion::prelude::SessionContext;
use flightpath_core::{Coordinator, SessionStateBuilderExt, StaticWorkers};
use flightpath_metrics::QueryProfile;
use flightpath_metrics::report::Report;
use flightpath_testkit::{Cluster, cli, statements, tpch};
use tracing_subscriber::filter::LevelFilter;

/// What customers buy from suppliers of their own nation.
const HOME_TRADE: &str = "
    SELECT n_name AS nation,
           count(*) AS lines,
           sum(l_extendedprice * (1 - l_discount)) AS revenue
    FROM customer
    JOIN orders ON c_custkey = o_custkey
    JOIN lineitem ON l_orderkey = o_orderkey
    JOIN supplier ON l_suppkey = s_suppkey AND c_nationkey = s_nationkey
    JOIN nation ON s_nationkey = n_nationkey
    GROUP BY n_name
    ORDER BY revenue DESC";

/// Runs SQL over TPC-H tables on several workers, and writes what happened as one HTML file.
///
/// A query that fails gets its report too.
#[derive(Parser)]
struct Args {
    /// The query; of several statements the last one is reported [default: a join of five tables].
    #[arg(long)]
    sql: Option<String>,

    /// Where the report goes.
    #[arg(long, value_name = "FILE", default_value = "report.html")]
    out: PathBuf,

    /// How many workers to start in this process.
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u16).range(1..=64))]
    workers: u16,

    /// Workers that run elsewhere, instead; they must see the tables under the same paths.
    #[arg(
        long,
        value_name = "URL",
        value_delimiter = ',',
        conflicts_with = "workers"
    )]
    worker_urls: Vec<String>,

    /// Where the tables are, or are to be [default: ./data/tpch-SCALE].
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,

    /// Scale of the tables; 1 is about 1 GB as text.
    #[arg(long, default_value_t = 0.1)]
    scale: f64,

    /// Keep the profile too, as JSON.
    #[arg(long, value_name = "FILE")]
    keep_profile: Option<PathBuf>,

    /// Run nothing, and report a profile that was kept.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["sql", "worker_urls", "keep_profile"])]
    profile: Option<PathBuf>,

    /// Address of a trace, with {trace_id} in place of its id, such as
    /// http://localhost:16686/trace/{trace_id}.
    #[arg(long, value_name = "URL")]
    trace_url: Option<String>,
}

#[tokio::main]
async fn main() {
    cli::init_logging(LevelFilter::WARN);
    cli::exit_on_error(run(Args::parse()).await);
}

async fn run(args: Args) -> Result<()> {
    let (profile, outcome) = match &args.profile {
        Some(file) => (read(file)?, Ok(())),
        None => execute(&args).await?,
    };
    if let Some(file) = &args.keep_profile {
        let json = profile.to_json();
        write(
            file,
            &json.map_err(|error| exec_datafusion_err!("{error}"))?,
        )?;
    }
    let mut report = Report::new(&profile);
    if let (Some(url), Some(id)) = (&args.trace_url, &profile.trace_id) {
        report = report.with_trace_url(url.replace("{trace_id}", id));
    }
    write(&args.out, &report.to_html())?;
    println!("{}", args.out.display());
    outcome
}

/// The profile of the last statement, and how it ended.
async fn execute(args: &Args) -> Result<(QueryProfile, Result<()>)> {
    let data = match &args.data {
        Some(data) => data.clone(),
        None => PathBuf::from(format!("data/tpch-{}", args.scale)),
    };
    let (dir, scale) = (data.clone(), args.scale);
    let made = tokio::task::spawn_blocking(move || tpch::ensure(&dir, scale, true));
    made.await
        .map_err(|error| exec_datafusion_err!("{error}"))??;

    if !args.worker_urls.is_empty() {
        let workers = StaticWorkers::new(args.worker_urls.clone())?;
        let state = SessionStateBuilder::new()
            .with_default_features()
            .with_flightpath(Coordinator::new(workers))
            .build();
        return profile(&SessionContext::new_with_state(state), &data, args).await;
    }
    let cluster = Cluster::start(args.workers.into()).await?;
    let profile = profile(&cluster.context()?, &data, args).await;
    cluster.stop().await?;
    profile
}

async fn profile(
    ctx: &SessionContext,
    data: &Path,
    args: &Args,
) -> Result<(QueryProfile, Result<()>)> {
    tpch::register(ctx, data).await?;
    let sql = args.sql.as_deref().unwrap_or(HOME_TRADE);
    let mut statements = statements::split(sql)?;
    let last = statements.pop();
    let last = last.ok_or_else(|| exec_datafusion_err!("there is no statement in --sql"))?;
    for statement in statements {
        statements::plan(ctx, statement).await?.collect().await?;
    }
    let text = last.to_string();
    let planned = statements::plan(ctx, last).await?;
    let started = Instant::now();
    let outcome = planned.collect().await.map(|batches| {
        let rows: usize = batches.iter().map(|batch| batch.num_rows()).sum();
        println!("{rows} rows in {:.2} s", started.elapsed().as_secs_f64());
    });
    let profile = QueryProfile::of(&planned.plan)?;
    // As it was written, if that is all there is: it reads better than what the parser makes of it.
    let text = if sql.contains(';') {
        text
    } else {
        unindented(sql)
    };
    Ok((profile.with_sql(text), outcome))
}

fn unindented(sql: &str) -> String {
    let lines = || sql.lines().filter(|line| !line.trim().is_empty());
    let indent = |line: &str| line.len() - line.trim_start().len();
    let common = lines().map(indent).min().unwrap_or(0);
    lines()
        .map(|line| &line[common..])
        .collect::<Vec<_>>()
        .join("\n")
}

fn read(file: &Path) -> Result<QueryProfile> {
    let failed = |error: &dyn std::fmt::Display| {
        exec_datafusion_err!("cannot read {}: {error}", file.display())
    };
    let text = std::fs::read_to_string(file).map_err(|error| failed(&error))?;
    QueryProfile::from_json(&text).map_err(|error| failed(&error))
}

fn write(file: &Path, text: &str) -> Result<()> {
    std::fs::write(file, text)
        .map_err(|error| exec_datafusion_err!("cannot write {}: {error}", file.display()))
}
