//! Tables and sessions that the tests share.

use std::sync::Arc;

use datafusion::arrow::array::{Int64Array, RecordBatch};
use datafusion::arrow::datatypes::{DataType, Field, Schema};
use datafusion::arrow::util::pretty::pretty_format_batches;
use datafusion::datasource::MemTable;
use datafusion::execution::SessionStateBuilder;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::prelude::{SessionConfig, SessionContext};
use flightpath_core::{Coordinator, FlightpathConfig, SessionStateBuilderExt};
use flightpath_tracing_bridge::TracedSql;

pub(crate) const QUERY: &str =
    "SELECT g, count(*) AS n, sum(v) AS total FROM t GROUP BY g ORDER BY g";

/// A session with the table `t`: 400 rows in 4 partitions, 10 groups.
pub(crate) fn session(
    coordinator: Coordinator,
    before: Vec<Arc<dyn PhysicalOptimizerRule + Send + Sync>>,
    after: Vec<Arc<dyn PhysicalOptimizerRule + Send + Sync>>,
) -> SessionContext {
    session_with(coordinator, FlightpathConfig::default(), before, after)
}

/// [`session`] with settings.
pub(crate) fn session_with(
    coordinator: Coordinator,
    settings: FlightpathConfig,
    before: Vec<Arc<dyn PhysicalOptimizerRule + Send + Sync>>,
    after: Vec<Arc<dyn PhysicalOptimizerRule + Send + Sync>>,
) -> SessionContext {
    let config = SessionConfig::new()
        .with_target_partitions(3)
        .with_option_extension(settings);
    let mut builder = SessionStateBuilder::new()
        .with_config(config)
        .with_default_features();
    for rule in before {
        builder = builder.with_physical_optimizer_rule(rule);
    }
    builder = builder.with_flightpath(coordinator);
    for rule in after {
        builder = builder.with_physical_optimizer_rule(rule);
    }
    let ctx = SessionContext::new_with_state(builder.build());
    register(&ctx);
    ctx
}

fn register(ctx: &SessionContext) {
    let schema = Arc::new(Schema::new(vec![
        Field::new("g", DataType::Int64, false),
        Field::new("v", DataType::Int64, false),
    ]));
    let partitions = (0..4).map(|part| {
        let rows = part * 100..(part + 1) * 100;
        let columns: [Int64Array; 2] = [rows.clone().map(|row| row % 10).collect(), rows.collect()];
        let columns = columns.map(|column| Arc::new(column) as _).to_vec();
        vec![RecordBatch::try_new(Arc::clone(&schema), columns).unwrap()]
    });
    let table = MemTable::try_new(Arc::clone(&schema), partitions.collect()).unwrap();
    ctx.register_table("t", Arc::new(table)).unwrap();
}

/// The answer to a query that is traced, as text.
pub(crate) async fn traced_answer(ctx: &SessionContext, sql: &str) -> String {
    let rows = ctx.traced_sql(sql).await.unwrap().collect().await.unwrap();
    pretty_format_batches(&rows).unwrap().to_string()
}

/// The answer to a query, as text.
pub(crate) async fn answer(ctx: &SessionContext, sql: &str) -> String {
    let batches = ctx.sql(sql).await.unwrap().collect().await.unwrap();
    pretty_format_batches(&batches).unwrap().to_string()
}

/// The answer of one machine.
pub(crate) async fn expected(sql: &str) -> String {
    let ctx = SessionContext::new();
    register(&ctx);
    answer(&ctx, sql).await
}
