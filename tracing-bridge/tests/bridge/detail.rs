//! How much of a query its trace shows.

use std::collections::BTreeSet;

use flightpath_core::{FlightpathConfig, TraceDetail};
use flightpath_testkit::Cluster;
use opentelemetry_proto::tonic::common::v1::AnyValue;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use tracing::Instrument;

use super::collector::{SpanRef, Trace, caller, collector, int, text};
use super::support::{QUERY, answer, expected, session_with, traced_answer};
use super::traces::{hooks, traced_cluster};

/// The trace of a query with these settings, whose answer is right.
pub(crate) async fn trace_of(cluster: &Cluster, settings: FlightpathConfig, sql: &str) -> Trace {
    let collector = collector();
    let coordinator = cluster.coordinator().unwrap().with_hooks(hooks());
    let ctx = session_with(coordinator, settings, vec![], vec![]);
    let (root, id) = caller();
    let answered = traced_answer(&ctx, sql).instrument(root).await;
    assert_eq!(answered, expected(sql).await);
    let whole = |trace: &Trace| {
        let asked = |span: &SpanRef<'_>| int(span, "flightpath.task.count");
        let tasks = trace.named("query").iter().find_map(asked);
        let shown = trace.named("task").len() as i64;
        trace.is_complete() && (shown == 0 || Some(shown) == tasks)
    };
    collector.trace(id, whole).await
}

/// Kinds of spans below the query, planning left aside.
fn kinds(trace: &Trace) -> BTreeSet<&'static str> {
    let kinds = trace.spans().filter_map(|span| match &*span.name {
        name if name.starts_with("stage ") => Some("stage"),
        "task" => Some("task"),
        name if name.ends_with("Exec") => Some("operator"),
        name if name.contains("FlightService/") => Some("rpc"),
        _ => None,
    });
    kinds.collect()
}

