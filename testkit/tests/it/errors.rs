//! Errors are those that one machine would give, and say where they happened.

use datafusion::common::DataFusionError;
use datafusion::physical_plan::collect;
use flightpath_core::origin_of;

use crate::fixture::{eventually, within};
use crate::pair::{Pair, distributed};
use crate::wire::tasks;

async fn start() -> Pair {
    let pair = Pair::start(2).await;
    let rows = "SELECT value % 5 AS k, value AS v, 'n' || value AS s FROM generate_series(1, 100)";
    pair.table("t", 4, rows).await;
    pair
}

/// The error names a task of this query, and leaves nothing behind.
async fn placed(pair: &Pair, error: &DataFusionError) {
    let origin = origin_of(error).unwrap_or_else(|| panic!("no origin in {error}"));
    assert!(pair.urls().contains(&origin.worker), "{origin}");
    assert!(origin.stage >= 1 && origin.task < 2, "{origin}");
    assert!(error.to_string().contains(&origin.to_string()), "{error}");
    for url in pair.urls() {
        eventually("no task is left", async || tasks(&url).await.is_empty()).await;
    }
}

#[tokio::test]
async fn what_fails_on_workers() {
    within(60, async {
        let pair = start().await;
        for sql in [
            "SELECT 100 / k FROM t",
            "SELECT k, sum(10 / (v - 50)) FROM t GROUP BY k",
            "SELECT CAST(s AS INT) FROM t WHERE v = 30",
            "SELECT a.v FROM t a JOIN t b ON a.v = b.v AND CAST(b.s AS BIGINT) > a.k WHERE b.v = 30",
            "SELECT arrow_cast(v * 100, 'Int8') FROM t WHERE v = 30",
            "SELECT to_timestamp(s) FROM t WHERE v = 30",
        ] {
            let error = pair.same_error(sql).await;
            placed(&pair, &error).await;
        }
        pair.same("SELECT k, sum(v) FROM t GROUP BY k").await;
    })
    .await;
}

/// Such queries never get to a worker.
#[tokio::test]
async fn what_fails_in_planning() {
    within(30, async {
        let pair = start().await;
        for sql in [
            "SELEC v FROM t",
            "SELECT nope FROM t",
            "SELECT v FROM nowhere",
        ] {
            pair.same_error(sql).await;
        }
    })
    .await;
}

#[tokio::test]
async fn a_file_that_went_missing_after_planning() {
    within(30, async {
        let pair = start().await;
        let mut errors = vec![];
        let mut plans = vec![];
        for ctx in [&pair.local, &pair.spread] {
            let frame = ctx.sql("SELECT k, sum(v) FROM t GROUP BY k").await.unwrap();
            plans.push((
                frame.clone().create_physical_plan().await.unwrap(),
                ctx.task_ctx(),
            ));
        }
        assert!(distributed(&plans[1].0).is_some());
        std::fs::remove_file(pair.dir().join("t/2.parquet")).unwrap();
        for (plan, task) in plans {
            errors.push(collect(plan, task).await.unwrap_err());
        }
        // The worker has not cached the footer of the file, so that it fails one step earlier.
        for error in &errors {
            let root = error.find_root();
            assert!(matches!(root, DataFusionError::ParquetError(_)), "{root:?}");
            assert!(root.to_string().contains("2.parquet not found"), "{root}");
        }
        placed(&pair, &errors[1]).await;
    })
    .await;
}
