//! What the tests share: data, workers, plans at hand, and waits with an end.

pub(crate) use crate::harness::eventually;
use std::fs::File;
use std::sync::Arc;
use std::time::Duration;

use datafusion::arrow::array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use datafusion::arrow::util::pretty::pretty_format_batches;
use datafusion::common::Result;
use datafusion::execution::{SendableRecordBatchStream, SessionStateBuilder, TaskContext};
use datafusion::physical_plan::{ExecutionPlan, collect, displayable, execute_stream};
use datafusion::prelude::{ParquetReadOptions, SessionConfig, SessionContext};
use flightpath_core::{
    Coordinator, DistributedExec, QueryReports, SessionStateBuilderExt, find_layer,
};
use flightpath_testkit::Cluster;
use flightpath_testkit::compare::same_rows;
use parquet::arrow::ArrowWriter;
use tempfile::TempDir;

/// Rows of `sales`, in four files.
pub(crate) const SALES: i64 = 1000;
/// Rows of `shops`, in two files.
pub(crate) const SHOPS: i64 = 20;

/// Runs a test's work, which must end within `seconds`.
pub(crate) async fn within<T>(seconds: u64, work: impl Future<Output = T>) -> T {
    let bound = Duration::from_secs(seconds);
    let ended = tokio::time::timeout(bound, work).await;
    ended.unwrap_or_else(|_| panic!("not done within {bound:?}"))
}

/// `sales(id, shop, amount)` and `shops(shop, city)` as Parquet files, removed when dropped.
pub(crate) struct Tables(TempDir);

impl Tables {
    pub(crate) fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let integers = |values: &mut dyn Iterator<Item = i64>| -> ArrayRef {
            Arc::new(values.collect::<Int64Array>())
        };
        for file in 0..4 {
            let ids = || file * SALES / 4..(file + 1) * SALES / 4;
            let batch = RecordBatch::try_from_iter([
                ("id", integers(&mut ids())),
                ("shop", integers(&mut ids().map(|id| id % SHOPS))),
                ("amount", integers(&mut ids().map(|id| id * 7 % 100))),
            ]);
            write(&dir, "sales", file, &batch.unwrap());
        }
        for file in 0..2 {
            let shops = || file * SHOPS / 2..(file + 1) * SHOPS / 2;
            let cities = shops().map(|shop| Some(["Rome", "Oslo", "Bern"][shop as usize % 3]));
            let batch = RecordBatch::try_from_iter([
                ("shop", integers(&mut shops())),
                ("city", Arc::new(cities.collect::<StringArray>()) as _),
            ]);
            write(&dir, "shops", file, &batch.unwrap());
        }
        Self(dir)
    }

    pub(crate) async fn register(&self, ctx: &SessionContext) {
        for table in ["sales", "shops"] {
            let path = self.0.path().join(table);
            let path = path.to_str().unwrap();
            let options = ParquetReadOptions::default();
            ctx.register_parquet(table, path, options).await.unwrap();
        }
    }

    /// Text without what differs from one machine and run to the next: which files are scanned.
    pub(crate) fn redacted(&self, text: &str) -> String {
        let lines = text.lines().map(|line| {
            let files = line
                .split_once("file_groups={")
                .and_then(|(before, after)| Some((before, after.split_once("]]}")?.1)));
            match files {
                Some((before, after)) => format!("{before}file_groups=..{after}"),
                None => line.to_string(),
            }
        });
        lines.collect::<Vec<_>>().join("\n")
    }
}

fn write(dir: &TempDir, table: &str, file: i64, batch: &RecordBatch) {
    let folder = dir.path().join(table);
    std::fs::create_dir_all(&folder).unwrap();
    let file = File::create(folder.join(format!("{file}.parquet"))).unwrap();
    let mut writer = ArrowWriter::try_new(file, batch.schema(), None).unwrap();
    writer.write(batch).unwrap();
    writer.close().unwrap();
}

/// The same on every machine: two partitions a task.
pub(crate) fn config() -> SessionConfig {
    let mut config = SessionConfig::new()
        .with_target_partitions(2)
        .with_information_schema(true);
    config.options_mut().explain.physical_plan_only = true;
    config
}