fn operators(trace: &Trace) -> usize {
    let is_operator = |span: &SpanRef<'_>| span.name.ends_with("Exec");
    trace.spans().filter(is_operator).count()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_level_has_those_above_it_and_no_more() {
    let cluster = traced_cluster(3).await;
    let levels = [
        TraceDetail::Query,
        TraceDetail::Stage,
        TraceDetail::Task,
        TraceDetail::Operator,
        TraceDetail::Rpc,
    ];
    let names = ["stage", "task", "operator", "rpc"];
    for (shown, detail) in levels.into_iter().enumerate() {
        let settings = FlightpathConfig {
            trace_detail: detail,
            ..Default::default()
        };
        let trace = trace_of(&cluster, settings, QUERY).await;
        let wanted = names[..shown].iter().copied().collect();
        assert_eq!(kinds(&trace), wanted, "{detail}:\n{}", trace.draw());
        assert!(trace.orphans().is_empty(), "{detail}:\n{}", trace.draw());
        let query = trace.only("query").unwrap();
        assert!(query.attribute("flightpath.trace.truncated").is_none());
    }
    cluster.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_level_can_be_set_in_sql() {
    let collector = collector();
    let cluster = traced_cluster(2).await;
    let coordinator = cluster.coordinator().unwrap().with_hooks(hooks());
    let ctx = session_with(coordinator, FlightpathConfig::default(), vec![], vec![]);
    ctx.sql("SET flightpath.trace_detail = 'stage'")
        .await
        .unwrap();
    let (root, id) = caller();
    let found = answer(&ctx, QUERY).instrument(root).await;
    assert_eq!(found, expected(QUERY).await);
    let trace = collector.trace(id, Trace::is_complete).await;
    assert_eq!(kinds(&trace), BTreeSet::from(["stage"]), "{}", trace.draw());
    let unknown = ctx.sql("SET flightpath.trace_detail = 'all'").await;
    let message = unknown.unwrap_err().to_string();
    assert!(message.contains("operator or rpc"), "{message}");
    cluster.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn past_the_budget_tasks_have_only_their_own_span() {
    let cluster = traced_cluster(3).await;
    let whole = trace_of(&cluster, FlightpathConfig::default(), QUERY).await;
    let most = operators(&whole);
    for budget in [0, most / 2] {
        let settings = FlightpathConfig {
            trace_span_budget: budget,
            ..Default::default()
        };
        let trace = trace_of(&cluster, settings, QUERY).await;
        let some = operators(&trace);
        assert!(some <= budget, "{some} of {budget}:\n{}", trace.draw());
        assert_eq!(some > 0, budget > 0, "{some} of {budget}");
        assert_eq!(trace.named("task").len(), whole.named("task").len());
        assert!(trace.orphans().is_empty(), "{}", trace.draw());
        let query = trace.only("query").unwrap();
        let truncated = query.attribute("flightpath.trace.truncated");
        assert_eq!(truncated, Some(&Value::BoolValue(true)), "budget {budget}");
    }
    // What is enough is enough.
    let settings = FlightpathConfig {
        trace_span_budget: most,
        ..Default::default()
    };
    let trace = trace_of(&cluster, settings, QUERY).await;
    assert_eq!(operators(&trace), most);
    let query = trace.only("query").unwrap();
    assert!(query.attribute("flightpath.trace.truncated").is_none());
    cluster.stop().await.unwrap();
}

const SECRET: &str = "987654321";
const FILTERED: &str = "SELECT g, count(*) AS n FROM t WHERE v <> 987654321 GROUP BY g ORDER BY g";

/// Names of the attributes whose text has this in it.
fn keys_with(trace: &Trace, needle: &str) -> BTreeSet<String> {
    let has_it = |value: &Option<AnyValue>| match value.as_ref().and_then(|v| v.value.as_ref()) {
        Some(Value::StringValue(text)) => text.contains(needle),
        _ => false,
    };
    let mut keys = BTreeSet::new();
    for span in trace.spans() {
        let attributes = span.attributes.iter();
        let leaking = attributes.filter(|attribute| has_it(&attribute.value));
        keys.extend(leaking.map(|attribute| attribute.key.clone()));
    }
    keys
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn literals_are_shown_where_that_is_switched_on_and_nowhere_else() {
    let cluster = traced_cluster(2).await;
    let off = trace_of(&cluster, FlightpathConfig::default(), FILTERED).await;
    assert!(off.named("FilterExec").len() > 1, "{}", off.draw());
    assert_eq!(keys_with(&off, SECRET), BTreeSet::new());
    let settings = FlightpathConfig {
        trace_sql: true,
        ..Default::default()
    };
    let on = trace_of(&cluster, settings, FILTERED).await;
    assert_eq!(
        text(on.only("query").unwrap(), "db.query.text"),
        Some(FILTERED)
    );
    let keys = keys_with(&on, SECRET);
    for key in ["datafusion.node", "logical_plan", "physical_plan"] {
        assert!(keys.contains(key), "{key}, not in {keys:?}");
    }
    cluster.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rows_are_previewed_as_many_as_asked_for() {
    let cluster = traced_cluster(2).await;
    let previews = |trace: &Trace| -> Vec<String> {
        let shown = trace.spans();
        let shown = shown.filter_map(|span| text(span, "datafusion.preview").map(str::to_string));
        shown.collect()
    };
    let off = trace_of(&cluster, FlightpathConfig::default(), QUERY).await;
    assert!(previews(&off).is_empty());
    let settings = FlightpathConfig {
        trace_preview_rows: 2,
        ..Default::default()
    };
    let on = trace_of(&cluster, settings, QUERY).await;
    let merge = on.only("SortPreservingMergeExec").unwrap();
    let shown = text(merge, "datafusion.preview").unwrap();
    assert!(shown.contains("| g | n  | total |"), "{shown}");
    assert_eq!(shown.lines().count(), 3 + 2 + 1, "{shown}");
    assert!(previews(&on).len() > 2, "on workers too");
    cluster.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn explain_analyze_lost_what_the_coordinator_measured() {
    collector();
    let cluster = traced_cluster(2).await;
    let coordinator = cluster.coordinator().unwrap().with_hooks(hooks());
    let ctx = session_with(coordinator, FlightpathConfig::default(), vec![], vec![]);
    let (root, _) = caller();
    let explained = answer(&ctx, &format!("EXPLAIN ANALYZE {QUERY}"))
        .instrument(root)
        .await;
    for node in ["SortPreservingMergeExec", "NetworkCoalesceExec"] {
        let line = explained.lines().find(|line| line.contains(node)).unwrap();
        assert!(line.contains("output_rows=10"), "{explained}");
    }
    cluster.stop().await.unwrap();
}
