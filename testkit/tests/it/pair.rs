//! The same tables in two sessions: one runs queries locally, the other on workers.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::compute::concat_batches;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::arrow::util::pretty::pretty_format_batches;
use datafusion::common::{DataFusionError, Result};
use datafusion::datasource::MemTable;
use datafusion::physical_plan::{ExecutionPlan, collect, displayable};
use datafusion::prelude::{ParquetReadOptions, SessionConfig, SessionContext};
use flightpath_core::{Coordinator, DistributedExec, find_layer};
use flightpath_testkit::Cluster;
use flightpath_testkit::compare::{same_rows, same_schema};
use parquet::arrow::ArrowWriter;
use tempfile::TempDir;

pub(crate) struct Pair {
    pub(crate) local: SessionContext,
    pub(crate) spread: SessionContext,
    pub(crate) cluster: Arc<Cluster>,
    dir: TempDir,
}

/// Small tables, yet several partitions and batches of each.
pub(crate) fn config() -> SessionConfig {
    SessionConfig::new()
        .with_target_partitions(3)
        .with_batch_size(16)
}

impl Pair {
    /// Both sessions, and workers for the second.
    pub(crate) async fn start(workers: usize) -> Self {
        Self::on(Arc::new(Cluster::start(workers).await.unwrap()), config())
    }

    pub(crate) fn on(cluster: Arc<Cluster>, config: SessionConfig) -> Self {
        Self {
            local: SessionContext::new_with_config(config.clone()),
            spread: cluster.context_with(config).unwrap(),
            cluster,
            dir: TempDir::new().unwrap(),
        }
    }

    /// URLs of the workers, as errors and reports show them.
    pub(crate) fn urls(&self) -> Vec<String> {
        let urls = self.cluster.urls();
        urls.iter()
            .map(|url| url.trim_end_matches('/').to_string())
            .collect()
    }

    /// A folder that goes with the pair.
    pub(crate) fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// Runs a statement such as `SET` in both.
    pub(crate) async fn run(&self, sql: &str) {
        for ctx in [&self.local, &self.spread] {
            ctx.sql(sql).await.unwrap().collect().await.unwrap();
        }
    }

    /// An in-memory table of these partitions.
    pub(crate) fn memory(&self, name: &str, schema: SchemaRef, partitions: &[RecordBatch]) {
        let partitions = partitions.iter().map(|batch| vec![batch.clone()]).collect();
        let table = Arc::new(MemTable::try_new(schema, partitions).unwrap());
        for ctx in [&self.local, &self.spread] {
            ctx.register_table(name, table.clone()).unwrap();
        }
    }

    /// A table of Parquet files, one for each batch.
    pub(crate) async fn parquet(&self, name: &str, schema: SchemaRef, files: &[RecordBatch]) {
        let folder = self.dir().join(name);
        write_files(&folder, &schema, files);
        for ctx in [&self.local, &self.spread] {
            let options = ParquetReadOptions::default().schema(&schema);
            ctx.register_parquet(name, folder.to_str().unwrap(), options)
                .await
                .unwrap();
        }
    }

    /// A table of so many Parquet files, with the rows that a query over nothing makes.
    pub(crate) async fn table(&self, name: &str, files: usize, sql: &str) {
        let rows = rows_of(sql).await;
        self.parquet(name, rows.schema(), &cut(&rows, files)).await;
    }

    /// Both answer alike, and the workers took part.
    pub(crate) async fn same(&self, sql: &str) {
        let plan = self.run_both(sql).await;
        assert!(
            distributed(&plan).is_some(),
            "{sql} did not run on workers\n{}",
            shown(&plan)
        );
    }

    /// Both answer alike; whether the workers took part.
    pub(crate) async fn compare(&self, sql: &str) -> bool {
        distributed(&self.run_both(sql).await).is_some()
    }

    /// Both answer alike; the plan of the second.
    async fn run_both(&self, sql: &str) -> Arc<dyn ExecutionPlan> {
        let expected = answer(&self.local, sql).await;
        let expected = expected.unwrap_or_else(|error| panic!("{sql}\nlocally: {error}"));
        let actual = answer(&self.spread, sql).await;
        let actual = actual.unwrap_or_else(|error| panic!("{sql}\non workers: {error}"));
        let alike = same_schema(&expected.plan.schema(), &actual.plan.schema())
            .and_then(|()| same_rows(&expected.rows, &actual.rows));
        if let Err(difference) = alike {
            panic!("{sql}\n{difference}\n{}", shown(&actual.plan));
        }
        actual.plan
    }

