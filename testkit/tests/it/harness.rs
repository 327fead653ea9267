//! Sessions over rows in memory, and workers as any Flight client sees them.

use std::fmt::Debug;
use std::fs::File;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use arrow_flight::flight_service_client::FlightServiceClient;
use arrow_flight::{Action, Criteria};
use datafusion::arrow::array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use datafusion::common::Result;
use datafusion::datasource::MemTable;
use datafusion::execution::SessionStateBuilder;
use datafusion::physical_plan::{ExecutionPlan, collect, displayable};
use datafusion::prelude::{SessionConfig, SessionContext};
use flightpath_core::{DistributedExec, QueryReports, find_layer, local_reason};
use flightpath_testkit::compare::same_rows;
use futures::TryStreamExt;
use parquet::arrow::ArrowWriter;
use serde_json::Value;
use tonic::transport::{Channel, Endpoint};

pub(crate) use crate::fixture::within;

/// Waits until `holds` says so, for at most 30 s.
pub(crate) async fn eventually(what: &str, mut holds: impl AsyncFnMut() -> bool) {
    let wait = async {
        while !holds().await {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    let waited = tokio::time::timeout(Duration::from_secs(30), wait).await;
    assert!(waited.is_ok(), "never came true: {what}");
}

/// A config with these settings.
pub(crate) fn config(settings: &[(&str, &str)]) -> SessionConfig {
    let mut config =
        SessionConfig::new().with_option_extension(flightpath_core::FlightpathConfig::default());
    for (name, value) in settings {
        config.options_mut().set(name, value).unwrap();
    }
    config
}

/// Rows `(k, g, s)`: `k` counts up over all partitions, `g` is `k` modulo 10, `s` a text of `k`
/// repeated to `width` bytes.
pub(crate) fn rows(partitions: usize, each: usize, width: usize) -> Vec<Vec<RecordBatch>> {
    let partition = |number: usize| {
        let keys = (number * each..(number + 1) * each).map(|key| key as i64);
        let text = |key| format!("{key:08}").repeat(width.div_ceil(8));
        let columns: [(&str, ArrayRef); 3] = [
            ("k", Arc::new(Int64Array::from_iter_values(keys.clone()))),
            (
                "g",
                Arc::new(Int64Array::from_iter_values(keys.clone().map(|k| k % 10))),
            ),
            ("s", Arc::new(StringArray::from_iter_values(keys.map(text)))),
        ];
        let batch = RecordBatch::try_from_iter(columns).unwrap();
        let starts = (0..each).step_by(1024);
        starts
            .map(|start| batch.slice(start, 1024.min(each - start)))
            .collect()
    };
    (0..partitions).map(partition).collect()
}

pub(crate) fn register(ctx: &SessionContext, name: &str, partitions: Vec<Vec<RecordBatch>>) {
    let schema = partitions[0][0].schema();
    let table = MemTable::try_new(schema, partitions).unwrap();
    ctx.register_table(name, Arc::new(table)).unwrap();
}

pub(crate) fn write_parquet(path: &Path, batches: &[RecordBatch]) {
    let file = File::create(path).unwrap();
    let mut writer = ArrowWriter::try_new(file, batches[0].schema(), None).unwrap();
    for batch in batches {
        writer.write(batch).unwrap();
    }
    writer.close().unwrap();
}

/// The same session, with its tables, but without workers.
pub(crate) fn local(ctx: &SessionContext) -> SessionContext {
    let mut state = SessionStateBuilder::new_from_existing(ctx.state());
    let options = state.config().as_mut().unwrap().options_mut();
    options.set("flightpath.enabled", "false").unwrap();
    SessionContext::new_with_state(state.build())
}

/// A distributed query that has run.
pub(crate) struct Ran {
    pub(crate) plan: Arc<dyn ExecutionPlan>,
    pub(crate) rows: Vec<RecordBatch>,
}

impl Ran {
    pub(crate) fn reports(&self) -> Arc<QueryReports> {
        reports(&self.plan)
    }

    pub(crate) fn text(&self) -> String {
        displayable(self.plan.as_ref()).indent(false).to_string()
    }
}

pub(crate) fn reports(plan: &Arc<dyn ExecutionPlan>) -> Arc<QueryReports> {
    let root = find_layer::<DistributedExec>(plan.as_ref()).unwrap();
    root.last_query().unwrap()
}

/// The plan of a query that must not stay local.
pub(crate) async fn plan(ctx: &SessionContext, sql: &str) -> Result<Arc<dyn ExecutionPlan>> {
    let plan = ctx.sql(sql).await?.create_physical_plan().await?;
    assert!(
        find_layer::<DistributedExec>(plan.as_ref()).is_some(),
        "stays local: {:?}\n{}",
        local_reason(&plan),
        displayable(plan.as_ref()).indent(false)
    );
    Ok(plan)
}

/// Runs a query on workers.
pub(crate) async fn run(ctx: &SessionContext, sql: &str) -> Result<Ran> {
    let plan = plan(ctx, sql).await?;
    let rows = collect(Arc::clone(&plan), ctx.task_ctx()).await?;
    Ok(Ran { plan, rows })
}

/// Runs a query on workers and locally, with the same rows.
pub(crate) async fn run_as_local(ctx: &SessionContext, sql: &str) -> Ran {
    let ran = run(ctx, sql).await.unwrap();
    let expected = local(ctx).sql(sql).await.unwrap().collect().await.unwrap();
    same_rows(&expected, &ran.rows).unwrap_or_else(|found| panic!("{sql}\n{found}"));
    assert!(
        count(&expected) > 0,
        "a query without rows proves nothing: {sql}"
    );
    ran
}

pub(crate) fn count(batches: &[RecordBatch]) -> usize {
    batches.iter().map(RecordBatch::num_rows).sum()
}

/// The one value of an answer, as text.
pub(crate) fn value(batches: &[RecordBatch]) -> String {
    assert_eq!(count(batches), 1);
    let batch = batches.iter().find(|batch| batch.num_rows() == 1).unwrap();
    datafusion::arrow::util::display::array_value_to_string(batch.column(0), 0).unwrap()
}

/// A worker as any Flight client sees it.
pub(crate) struct Flight(pub(crate) FlightServiceClient<Channel>);

impl Flight {
    pub(crate) async fn connect(url: &str) -> Self {
        let endpoint = Endpoint::from_shared(url.to_string()).unwrap();
        Self(FlightServiceClient::new(endpoint.connect().await.unwrap()))
    }

    /// What each of the worker's tasks says of itself.
    pub(crate) async fn tasks(&mut self) -> Vec<Value> {
        let flights = self.0.list_flights(Criteria::default()).await.unwrap();
        let flights = flights.into_inner();
        let states = flights.map_ok(|flight| serde_json::from_slice(&flight.app_metadata).unwrap());
        states.try_collect().await.unwrap()
    }

    pub(crate) async fn act(
        &mut self,
        name: &str,
        body: impl ToString,
    ) -> Result<Value, tonic::Status> {
        let action = Action::new(name, body.to_string());
        let answers = self.0.do_action(action).await?.into_inner();
        let answers: Vec<_> = answers.try_collect().await?;
        assert_eq!(answers.len(), 1);
        Ok(serde_json::from_slice(&answers[0].body).unwrap())
    }

    /// Waits until the worker holds nothing of any query.
    pub(crate) async fn idle(&mut self) {
        eventually("the worker has no task", async || {
            self.tasks().await.is_empty()
        })
        .await;
    }
}

/// The message of an error, with everything below it.
pub(crate) fn message<T: Debug>(result: Result<T>) -> String {
    result.unwrap_err().strip_backtrace()
}
