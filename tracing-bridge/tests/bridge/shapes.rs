//! What holds in the trace of any query, whatever its shape, its settings, and how often it runs.

use std::collections::HashSet;
use std::sync::Arc;

use datafusion::arrow::array::RecordBatch;
use datafusion::physical_plan::{ExecutionPlan, collect, execute_stream};
use flightpath_core::{DistributedExec, FlightpathConfig, TraceDetail, find_layer};
use flightpath_testkit::Cluster;
use futures::StreamExt;
use tracing::Instrument;

use super::collector::{SpanRef, Trace, caller, collector, int, text};
use super::support::{QUERY, answer, expected, session, session_with, traced_answer};
use super::traces::{hooks, is_error, traced_cluster, traced_session};
use super::wrappers::{Rule, ignorant, instrument};

/// Each has an answer in one order alone, or of one row.
const SHAPES: [&str; 12] = [
    QUERY,
    "SELECT v FROM t ORDER BY v LIMIT 3",
    "SELECT count(*) FROM (SELECT v FROM t LIMIT 60)",
    "SELECT g FROM t WHERE v < 0 ORDER BY g",
    "SELECT g, n FROM (SELECT g, 1 AS n FROM t UNION ALL SELECT g, 2 FROM t WHERE v < 100) ORDER BY g, n LIMIT 50",
    "SELECT a.g, count(*) FROM t a JOIN t b ON a.v = b.v + 1 GROUP BY a.g ORDER BY a.g",
    "SELECT t.g, sum(t.v) FROM t JOIN (SELECT g, max(v) AS most FROM t GROUP BY g) m ON t.g = m.g AND t.v < m.most GROUP BY t.g ORDER BY t.g",
    "SELECT count(*) FROM t WHERE v > (SELECT avg(v) FROM t)",
    "SELECT g, v, row_number() OVER (PARTITION BY g ORDER BY v) AS n FROM t ORDER BY g, v LIMIT 20",
    "WITH RECURSIVE up(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM up WHERE n < 5) SELECT count(*) FROM t JOIN up ON t.g = up.n",
    "SELECT count(*) FROM t LEFT JOIN (SELECT v FROM t WHERE v % 2 = 0) e ON t.v = e.v WHERE e.v IS NULL",
    "SELECT DISTINCT g FROM t WHERE v NOT IN (SELECT v FROM t WHERE g = 3) ORDER BY g",
];

/// All tasks have arrived that the stages have.
fn whole(trace: &Trace) -> bool {
    let stages = trace.spans().filter(|span| span.name.starts_with("stage "));
    let tasks = |span: SpanRef<'_>| int(span, "flightpath.stage.task_count").unwrap_or(0);
    let tasks: i64 = stages.map(tasks).sum();
    trace.is_complete() && trace.named("task").len() as i64 == tasks
}

