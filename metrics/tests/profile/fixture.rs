//! Clusters, tables, and a function whose cost per row is known.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use datafusion::arrow::array::{ArrayRef, Int64Array, RecordBatch};
use datafusion::arrow::datatypes::DataType;
use datafusion::common::Result;
use datafusion::datasource::MemTable;
use datafusion::execution::SessionStateBuilder;
use datafusion::logical_expr::{
    ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use datafusion::physical_plan::{ExecutionPlan, collect};
use datafusion::prelude::{SessionConfig, SessionContext};
use flightpath_core::{FlightpathConfig, WorkerBuilder};
use flightpath_metrics::QueryProfile;
use flightpath_testkit::Cluster;

/// Runs a test's work, which must end within `seconds`.
pub(crate) async fn within<T>(seconds: u64, work: impl Future<Output = T>) -> T {
    let bound = Duration::from_secs(seconds);
    let ended = tokio::time::timeout(bound, work).await;
    ended.unwrap_or_else(|_| panic!("not done within {bound:?}"))
}

/// `work(x)` is `x`, and takes a known time for each row. It sleeps, so that what else the machine
/// does leaves the proportions as they are.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct Work {
    per_row: Duration,
    signature: Signature,
}

impl Work {
    pub(crate) fn udf(per_row: Duration) -> ScalarUDF {
        ScalarUDF::new_from_impl(Self {
            per_row,
            signature: Signature::exact(vec![DataType::Int64], Volatility::Volatile),
        })
    }
}

impl ScalarUDFImpl for Work {
    fn name(&self) -> &str {
        "work"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _arguments: &[DataType]) -> Result<DataType> {
        Ok(DataType::Int64)
    }

    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        std::thread::sleep(self.per_row * arguments.number_rows as u32);
        Ok(arguments.args[0].clone())
    }
}

/// Workers on which `work` takes so long per row, one after the other.
pub(crate) async fn cluster(per_row: &[Duration]) -> Cluster {
    let next = AtomicUsize::new(0);
    Cluster::start_with(per_row.len(), |builder| {
        let per_row = per_row[next.fetch_add(1, Ordering::Relaxed)];
        working(builder, per_row)
    })
    .await
    .unwrap()
}

pub(crate) fn working(builder: WorkerBuilder, per_row: Duration) -> WorkerBuilder {
    let session = SessionStateBuilder::new().with_default_features();
    let context = SessionContext::new_with_state(session.build());
    context.register_udf(Work::udf(per_row));
    builder.with_session_state(context.state())
}

/// One partition per task, small batches, and joins that shuffle however small their tables are.
pub(crate) fn config() -> SessionConfig {
    let mut config = SessionConfig::new()
        .with_option_extension(FlightpathConfig::default())
        .with_target_partitions(4)
        .with_batch_size(64);
    let optimizer = &mut config.options_mut().optimizer;
    optimizer.hash_join_single_partition_threshold = 0;
    optimizer.hash_join_single_partition_threshold_rows = 0;
    config
}

pub(crate) fn session(cluster: &Cluster) -> SessionContext {
    let ctx = cluster.context_with(config()).unwrap();
    ctx.register_udf(Work::udf(Duration::ZERO));
    ctx
}

/// A table `(k, v)` of four partitions; `v` counts up, and `k` is made of it.
pub(crate) fn register(ctx: &SessionContext, name: &str, rows: i64, key: impl Fn(i64) -> i64) {
    let partitions = (0..4).map(|partition| {
        let values = || (0..rows).filter(move |value| value % 4 == partition);
        let keys: ArrayRef = Arc::new(Int64Array::from_iter_values(values().map(&key)));
        let values: ArrayRef = Arc::new(Int64Array::from_iter_values(values()));
        let batch = RecordBatch::try_from_iter([("k", keys), ("v", values)]).unwrap();
        let starts = (0..batch.num_rows()).step_by(64);
        let cut = starts.map(|start| batch.slice(start, 64.min(batch.num_rows() - start)));
        cut.collect::<Vec<_>>()
    });
    let partitions: Vec<_> = partitions.collect();
    let schema = partitions[0][0].schema();
    let table = MemTable::try_new(schema, partitions).unwrap();
    ctx.register_table(name, Arc::new(table)).unwrap();
}

pub(crate) async fn plan(ctx: &SessionContext, sql: &str) -> Arc<dyn ExecutionPlan> {
    ctx.sql(sql)
        .await
        .unwrap()
        .create_physical_plan()
        .await
        .unwrap()
}

/// Runs a query; its profile, which must be consistent and survive being written and read.
pub(crate) async fn profiled(ctx: &SessionContext, sql: &str) -> QueryProfile {
    let plan = plan(ctx, sql).await;
    collect(Arc::clone(&plan), ctx.task_ctx()).await.unwrap();
    checked(&plan).with_sql(sql)
}

pub(crate) fn checked(plan: &Arc<dyn ExecutionPlan>) -> QueryProfile {
    let profile = QueryProfile::of(plan).unwrap();
    let consistent = profile.invariants();
    consistent.unwrap_or_else(|error| panic!("{error}\n{}", profile.text()));
    let kept = profile.to_json().unwrap();
    assert_eq!(QueryProfile::from_json(&kept).unwrap(), profile);
    let text = profile.text().to_string();
    let widest = text.lines().map(|line| line.chars().count()).max();
    assert!(widest <= Some(100), "{widest:?} columns\n{text}");
    profile
}
