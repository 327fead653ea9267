//! Clusters that are measured, and queries for them.

use std::sync::Arc;
use std::time::Duration;

use datafusion::arrow::array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use datafusion::common::Result;
use datafusion::datasource::MemTable;
use datafusion::execution::SessionStateBuilder;
use datafusion::execution::memory_pool::FairSpillPool;
use datafusion::execution::runtime_env::{RuntimeEnv, RuntimeEnvBuilder};
use datafusion::physical_plan::{ExecutionPlan, collect};
use datafusion::prelude::{SessionConfig, SessionContext};
use flightpath_core::{
    DistributedExec, FlightpathConfig, QueryReports, SessionStateBuilderExt, find_layer,
};
use flightpath_metrics::export::{Endpoint, MetricsExport, MetricsSettings, Protocol, Role};
use flightpath_testkit::Cluster;
use flightpath_testkit::collector::Collector;

/// Two stages: a shuffle and a coalesce.
pub(crate) const GROUPS: &str = "SELECT g, count(*), sum(k) FROM t GROUP BY g";

/// More than a worker's pool holds.
pub(crate) const SORTED: &str = "SELECT k, s FROM t ORDER BY s DESC";

/// Fails in a task that has begun.
pub(crate) const FAILING: &str = "SELECT g, sum(1 / (k - 7)) FROM t GROUP BY g";

/// Of each worker.
const POOL_BYTES: usize = 2_500_000;

pub(crate) async fn within<T>(seconds: u64, work: impl Future<Output = T>) -> T {
    let limit = Duration::from_secs(seconds);
    tokio::time::timeout(limit, work).await.expect("in time")
}

/// Sends to this collector over gRPC.
pub(crate) fn over_grpc(collector: &Collector) -> MetricsExport {
    let endpoint = Endpoint::new(collector.endpoint(), Protocol::Grpc);
    MetricsExport::start(&MetricsSettings::new(Role::Worker).with_endpoint(endpoint)).unwrap()
}

/// Sends nowhere.
pub(crate) fn unsent() -> MetricsExport {
    MetricsExport::start(&MetricsSettings::new(Role::Worker)).unwrap()
}

/// Two workers and a coordinator that share these metrics.
pub(crate) struct Measured {
    _cluster: Cluster,
    pub(crate) ctx: SessionContext,
    /// Of each worker.
    pub(crate) runtimes: Vec<Arc<RuntimeEnv>>,
}

impl Measured {
    /// Its table `t` has 40,000 rows of 250 bytes in 2 partitions, in 10 groups.
    pub(crate) async fn start(metrics: &MetricsExport) -> Self {
        let runtimes = parking_lot::Mutex::new(vec![]);
        let cluster = Cluster::start_with(2, |builder| {
            let runtime = RuntimeEnvBuilder::new()
                .with_memory_pool(Arc::new(FairSpillPool::new(POOL_BYTES)))
                .build_arc()
                .unwrap();
            runtimes.lock().push(Arc::clone(&runtime));
            let session = SessionStateBuilder::new()
                .with_default_features()
                .with_runtime_env(runtime);
            builder
                .with_session_state(session.build())
                .with_hooks(metrics.hooks())
        })
        .await
        .unwrap();
        let coordinator = cluster.coordinator().unwrap();
        let state = SessionStateBuilder::new()
            .with_config(config())
            .with_default_features()
            .with_flightpath(coordinator.with_hooks(metrics.hooks()))
            .build();
        let ctx = SessionContext::new_with_state(state);
        register(&ctx);
        Self {
            _cluster: cluster,
            ctx,
            runtimes: runtimes.into_inner(),
        }
    }

    /// Runs a query on the workers to its end; with what its tasks reported.
    pub(crate) async fn run(&self, sql: &str) -> (Result<Vec<RecordBatch>>, Arc<QueryReports>) {
        let planned = self.ctx.sql(sql).await.unwrap();
        let plan = planned.create_physical_plan().await.unwrap();
        let rows = collect(Arc::clone(&plan), self.ctx.task_ctx()).await;
        (rows, reports(&plan))
    }
}

pub(crate) fn reports(plan: &Arc<dyn ExecutionPlan>) -> Arc<QueryReports> {
    let root = find_layer::<DistributedExec>(plan.as_ref()).expect("it is distributed");
    root.last_query().unwrap()
}

fn config() -> SessionConfig {
    let mut config = SessionConfig::new().with_option_extension(FlightpathConfig::default());
    for (name, value) in [
        ("datafusion.execution.target_partitions", "2"),
        ("datafusion.execution.batch_size", "256"),
        // Enough to merge what was spilled, however the sorts of a worker share its pool.
        (
            "datafusion.execution.sort_spill_reservation_bytes",
            "400000",
        ),
        // A busy machine is not what is tested.
        ("flightpath.connect_timeout", "60s"),
        ("flightpath.worker_timeout", "60s"),
        ("flightpath.metrics_timeout", "60s"),
    ] {
        config.options_mut().set(name, value).unwrap();
    }
    config
}

fn register(ctx: &SessionContext) {
    let partition = |number: i64| {
        let keys = number * 20_000..(number + 1) * 20_000;
        let text = |key| format!("{key:08}").repeat(30);
        let columns: [(&str, ArrayRef); 3] = [
            ("k", Arc::new(Int64Array::from_iter_values(keys.clone()))),
            (
                "g",
                Arc::new(Int64Array::from_iter_values(keys.clone().map(|k| k % 10))),
            ),
            ("s", Arc::new(StringArray::from_iter_values(keys.map(text)))),
        ];
        let batch = RecordBatch::try_from_iter(columns).unwrap();
        let starts = (0..20_000).step_by(250);
        starts.map(|start| batch.slice(start, 250)).collect()
    };
    let partitions: Vec<Vec<RecordBatch>> = (0..2).map(partition).collect();
    let table = MemTable::try_new(partitions[0][0].schema(), partitions).unwrap();
    ctx.register_table("t", Arc::new(table)).unwrap();
}
