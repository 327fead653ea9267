//! A query on several workers, and what happened where. Start here.

use std::path::PathBuf;

use clap::Parser;
use datafusion::arrow::util::pretty::pretty_format_batches;
use datafusion::common::{Result, exec_datafusion_err};
use datafusion::physical_plan::display::DisplayableExecutionPlan;
use flightpath_core::{DistributedExec, local_reason, stage_summaries};
use flightpath_examples::stage_table;
use flightpath_testkit::{Cluster, cli, statements, tpch};
use tracing_subscriber::filter::LevelFilter;

/// Which nations' late deliveries were worth most, by priority of the order.
const LATE_DELIVERIES: &str = "
    SELECT n_name AS nation,
           o_orderpriority AS priority,
           count(*) AS late_lines,
           sum(l_extendedprice * (1 - l_discount)) AS late_value,
           max(l_receiptdate - l_commitdate) AS worst_delay
    FROM lineitem
    JOIN orders ON l_orderkey = o_orderkey
    JOIN customer ON o_custkey = c_custkey
    JOIN nation ON c_nationkey = n_nationkey
    WHERE l_receiptdate > l_commitdate
    GROUP BY n_name, o_orderpriority
    ORDER BY late_value DESC, nation, priority
    LIMIT 10";

/// Makes TPC-H tables, starts workers on loopback sockets, runs a query on them, and shows the
/// answer, the plan with the metrics of every task, and what each stage did.
#[derive(Parser)]
struct Args {
    /// Where the tables are, or are to be [default: ./data/tpch-SCALE].
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,

    /// Scale of the tables; 1 is about 1 GB as text.
    #[arg(long, default_value_t = 0.1)]
    scale: f64,

    /// How many workers to start.
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u16).range(1..=64))]
    workers: u16,

    /// A query of yours over the TPC-H tables, instead of the built-in one.
    #[arg(long)]
    sql: Option<String>,
}

#[tokio::main]
async fn main() {
    cli::init_logging(LevelFilter::WARN);
    cli::exit_on_error(run(Args::parse()).await);
}

async fn run(args: Args) -> Result<()> {
    let scale = args.scale;
    let usual = || PathBuf::from(format!("data/tpch-{scale}"));
    let data = args.data.unwrap_or_else(usual);
    let dir = data.clone();
    let made = tokio::task::spawn_blocking(move || tpch::ensure(&dir, scale, true));
    made.await
        .map_err(|error| exec_datafusion_err!("{error}"))??;

    let cluster = Cluster::start(args.workers.into()).await?;
    let ctx = cluster.context()?;
    tpch::register(&ctx, &data).await?;

    let sql = args.sql.as_deref().unwrap_or(LATE_DELIVERIES);
    for statement in statements::split(sql)? {
        let planned = statements::plan(&ctx, statement).await?;
        println!("{}\n", pretty_format_batches(&planned.collect().await?)?);
        let plan = DisplayableExecutionPlan::with_metrics(planned.plan.as_ref());
        println!("{}", plan.indent(false));
        let part = statements::distributed_part(&planned.plan);
        if let Some(reports) = part.and_then(DistributedExec::last_query) {
            let stages = stage_summaries(&planned.plan, &reports)?;
            println!("{}", stage_table(&stages));
        } else {
            let reason = local_reason(&planned.plan).unwrap_or("it reads no table".into());
            println!("This query ran here, on no worker: {reason}");
        }
    }
    cluster.stop().await
}
