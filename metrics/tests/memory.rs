//! What thousands of queries leave behind in a process: nothing.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used)]

use std::sync::Arc;
use std::time::Duration;

use datafusion::arrow::array::{ArrayRef, Int64Array, RecordBatch};
use datafusion::datasource::MemTable;
use datafusion::execution::SessionStateBuilder;
use datafusion::physical_plan::collect;
use datafusion::prelude::{SessionConfig, SessionContext};
use flightpath_core::{DistributedExec, FlightpathConfig, SessionStateBuilderExt, find_layer};
use flightpath_metrics::export::{MetricsExport, MetricsSettings, Role};
use flightpath_testkit::Cluster;
use futures::StreamExt;

const QUERIES: usize = 10_000;

/// How many run at once, so that two cores have something to do.
const AT_ONCE: usize = 4;

/// After so many, caches and pools are what they will be.
const WARM_UP: usize = 1_000;

/// How much more memory may be resident at the end.
const GROWTH: f64 = 0.1;

fn session(cluster: &Cluster, metrics: &MetricsExport) -> SessionContext {
    let mut config = SessionConfig::new().with_option_extension(FlightpathConfig::default());
    for (name, value) in [
        ("datafusion.execution.target_partitions", "2"),
        // A busy machine is not what is tested.
        ("flightpath.connect_timeout", "60s"),
        ("flightpath.worker_timeout", "60s"),
        ("flightpath.metrics_timeout", "60s"),
    ] {
        config.options_mut().set(name, value).unwrap();
    }
    let coordinator = cluster.coordinator().unwrap();
    let state = SessionStateBuilder::new()
        .with_config(config)
        .with_default_features()
        .with_flightpath(coordinator.with_hooks(metrics.hooks()))
        .build();
    let ctx = SessionContext::new_with_state(state);
    let numbers: ArrayRef = Arc::new(Int64Array::from_iter_values(0..10));
    let rows = RecordBatch::try_from_iter([("k", numbers)]).unwrap();
    let table = MemTable::try_new(rows.schema(), vec![vec![rows.clone()], vec![rows]]).unwrap();
    ctx.register_table("t", Arc::new(table)).unwrap();
    ctx
}

/// Memory of this process, in KiB.
fn resident() -> u32 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let resident = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let number = resident.unwrap().trim().trim_end_matches(" kB");
    number.parse().unwrap()
}

async fn run(ctx: &SessionContext, query: usize) {
    // Each has a plan of its own.
    let sql = format!("SELECT k, {query} AS n, count(*) FROM t WHERE k < 5 GROUP BY k");
    let planned = ctx.sql(&sql).await.unwrap();
    let plan = planned.create_physical_plan().await.unwrap();
    let rows = collect(Arc::clone(&plan), ctx.task_ctx()).await.unwrap();
    assert_eq!(rows.iter().map(RecordBatch::num_rows).sum::<usize>(), 5);
    let root = find_layer::<DistributedExec>(plan.as_ref()).expect("it is distributed");
    assert_eq!(root.last_query().unwrap().counts().finished, 2);
}

async fn ten_thousand_queries() {
    let settings = MetricsSettings::new(Role::Worker);
    let metrics = MetricsExport::start(&settings).unwrap();
    let cluster = Cluster::start_with(1, |builder| builder.with_hooks(metrics.hooks()));
    let cluster = cluster.await.unwrap();
    let ctx = session(&cluster, &metrics);
    let run_all = async |queries: std::ops::Range<usize>| {
        let queries = futures::stream::iter(queries.map(|query| run(&ctx, query)));
        queries.buffer_unordered(AT_ONCE).collect::<()>().await;
        resident()
    };
    let before = run_all(0..WARM_UP).await;
    let after = run_all(WARM_UP..QUERIES).await;
    println!(
        "resident after {WARM_UP} queries: {:.1} MiB, after {QUERIES}: {:.1} MiB",
        f64::from(before) / 1024.0,
        f64::from(after) / 1024.0
    );
    assert!(f64::from(after) < f64::from(before) * (1.0 + GROWTH));
    let text = metrics.text().unwrap();
    let count = format!("flightpath_query_duration_seconds_count {QUERIES}");
    assert!(text.lines().any(|line| line == count), "{text}");
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "takes minutes; `.ci/run` runs it"]
async fn memory_stays_after_ten_thousand_queries() {
    let limit = Duration::from_secs(1_200);
    let queries = tokio::time::timeout(limit, ten_thousand_queries());
    queries.await.expect("in time");
}
