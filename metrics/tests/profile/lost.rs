//! A worker that is gone before its tasks have reported.

use std::sync::Arc;
use std::time::Duration;

use datafusion::execution::SessionStateBuilder;
use datafusion::prelude::SessionContext;
use flightpath_core::{Coordinator, SessionStateBuilderExt, StaticWorkers, Worker};
use flightpath_metrics::{FindingKind, QueryStatus};
use flightpath_testkit::{WorkerProcess, process};
use futures::StreamExt;

use crate::fixture::{Work, checked, config, plan, register, within, working};

/// Not a test, but what [`WorkerProcess`] runs.
#[test]
#[ignore = "a worker for other tests"]
fn serve_a_worker() {
    process::serve(|| working(Worker::builder(), Duration::from_micros(100)).build()).unwrap();
}

fn start() -> WorkerProcess {
    WorkerProcess::start("lost::serve_a_worker").unwrap()
}

fn session_on(urls: &[String]) -> SessionContext {
    let state = SessionStateBuilder::new()
        .with_config(config())
        .with_default_features()
        .with_flightpath(Coordinator::new(StaticWorkers::new(urls).unwrap()));
    let ctx = SessionContext::new_with_state(state.build());
    ctx.register_udf(Work::udf(Duration::ZERO));
    ctx
}

#[tokio::test(flavor = "multi_thread", worker_threads = 8)]
async fn tasks_of_a_killed_worker_are_missing_by_name() {
    within(60, async {
        let mut processes = vec![start(), start()];
        let urls: Vec<String> = processes
            .iter()
            .map(|process| process.url().to_string())
            .collect();
        let ctx = session_on(&urls);
        register(&ctx, "t", 20_000, |value| value);

        let plan = plan(&ctx, "SELECT work(v), repeat('x', 1000) || v FROM t").await;
        let mut rows = plan.execute(0, ctx.task_ctx()).unwrap();
        rows.next().await.unwrap().unwrap();
        drop(processes.pop());
        while let Some(Ok(_)) = rows.next().await {}
        drop(rows);

        let profile = checked(&plan);
        let lost = urls[1].as_str();
        assert_eq!(profile.status, QueryStatus::Failed, "{}", profile.text());
        let missing: Vec<_> = profile.missing().collect();
        assert_eq!(missing.len(), 1, "{}", profile.text());
        assert_eq!(missing[0].worker, lost);
        assert!(missing[0].error.as_deref().unwrap().contains("lost"));
        let findings = profile.findings();
        assert_eq!(findings[0].kind, FindingKind::Missing, "{}", profile.text());
        assert_eq!(findings[0].worker.as_deref(), Some(lost));
        assert!(findings[0].text.contains(&missing[0].to_string()));
        assert_eq!(findings[1].kind, FindingKind::Failure, "{}", profile.text());
    })
    .await;
}

#[tokio::test]
async fn a_query_that_reaches_no_worker_has_a_profile_without_tasks() {
    within(60, async {
        let process = start();
        let url = process.url().to_string();
        // Nobody listens there any more.
        drop(process);
        let ctx = session_on(std::slice::from_ref(&url));
        register(&ctx, "t", 400, |value| value);
        let plan = plan(&ctx, "SELECT k FROM t ORDER BY k").await;
        let ran = datafusion::physical_plan::collect(Arc::clone(&plan), ctx.task_ctx()).await;
        ran.unwrap_err();
        let profile = checked(&plan);
        assert_eq!(profile.status, QueryStatus::Failed);
        assert!(profile.tasks.is_empty(), "{}", profile.text());
        let verdict = profile.verdict();
        assert!(
            verdict.starts_with("The query failed (") && verdict.contains(&url),
            "{verdict}"
        );
    })
    .await;
}
