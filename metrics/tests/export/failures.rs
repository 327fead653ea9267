//! What is counted when queries are run again, and when reports do not come.

use std::sync::Arc;
use std::time::Duration;

use datafusion::arrow::datatypes::DataType::Int64;
use datafusion::arrow::datatypes::Schema;
use datafusion::common::DataFusionError;
use datafusion::logical_expr::{ColumnarValue, Volatility, create_udf};
use datafusion::physical_plan::empty::EmptyExec;
use flightpath_core::{BoundaryKind, Hooks, QueryId, Stage, TaskKey, TaskReport, TaskStatus};
use futures::StreamExt;

use crate::support::{Measured, unsent, within};

/// Runs a query with a function that workers do not know.
pub(crate) async fn refused(measured: &Measured) {
    let same = |arguments: &[ColumnarValue]| Ok(arguments[0].clone());
    let known_here = create_udf(
        "same",
        vec![Int64],
        Int64,
        Volatility::Immutable,
        Arc::new(same),
    );
    measured.ctx.register_udf(known_here);
    let sql = "SELECT g, sum(same(k)) FROM t GROUP BY g";
    let (rows, _) = measured.run(sql).await;
    assert!(!rows.unwrap().is_empty());
}

/// Of this many tasks, which do nothing.
pub(crate) fn a_stage(tasks: usize) -> Stage {
    let plan = Arc::new(EmptyExec::new(Arc::new(Schema::empty())));
    Stage { id: 1, plan, tasks }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_query_that_workers_refuse_is_one_query_that_was_run_again() {
    within(60, async {
        let metrics = unsent();
        let measured = Measured::start(&metrics).await;
        refused(&measured).await;
        let text = metrics.text().unwrap();
        assert!(has(
            &text,
            "flightpath_query_retries_total{error_type=\"Execution\"} 1"
        ));
        assert!(has(&text, "flightpath_query_duration_seconds_count 1"));
        // The tasks of the first run are not missed.
        assert!(!text.contains("flightpath_metrics_missing"), "{text}");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_query_whose_client_leaves_is_cancelled() {
    within(60, async {
        let metrics = unsent();
        let measured = Measured::start(&metrics).await;
        let many = "SELECT a.k FROM t a JOIN t b ON a.g = b.g";
        let mut rows = measured
            .ctx
            .sql(many)
            .await
            .unwrap()
            .execute_stream()
            .await
            .unwrap();
        rows.next().await.unwrap().unwrap();
        drop(rows);
        let cancelled = "flightpath_query_duration_seconds_count{error_type=\"cancelled\"} 1";
        while !has(&metrics.text().unwrap(), cancelled) {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        let text = metrics.text().unwrap();
        assert!(has(&text, "flightpath_task_active 0"), "{text}");
    })
    .await;
}

/// Told to the hooks as an engine would: a stage of three tasks, one of which is not heard of.
#[test]
fn reports_that_do_not_come_are_missing() {
    let metrics = unsent();
    let hooks = metrics.hooks();
    let run = |result: Result<(), &DataFusionError>| {
        let query = QueryId::new();
        hooks.query_begins(query);
        hooks.stage_begins(query, &a_stage(3), BoundaryKind::Shuffle);
        for task in 0..2 {
            hooks.task_reports(&report(query, task));
        }
        hooks.query_ends(query, result);
        // Too late.
        hooks.task_reports(&report(query, 2));
    };
    run(Ok(()));
    let lost = DataFusionError::ResourcesExhausted("no memory".to_owned());
    run(Err(&lost));
    let text = metrics.text().unwrap();
    for error in ["timeout", "ResourcesExhausted"] {
        let line = format!("flightpath_metrics_missing_total{{error_type=\"{error}\"}} 1");
        assert!(has(&text, &line), "{text}");
    }
    // Half a stage has no duration.
    assert!(!text.contains("flightpath_stage"), "{text}");
}

fn report(query_id: QueryId, task: usize) -> TaskReport {
    TaskReport {
        key: TaskKey {
            query_id,
            stage: 1,
            task,
            attempt: 0,
        },
        worker: String::new(),
        status: TaskStatus::Finished,
        error: None,
        error_kind: None,
        started: None,
        duration: Duration::ZERO,
        output_rows: 0,
        output_bytes: 0,
        nodes: vec![],
    }
}

fn has(text: &str, line: &str) -> bool {
    text.lines().any(|found| found == line)
}