/// A session that distributes through `coordinator`.
pub(crate) fn session(config: SessionConfig, coordinator: Coordinator) -> SessionContext {
    let state = SessionStateBuilder::new()
        .with_config(config)
        .with_default_features()
        .with_flightpath(coordinator);
    SessionContext::new_with_state(state.build())
}

/// Two workers, a session that distributes over them, and one that does not.
pub(crate) struct Setup {
    pub(crate) cluster: Cluster,
    pub(crate) ctx: SessionContext,
    pub(crate) local: SessionContext,
    pub(crate) tables: Tables,
}

impl Setup {
    pub(crate) async fn new() -> Self {
        Self::on(Cluster::start(2).await.unwrap()).await
    }

    pub(crate) async fn on(cluster: Cluster) -> Self {
        let ctx = cluster.context_with(config()).unwrap();
        Self::with(cluster, ctx).await
    }

    pub(crate) async fn with(cluster: Cluster, ctx: SessionContext) -> Self {
        let tables = Tables::new();
        let local = SessionContext::new_with_config(config());
        tables.register(&ctx).await;
        tables.register(&local).await;
        Self {
            cluster,
            ctx,
            local,
            tables,
        }
    }

    /// Plans a query that must run on workers.
    pub(crate) async fn plan(&self, sql: &str) -> Planned {
        let planned = Planned::new(&self.ctx, sql).await;
        assert!(
            planned.distributed().is_some(),
            "stays local:\n{}",
            planned.shown()
        );
        planned
    }

    /// What a query answers without workers.
    pub(crate) async fn locally(&self, sql: &str) -> Result<Vec<RecordBatch>> {
        self.local.sql(sql).await?.collect().await
    }

    /// Runs a query on workers; its answer must be the local one.
    pub(crate) async fn check(&self, sql: &str) -> Planned {
        let planned = self.plan(sql).await;
        let rows = planned.collect().await.unwrap();
        same_rows(&self.locally(sql).await.unwrap(), &rows).unwrap();
        planned
    }
}

/// A query that is ready to run, any number of times.
pub(crate) struct Planned {
    pub(crate) plan: Arc<dyn ExecutionPlan>,
    task: Arc<TaskContext>,
}

impl Planned {
    pub(crate) async fn new(ctx: &SessionContext, sql: &str) -> Self {
        let frame = ctx.sql(sql).await.unwrap();
        Self {
            task: Arc::new(frame.task_ctx()),
            plan: frame.create_physical_plan().await.unwrap(),
        }
    }

    pub(crate) async fn collect(&self) -> Result<Vec<RecordBatch>> {
        collect(Arc::clone(&self.plan), Arc::clone(&self.task)).await
    }

    pub(crate) fn stream(&self) -> SendableRecordBatchStream {
        execute_stream(Arc::clone(&self.plan), Arc::clone(&self.task)).unwrap()
    }

    pub(crate) fn distributed(&self) -> Option<&DistributedExec> {
        fn find(plan: &Arc<dyn ExecutionPlan>) -> Option<&DistributedExec> {
            find_layer(plan.as_ref()).or_else(|| plan.children().into_iter().find_map(find))
        }
        find(&self.plan)
    }

    /// Of the latest execution.
    pub(crate) fn reports(&self) -> Arc<QueryReports> {
        self.distributed().unwrap().last_query().unwrap()
    }

    pub(crate) fn shown(&self) -> String {
        displayable(self.plan.as_ref()).indent(true).to_string()
    }
}

/// Rows as a table.
pub(crate) fn pretty(rows: &[RecordBatch]) -> String {
    pretty_format_batches(rows).unwrap().to_string()
}

/// The last column of an answer, line by line: what `EXPLAIN` and `SHOW` answer with.
pub(crate) async fn answer(ctx: &SessionContext, sql: &str) -> Result<String> {
    let rows = ctx.sql(sql).await?.collect().await?;
    let mut texts = vec![];
    for batch in &rows {
        let column = batch.column(batch.num_columns() - 1);
        let strings = datafusion::common::cast::as_string_array(column)?;
        texts.extend(strings.iter().flatten().map(str::to_string));
    }
    Ok(texts.join("\n"))
}
