//! What arrives at an OTLP endpoint.

use std::sync::Arc;

use datafusion::physical_plan::collect;
use datafusion::prelude::SessionContext;
use datafusion_tracing::{InstrumentationOptions, instrument_with_info_spans};
use flightpath_core::StagedPlan;
use flightpath_testkit::Cluster;
use flightpath_tracing_bridge::{TracedSql, TracingHooks};
use futures::StreamExt;
use opentelemetry::Context;
use opentelemetry::trace::{SpanContext, SpanId, TraceContextExt, TraceFlags, TraceId, TraceState};
use tracing::Instrument;
use tracing_opentelemetry::OpenTelemetrySpanExt;

use super::collector::{SpanRef, Trace, caller, collector, int, text};
use super::support::{QUERY, answer, expected, session};

pub(crate) fn hooks() -> Arc<TracingHooks> {
    Arc::new(TracingHooks::from_env().unwrap())
}

pub(crate) async fn traced_cluster(workers: usize) -> Cluster {
    let configure = |builder: flightpath_core::WorkerBuilder| builder.with_hooks(hooks());
    Cluster::start_with(workers, configure).await.unwrap()
}

pub(crate) fn traced_session(cluster: &Cluster) -> SessionContext {
    let coordinator = cluster.coordinator().unwrap().with_hooks(hooks());
    session(coordinator, vec![], vec![])
}

pub(crate) fn ended(trace: &Trace, root: &str) -> bool {
    trace.orphans().is_empty() && !trace.named(root).is_empty() && {
        let tasks: i64 = trace
            .spans()
            .filter_map(|span| int(span, "flightpath.stage.task_count"))
            .sum();
        tasks > 0 && trace.named("task").len() as i64 == tasks
    }
}

