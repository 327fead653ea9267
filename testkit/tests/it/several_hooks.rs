//! Hooks that were added one after the other, and those by which a worker measures itself.

use std::sync::{Arc, Mutex};

use datafusion::common::DataFusionError;
use datafusion::execution::SessionStateBuilder;
use datafusion::execution::runtime_env::RuntimeEnv;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::prelude::SessionContext;
use flightpath_core::{
    ClientLeft, Direction, Headers, Hooks, QueryId, SessionStateBuilderExt, TaskKey, TaskReport,
    TaskStatus, TraceOptions, Transfer,
};
use flightpath_testkit::Cluster;
use futures::StreamExt;

use crate::harness::{config, register, rows, run_as_local, within};

const SQL: &str = "SELECT g, count(*), sum(k) FROM t GROUP BY g";

/// Remembers what it hears, under a name of its own.
#[derive(Debug)]
struct Named {
    name: &'static str,
    heard: Arc<Mutex<Vec<(&'static str, String)>>>,
    transfers: Mutex<Vec<Transfer>>,
    ended: Mutex<Vec<TaskReport>>,
    ends: tokio::sync::watch::Sender<Vec<Result<(), String>>>,
}

impl Named {
    fn hear(&self, what: impl Into<String>) {
        self.heard.lock().unwrap().push((self.name, what.into()));
    }
}

impl Hooks for Named {
    fn worker_begins(&self, _runtime: &Arc<RuntimeEnv>) {
        self.hear("worker");
    }

    fn query_ends(&self, _query: QueryId, result: Result<(), &DataFusionError>) {
        let result = result.map_err(|error| match error.find_root() {
            DataFusionError::External(error) if error.is::<ClientLeft>() => "left".to_string(),
            error => error.to_string(),
        });
        self.ends.send_modify(|ends| ends.push(result));
    }

    fn task_headers(&self, _task: &TaskKey) -> Headers {
        vec![(self.name.to_string(), vec![])]
    }

    fn wrap_plan(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        task: Option<(&TaskKey, &Headers)>,
        _trace: TraceOptions,
    ) -> datafusion::common::Result<Arc<dyn ExecutionPlan>> {
        if let Some((task, headers)) = task {
            let names: Vec<&str> = headers.iter().map(|(name, _)| name.as_str()).collect();
            self.hear(format!("wrap {task} {}", names.join("+")));
        }
        Ok(plan)
    }

    fn task_begins(&self, task: &TaskKey) {
        self.hear(format!("begin {task}"));
    }

    fn task_ends(&self, report: &TaskReport, _plan: &Arc<dyn ExecutionPlan>) {
        self.hear(format!("end {}", report.key));
        self.ended.lock().unwrap().push(report.clone());
    }

    fn transferred(&self, transfer: &Transfer) {
        self.transfers.lock().unwrap().push(*transfer);
    }
}

/// A cluster of two workers with two hooks on both sides, `first` and `second`.
async fn hooked() -> (Cluster, SessionContext, [Arc<Named>; 2]) {
    let heard = Arc::default();
    let both = ["first", "second"].map(|name| {
        Arc::new(Named {
            name,
            heard: Arc::clone(&heard),
            transfers: Mutex::default(),
            ended: Mutex::default(),
            ends: tokio::sync::watch::Sender::default(),
        })
    });
    let [first, second] = both.clone();
    let cluster = Cluster::start_with(2, |builder| {
        builder.with_hooks(first.clone()).with_hooks(second.clone())
    })
    .await
    .unwrap();
    let coordinator = cluster.coordinator().unwrap();
    let coordinator = coordinator.with_hooks(first).with_hooks(second);
    let state = SessionStateBuilder::new()
        .with_config(config(&[("datafusion.execution.target_partitions", "2")]))
        .with_default_features()
        .with_flightpath(coordinator)
        .build();
    let ctx = SessionContext::new_with_state(state);
    register(&ctx, "t", rows(4, 1_000, 8));
    (cluster, ctx, both)
}

#[tokio::test(flavor = "multi_thread")]
async fn all_hear_everything_in_their_order() {
    within(60, async {
        let (_cluster, ctx, [first, _second]) = hooked().await;
        let reports = run_as_local(&ctx, SQL).await.reports();
        let heard = std::mem::take(&mut *first.heard.lock().unwrap());
        let mut expected = vec!["worker".to_string(); 2];
        for report in reports.reports() {
            let key = report.key;
            expected.push(format!("wrap {key} first+second"));
            expected.push(format!("begin {key}"));
            expected.push(format!("end {key}"));
        }
        expected.sort();
        for name in ["first", "second"] {
            let own = heard.iter().filter(|(who, _)| *who == name);
            let mut own: Vec<String> = own.map(|(_, what)| what.clone()).collect();
            own.sort();
            assert_eq!(own, expected, "{name}");
        }
        for event in &expected {
            let order: Vec<&str> = (heard.iter())
                .filter(|(_, what)| what == event)
                .map(|(who, _)| *who)
                .collect();
            assert_eq!(order[0], "first", "{event}");
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn workers_measure_what_they_report() {
    within(60, async {
        let (_cluster, ctx, [first, _second]) = hooked().await;
        let reports = run_as_local(&ctx, SQL).await.reports();
        let ended = first.ended.lock().unwrap();
        assert_eq!(ended.len(), reports.reports().len());
        for own in ended.iter() {
            let told = reports.report(own.key.stage, own.key.task).unwrap();
            assert_eq!(own.status, TaskStatus::Finished);
            assert_eq!(own.output_rows, told.output_rows);
            assert_eq!(own.duration, told.duration);
            assert_eq!(own.nodes.len(), told.nodes.len());
        }
        let transfers = first.transfers.lock().unwrap();
        let moved = |direction, stage| -> u64 {
            let all = transfers.iter();
            let these = all.filter(|t| t.direction == direction && t.producer.stage == stage);
            these.map(|transfer| transfer.bytes as u64).sum()
        };
        for (stage, kind) in [(1, "shuffle"), (2, "coalesce")] {
            let tasks = (0..2).filter_map(|task| reports.report(stage, task));
            let reported: u64 = tasks.map(|report| report.output_bytes).sum();
            assert!(reported > 0);
            assert_eq!(moved(Direction::Transmit, stage), reported);
            assert_eq!(moved(Direction::Receive, stage), reported);
            let mut kinds = transfers.iter().filter(|t| t.producer.stage == stage);
            assert!(kinds.all(|transfer| transfer.kind.as_str() == kind));
        }
        // Each of two tasks reads from itself and from the other; the coordinator only from afar.
        let near: Vec<bool> = transfers.iter().map(|transfer| transfer.local).collect();
        assert!(near.contains(&true) && near.contains(&false));
        let mut coalesced = transfers.iter().filter(|t| t.producer.stage == 2);
        assert!(coalesced.all(|transfer| !transfer.local));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_query_whose_client_leaves_ends_once_and_says_so() {
    within(60, async {
        let (_cluster, ctx, [first, second]) = hooked().await;
        let query = ctx.sql("SELECT k FROM t").await.unwrap();
        let mut stream = query.execute_stream().await.unwrap();
        assert!(stream.next().await.is_some());
        drop(stream);
        for hooks in [first, second] {
            let mut ends = hooks.ends.subscribe();
            let ends = ends.wait_for(|ends| !ends.is_empty()).await.unwrap();
            assert_eq!(*ends, [Err("left".to_string())]);
        }
        // A plan that nobody polls never began.
        let query = ctx.sql("SELECT k FROM t").await.unwrap();
        drop(query.execute_stream().await.unwrap());
    })
    .await;
}
