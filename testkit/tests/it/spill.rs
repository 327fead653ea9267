//! Tasks that need more memory than their worker has.

use std::sync::Arc;

use datafusion::execution::SessionStateBuilder;
use datafusion::execution::memory_pool::FairSpillPool;
use datafusion::execution::runtime_env::RuntimeEnvBuilder;
use datafusion::physical_plan::ExecutionPlanProperties;
use datafusion::prelude::SessionContext;
use flightpath_core::QueryReports;
use flightpath_testkit::Cluster;
use flightpath_testkit::compare::in_order;

use crate::harness::{config, register, rows, run_as_local, within};

/// The table weighs about 27 MB, so the half of each worker is some times this.
const POOL_BYTES: usize = 6_000_000;

async fn cluster() -> Cluster {
    Cluster::start_with(2, |builder| {
        let runtime = RuntimeEnvBuilder::new()
            .with_memory_pool(Arc::new(FairSpillPool::new(POOL_BYTES)))
            .build_arc()
            .unwrap();
        let session = SessionStateBuilder::new()
            .with_default_features()
            .with_runtime_env(runtime);
        builder.with_session_state(session.build())
    })
    .await
    .unwrap()
}

fn session(cluster: &Cluster) -> SessionContext {
    let ctx = cluster
        .context_with(config(&[
            ("datafusion.execution.target_partitions", "2"),
            ("datafusion.execution.batch_size", "256"),
            (
                "datafusion.execution.sort_spill_reservation_bytes",
                "100000",
            ),
        ]))
        .unwrap();
    register(&ctx, "t", rows(2, 50_000, 248));
    ctx
}

fn spilled(reports: &QueryReports, node: &str) -> (usize, usize) {
    let reports = reports.reports();
    let nodes = reports.iter().flat_map(|report| &report.nodes);
    let metrics = nodes
        .filter(|found| found.name == node)
        .map(|node| &node.metrics);
    metrics.fold((0, 0), |(files, bytes), metrics| {
        (
            files + metrics.spill_count().unwrap_or(0),
            bytes + metrics.spilled_bytes().unwrap_or(0),
        )
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sort_larger_than_the_pool_spills() {
    within(120, async {
        let cluster = cluster().await;
        let ctx = session(&cluster);
        let ran = run_as_local(&ctx, "SELECT k, s FROM t ORDER BY g DESC, s").await;
        let (files, bytes) = spilled(&ran.reports(), "SortExec");
        assert!(files > 0 && bytes > 0, "{files} files, {bytes} bytes");
        let sorted = run_as_local(&ctx, "SELECT k, s FROM t ORDER BY s DESC").await;
        in_order(&sorted.rows, sorted.plan.output_ordering().unwrap()).unwrap();
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_aggregate_larger_than_the_pool_spills() {
    within(120, async {
        let cluster = cluster().await;
        let ctx = session(&cluster);
        let ran = run_as_local(&ctx, "SELECT s, count(*), sum(k) FROM t GROUP BY s").await;
        let (files, bytes) = spilled(&ran.reports(), "AggregateExec");
        assert!(files > 0 && bytes > 0, "{files} files, {bytes} bytes");
    })
    .await;
}
