//! What compression of batches costs and saves: a join and an aggregate whose inputs are all
//! shuffled, with each codec in turn, several times over.
//!
//! Workers are in this process, so CPU time is that of all of them and the coordinator, and the
//! network is as fast as it gets: wall time shows the cost, bytes show what a slower one would save.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use clap::Parser;
use datafusion::common::{DataFusionError, Result, exec_datafusion_err};
use datafusion::physical_plan::{ExecutionPlan, collect};
use datafusion::prelude::{SessionConfig, SessionContext};
use flightpath_core::{DistributedExec, FlightpathConfig, find_layer};
use flightpath_testkit::{Cluster, tpch};

const CODECS: [&str; 3] = ["none", "lz4", "zstd"];

const QUERY: &str = "SELECT l_shipmode, o_orderpriority, count(*), sum(l_extendedprice), \
                     max(l_comment), max(o_comment), max(l_shipdate) \
                     FROM orders JOIN lineitem ON o_orderkey = l_orderkey \
                     GROUP BY l_shipmode, o_orderpriority";

/// Clock ticks per second in `/proc`, fixed by Linux.
const TICKS: f64 = 100.0;

#[derive(Parser)]
struct Options {
    /// Folder of the TPC-H tables; made if it is not there.
    #[arg(long)]
    data: PathBuf,
    /// Scale of the tables.
    #[arg(long, default_value_t = 0.1)]
    scale: f64,
    /// How often each codec runs.
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// How many workers.
    #[arg(long, default_value_t = 4)]
    workers: usize,
}

#[derive(Clone, Copy)]
struct Run {
    cpu: f64,
    wall: f64,
    bytes: u64,
}

#[tokio::main]
async fn main() -> Result<()> {
    let options = Options::parse();
    tpch::ensure(&options.data, options.scale, true)?;
    let cluster = Cluster::start(options.workers).await?;
    let mut sessions = vec![];
    for codec in CODECS {
        let mut config = SessionConfig::new().with_option_extension(FlightpathConfig::default());
        let settings = config.options_mut();
        settings.set("flightpath.compression", codec)?;
        for limit in ["threshold", "threshold_rows"] {
            let name = format!("datafusion.optimizer.hash_join_single_partition_{limit}");
            settings.set(&name, "0")?;
        }
        let ctx = cluster.context_with(config)?;
        tpch::register(&ctx, &options.data).await?;
        // Opens connections and fills the page cache.
        run(&ctx).await?;
        sessions.push(ctx);
    }
    let mut runs = vec![vec![]; CODECS.len()];
    for _ in 0..options.rounds {
        for (ctx, runs) in sessions.iter().zip(&mut runs) {
            runs.push(run(ctx).await?);
        }
    }
    println!("codec   CPU s (least)   wall s (least)   MB out of tasks");
    for (codec, runs) in CODECS.iter().zip(&runs) {
        let cpu = spread(runs, |run| run.cpu);
        let wall = spread(runs, |run| run.wall);
        let bytes = runs.iter().map(|run| run.bytes).max().unwrap_or_default();
        println!("{codec:6}  {cpu:14}  {wall:15}  {:.1}", bytes as f64 / 1e6);
    }
    cluster.stop().await
}

async fn run(ctx: &SessionContext) -> Result<Run> {
    let plan = ctx.sql(QUERY).await?.create_physical_plan().await?;
    let (cpu, start) = (cpu_seconds()?, Instant::now());
    collect(Arc::clone(&plan), ctx.task_ctx()).await?;
    Ok(Run {
        cpu: cpu_seconds()? - cpu,
        wall: start.elapsed().as_secs_f64(),
        bytes: sent(&plan)?,
    })
}

/// What left the tasks, as encoded where it crossed the network.
fn sent(plan: &Arc<dyn ExecutionPlan>) -> Result<u64> {
    let query = find_layer::<DistributedExec>(plan.as_ref())
        .and_then(DistributedExec::last_query)
        .ok_or_else(|| exec_datafusion_err!("the query ran locally"))?;
    Ok(query
        .reports()
        .iter()
        .map(|report| report.output_bytes)
        .sum())
}

/// User and system time of this process.
fn cpu_seconds() -> Result<f64> {
    let stat = std::fs::read_to_string("/proc/self/stat")?;
    // The name of the program is in brackets and may hold spaces; user time is the 12th after it.
    let after = stat.rsplit_once(')').map_or("", |(_, after)| after);
    let ticks: Vec<f64> = (after.split_whitespace().skip(11).take(2))
        .map(|ticks| {
            ticks
                .parse()
                .map_err(|error| DataFusionError::External(Box::new(error)))
        })
        .collect::<Result<_>>()?;
    Ok(ticks.iter().sum::<f64>() / TICKS)
}

/// Median, and the least in brackets.
fn spread(runs: &[Run], of: impl Fn(&Run) -> f64) -> String {
    let mut values: Vec<f64> = runs.iter().map(of).collect();
    values.sort_by(f64::total_cmp);
    let median = values.get(values.len() / 2).copied().unwrap_or_default();
    let least = values.first().copied().unwrap_or_default();
    format!("{median:.2} ({least:.2})")
}
