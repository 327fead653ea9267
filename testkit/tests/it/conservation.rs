use std::collections::BTreeSet;

use datafusion::common::DataFusionError;
use datafusion::common::tree_node::TreeNodeRecursion;
use flightpath_core::model::staged::StagedPlan;
use flightpath_core::model::visitor::{NodeVisit, Visited};
use flightpath_core::{BoundaryKind, PlanVisitor, TaskStatus, visit_stages};

use crate::fixture::{Planned, SALES, Setup, within};

/// Rows and bytes that pass a boundary, and rows that leave scans.
#[derive(Default)]
struct Read {
    /// By the stage that is read.
    boundaries: std::collections::BTreeMap<usize, (u64, u64)>,
    scanned: usize,
}

impl PlanVisitor for Read {
    type Error = DataFusionError;

    fn pre_visit_node(&mut self, visit: &NodeVisit<'_>) -> Visited<DataFusionError> {
        let metrics = visit.metrics.clone().unwrap_or_default();
        let rows = metrics.output_rows().unwrap_or_default();
        if let Some(boundary) = &visit.node.boundary {
            let bytes = metrics.sum_by_name("exchange_bytes");
            let bytes = bytes.map_or(0, |bytes| bytes.as_usize());
            let read = self.boundaries.entry(boundary.stage).or_default();
            read.0 += rows as u64;
            read.1 += bytes as u64;
        } else if visit.node.name() == "DataSourceExec" {
            self.scanned += rows;
        }
        Ok(TreeNodeRecursion::Continue)
    }
}

/// Checks that what one side says it has sent is what the other says it has read. Returns the rows
/// that were scanned.
fn check_conserved(planned: &Planned) -> usize {
    let reports = planned.reports();
    let staged = StagedPlan::try_new(&planned.plan).unwrap();
    let mut read = Read::default();
    visit_stages(&planned.plan, Some(&reports), &mut read).unwrap();
    let all = reports.reports();
    for stage in staged.remote() {
        let of_stage: Vec<_> = all.iter().filter(|r| r.key.stage == stage.id).collect();
        let tasks: BTreeSet<_> = of_stage.iter().map(|report| report.key.task).collect();
        assert_eq!(
            tasks,
            (0..stage.tasks).collect(),
            "each task of stage {} once",
            stage.id
        );
        assert_eq!(of_stage.len(), stage.tasks);
        let sent = of_stage.iter().fold((0, 0), |(rows, bytes), report| {
            (rows + report.output_rows, bytes + report.output_bytes)
        });
        assert_eq!(
            read.boundaries[&stage.id], sent,
            "rows and bytes of stage {}",
            stage.id
        );
        assert!(
            sent.0 == 0 || sent.1 > 0,
            "{} rows of stage {} weigh nothing",
            sent.0,
            stage.id
        );
    }
    assert!(reports.unmatched().is_empty());
    assert!(reports.missing().is_empty());
    let counts = reports.counts();
    assert_eq!(
        counts.finished + counts.failed + counts.cancelled + counts.unused + counts.missing,
        staged.remote().map(|stage| stage.tasks).sum::<usize>()
    );
    read.scanned
}

fn kinds(planned: &Planned) -> Vec<BoundaryKind> {
    let staged = StagedPlan::try_new(&planned.plan).unwrap();
    let boundaries = staged.remote().filter_map(|stage| stage.boundary.clone());
    boundaries.map(|boundary| boundary.kind).collect()
}

/// Runs a query whose tasks all come to their end.
async fn check_finished(setup: &Setup, sql: &str) -> (Planned, usize) {
    let planned = setup.check(sql).await;
    let scanned = check_conserved(&planned);
    let all = planned.reports().reports();
    for report in &all {
        assert_eq!(report.status, TaskStatus::Finished, "task {}", report.key);
        assert_eq!(report.error, None);
    }
    assert_eq!(planned.reports().counts().finished, all.len());
    (planned, scanned)
}

#[tokio::test]
async fn rows_that_leave_a_shuffle_arrive() {
    within(60, async {
        let setup = Setup::new().await;
        let sql = "SELECT id % 300 AS k, count(*) FROM sales GROUP BY id % 300";
        let (planned, scanned) = check_finished(&setup, sql).await;
        assert_eq!(
            kinds(&planned),
            [BoundaryKind::Shuffle, BoundaryKind::Coalesce]
        );
        assert_eq!(scanned, SALES as usize);
    })
    .await;
}

#[tokio::test]
async fn rows_that_leave_a_broadcast_arrive_in_every_task() {
    within(60, async {
        let setup = Setup::new().await;
        let sql = "SELECT id, city FROM sales JOIN shops ON sales.shop = shops.shop";
        let (planned, scanned) = check_finished(&setup, sql).await;
        assert!(
            kinds(&planned).contains(&BoundaryKind::Broadcast),
            "{}",
            planned.shown()
        );
        let reports = planned.reports().reports();
        let copies = reports.iter().filter(|report| report.key.stage == 1);
        assert_eq!(copies.map(|report| report.output_rows).sum::<u64>(), 2 * 20);
        assert_eq!(scanned, 1020);
    })
    .await;
}

#[tokio::test]
async fn rows_that_are_gathered_arrive() {
    within(60, async {
        let setup = Setup::new().await;
        let (planned, scanned) = check_finished(&setup, "SELECT id, amount FROM sales").await;
        assert_eq!(kinds(&planned), [BoundaryKind::Coalesce]);
        assert_eq!(scanned, SALES as usize);
        assert_eq!(planned.reports().counts().finished, 2);
    })
    .await;
}

#[tokio::test]
async fn rows_that_keep_their_order_arrive() {
    within(60, async {
        let setup = Setup::new().await;
        setup
            .ctx
            .sql("SET datafusion.optimizer.prefer_existing_sort = true")
            .await
            .unwrap();
        let sql = "SELECT shop, id, sum(amount) OVER (PARTITION BY shop ORDER BY id) AS so_far \
                   FROM sales ORDER BY shop, id";
        let (planned, scanned) = check_finished(&setup, sql).await;
        assert!(
            planned.shown().contains("SortPreservingMergeExec"),
            "{}",
            planned.shown()
        );
        assert_eq!(scanned, SALES as usize);
    })
    .await;
}

#[tokio::test]
async fn rows_below_a_scalar_subquery_arrive() {
    within(60, async {
        let setup = Setup::new().await;
        let sql = "SELECT shop, count(*) FROM sales \
                   WHERE amount > (SELECT avg(amount) FROM sales) GROUP BY shop";
        let (planned, scanned) = check_finished(&setup, sql).await;
        assert!(
            planned.shown().contains("ScalarSubqueryExec"),
            "{}",
            planned.shown()
        );
        assert_eq!(scanned, 2 * SALES as usize);
    })
    .await;
}
