//! A visitor of your own: the slowest scan of each table, over all tasks of a query.

use std::collections::BTreeMap;

use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{DataFusionError, Result, exec_datafusion_err};
use flightpath_core::DistributedExec;
use flightpath_metrics::{NodeVisit, PlanVisitor, Visited, visit_stages};
use flightpath_testkit::{Cluster, cli, statements, tpch};
use tracing_subscriber::filter::LevelFilter;

const QUERY: &str = "SELECT o_orderpriority, count(*) FROM orders JOIN lineitem \
     ON o_orderkey = l_orderkey GROUP BY o_orderpriority";

/// By the columns of a scan, which is how it knows its table: the most nanoseconds that one task took
/// to read them, and which task.
#[derive(Default)]
struct SlowestScans(BTreeMap<String, (usize, String)>);

impl PlanVisitor for SlowestScans {
    type Error = DataFusionError;

    fn pre_visit_node(&mut self, visit: &NodeVisit<'_>) -> Visited<DataFusionError> {
        let (Some(task), Some(metrics)) = (visit.task, &visit.metrics) else {
            return Ok(TreeNodeRecursion::Continue);
        };
        if let Some(time) = metrics.sum_by_name("time_elapsed_processing") {
            let columns: Vec<_> = visit
                .plan
                .schema()
                .fields()
                .iter()
                .map(|f| f.name().clone())
                .collect();
            let slowest = self.0.entry(columns.join(", ")).or_default();
            let task = format!("{}.{task}", visit.stage.id);
            *slowest = slowest.clone().max((time.as_usize(), task));
        }
        Ok(TreeNodeRecursion::Continue)
    }
}

#[tokio::main]
async fn main() {
    cli::init_logging(LevelFilter::WARN);
    cli::exit_on_error(run().await);
}

async fn run() -> Result<()> {
    let data = std::path::Path::new("data/tpch-0.1");
    tokio::task::spawn_blocking(move || tpch::ensure(data, 0.1, true))
        .await
        .map_err(|error| exec_datafusion_err!("{error}"))??;
    let cluster = Cluster::start(4).await?;
    let ctx = cluster.context()?;
    tpch::register(&ctx, data).await?;

    for statement in statements::split(QUERY)? {
        let planned = statements::plan(&ctx, statement).await?;
        planned.collect().await?;
        let root = statements::distributed_part(&planned.plan);
        let reports = root.and_then(DistributedExec::last_query);
        let mut scans = SlowestScans::default();
        visit_stages(&planned.plan, reports.as_deref(), &mut scans)?;
        for (columns, (nanos, task)) in scans.0 {
            println!("{:>8.1} ms in task {task}: {columns}", nanos as f64 / 1e6);
        }
    }
    cluster.stop().await
}
