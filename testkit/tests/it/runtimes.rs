//! The same query on each kind of runtime, with coordinator and workers on it.

use flightpath_testkit::Cluster;
use tokio::runtime::Builder;

use crate::harness::{config, register, rows, run_as_local, within};

const SQL: &str = "SELECT a.g, count(*), sum(b.k), min(b.s) FROM a JOIN b ON a.k = b.k \
                   GROUP BY a.g ORDER BY a.g";

async fn query() {
    within(60, async {
        let cluster = Cluster::start(3).await.unwrap();
        let settings = [
            (
                "datafusion.optimizer.hash_join_single_partition_threshold",
                "0",
            ),
            (
                "datafusion.optimizer.hash_join_single_partition_threshold_rows",
                "0",
            ),
        ];
        let ctx = cluster.context_with(config(&settings)).unwrap();
        register(&ctx, "a", rows(3, 5_000, 16));
        register(&ctx, "b", rows(5, 3_000, 16));
        let ran = run_as_local(&ctx, SQL).await;
        assert_eq!(
            ran.text().matches("NetworkShuffleExec").count(),
            3,
            "{}",
            ran.text()
        );
        assert_eq!(ran.reports().counts().missing, 0);
        cluster.stop().await.unwrap();
    })
    .await;
}

#[test]
fn current_thread() {
    Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap()
        .block_on(query());
}

#[test]
fn one_worker_thread() {
    Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .unwrap()
        .block_on(query());
}

#[test]
fn many_worker_threads() {
    Builder::new_multi_thread()
        .worker_threads(8)
        .enable_all()
        .build()
        .unwrap()
        .block_on(query());
}
