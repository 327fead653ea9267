//! The query, and the cluster it runs on, inside this process.

use std::path::Path;
use std::sync::Arc;

use clap::ValueEnum;
use datafusion::common::{Result, exec_err};
use datafusion::execution::SessionStateBuilder;
use datafusion::prelude::{SessionConfig, SessionContext};
use flightpath_core::{FlightpathConfig, SessionStateBuilderExt};
use flightpath_testkit::{Cluster, tpch};
use flightpath_tracing_bridge::{TracedSql, TracingHooks};

/// A join of shuffled inputs, an aggregate and a sort.
const QUERY: &str = "SELECT l_shipmode, o_orderpriority, count(*), sum(l_extendedprice) \
                     FROM orders JOIN lineitem ON o_orderkey = l_orderkey \
                     WHERE o_orderdate < DATE '1997-01-01' \
                     GROUP BY l_shipmode, o_orderpriority ORDER BY l_shipmode, o_orderpriority";

/// Ship modes times priorities.
const ROWS: usize = 35;

const WORKERS: usize = 2;

/// Of each task: more would not run at once on the machines that this is for.
const PARTITIONS: usize = 2;

/// Under valgrind everything is fifty times slower, and no worker is lost.
const WORKER_TIMEOUT: &str = "600s";

/// Whether coordinator and workers have the hooks of the tracing bridge.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Bridge {
    Absent,
    Present,
}

impl Bridge {
    /// As it is given on the command line.
    pub(crate) fn as_arg(self) -> &'static str {
        match self {
            Self::Absent => "absent",
            Self::Present => "present",
        }
    }
}

pub(crate) struct Workload {
    cluster: Cluster,
    ctx: SessionContext,
    bridge: Bridge,
}

impl Workload {
    pub(crate) async fn start(bridge: Bridge, tables: &Path) -> Result<Self> {
        let hooks = Arc::new(TracingHooks::from_env()?);
        let config = SessionConfig::new()
            .with_target_partitions(PARTITIONS)
            .with_option_extension(FlightpathConfig::default())
            .set_str("flightpath.worker_timeout", WORKER_TIMEOUT);
        let on_workers = Arc::clone(&hooks);
        let cluster = Cluster::start_with(WORKERS, move |builder| match bridge {
            Bridge::Absent => builder,
            Bridge::Present => builder.with_hooks(Arc::clone(&on_workers) as _),
        })
        .await?;
        let coordinator = match bridge {
            Bridge::Absent => cluster.coordinator()?,
            Bridge::Present => cluster.coordinator()?.with_hooks(hooks),
        };
        let state = SessionStateBuilder::new()
            .with_config(config)
            .with_default_features()
            .with_flightpath(coordinator)
            .build();
        let ctx = SessionContext::new_with_state(state);
        tpch::register(&ctx, tables).await?;
        let workload = Self {
            cluster,
            ctx,
            bridge,
        };
        // Opens connections, reads footers, fills the page cache.
        workload.run().await?;
        Ok(workload)
    }

    pub(crate) async fn run(&self) -> Result<()> {
        let frame = match self.bridge {
            Bridge::Absent => self.ctx.sql(QUERY).await?,
            Bridge::Present => self.ctx.traced_sql(QUERY).await?,
        };
        let batches = frame.collect().await?;
        let rows: usize = batches.iter().map(|batch| batch.num_rows()).sum();
        match rows {
            ROWS => Ok(()),
            _ => exec_err!("the query has {rows} rows, not {ROWS}"),
        }
    }

    pub(crate) async fn stop(self) -> Result<()> {
        self.cluster.stop().await
    }
}