    /// Both answer alike, in the same order; whether the workers took part.
    pub(crate) async fn same_in_order(&self, sql: &str) -> bool {
        let expected = answer(&self.local, sql).await.unwrap();
        let actual = answer(&self.spread, sql).await.unwrap();
        let text = |answer: &Answer| pretty_format_batches(&answer.rows).unwrap().to_string();
        let (expected, found) = (text(&expected), text(&actual));
        assert_eq!(expected, found, "{sql}\n{}", shown(&actual.plan));
        distributed(&actual.plan).is_some()
    }

    /// Both fail, at the root with the same kind and message. The error of the workers.
    pub(crate) async fn same_error(&self, sql: &str) -> DataFusionError {
        let expected = answer(&self.local, sql).await.err().unwrap();
        let actual = answer(&self.spread, sql).await.err().unwrap();
        same_root(&expected, &actual);
        actual
    }
}

/// At the root, both are of the same kind and say the same.
pub(crate) fn same_root(expected: &DataFusionError, actual: &DataFusionError) {
    let (expected, actual) = (expected.find_root(), actual.find_root());
    assert_eq!(expected.strip_backtrace(), actual.strip_backtrace());
    let kinds = [expected, actual].map(std::mem::discriminant);
    assert_eq!(kinds[0], kinds[1], "{expected:?} and {actual:?}");
}

pub(crate) struct Answer {
    pub(crate) plan: Arc<dyn ExecutionPlan>,
    pub(crate) rows: Vec<RecordBatch>,
}

pub(crate) async fn answer(ctx: &SessionContext, sql: &str) -> Result<Answer> {
    let frame = ctx.sql(sql).await?;
    let task = Arc::new(frame.task_ctx());
    let plan = frame.create_physical_plan().await?;
    let rows = collect(plan.clone(), task).await?;
    Ok(Answer { plan, rows })
}

/// The part of a plan that runs on workers.
pub(crate) fn distributed(plan: &Arc<dyn ExecutionPlan>) -> Option<&DistributedExec> {
    find_layer::<DistributedExec>(plan.as_ref())
        .or_else(|| plan.children().into_iter().find_map(distributed))
}

pub(crate) fn shown(plan: &Arc<dyn ExecutionPlan>) -> String {
    displayable(plan.as_ref()).indent(false).to_string()
}

/// The rows of a query over no table.
pub(crate) async fn rows_of(sql: &str) -> RecordBatch {
    let frame = SessionContext::new().sql(sql).await.unwrap();
    let schema = Arc::new(frame.schema().as_arrow().clone());
    let rows = frame.collect().await.unwrap();
    concat_batches(&schema, &rows).unwrap()
}

/// Cuts rows into pieces of about the same size; with more pieces than rows some are empty.
pub(crate) fn cut(rows: &RecordBatch, pieces: usize) -> Vec<RecordBatch> {
    let at = |piece: usize| piece * rows.num_rows() / pieces;
    (0..pieces)
        .map(|piece| rows.slice(at(piece), at(piece + 1) - at(piece)))
        .collect()
}

pub(crate) fn write_files(
    folder: &Path,
    schema: &SchemaRef,
    files: &[RecordBatch],
) -> Vec<PathBuf> {
    fs::create_dir_all(folder).unwrap();
    let paths = files.iter().enumerate().map(|(number, batch)| {
        let path = folder.join(format!("{number}.parquet"));
        let file = File::create(&path).unwrap();
        let mut writer = ArrowWriter::try_new(file, schema.clone(), None).unwrap();
        writer.write(batch).unwrap();
        writer.close().unwrap();
        path
    });
    paths.collect()
}

/// A session whose queries go to these URLs.
pub(crate) fn session_on(urls: &[String], config: SessionConfig) -> SessionContext {
    use datafusion::execution::SessionStateBuilder;
    use flightpath_core::{SessionStateBuilderExt, StaticWorkers};
    let coordinator = Coordinator::new(StaticWorkers::new(urls).unwrap());
    let state = SessionStateBuilder::new()
        .with_config(config)
        .with_default_features()
        .with_flightpath(coordinator)
        .build();
    SessionContext::new_with_state(state)
}
