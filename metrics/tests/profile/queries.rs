//! Profiles of many queries agree with themselves.

use std::path::Path;

use datafusion::prelude::{SessionConfig, SessionContext};
use flightpath_core::FlightpathConfig;
use flightpath_metrics::{FindingKind, QueryProfile, QueryStatus, StageProfile, TaskState};
use flightpath_testkit::{Cluster, tpch};

use crate::fixture::{profiled, within};

const SCALE: f64 = 0.01;

const QUERIES: [&str; 12] = [
    "SELECT l_returnflag, l_linestatus, sum(l_quantity), avg(l_discount), count(*) \
     FROM lineitem GROUP BY l_returnflag, l_linestatus ORDER BY 1, 2",
    "SELECT o_orderpriority, count(*) FROM orders WHERE EXISTS \
     (SELECT 1 FROM lineitem WHERE l_orderkey = o_orderkey AND l_commitdate < l_receiptdate) \
     GROUP BY o_orderpriority ORDER BY 1",
    "SELECT n_name, sum(l_extendedprice) AS revenue FROM customer \
     JOIN orders ON c_custkey = o_custkey JOIN lineitem ON l_orderkey = o_orderkey \
     JOIN nation ON c_nationkey = n_nationkey GROUP BY n_name ORDER BY revenue DESC LIMIT 5",
    "SELECT count(*) FROM lineitem WHERE l_quantity > (SELECT avg(l_quantity) FROM lineitem)",
    "SELECT * FROM orders ORDER BY o_totalprice DESC LIMIT 10",
    "SELECT l_orderkey FROM lineitem LIMIT 3",
    "SELECT s_name FROM supplier WHERE s_suppkey NOT IN (SELECT ps_suppkey FROM partsupp)",
    "SELECT c_name, o_orderkey FROM customer LEFT JOIN orders ON c_custkey = o_custkey",
    "SELECT o_custkey, row_number() OVER (PARTITION BY o_custkey ORDER BY o_orderdate) FROM orders",
    "SELECT p_brand, count(DISTINCT p_type) FROM part GROUP BY p_brand",
    "SELECT 'c' AS t, count(*) FROM customer UNION ALL SELECT 'p', count(*) FROM part \
     UNION ALL SELECT 'r', count(*) FROM region WHERE r_name = 'nowhere'",
    "SELECT a.n_name, b.r_name FROM nation a FULL JOIN region b ON a.n_regionkey = b.r_regionkey",
];

/// Of stages whose tasks and readers all came to their end.
fn check_all_read(sql: &str, profile: &QueryProfile) {
    let whole = |stage: usize| {
        let mut tasks = profile.tasks_of(stage);
        tasks.all(|task| task.status == TaskState::Finished)
    };
    for passed in profile.exchanged() {
        let reads = |stage: &&StageProfile| stage.reads().any(|read| read == passed.stage);
        let mut readers = profile.stages.iter().filter(reads);
        if whole(passed.stage) && readers.all(|reader| whole(reader.id)) {
            let sent = (passed.sent_rows, passed.sent_bytes);
            let read = (passed.read_rows, passed.read_bytes);
            assert_eq!(sent, read, "{sql}\n{}", profile.text());
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_sent_is_read_in_every_query() {
    within(180, async {
        let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join("tpch-profiles");
        let made = dir.clone();
        let made = tokio::task::spawn_blocking(move || tpch::ensure(&made, SCALE, false));
        made.await.unwrap().unwrap();
        let cluster = Cluster::start(3).await.unwrap();
        let config = SessionConfig::new()
            .with_option_extension(FlightpathConfig::default())
            .with_target_partitions(2);
        let ctx: SessionContext = cluster.context_with(config).unwrap();
        tpch::register(&ctx, &dir).await.unwrap();
        for sql in QUERIES {
            let profile = profiled(&ctx, sql).await;
            let expected = match profile.local_reason.as_deref() {
                Some("one task can do all of it") => QueryStatus::Local,
                _ => QueryStatus::Finished,
            };
            assert_eq!(profile.status, expected, "{sql}\n{}", profile.text());
            let kinds = profile.findings().into_iter().map(|finding| finding.kind);
            let lost = [
                FindingKind::Missing,
                FindingKind::Failure,
                FindingKind::Spill,
            ];
            assert!(
                !kinds.into_iter().any(|kind| lost.contains(&kind)),
                "{}",
                profile.text()
            );
            // A limit has its fill before the end.
            if !sql.contains("LIMIT") {
                check_all_read(sql, &profile);
            }
            if std::env::var_os("FLIGHTPATH_SHOW_PROFILES").is_some() {
                println!("{sql}\n{}", profile.text());
            }
        }
        let scan = profiled(&ctx, "SELECT sum(l_quantity) FROM lineitem").await;
        let tables: Vec<_> = scan.stages.iter().flat_map(|stage| &stage.nodes).collect();
        assert!(
            tables.iter().any(|node| node.table() == Some("lineitem")),
            "{}",
            scan.text()
        );
        cluster.stop().await.unwrap();
    })
    .await;
}
