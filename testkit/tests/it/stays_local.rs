//! What cannot be sent runs locally, and `EXPLAIN` says why.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::arrow::util::pretty::pretty_format_batches;
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::Result;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::datasource::TableType;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::Expr;
use datafusion::physical_expr::{EquivalenceProperties, PhysicalExpr};
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType};
use datafusion::physical_plan::memory::MemoryStream;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, Partitioning, PlanProperties,
};
use flightpath_testkit::Cluster;

use crate::fixture::within;
use crate::pair::{Pair, config, cut, rows_of};

const ROWS: &str = "SELECT value % 5 AS k, value AS v FROM generate_series(1, 100)";

/// The query answers right, without workers, and `EXPLAIN` gives the reason.
async fn local(pair: &Pair, sql: &str, reason: &str) {
    assert!(!pair.compare(sql).await, "{sql} ran on workers");
    explained(pair, sql, reason).await;
}

async fn explained(pair: &Pair, sql: &str, reason: &str) {
    let explain = pair.spread.sql(&format!("EXPLAIN {sql}")).await.unwrap();
    let explain = explain.collect().await.unwrap();
    let explain = pretty_format_batches(&explain).unwrap().to_string();
    let line = explain
        .lines()
        .find(|line| line.contains("flightpath=local"));
    let line = line.unwrap_or_else(|| panic!("no reason in\n{explain}"));
    assert!(line.contains(reason), "{line}");
}

#[tokio::test]
async fn without_workers() {
    within(30, async {
        let pair = Pair::start(0).await;
        pair.table("t", 4, ROWS).await;
        local(&pair, "SELECT k, sum(v) FROM t GROUP BY k", "no workers").await;
    })
    .await;
}

/// The reason must not wait for a build that can read such files.
#[tokio::test]
async fn compressed_csv() {
    within(30, async {
        let pair = Pair::start(2).await;
        pair.table("t", 4, ROWS).await;
        let folder = pair.dir().join("csv");
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join("1.csv.gz"), "not read").unwrap();
        let folder = folder.display();
        pair.run(&format!(
            "CREATE EXTERNAL TABLE zipped (k BIGINT, v BIGINT) STORED AS CSV LOCATION '{folder}/' \
             OPTIONS ('format.has_header' 'true', 'format.compression' 'gzip')"
        ))
        .await;
        let sql = "SELECT t.k, count(*) FROM zipped z JOIN t ON z.v = t.v GROUP BY t.k";
        explained(&pair, sql, "compression of csv files").await;
    })
    .await;
}

#[tokio::test]
async fn large_in_memory_tables() {
    within(30, async {
        let pair = Pair::start(2).await;
        let rows = rows_of(ROWS).await;
        pair.memory("t", rows.schema(), &cut(&rows, 4));
        let sql = "SELECT k, sum(v) FROM t GROUP BY k";
        pair.same(sql).await;
        let set = "SET flightpath.max_inline_bytes = 500";
        pair.spread.sql(set).await.unwrap();
        local(&pair, sql, "flightpath.max_inline_bytes = 500").await;
    })
    .await;
}

#[tokio::test]
async fn large_plans() {
    within(30, async {
        let pair = Pair::start(2).await;
        pair.table("t", 4, ROWS).await;
        let sql = "SELECT k, sum(v) FROM t GROUP BY k";
        pair.same(sql).await;
        pair.spread
            .sql("SET flightpath.max_plan_bytes = 100")
            .await
            .unwrap();
        local(&pair, sql, "flightpath.max_plan_bytes allows 100").await;
    })
    .await;
}

/// Beside the leaf that nobody can encode there is a large table, so that both meet in a stage.
#[tokio::test]
async fn leaves_without_a_codec() {
    within(30, async {
        let pair = Pair::on(Arc::new(Cluster::start(2).await.unwrap()), config());
        pair.table("t", 4, ROWS).await;
        let custom = Arc::new(Custom(rows_of(ROWS).await));
        for ctx in [&pair.local, &pair.spread] {
            ctx.register_table("custom", custom.clone()).unwrap();
        }
        let sql = "SELECT t.k, count(*) FROM custom c JOIN t ON c.v = t.v GROUP BY t.k";
        local(&pair, sql, "CustomExec").await;
    })
    .await;
}

#[derive(Debug)]
struct Custom(RecordBatch);

#[async_trait]
impl TableProvider for Custom {
    fn schema(&self) -> SchemaRef {
        self.0.schema()
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    async fn scan(
        &self,
        _state: &dyn Session,
        projection: Option<&Vec<usize>>,
        _filters: &[Expr],
        _limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let rows = match projection {
            Some(columns) => self.0.project(columns)?,
            None => self.0.clone(),
        };
        let properties = PlanProperties::new(
            EquivalenceProperties::new(rows.schema()),
            Partitioning::UnknownPartitioning(1),
            EmissionType::Incremental,
            Boundedness::Bounded,
        );
        Ok(Arc::new(CustomExec(rows, Arc::new(properties))))
    }
}

#[derive(Debug)]
struct CustomExec(RecordBatch, Arc<PlanProperties>);

impl DisplayAs for CustomExec {
    fn fmt_as(&self, _format: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CustomExec")
    }
}

impl ExecutionPlan for CustomExec {
    fn name(&self) -> &str {
        "CustomExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.1
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![]
    }

    fn apply_expressions(
        &self,
        _f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn with_new_children(
        self: Arc<Self>,
        _children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(self)
    }

    fn execute(
        &self,
        _partition: usize,
        _context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        let rows = MemoryStream::try_new(vec![self.0.clone()], self.0.schema(), None)?;
        Ok(Box::pin(rows))
    }
}
