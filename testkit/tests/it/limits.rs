use datafusion::arrow::compute::concat_batches;
use flightpath_core::TaskStatus;
use flightpath_testkit::compare::same_rows;

use crate::fixture::{Planned, Setup, within};

/// A million rows, made by a join in each task.
const MANY: &str = "SELECT a.id + b.id AS sum FROM sales a, sales b";

#[tokio::test]
async fn a_limit_without_an_order_ends_early() {
    within(60, async {
        let setup = Setup::new().await;
        let planned = setup
            .plan(&format!(
                "SELECT * FROM ({MANY}) WHERE sum % 2 = 0 LIMIT 10"
            ))
            .await;
        let rows = planned.collect().await.unwrap();
        assert_eq!(rows.iter().map(|batch| batch.num_rows()).sum::<usize>(), 10);
        let reports = planned.reports();
        assert!(reports.missing().is_empty());
        let reported = reports.reports();
        let sent: u64 = reported.iter().map(|report| report.output_rows).sum();
        assert!(sent < 400_000, "tasks sent {sent} rows of 1,000,000 for 10");
        for report in reported.iter() {
            assert_ne!(report.status, TaskStatus::Failed, "{:?}", report.error);
            assert!(
                !report.nodes.is_empty(),
                "task {} reports no node",
                report.key
            );
        }
    })
    .await;
}

#[tokio::test]
async fn tasks_that_a_limit_cuts_off_are_cancelled() {
    within(60, async {
        let setup = Setup::new().await;
        for option in ["threshold", "threshold_rows"] {
            let option = format!("datafusion.optimizer.hash_join_single_partition_{option}");
            setup.ctx.sql(&format!("SET {option} = 0")).await.unwrap();
        }
        let sql = format!("SELECT city FROM ({MANY}) m JOIN shops ON sum % 20 = shop LIMIT 10");
        let planned = setup.plan(&sql).await;
        assert!(
            planned.shown().contains("NetworkShuffleExec"),
            "{}",
            planned.shown()
        );
        planned.collect().await.unwrap();
        let counts = planned.reports().counts();
        assert!(
            counts.cancelled + counts.unused > 0,
            "{counts:?}\n{}",
            planned.shown()
        );
        assert_eq!(counts.failed + counts.missing, 0, "{counts:?}");
    })
    .await;
}

#[tokio::test]
async fn a_limit_of_nothing_runs_nothing() {
    within(60, async {
        let setup = Setup::new().await;
        let rows = setup.ctx.sql("SELECT id FROM sales LIMIT 0").await.unwrap();
        assert_eq!(rows.count().await.unwrap(), 0);
    })
    .await;
}

#[tokio::test]
async fn an_offset_skips_rows_of_the_query_and_not_of_tasks() {
    within(60, async {
        let setup = Setup::new().await;
        for (limit, expected) in [("LIMIT 20 OFFSET 990", 10), ("LIMIT 7 OFFSET 5", 7)] {
            let planned = setup
                .plan(&format!("SELECT id FROM sales WHERE id % 9 >= 0 {limit}"))
                .await;
            let rows = planned.collect().await.unwrap();
            let rows: usize = rows.iter().map(|batch| batch.num_rows()).sum();
            assert_eq!(rows, expected, "{limit}");
        }
    })
    .await;
}

#[tokio::test]
async fn each_task_sends_no_more_than_the_top() {
    within(60, async {
        let setup = Setup::new().await;
        let sql = "SELECT amount, id FROM sales ORDER BY amount DESC, id LIMIT 5";
        let planned = setup.check(sql).await;
        let rows = planned.collect().await.unwrap();
        let local = setup.locally(sql).await.unwrap();
        let whole = |rows: &[_]| concat_batches(&planned.plan.schema(), rows).unwrap();
        assert_eq!(whole(&rows), whole(&local), "in this order");
        for report in planned.reports().reports() {
            assert_eq!(report.status, TaskStatus::Finished);
            // Five of each of its two partitions.
            assert!(
                report.output_rows <= 10,
                "task {}: {}",
                report.key,
                report.output_rows
            );
        }
        same_rows(&rows, &local).unwrap();
    })
    .await;
}

/// With one partition DataFusion leaves the limit to the join alone; each task then kept it.
#[tokio::test]
async fn a_limit_that_a_join_took_over_is_not_kept_once_per_task() {
    within(60, async {
        let setup = Setup::new().await;
        let one = "SET datafusion.execution.target_partitions = 1";
        setup.ctx.sql(one).await.unwrap();
        for join in [
            "JOIN shops USING (shop)",
            "LEFT JOIN shops USING (shop)",
            "RIGHT JOIN shops USING (shop)",
            "JOIN shops ON sales.shop < shops.shop",
            "CROSS JOIN shops",
        ] {
            let sql = format!("SELECT id, city FROM sales {join} LIMIT 5");
            let planned = Planned::new(&setup.ctx, &sql).await;
            let rows = planned.collect().await.unwrap();
            let rows: usize = rows.iter().map(|batch| batch.num_rows()).sum();
            assert_eq!(rows, 5, "{join}\n{}", planned.shown());
            // Where the limit goes to a scan as well, one task can do all of it.
            let spread = planned.distributed().is_some();
            assert!(spread || planned.shown().contains("limit=5"), "{join}");
        }
    })
    .await;
}
