//! What hangs below the span of planning, and what happens where planning fails.

use datafusion::prelude::{SessionConfig, SessionContext};
use flightpath_core::{FlightpathConfig, TraceDetail};
use flightpath_tracing_bridge::TracedSql;
use tracing::Instrument;

use super::collector::{Trace, caller, collector, int, text};
use super::traces::is_error;

fn context(detail: TraceDetail) -> SessionContext {
    let settings = FlightpathConfig {
        trace_detail: detail,
        ..Default::default()
    };
    let config = SessionConfig::new().with_option_extension(settings);
    SessionContext::new_with_config(config)
}

async fn trace_of(ctx: &SessionContext, sql: &str) -> (Trace, bool) {
    let collector = collector();
    let (root, id) = caller();
    let ran = async { ctx.traced_sql(sql).await?.collect().await };
    let worked = ran.instrument(root).await.is_ok();
    (collector.trace(id, Trace::is_complete).await, worked)
}

#[tokio::test]
async fn phases_and_rules_are_below_the_plan() {
    let sql = "SELECT sum(value) FROM range(1000) WHERE value > 10";
    let (trace, _) = trace_of(&context(TraceDetail::Operator), sql).await;
    let plan = trace.only("plan").unwrap();
    assert_eq!(plan.parent().unwrap().name, "query");
    let analyze = plan.child("analyze_logical_plan").unwrap();
    assert!(analyze.below().len() > 1, "{}", trace.draw());
    let optimize = plan.children("optimize_logical_plan").unwrap();
    assert!(optimize[0].below().len() > 10, "{}", trace.draw());
    let physical = plan.child("create_physical_plan").unwrap();
    let rules = physical.child("optimize_physical_plan").unwrap();
    assert!(rules.below().len() > 10, "{}", trace.draw());
    assert!(
        trace.spans().all(|span| !is_error(&span)),
        "{}",
        trace.draw()
    );

    let outside = trace.outside_parents();
    assert!(outside.is_empty(), "{outside:?} in {}", trace.draw());

    let (fewer, _) = trace_of(&context(TraceDetail::Task), sql).await;
    let plan = fewer.only("plan").unwrap();
    let analyze = plan.child("analyze_logical_plan").unwrap();
    assert!(analyze.below().is_empty(), "{}", fewer.draw());

    let (none, _) = trace_of(&context(TraceDetail::Query), sql).await;
    assert_eq!(none.spans().count(), 4, "{}", none.draw());
}

#[tokio::test]
async fn wherever_planning_fails_the_query_has_failed() {
    let ctx = context(TraceDetail::Operator);
    for (sql, kind) in [
        ("SELEC 1", "SQL"),
        ("SELECT x FROM nowhere", "Plan"),
        // Found by the analyzer, once the data frame runs.
        ("SELECT sum(arrow_cast(1, 'Int32') AND true)", "Plan"),
        ("COPY (SELECT 1) TO 'somewhere.unknown'", "Plan"),
    ] {
        let (trace, worked) = trace_of(&ctx, sql).await;
        assert!(!worked, "{sql}");
        let query = trace.only("query").unwrap();
        assert!(is_error(&query), "{sql}:\n{}", trace.draw());
        let plan = trace.only("plan").unwrap();
        assert!(is_error(&plan), "{sql}:\n{}", trace.draw());
        let kinds = [query, plan].map(|span| text(span, "error.type"));
        assert_eq!(kinds[0], kinds[1]);
        assert!(
            kinds[0].is_some_and(|found| found.contains(kind)),
            "{sql}: {kinds:?}"
        );
        let marks = query.attributes.iter();
        let marks = marks.filter(|attribute| attribute.key == "error.type");
        assert_eq!(marks.count(), 1, "{sql}: an error is told of once");
    }
}

#[tokio::test]
async fn a_query_that_runs_here_has_spans_of_its_operators() {
    let ctx = context(TraceDetail::Operator);
    let sql = "SELECT value % 7 AS g, count(*) FROM range(1000) GROUP BY g";
    let (trace, _) = trace_of(&ctx, sql).await;
    let query = trace.only("query").unwrap();
    let aggregates: Vec<_> = trace
        .spans()
        .filter(|span| span.name == "AggregateExec")
        .collect();
    assert_eq!(aggregates.len(), 2, "{}", trace.draw());
    for aggregate in aggregates {
        assert!(int(aggregate, "datafusion.metrics.output_rows").unwrap() >= 7);
        assert_eq!(aggregate.above("query").unwrap().span_id, query.span_id);
    }
    let (fewer, _) = trace_of(&context(TraceDetail::Task), sql).await;
    assert!(fewer.named("AggregateExec").is_empty(), "{}", fewer.draw());
}

#[tokio::test]
async fn a_local_query_beyond_the_budget_has_no_operators() {
    let settings = FlightpathConfig {
        trace_span_budget: 1,
        ..Default::default()
    };
    let config = SessionConfig::new().with_option_extension(settings);
    let ctx = SessionContext::new_with_config(config);
    let (trace, worked) = trace_of(&ctx, "SELECT sum(value) FROM range(10)").await;
    assert!(worked && trace.named("AggregateExec").is_empty());
    let query = trace.only("query").unwrap();
    assert!(query.attribute("flightpath.trace.truncated").is_some());
}
