//! What was done to a query is what its profile finds first.

use std::sync::Arc;
use std::time::Duration;

use datafusion::execution::SessionStateBuilder;
use datafusion::execution::memory_pool::FairSpillPool;
use datafusion::execution::runtime_env::RuntimeEnvBuilder;
use flightpath_metrics::{Finding, FindingKind, QueryProfile};
use flightpath_testkit::Cluster;

use crate::fixture::{cluster, config, profiled, register, session, within};

/// Of `work` on a worker of usual speed. It blocks a thread for each partition, and there must be threads
/// for all of them: hence the many.
const USUAL: Duration = Duration::from_micros(400);

fn first(profile: &QueryProfile) -> Finding {
    let findings = profile.findings();
    let first = findings.into_iter().next();
    let first = first.unwrap_or_else(|| panic!("nothing was found\n{}", profile.text()));
    assert_eq!(profile.verdict(), first.text);
    first
}

#[tokio::test(flavor = "multi_thread", worker_threads = 32)]
async fn a_worker_slowed_tenfold_is_called_slow() {
    within(60, async {
        let cluster = cluster(&[USUAL, USUAL, USUAL * 10, USUAL]).await;
        let ctx = session(&cluster);
        register(&ctx, "t", 4000, |value| value);
        let profile = profiled(&ctx, "SELECT work(v) FROM t").await;
        let found = first(&profile);
        assert_eq!(found.kind, FindingKind::Straggler, "{}", profile.text());
        let slow = cluster.urls()[2].trim_end_matches('/').to_owned();
        assert_eq!(found.worker.as_deref(), Some(slow.as_str()));
        assert!(found.text.contains("is slow"), "{}", found.text);
        assert_eq!(profile.findings().len(), 1, "{}", profile.text());
        cluster.stop().await.unwrap();
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 32)]
async fn one_key_of_nine_rows_in_ten_is_called_skew() {
    within(60, async {
        let cluster = cluster(&[USUAL; 4]).await;
        let ctx = session(&cluster);
        register(
            &ctx,
            "sales",
            4000,
            |value| if value % 10 == 0 { value } else { 7 },
        );
        register(&ctx, "shops", 4000, |value| value);
        let sql = "SELECT work(sales.v + shops.v) FROM sales JOIN shops ON sales.k = shops.k";
        let profile = profiled(&ctx, sql).await;
        let found = first(&profile);
        assert_eq!(found.kind, FindingKind::Skew, "{}", profile.text());
        assert!(
            found.text.contains("the keys by which stage"),
            "{}",
            found.text
        );
        assert_eq!(profile.findings().len(), 1, "{}", profile.text());
        cluster.stop().await.unwrap();
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 32)]
async fn a_sort_that_is_larger_than_its_memory_is_called_a_spill() {
    within(120, async {
        let small = |builder: flightpath_core::WorkerBuilder| {
            let pool = FairSpillPool::new(2_000_000);
            let runtime = RuntimeEnvBuilder::new().with_memory_pool(Arc::new(pool));
            let session = SessionStateBuilder::new()
                .with_default_features()
                .with_runtime_env(runtime.build_arc().unwrap());
            builder.with_session_state(session.build())
        };
        let cluster = Cluster::start_with(2, small).await.unwrap();
        let mut config = config();
        config.options_mut().execution.sort_spill_reservation_bytes = 100_000;
        let ctx = cluster.context_with(config).unwrap();
        register(&ctx, "t", 400_000, |value| value * 7919 % 400_000);
        let profile = profiled(&ctx, "SELECT v, k FROM t ORDER BY k").await;
        let found = first(&profile);
        assert_eq!(found.kind, FindingKind::Spill, "{}", profile.text());
        assert!(found.text.starts_with("SortExec wrote"), "{}", found.text);
        let node = &profile.stage(found.stage.unwrap()).unwrap().nodes[found.node.unwrap()];
        assert_eq!(node.name, "SortExec");
        cluster.stop().await.unwrap();
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 32)]
async fn nothing_stands_out_in_a_healthy_query() {
    within(60, async {
        // Long enough that a busy machine does not make a task several times as long.
        let cluster = cluster(&[USUAL * 2; 4]).await;
        let ctx = session(&cluster);
        register(&ctx, "t", 4000, |value| value);
        for sql in [
            "SELECT work(v) FROM t",
            "SELECT k % 400, sum(work(v)) FROM t GROUP BY k % 400",
            "SELECT work(a.v + b.v) FROM t a JOIN t b ON a.k = b.k",
        ] {
            let profile = profiled(&ctx, sql).await;
            assert_eq!(profile.findings(), [], "{}", profile.text());
            assert!(
                profile.verdict().starts_with("Nothing stands out: "),
                "{}",
                profile.text()
            );
        }
        cluster.stop().await.unwrap();
    })
    .await;
}
