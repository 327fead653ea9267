//! Every way in which a query ends, or does not, has a profile.

use std::sync::Arc;
use std::time::Duration;

use datafusion::physical_plan::collect;
use flightpath_core::{DistributedExec, find_layer};
use flightpath_metrics::{FindingKind, QueryProfile, QueryStatus, TaskState};
use flightpath_testkit::Cluster;
use futures::StreamExt;

use crate::fixture::{checked, cluster, plan, profiled, register, session, within};

#[tokio::test(flavor = "multi_thread")]
async fn a_query_that_finished() {
    within(60, async {
        let cluster = cluster(&[Duration::ZERO; 2]).await;
        let ctx = session(&cluster);
        register(&ctx, "t", 4000, |value| value % 10);
        let profile = profiled(&ctx, "SELECT k, count(*) FROM t GROUP BY k").await;
        assert_eq!(profile.status, QueryStatus::Finished);
        assert_eq!(profile.output_rows, 10);
        assert_eq!(profile.workers.len(), 2);
        assert!(profile.duration_ns > 0 && profile.started_unix_ns.is_some());
        assert_eq!(profile.stages.len(), 3);
        assert_eq!(profile.tasks.len(), 4);
        for task in &profile.tasks {
            assert_eq!(task.status, TaskState::Finished);
            assert!(task.dispatched_ns.unwrap() <= task.reported_ns.unwrap());
        }
        let passed = profile.exchanged();
        assert_eq!(passed[0].kind, "shuffle");
        assert_eq!(passed[0].sent_bytes, passed[0].read_bytes);
        let path = profile.critical_path();
        let own: u64 = path.steps.iter().map(|step| step.own_ns).sum();
        assert_eq!(own + path.rest_ns, profile.duration_ns);
        assert_eq!(
            path.steps.iter().map(|step| step.stage).collect::<Vec<_>>(),
            [0, 2, 1]
        );
        cluster.stop().await.unwrap();
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plan_that_runs_twice_has_the_numbers_of_the_second_run() {
    within(60, async {
        let cluster = cluster(&[Duration::ZERO; 2]).await;
        let ctx = session(&cluster);
        register(&ctx, "t", 4000, |value| value);
        let plan = plan(&ctx, "SELECT k, v FROM t ORDER BY k").await;
        collect(Arc::clone(&plan), ctx.task_ctx()).await.unwrap();
        let once = checked(&plan);
        collect(Arc::clone(&plan), ctx.task_ctx()).await.unwrap();
        let twice = checked(&plan);
        assert_ne!(once.query_id, twice.query_id);
        for profile in [&once, &twice] {
            assert_eq!(profile.exchanged()[0].read_rows, 4000, "{}", profile.text());
        }
        cluster.stop().await.unwrap();
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_query_that_failed() {
    within(60, async {
        let cluster = cluster(&[Duration::ZERO; 2]).await;
        let ctx = session(&cluster);
        register(&ctx, "t", 4000, |value| value);
        let plan = plan(&ctx, "SELECT 1 / (v - 3333) FROM t").await;
        collect(Arc::clone(&plan), ctx.task_ctx())
            .await
            .unwrap_err();
        let profile = checked(&plan);
        assert_eq!(profile.status, QueryStatus::Failed);
        assert!(profile.error.as_deref().unwrap().contains("ivide by zero"));
        let found = &profile.findings()[0];
        assert_eq!(found.kind, FindingKind::Failure, "{}", profile.text());
        assert_eq!(
            (found.stage, found.task),
            (Some(1), Some(1)),
            "{}",
            found.text
        );
        assert!(found.text.contains("ivide by zero"), "{}", found.text);
        cluster.stop().await.unwrap();
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_query_that_runs_and_then_is_left() {
    within(60, async {
        let cluster = cluster(&[Duration::from_millis(1); 2]).await;
        let ctx = session(&cluster);
        register(&ctx, "t", 40_000, |value| value);
        let plan = plan(&ctx, "SELECT work(v) FROM t").await;
        let mut rows = plan.execute(0, ctx.task_ctx()).unwrap();
        rows.next().await.unwrap().unwrap();
        let running = checked(&plan);
        assert_eq!(running.status, QueryStatus::Running);
        assert!(running.output_rows > 0);
        assert!(
            running.verdict().starts_with("Running for "),
            "{}",
            running.verdict()
        );
        assert_eq!(running.tasks.len(), 2);

        let root = find_layer::<DistributedExec>(plan.as_ref()).unwrap();
        let reports = root.last_query().unwrap();
        let mut changes = reports.changes();
        drop(rows);
        while reports.outcome().is_none() {
            changes.changed().await.unwrap();
        }
        let left = checked(&plan);
        assert_eq!(left.status, QueryStatus::Cancelled);
        let cancelled = left
            .tasks
            .iter()
            .filter(|task| task.status == TaskState::Cancelled);
        assert_eq!(cancelled.count(), 2, "{}", left.text());
        assert!(
            left.verdict().starts_with("Cancelled after "),
            "{}",
            left.verdict()
        );
        cluster.stop().await.unwrap();
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plan_that_has_not_run() {
    within(60, async {
        let cluster = cluster(&[Duration::ZERO; 2]).await;
        let ctx = session(&cluster);
        register(&ctx, "t", 400, |value| value);
        let plan = plan(&ctx, "SELECT k FROM t").await;
        let profile = checked(&plan);
        assert_eq!(profile.status, QueryStatus::Planned);
        assert_eq!(profile.stages.len(), 2);
        assert_eq!(profile.verdict(), "The query has not been run.");
        cluster.stop().await.unwrap();
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plan_that_the_planner_keeps_local() {
    within(60, async {
        let cluster = cluster(&[Duration::ZERO; 2]).await;
        let ctx = session(&cluster);
        register(&ctx, "t", 4000, |value| value);
        ctx.sql("SET flightpath.max_inline_bytes = 1")
            .await
            .unwrap();
        let profile = profiled(&ctx, "SELECT k, count(*) FROM t GROUP BY k ORDER BY k").await;
        assert_eq!(profile.status, QueryStatus::Local);
        assert!(
            profile
                .local_reason
                .as_deref()
                .unwrap()
                .contains("max_inline_bytes")
        );
        assert_eq!((profile.stages.len(), profile.output_rows), (1, 4000));
        assert!(profile.duration_ns > 0);
        cluster.stop().await.unwrap();
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plan_that_workers_refuse() {
    within(60, async {
        // These workers know no `work`.
        let cluster = Cluster::start(2).await.unwrap();
        let ctx = session(&cluster);
        register(&ctx, "t", 4000, |value| value);
        let profile = profiled(&ctx, "SELECT work(v) FROM t").await;
        assert_eq!(profile.status, QueryStatus::Local, "{}", profile.text());
        assert!(profile.local_reason.as_deref().unwrap().contains("work"));
        assert_eq!((profile.stages.len(), profile.output_rows), (1, 4000));
        assert!(profile.tasks.is_empty());
        let rows = profile
            .operators()
            .into_iter()
            .map(|operator| operator.output_rows);
        assert!(rows.max() >= Some(4000), "{}", profile.text());
        cluster.stop().await.unwrap();
    })
    .await;
}

#[tokio::test]
async fn a_session_without_workers() {
    within(60, async {
        let ctx = datafusion::prelude::SessionContext::new();
        register(&ctx, "t", 400, |value| value);
        let plan = plan(&ctx, "SELECT k FROM t ORDER BY k DESC").await;
        collect(Arc::clone(&plan), ctx.task_ctx()).await.unwrap();
        let profile = QueryProfile::of(&plan).unwrap();
        assert_eq!(profile.status, QueryStatus::Local);
        assert_eq!((profile.output_rows, &profile.local_reason), (400, &None));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn plans_with_the_distributed_part_further_down() {
    within(60, async {
        let cluster = cluster(&[Duration::ZERO; 2]).await;
        let ctx = session(&cluster);
        register(&ctx, "t", 4000, |value| value % 10);
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("out.csv");
        let copy = format!(
            "COPY (SELECT k, sum(v) FROM t GROUP BY k) TO '{}'",
            file.display()
        );
        for (sql, top) in [
            (copy.as_str(), "DataSinkExec"),
            (
                "EXPLAIN ANALYZE SELECT k, sum(v) FROM t GROUP BY k",
                "AnalyzeExec",
            ),
        ] {
            let profile = profiled(&ctx, sql).await;
            assert_eq!(profile.status, QueryStatus::Finished, "{}", profile.text());
            assert_eq!(profile.stages[0].nodes[0].name, top);
            assert_eq!(profile.output_rows, 10);
            assert_eq!(profile.tasks.len(), 4);
        }
        cluster.stop().await.unwrap();
    })
    .await;
}
