use std::mem::discriminant;
use std::sync::Arc;

use datafusion::arrow::datatypes::DataType;
use datafusion::common::DataFusionError;
use datafusion::execution::SessionStateBuilder;
use datafusion::execution::runtime_env::RuntimeEnvBuilder;
use datafusion::logical_expr::{ColumnarValue, ScalarUDF, Volatility, create_udf};
use flightpath_core::{TaskStatus, origin_of};
use flightpath_testkit::Cluster;

use crate::fixture::{Planned, SALES, Setup, config, within};

/// Runs a query that fails in a task, and checks who says what about it.
async fn failed(setup: &Setup, sql: &str) -> (Planned, DataFusionError) {
    let planned = setup.plan(sql).await;
    let error = planned.collect().await.unwrap_err();
    let origin = origin_of(&error).unwrap_or_else(|| panic!("who failed? {error}"));
    let reports = planned.reports();
    assert!(reports.missing().is_empty(), "{:?}", reports.missing());
    let report = reports.report(origin.stage, origin.task).unwrap();
    assert_eq!(report.status, TaskStatus::Failed, "{origin}: {report:?}");
    assert_eq!(report.worker, origin.worker);
    assert!(
        setup
            .cluster
            .urls()
            .iter()
            .any(|url| url.trim_end_matches('/') == origin.worker)
    );
    let root = error.find_root().strip_backtrace();
    let told = report.error.clone().unwrap();
    assert!(told.contains(&root), "{told:?} is not {root:?}");
    assert!(!report.nodes.is_empty());
    (planned, error)
}

/// Fails with the same error as without workers.
async fn failed_alike(setup: &Setup, sql: &str) -> (Planned, DataFusionError) {
    let (planned, error) = failed(setup, sql).await;
    let local = setup.locally(sql).await.unwrap_err();
    let (root, local) = (error.find_root(), local.find_root());
    assert_eq!(
        discriminant(root),
        discriminant(local),
        "{root:?} is not {local:?}"
    );
    assert_eq!(root.strip_backtrace(), local.strip_backtrace());
    (planned, error)
}

#[tokio::test]
async fn a_division_by_zero_is_the_one_it_would_be_here() {
    within(60, async {
        let setup = Setup::new().await;
        let sql = "SELECT shop, sum(100 / (id - 777)) FROM sales GROUP BY shop";
        let (planned, _) = failed_alike(&setup, sql).await;
        let counts = planned.reports().counts();
        assert_eq!(
            counts.failed + counts.finished + counts.cancelled + counts.unused,
            4
        );
        // Only one file has the row that fails.
        let scanned: usize = planned
            .reports()
            .reports()
            .iter()
            .flat_map(|report| &report.nodes)
            .filter(|node| node.name == "DataSourceExec")
            .filter_map(|node| node.metrics.output_rows())
            .sum();
        assert!(
            (1..=SALES as usize).contains(&scanned),
            "{scanned} rows were scanned"
        );
    })
    .await;
}

#[tokio::test]
async fn a_bad_cast_in_one_row_is_the_one_it_would_be_here() {
    within(60, async {
        let setup = Setup::new().await;
        let sql = "SELECT CAST(CASE WHEN id = 777 THEN 'many' ELSE '1' END AS BIGINT) FROM sales";
        let (_, error) = failed_alike(&setup, sql).await;
        assert!(error.to_string().contains("many"), "{error}");
        assert_eq!(
            setup
                .check("SELECT id FROM sales")
                .await
                .reports()
                .counts()
                .finished,
            2
        );
    })
    .await;
}

#[tokio::test]
async fn a_failure_above_all_boundaries_names_nobody() {
    within(60, async {
        let setup = Setup::new().await;
        let sql = "SELECT 1 / (sum(amount) - sum(amount)) FROM sales";
        let error = setup.plan(sql).await.collect().await.unwrap_err();
        assert_eq!(origin_of(&error), None, "{error}");
        let local = setup.locally(sql).await.unwrap_err();
        assert_eq!(
            error.find_root().strip_backtrace(),
            local.find_root().strip_backtrace()
        );
    })
    .await;
}

fn panicking() -> ScalarUDF {
    let work = |args: &[ColumnarValue]| match args[0].clone() {
        ColumnarValue::Array(array) if array.len() > 1 => panic!("the function is broken"),
        other => Ok(other),
    };
    let (argument, result) = (vec![DataType::Int64], DataType::Int64);
    create_udf(
        "panicking",
        argument,
        result,
        Volatility::Volatile,
        Arc::new(work),
    )
}

#[tokio::test]
async fn a_panic_fails_the_query_and_not_the_worker() {
    within(60, async {
        let mut session = SessionStateBuilder::new().with_default_features().build();
        use datafusion::execution::FunctionRegistry;
        session.register_udf(Arc::new(panicking())).unwrap();
        let configured =
            |worker: flightpath_core::WorkerBuilder| worker.with_session_state(session.clone());
        let setup = Setup::on(Cluster::start_with(2, configured).await.unwrap()).await;
        setup.ctx.register_udf(panicking());
        for sql in [
            "SELECT shop, sum(panicking(amount)) FROM sales GROUP BY shop",
            // Below a broadcast, whose readers waited for ever.
            "SELECT count(*) FROM sales JOIN shops ON sales.shop = panicking(shops.shop)",
        ] {
            let (planned, error) = failed(&setup, sql).await;
            let broadcast = planned.shown().contains("BroadcastExec");
            assert_eq!(broadcast, sql.contains("JOIN"), "{}", planned.shown());
            let root = error.find_root();
            assert!(
                root.to_string().contains("the function is broken"),
                "{root}"
            );
        }
        setup
            .check("SELECT shop, sum(amount) FROM sales GROUP BY shop")
            .await;
    })
    .await;
}

#[tokio::test]
async fn a_memory_limit_of_workers_fails_the_query_with_its_name() {
    within(60, async {
        let runtime = RuntimeEnvBuilder::new().with_memory_limit(10_000, 1.0);
        let session = SessionStateBuilder::new()
            .with_default_features()
            .with_config(config())
            .with_runtime_env(runtime.build_arc().unwrap())
            .build();
        let configured =
            |worker: flightpath_core::WorkerBuilder| worker.with_session_state(session.clone());
        let setup = Setup::on(Cluster::start_with(2, configured).await.unwrap()).await;
        let sql = "SELECT id, array_agg(amount) FROM sales GROUP BY id";
        let (_, error) = failed(&setup, sql).await;
        let root = error.find_root();
        assert!(
            matches!(root, DataFusionError::ResourcesExhausted(_)),
            "{root:?}"
        );
    })
    .await;
}
