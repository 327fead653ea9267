//! A worker that is gone before its tasks have reported.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use datafusion::execution::SessionStateBuilder;
use datafusion::prelude::SessionContext;
use flightpath_core::{Coordinator, SessionStateBuilderExt, StaticWorkers, Worker, WorkerServer};
use flightpath_metrics::{FindingKind, QueryStatus};
use futures::StreamExt;

use crate::fixture::{Work, checked, config, plan, register, within, working};

#[tokio::test(flavor = "multi_thread", worker_threads = 8)]
async fn tasks_of_a_killed_worker_are_missing_by_name() {
    within(60, async {
        let mut servers = vec![];
        for _ in 0..2 {
            let builder = working(Worker::builder(), Duration::from_millis(1));
            let address = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
            servers.push(
                WorkerServer::bind(address, builder.build(), false)
                    .await
                    .unwrap(),
            );
        }
        let urls: Vec<String> = servers
            .iter()
            .map(|server| server.url().to_string())
            .collect();
        let state = SessionStateBuilder::new()
            .with_config(config())
            .with_default_features()
            .with_flightpath(Coordinator::new(StaticWorkers::new(&urls).unwrap()));
        let ctx = SessionContext::new_with_state(state.build());
        ctx.register_udf(Work::udf(Duration::ZERO));
        register(&ctx, "t", 20_000, |value| value);

        let plan = plan(&ctx, "SELECT work(v) FROM t").await;
        let mut rows = plan.execute(0, ctx.task_ctx()).unwrap();
        rows.next().await.unwrap().unwrap();
        drop(servers.pop());
        while let Some(Ok(_)) = rows.next().await {}
        drop(rows);

        let profile = checked(&plan);
        let lost = urls[1].trim_end_matches('/');
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
