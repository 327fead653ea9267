//! SQL whose span covers planning and execution.

use datafusion::prelude::{SessionConfig, SessionContext};
use flightpath_core::FlightpathConfig;
use flightpath_tracing_bridge::{SpanTree, Telemetry, TracedSql, trace_id};
use tracing::Instrument;
use tracing::subscriber::with_default;
use tracing_subscriber::layer::SubscriberExt;

use super::collector::{caller, collector, int, text};
use super::traces::is_error;

#[tokio::test]
async fn a_local_query_runs_in_its_span() {
    let collector = collector();
    let shown = FlightpathConfig {
        trace_sql: true,
        ..FlightpathConfig::default()
    };
    let ctx = SessionContext::new_with_config(SessionConfig::new().with_option_extension(shown));
    let (root, id) = caller();
    let sql = "SELECT sum(value) FROM range(100000)";
    async {
        let frame = ctx.traced_sql(sql).await.unwrap();
        assert_eq!(frame.collect().await.unwrap()[0].num_rows(), 1);
    }
    .instrument(root)
    .await;
    let trace = collector
        .trace(id, |trace| !trace.named("caller").is_empty())
        .await;
    let [query] = trace.named("query")[..] else {
        panic!("not one:\n{}", trace.draw());
    };
    let [plan] = trace.named("plan")[..] else {
        panic!("not one:\n{}", trace.draw());
    };
    assert_eq!(text(query, "db.query.text"), Some(sql));
    assert_eq!(plan.parent_span_id, query.span_id);
    assert!(query.end_time_unix_nano > plan.end_time_unix_nano);
    assert!(int(query, "flightpath.stage.count").is_none());
}

#[tokio::test]
async fn statements_run_and_bad_sql_is_an_error_of_its_span() {
    let collector = collector();
    let ctx = SessionContext::new();
    let (root, id) = caller();
    async {
        ctx.traced_sql("CREATE VIEW one AS SELECT 1 AS x")
            .await
            .unwrap();
        let rows = ctx.traced_sql("SELECT x FROM one").await.unwrap();
        assert_eq!(rows.count().await.unwrap(), 1);
        assert!(ctx.traced_sql("SELECT y FROM one").await.is_err());
    }
    .instrument(root)
    .await;
    let trace = collector
        .trace(id, |trace| !trace.named("caller").is_empty())
        .await;
    let queries = trace.named("query");
    assert_eq!(queries.len(), 3, "{}", trace.draw());
    let failed: Vec<_> = queries.into_iter().filter(is_error).collect();
    assert_eq!(failed.len(), 1);
    assert_eq!(text(failed[0], "error.type"), Some("SchemaError"));
}

#[test]
fn a_tree_is_drawn_with_durations_and_failures() {
    let tree = SpanTree::default();
    let telemetry = Telemetry::collect(&tree);
    let subscriber = tracing_subscriber::registry().with(telemetry.layer());
    with_default(subscriber, || {
        let outer = tracing::info_span!(parent: None, "outer");
        assert_eq!(trace_id(&outer).unwrap().len(), 32);
        let _inside = outer.enter();
        let failed = tracing::info_span!("inner", otel.status_description = "went\n  wrong");
        failed.in_scope(|| {});
    });
    telemetry.flush();
    let drawn = tree.draw();
    let lines: Vec<&str> = drawn.lines().collect();
    assert!(
        lines[0].starts_with("outer ") && lines[0].ends_with(" ms"),
        "{drawn}"
    );
    assert!(lines[1].starts_with("  inner "), "{drawn}");
    assert!(lines[1].ends_with("ERROR went wrong"), "{drawn}");
}