/// Operators of a task, by the task's stage and index.
fn task_of(span: &SpanRef<'_>) -> Option<(i64, i64)> {
    let task = span.above("task").ok()?;
    Some((
        int(task, "flightpath.stage.id")?,
        int(task, "flightpath.task.index")?,
    ))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_query_is_one_tree_with_links_and_numbers() {
    let collector = collector();
    let cluster = traced_cluster(3).await;
    let ctx = traced_session(&cluster);
    let plan = ctx
        .sql(QUERY)
        .await
        .unwrap()
        .create_physical_plan()
        .await
        .unwrap();
    let staged = StagedPlan::try_new(&plan).unwrap();

    let (root, id) = caller();
    let rows = async {
        let frame = ctx.traced_sql(QUERY).await.unwrap();
        frame.collect().await.unwrap()
    };
    assert_eq!(
        rows.instrument(root)
            .await
            .iter()
            .map(|b| b.num_rows())
            .sum::<usize>(),
        10
    );
    cluster.stop().await.unwrap();
    let trace = collector
        .trace(id, |trace| {
            ended(trace, "caller") && trace.named("SortPreservingMergeExec").len() == 1
        })
        .await;
    let query = trace.named("query")[0];
    assert_eq!(text(query, "db.system.name"), Some("datafusion"));
    assert!(text(query, "db.query.text").is_none());
    assert_eq!(
        int(query, "flightpath.stage.count"),
        Some(staged.remote().count() as i64)
    );
    let tasks: usize = staged.remote().map(|stage| stage.tasks).sum();
    assert_eq!(int(query, "flightpath.task.count"), Some(tasks as i64));
    assert_eq!(int(query, "flightpath.worker.count"), Some(3));
    assert_eq!(int(query, "flightpath.retry.count"), Some(0));
    let id = text(query, "flightpath.query.id").unwrap();
    let planning = trace.named("plan");
    assert_eq!(planning.len(), 1, "{}", trace.draw());
    assert_eq!(planning[0].parent_span_id, query.span_id);

    for stage in staged.remote() {
        let name = format!("stage {}", stage.id);
        let [span] = trace.named(&name)[..] else {
            panic!("not one {name}:\n{}", trace.draw());
        };
        assert_eq!(span.parent_span_id, query.span_id);
        assert_eq!(text(span, "flightpath.query.id"), Some(id));
        assert!(int(span, "flightpath.stage.output_rows").unwrap() > 0);
        assert!(int(span, "flightpath.stage.output_bytes").unwrap() > 0);
        assert!(text(span, "flightpath.boundary.kind").is_some());
        let [least, median, most] = ["min", "median", "max"].map(|which| {
            let key = format!("flightpath.stage.task_duration.{which}");
            span.number(&key).unwrap()
        });
        assert!(0.0 < least && least <= median && median <= most);
        let slowest = int(span, "flightpath.stage.slowest_task").unwrap();
        assert!((slowest as usize) < stage.tasks);
        let tasks: Vec<SpanRef<'_>> = trace
            .named("task")
            .into_iter()
            .filter(|task| task.parent_span_id == span.span_id)
            .collect();
        assert_eq!(tasks.len(), stage.tasks, "{}", trace.draw());
        for task in tasks {
            assert_eq!(text(task, "flightpath.task.status"), Some("finished"));
            assert_eq!(text(task, "flightpath.query.id"), Some(id));
            assert_eq!(int(task, "flightpath.task.attempt"), Some(0));
            assert!(
                text(task, "flightpath.worker.url")
                    .unwrap()
                    .starts_with("http://")
            );
            assert!(int(task, "flightpath.task.output_rows").is_some());
            assert!(int(task, "flightpath.task.output_bytes").is_some());
            let index = int(task, "flightpath.task.index").unwrap();
            let key = Some((stage.id as i64, index));
            for node in &stage.nodes {
                let same = stage
                    .nodes
                    .iter()
                    .filter(|other| other.name() == node.name());
                let found: Vec<SpanRef<'_>> = trace
                    .named(node.name())
                    .into_iter()
                    .filter(|span| task_of(span) == key)
                    .collect();
                assert_eq!(
                    found.len(),
                    same.count(),
                    "{} of {key:?}:\n{}",
                    node.name(),
                    trace.draw()
                );
                for span in found {
                    assert!(int(span, "datafusion.partitions").unwrap() > 0);
                    // Tables in memory and isolators measure nothing.
                    if ["AggregateExec", "SortExec"].contains(&node.name()) {
                        assert!(int(span, "datafusion.metrics.output_rows").unwrap() > 0);
                        assert!(int(span, "datafusion.metrics.elapsed_compute").unwrap() > 0);
                    }
                }
            }
        }
    }
    check_links(&trace, &staged);
}

/// Each boundary is linked to tasks of the stage that it reads, each once.
fn check_links(trace: &Trace, staged: &StagedPlan) {
    let boundaries: Vec<_> = staged
        .stages()
        .iter()
        .flat_map(|stage| stage.inputs())
        .collect();
    assert!(boundaries.len() >= 2);
    for boundary in boundaries {
        let readers: Vec<SpanRef<'_>> = trace
            .named(&boundary.name)
            .into_iter()
            .filter(|span| {
                int(span, "flightpath.boundary.input_stage") == Some(boundary.stage as i64)
            })
            .collect();
        assert!(!readers.is_empty(), "{}", trace.draw());
        for reader in readers {
            assert_eq!(reader.links.len(), boundary.tasks, "{}", trace.draw());
            assert!(int(reader, "flightpath.exchange.bytes").is_some());
            assert!(int(reader, "flightpath.exchange.wait_ns").is_some());
            for producer in reader.links_to("task").unwrap() {
                assert_eq!(
                    int(producer, "flightpath.stage.id"),
                    Some(boundary.stage as i64)
                );
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_instrument_rule_of_the_session_gives_no_second_span() {
    let collector = collector();
    let cluster = traced_cluster(2).await;
    let rule = || instrument_with_info_spans!(options: InstrumentationOptions::default());
    for (before, after) in [(vec![rule()], vec![]), (vec![], vec![rule()])] {
        let coordinator = cluster.coordinator().unwrap().with_hooks(hooks());
        let ctx = session(coordinator, before, after);
        let (root, id) = caller();
        let found = answer(&ctx, QUERY).instrument(root).await;
        assert_eq!(found, expected(QUERY).await);
        let trace = collector.trace(id, |trace| ended(trace, "caller")).await;
        assert_eq!(
            trace.named("SortPreservingMergeExec").len(),
            1,
            "{}",
            trace.draw()
        );
        for task in trace.named("task") {
            assert_eq!(task.below().len(), 1, "{}", trace.draw());
        }
    }
    cluster.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failure_is_an_error_up_to_the_query() {
    let collector = collector();
    let cluster = traced_cluster(2).await;
    let ctx = traced_session(&cluster);
    let (root, id) = caller();
    let failing = "SELECT g, sum(100 / (v - 250)) FROM t GROUP BY g";
    let result = async { ctx.sql(failing).await.unwrap().collect().await };
    let error = result.instrument(root).await.unwrap_err();
    assert!(error.to_string().contains("ivide by zero"), "{error}");
    cluster.stop().await.unwrap();
    let trace = collector
        .trace(id, |trace| {
            let failed = |name| trace.named(name).iter().any(is_error);
            failed("query") && failed("task")
        })
        .await;
    let kind = text(trace.only("query").unwrap(), "error.type");
    for span in trace.spans().filter(is_error) {
        assert_eq!(text(span, "error.type"), kind, "{span:?}");
        assert_ne!(span.error(), Some(""));
        let above = std::iter::successors(span.parent(), SpanRef::parent);
        for above in above.filter(|above| above.name != "caller") {
            assert!(is_error(&above), "{}:\n{}", above.name, trace.draw());
        }
    }
    let operators = trace.spans().filter(|span| span.name.ends_with("Exec"));
    let (failed, unmarked): (Vec<_>, Vec<_>) = operators.partition(is_error);
    assert!(
        !failed.is_empty() && !unmarked.is_empty(),
        "{}",
        trace.draw()
    );
}

pub(crate) fn is_error(span: &SpanRef<'_>) -> bool {
    span.error().is_some()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_leaves_is_no_error() {
    let collector = collector();
    let cluster = traced_cluster(2).await;
    let ctx = traced_session(&cluster);
    let (root, id) = caller();
    async {
        let frame = ctx.sql("SELECT v FROM t WHERE v % 2 = 0").await.unwrap();
        let mut rows = frame.execute_stream().await.unwrap();
        rows.next().await.unwrap().unwrap();
    }
    .instrument(root)
    .await;
    let trace = collector.trace(id, |trace| ended(trace, "query")).await;
    assert!(
        !trace.spans().any(|span| is_error(&span)),
        "{}",
        trace.draw()
    );
    cluster.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_caller_that_is_not_sampled_gets_no_spans_and_the_same_rows() {
    let collector = collector();
    let cluster = traced_cluster(2).await;
    let ctx = traced_session(&cluster);
    let id = TraceId::from_bytes([7; 16]);
    let elsewhere = SpanContext::new(
        id,
        SpanId::from_bytes([7; 8]),
        TraceFlags::NOT_SAMPLED,
        true,
        TraceState::NONE,
    );
    let root = tracing::info_span!(parent: None, "caller");
    let parent = Context::new().with_remote_span_context(elsewhere);
    root.set_parent(parent).unwrap();
    let found = answer(&ctx, QUERY).instrument(root).await;
    assert_eq!(found, expected(QUERY).await);
    cluster.stop().await.unwrap();
    let trace = collector.sent().await.trace(id.to_bytes());
    assert!(trace.spans().next().is_none(), "{}", trace.draw());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_plan_that_ran_in_the_sessions_context_was_a_query_in_a_query() {
    let collector = collector();
    let cluster = traced_cluster(2).await;
    let ctx = traced_session(&cluster);
    let (root, id) = caller();
    async {
        let frame = ctx.traced_sql(QUERY).await.unwrap();
        let plan = frame.create_physical_plan().await.unwrap();
        collect(plan, ctx.task_ctx()).await.unwrap();
    }
    .instrument(root)
    .await;
    let trace = collector.trace(id, |trace| ended(trace, "query")).await;
    let query = trace.only("query").unwrap();
    assert!(int(query, "flightpath.stage.count") > Some(0));
    cluster.stop().await.unwrap();
}