fn check(trace: &Trace, sql: &str) {
    let shown = || format!("{sql}\n{}", trace.draw());
    assert_eq!(trace.named("query").len(), 1, "{}", shown());
    assert!(trace.orphans().is_empty(), "{}", shown());
    assert!(!trace.spans().any(|span| is_error(&span)), "{}", shown());
    let late = |span: &SpanRef<'_>| {
        let parent = span.parent().unwrap();
        let by = span.end_time_unix_nano as i64 - parent.end_time_unix_nano as i64;
        format!("{} by {by} ns after {}", span.name, parent.name)
    };
    // A node whose input is stopped early is left for the last time when the task that read it is gone.
    let stopped = |span: &SpanRef<'_>| sql.contains("LIMIT") && span.name.ends_with("Exec");
    let mut outside = trace.outside_parents();
    outside.retain(|span| !stopped(span));
    let outside: Vec<_> = outside.iter().map(late).collect();
    assert!(outside.is_empty(), "{outside:?} of {}", shown());
    let mut seen = HashSet::new();
    for task in trace.named("task") {
        let key = ["flightpath.stage.id", "flightpath.task.index"].map(|key| int(task, key));
        assert!(seen.insert(key), "{key:?} twice: {}", shown());
        let status = text(task, "flightpath.task.status").unwrap();
        let known = ["finished", "cancelled", "unused"].contains(&status);
        assert!(known, "{status}: {}", shown());
        // One plan, so one node on top, if it ran at all.
        let tops = task
            .below()
            .into_iter()
            .filter(|span| span.name.ends_with("Exec"));
        assert!(tops.count() <= 1, "{}", shown());
    }
    for span in trace.spans().filter(|span| !span.links.is_empty()) {
        let stage = int(span, "flightpath.boundary.input_stage");
        for producer in span.links_to("task").unwrap() {
            assert_eq!(int(producer, "flightpath.stage.id"), stage, "{}", shown());
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_trace_is_whole_whatever_the_shape_of_its_query() {
    let collector = collector();
    let cluster = traced_cluster(3).await;
    let ctx = traced_session(&cluster);
    for sql in SHAPES {
        let (root, id) = caller();
        let found = traced_answer(&ctx, sql).instrument(root).await;
        assert_eq!(found, expected(sql).await, "{sql}");
        check(&collector.trace(id, whole).await, sql);
    }
    cluster.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn answers_are_right_whatever_a_trace_shows() {
    const TYPED: &str = "SELECT g, max(named_struct('v', v, 's', repeat('ä', g))) AS n,
        max(arrow_cast(g, 'Dictionary(Int32, Utf8)')) AS d, array_agg(v ORDER BY v) AS l,
        max(arrow_cast(concat('x', g), 'Binary')) AS b, max(CAST(NULL AS BIGINT)) AS z
        FROM t GROUP BY g ORDER BY g";
    collector();
    let cluster = traced_cluster(2).await;
    let right = [expected(QUERY).await, expected(TYPED).await];
    for trace_detail in [
        TraceDetail::Query,
        TraceDetail::Stage,
        TraceDetail::Task,
        TraceDetail::Operator,
        TraceDetail::Rpc,
    ] {
        for trace_span_budget in [0, 1, 20] {
            for (trace_sql, trace_preview_rows) in [(false, 0), (true, 3), (false, 3)] {
                let settings = FlightpathConfig {
                    trace_detail,
                    trace_span_budget,
                    trace_sql,
                    trace_preview_rows,
                    ..FlightpathConfig::default()
                };
                let coordinator = cluster.coordinator().unwrap().with_hooks(hooks());
                let ctx = session_with(coordinator, settings.clone(), vec![], vec![]);
                let (root, _) = caller();
                for (sql, right) in [QUERY, TYPED].into_iter().zip(&right) {
                    let found = traced_answer(&ctx, sql).instrument(root.clone()).await;
                    assert_eq!(&found, right, "{settings:?}");
                }
            }
        }
    }
    cluster.stop().await.unwrap();
}

fn count(rows: &[RecordBatch]) -> usize {
    rows.iter().map(RecordBatch::num_rows).sum()
}

/// Rows that the topmost node below `DistributedExec` shows.
fn top_rows(plan: &Arc<dyn ExecutionPlan>) -> Option<usize> {
    let root = find_layer::<DistributedExec>(plan.as_ref()).unwrap();
    root.children()[0].metrics()?.output_rows()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_plan_shows_its_last_execution_however_often_it_runs() {
    collector();
    let cluster = traced_cluster(2).await;
    let ctx = traced_session(&cluster);
    let (root, _) = caller();
    async {
        let frame = ctx.sql("SELECT v, g FROM t WHERE v % 2 = 0").await.unwrap();
        let plan = frame.create_physical_plan().await.unwrap();
        for _ in 0..3 {
            let rows = collect(Arc::clone(&plan), ctx.task_ctx()).await.unwrap();
            assert_eq!(count(&rows), 200);
            assert_eq!(top_rows(&plan), Some(200));
            let mut left = execute_stream(Arc::clone(&plan), ctx.task_ctx()).unwrap();
            left.next().await.unwrap().unwrap();
            drop(left);
        }
        let (one, other) = tokio::join!(
            collect(Arc::clone(&plan), ctx.task_ctx()),
            collect(Arc::clone(&plan), ctx.task_ctx())
        );
        for rows in [one.unwrap(), other.unwrap()] {
            assert_eq!(count(&rows), 200);
        }
        assert_eq!(top_rows(&plan), Some(200));
    }
    .instrument(root)
    .await;
    cluster.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn wrappers_of_three_kinds_get_along() {
    collector();
    let wrapped = || ignorant(&Arc::default());
    let on_workers = wrapped();
    let cluster = Cluster::start_with(2, |worker| {
        worker.with_hooks(on_workers.clone()).with_hooks(hooks())
    });
    let cluster = cluster.await.unwrap();
    for (first, last) in [(false, false), (true, false), (false, true), (true, true)] {
        for instruments in [false, true] {
            let rules = |wraps: bool| {
                let mut rules: Vec<Rule> = vec![];
                if wraps {
                    rules.push(wrapped());
                }
                if instruments {
                    rules.push(instrument());
                }
                rules
            };
            let (before, after) = (rules(first), rules(last));
            let coordinator = cluster.coordinator().unwrap().with_hooks(hooks());
            let ctx = session(coordinator, before, after);
            let (root, _) = caller();
            async {
                assert_eq!(answer(&ctx, QUERY).await, expected(QUERY).await);
                let explained = answer(&ctx, &format!("EXPLAIN ANALYZE {QUERY}")).await;
                let is_top = |line: &&str| line.contains("SortPreservingMergeExec");
                let top = explained.lines().find(is_top).unwrap();
                assert!(top.contains("output_rows=10"), "{explained}");
            }
            .instrument(root)
            .await;
        }
    }
    cluster.stop().await.unwrap();
}
