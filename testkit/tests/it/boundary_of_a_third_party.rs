use std::fmt;
use std::sync::Arc;

use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{DataFusionError, Result, internal_err};
use datafusion::physical_expr::{EquivalenceProperties, PhysicalExpr};
use datafusion::physical_plan::repartition::RepartitionExec;
use datafusion::physical_plan::{
    ExecutionPlan, ExecutionPlanProperties, Partitioning, PlanProperties,
};
use flightpath_core::model::visitor::{NodeVisit, Visited};
use flightpath_core::{
    BoundaryKind, BoundaryPlanner, ExchangeShape, Exchanged, NetworkBoundary, PlanVisitor,
    StreamKey, visit_stages,
};
use flightpath_testkit::Cluster;

use crate::fixture::{Setup, answer, config, session, within};

/// Deals the partitions of producers out to consumers in turn, not in blocks.
#[derive(Debug)]
struct DealtShuffle {
    keys: Vec<Arc<dyn PhysicalExpr>>,
    partitions: usize,
}

impl NetworkBoundary for DealtShuffle {
    fn name(&self) -> &str {
        "DealtShuffleExec"
    }

    fn stage_head(
        &self,
        input: Arc<dyn ExecutionPlan>,
        consumer_tasks: usize,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let split = Partitioning::Hash(self.keys.clone(), self.partitions * consumer_tasks);
        Ok(Arc::new(RepartitionExec::try_new(input, split)?))
    }

    fn properties(
        &self,
        head: &Arc<dyn ExecutionPlan>,
        shape: &ExchangeShape,
    ) -> Result<PlanProperties> {
        if shape.producer_partitions != self.partitions * shape.consumer_tasks {
            return internal_err!("cannot deal {} out", shape.producer_partitions);
        }
        Ok(PlanProperties::new(
            EquivalenceProperties::new(head.schema()),
            Partitioning::Hash(self.keys.clone(), self.partitions),
            head.pipeline_behavior(),
            head.boundedness(),
        ))
    }

    fn reads(&self, consumer: usize, partition: usize, shape: &ExchangeShape) -> Vec<StreamKey> {
        let partition = partition * shape.consumer_tasks + consumer;
        let tasks = 0..shape.producer_tasks;
        tasks.map(|task| StreamKey { task, partition }).collect()
    }

    fn fmt_details(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, ", dealt {}", self.partitions)
    }
}

#[derive(Debug)]
struct Dealer;

impl BoundaryPlanner for Dealer {
    fn boundary(
        &self,
        exchanged: &Exchanged<'_>,
        _input: &Arc<dyn ExecutionPlan>,
        _consumer_tasks: usize,
    ) -> Option<Arc<dyn NetworkBoundary>> {
        match exchanged {
            Exchanged::Keyed { keys, partitions } => Some(Arc::new(DealtShuffle {
                keys: keys.to_vec(),
                partitions: *partitions,
            })),
            _ => None,
        }
    }
}

const SQL: &str = "SELECT id % 300 AS k, count(*) AS n FROM sales GROUP BY id % 300";

async fn setup() -> Setup {
    let cluster = Cluster::start(2).await.unwrap();
    let coordinator = cluster.coordinator().unwrap();
    let ctx = session(
        config(),
        coordinator.with_boundary_planner(Arc::new(Dealer)),
    );
    Setup::with(cluster, ctx).await
}

/// Rows that a boundary read, by task.
#[derive(Default)]
struct Dealt(Vec<usize>);

impl PlanVisitor for Dealt {
    type Error = DataFusionError;

    fn pre_visit_node(&mut self, visit: &NodeVisit<'_>) -> Visited<DataFusionError> {
        let boundary = visit.node.boundary.as_ref();
        if let Some(boundary) = boundary.filter(|found| found.name == "DealtShuffleExec") {
            assert_eq!(boundary.kind, BoundaryKind::Custom);
            assert_eq!(visit.node.name(), "DealtShuffleExec");
            let rows = visit.metrics.as_ref().unwrap().output_rows();
            self.0.push(rows.unwrap());
        }
        Ok(TreeNodeRecursion::Continue)
    }
}

#[tokio::test]
async fn workers_run_it_without_its_code() {
    within(60, async {
        let setup = setup().await;
        let planned = setup.check(SQL).await;
        let mut dealt = Dealt::default();
        visit_stages(&planned.plan, Some(&planned.reports()), &mut dealt).unwrap();
        assert_eq!(dealt.0.len(), 2, "one for each consumer task");
        assert!(dealt.0.iter().all(|rows| *rows > 0), "{:?}", dealt.0);
        let reports = planned.reports().reports();
        let sent = reports.iter().filter(|report| report.key.stage == 1);
        let sent: u64 = sent.map(|report| report.output_rows).sum();
        assert_eq!(dealt.0.iter().sum::<usize>() as u64, sent);
        assert_eq!(planned.reports().counts().finished, 4);
    })
    .await;
}

#[tokio::test]
async fn joins_meet_across_it() {
    within(60, async {
        let setup = setup().await;
        let sql = "SELECT shops.shop, city, n FROM shops LEFT JOIN \
                   (SELECT shop, count(*) AS n FROM sales GROUP BY shop) s ON s.shop = shops.shop";
        let shown = setup.check(sql).await.shown();
        assert!(shown.contains("DealtShuffleExec"), "{shown}");
    })
    .await;
}

#[tokio::test]
async fn explain_shows_it_by_its_name() {
    within(60, async {
        let setup = setup().await;
        let shown = answer(&setup.ctx, &format!("EXPLAIN FORMAT INDENT {SQL}"))
            .await
            .unwrap();
        let line = "DealtShuffleExec: stage=1, tasks=2, dealt 2";
        assert!(shown.contains(line), "{shown}");
        let shown = answer(&setup.ctx, &format!("EXPLAIN ANALYZE {SQL}"))
            .await
            .unwrap();
        let line = shown.lines().find(|shown| shown.contains(line)).unwrap();
        assert!(
            line.contains("output_rows=") && line.contains("exchange_bytes="),
            "{line}"
        );
    })
    .await;
}
