use std::sync::Arc;

use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::common::collect;
use flightpath_core::{QueryReports, TaskReport};
use flightpath_testkit::compare::same_rows;

use crate::fixture::{Planned, Setup, within};

const GROUPED: &str = "SELECT city, count(*), sum(amount) FROM sales JOIN shops \
                       ON sales.shop = shops.shop GROUP BY city";
const SUBQUERY: &str = "SELECT shop, count(*) FROM sales \
                        WHERE amount > (SELECT avg(amount) FROM sales) GROUP BY shop";

fn check_apart(planned: &Planned, one: &QueryReports, other: &QueryReports) {
    assert_ne!(one.query_id(), other.query_id());
    assert!(one.counts().finished > 0, "{}", planned.shown());
    assert_eq!(one.counts(), other.counts());
    let (ours, theirs) = (one.reports(), other.reports());
    assert_eq!(ours.len(), theirs.len());
    for (report, of_other) in ours.iter().zip(&theirs) {
        assert_eq!(report.key.query_id, one.query_id());
        assert_eq!(of_other.key.query_id, other.query_id());
        assert_eq!(report.key.to_string(), of_other.key.to_string());
    }
    // Below it, what partial groups there are hangs on which partition took which file.
    let last = ours.last().unwrap().key.stage;
    let rows = |reports: &[Arc<TaskReport>]| -> u64 {
        let reports = reports.iter().filter(|report| report.key.stage == last);
        reports.map(|report| report.output_rows).sum()
    };
    assert_eq!(rows(&ours), rows(&theirs));
}

async fn check_in_a_row(setup: &Setup, sql: &str) {
    let planned = setup.check(sql).await;
    let first = planned.reports();
    let expected = setup.locally(sql).await.unwrap();
    same_rows(&expected, &planned.collect().await.unwrap()).unwrap();
    check_apart(&planned, &first, &planned.reports());
}

async fn check_at_once(setup: &Setup, sql: &str) {
    let planned = setup.plan(sql).await;
    let (one, first) = (planned.stream(), planned.reports());
    let (other, second) = (planned.stream(), planned.reports());
    let (one, other) = tokio::join!(collect(one), collect(other));
    let expected = setup.locally(sql).await.unwrap();
    same_rows(&expected, &one.unwrap()).unwrap();
    same_rows(&expected, &other.unwrap()).unwrap();
    assert!(Arc::ptr_eq(&planned.reports(), &second));
    check_apart(&planned, &first, &second);
}

#[tokio::test]
async fn a_plan_runs_again() {
    within(60, async {
        check_in_a_row(&Setup::new().await, GROUPED).await
    })
    .await;
}

#[tokio::test]
async fn a_plan_with_a_subquery_runs_again() {
    within(60, async {
        check_in_a_row(&Setup::new().await, SUBQUERY).await
    })
    .await;
}

#[tokio::test]
async fn a_plan_runs_twice_at_once() {
    within(60, async {
        check_at_once(&Setup::new().await, GROUPED).await
    })
    .await;
}

#[tokio::test]
async fn a_plan_with_a_subquery_runs_twice_at_once() {
    within(60, async {
        check_at_once(&Setup::new().await, SUBQUERY).await
    })
    .await;
}

#[tokio::test]
async fn a_plan_runs_again_after_it_was_left() {
    use futures::StreamExt;

    within(60, async {
        let setup = Setup::new().await;
        for sql in [GROUPED, SUBQUERY] {
            let planned = setup.plan(sql).await;
            let mut left = planned.stream();
            left.next().await.unwrap().unwrap();
            drop(left);
            let expected = setup.locally(sql).await.unwrap();
            same_rows(&expected, &planned.collect().await.unwrap()).unwrap();
        }
    })
    .await;
}

#[tokio::test]
async fn the_coordinators_nodes_showed_an_execution_before_the_last() {
    within(60, async {
        let setup = Setup::new().await;
        let planned = setup.plan(GROUPED).await;
        // It takes the nodes of the plan for itself; the next has copies.
        drop(planned.stream());
        let rows = planned.collect().await.unwrap();
        let rows: usize = rows.iter().map(|batch| batch.num_rows()).sum();
        let top = planned.distributed().unwrap().children()[0];
        let shown = top.metrics().and_then(|metrics| metrics.output_rows());
        assert_eq!(shown, Some(rows), "{}", planned.shown());
    })
    .await;
}
