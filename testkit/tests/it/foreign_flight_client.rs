//! What any Flight client can ask of a worker, and do to it.

use std::sync::Arc;

use arrow_flight::{Empty, FlightDescriptor, FlightInfo};
use datafusion::common::Result;
use datafusion::execution::SendableRecordBatchStream;
use datafusion::physical_plan::{ExecutionPlan, execute_stream};
use datafusion::prelude::SessionContext;
use flightpath_core::TaskStatus;
use flightpath_testkit::Cluster;
use futures::{StreamExt, TryStreamExt};
use serde_json::{Value, json};
use tonic::Code;

use crate::harness::{Flight, config, message, plan, register, reports, rows, within};

/// A query that waits for its reader: its 1,000,000 rows are more than all buffers hold.
struct Waiting {
    cluster: Cluster,
    _ctx: SessionContext,
    plan: Arc<dyn ExecutionPlan>,
    stream: SendableRecordBatchStream,
    workers: Vec<Flight>,
}

impl Waiting {
    async fn start() -> Self {
        let cluster = Cluster::start(2).await.unwrap();
        let settings = [
            ("flightpath.stream_buffer_bytes", "65536"),
            ("datafusion.execution.target_partitions", "2"),
        ];
        let ctx = cluster.context_with(config(&settings)).unwrap();
        register(&ctx, "a", rows(4, 250, 64));
        register(&ctx, "b", rows(4, 250, 64));
        let sql = "SELECT a.k, a.s, b.s FROM a CROSS JOIN b";
        let plan = plan(&ctx, sql).await.unwrap();
        let mut stream = execute_stream(Arc::clone(&plan), ctx.task_ctx()).unwrap();
        stream.next().await.unwrap().unwrap();
        let mut workers = vec![];
        for url in cluster.urls() {
            workers.push(Flight::connect(&url).await);
        }
        Self {
            cluster,
            _ctx: ctx,
            plan,
            stream,
            workers,
        }
    }

    fn query(&self) -> String {
        reports(&self.plan).query_id().to_string()
    }

    /// A task that has rows and cannot end.
    async fn running(&mut self) -> Value {
        let tasks = self.workers[0].tasks().await;
        let running = tasks.into_iter().filter(|task| task["status"] == "running");
        running.max_by_key(|task| task["stage"].as_u64()).unwrap()
    }

    /// Reads on, to the end.
    async fn end(&mut self) -> Result<usize> {
        let mut rows = 0;
        while let Some(batch) = self.stream.try_next().await? {
            rows += batch.num_rows();
        }
        Ok(rows)
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn actions_are_listed_and_described() {
    within(60, async {
        let cluster = Cluster::start(1).await.unwrap();
        let mut worker = Flight::connect(&cluster.urls()[0]).await;
        let actions = worker.0.list_actions(Empty {}).await.unwrap().into_inner();
        let actions: Vec<_> = actions.try_collect().await.unwrap();
        let names: Vec<_> = actions
            .iter()
            .map(|action| action.r#type.as_str())
            .collect();
        assert_eq!(names, ["version", "task", "cancel"]);
        assert!(
            actions
                .iter()
                .all(|action| action.description.contains("Answers"))
        );
        let version = worker.act("version", "").await.unwrap();
        let expected =
            json!({"name": "flightpath", "version": env!("CARGO_PKG_VERSION"), "protocol": 1});
        assert_eq!(version, expected);
        let unknown = worker.act("explode", "").await.unwrap_err();
        assert_eq!(unknown.code(), Code::InvalidArgument);
        assert!(
            unknown.message().contains("version, task, cancel"),
            "{unknown}"
        );
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_running_query_is_seen_from_outside() {
    within(60, async {
        let mut waiting = Waiting::start().await;
        let (query, task) = (waiting.query(), waiting.running().await);
        assert_eq!(task["query_id"], query.as_str());
        assert_eq!(task["attempt"], 0);
        assert!(task["output_rows"].as_u64() > Some(0), "{task}");
        assert!(
            task["output_bytes"].as_u64() > Some(0) && task["elapsed_ms"].is_u64(),
            "{task}"
        );

        let body = json!({"query_id": query, "stage": task["stage"], "task": task["task"]});
        let asked = waiting.workers[0].act("task", &body).await.unwrap();
        let fields = |task: &Value| {
            task.as_object()
                .unwrap()
                .keys()
                .cloned()
                .collect::<Vec<_>>()
        };
        assert_eq!(fields(&asked), fields(&task));
        assert_eq!(asked["status"], "running");

        let path = vec![
            query.clone(),
            task["stage"].to_string(),
            task["task"].to_string(),
        ];
        let descriptor = FlightDescriptor::new_path(path);
        let info = waiting.workers[0]
            .0
            .get_flight_info(descriptor.clone())
            .await
            .unwrap();
        let info: FlightInfo = info.into_inner();
        assert_eq!(info.flight_descriptor, Some(descriptor));
        assert!(
            info.endpoint.is_empty(),
            "nobody but the plan's own tasks may read it"
        );
        let state: Value = serde_json::from_slice(&info.app_metadata).unwrap();
        assert_eq!(fields(&state), fields(&task));

        let nobody = json!({"query_id": "00000000-0000-0000-0000-000000000000"});
        let unknown = waiting.workers[0].act("cancel", &nobody).await.unwrap_err();
        assert_eq!(unknown.code(), Code::NotFound);
        let half = json!({"query_id": query, "stage": 1});
        let wrong = waiting.workers[0].act("cancel", &half).await.unwrap_err();
        assert_eq!(wrong.code(), Code::InvalidArgument);
        assert_eq!(waiting.running().await["status"], "running");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn cancelling_a_query_ends_it_with_that_word() {
    within(60, async {
        let mut waiting = Waiting::start().await;
        let body = json!({"query_id": waiting.query()});
        for worker in &mut waiting.workers {
            let answer = worker.act("cancel", &body).await.unwrap();
            assert!(answer["cancelled"].as_u64() > Some(0), "{answer}");
            let again = worker.act("cancel", &body).await;
            // It may be forgotten by now, and has nothing left to cancel if not.
            assert!(again.is_err() || again.unwrap() == json!({"cancelled": 0}));
        }
        let text = message(waiting.end().await);
        assert!(text.contains("cancelled: a client asked for it"), "{text}");
        for worker in &mut waiting.workers {
            worker.idle().await;
        }
        waiting.cluster.stop().await.unwrap();
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn cancelling_one_task_ends_its_query() {
    within(60, async {
        let mut waiting = Waiting::start().await;
        let task = waiting.running().await;
        let body =
            json!({"query_id": waiting.query(), "stage": task["stage"], "task": task["task"]});
        let answer = waiting.workers[0].act("cancel", &body).await.unwrap();
        assert_eq!(answer, json!({"cancelled": 1}));
        let text = message(waiting.end().await);
        let name = format!("{}.{}", task["stage"], task["task"]);
        assert!(
            text.contains(&name) && text.contains("cancelled: a client asked for it"),
            "{text}"
        );
        let (stage, number) = (
            task["stage"].as_u64().unwrap(),
            task["task"].as_u64().unwrap(),
        );
        let reports = reports(&waiting.plan);
        let report = reports.report(stage as usize, number as usize).unwrap();
        assert_eq!(report.status, TaskStatus::Cancelled);
        assert_eq!(reports.counts().missing, 0);
        for worker in &mut waiting.workers {
            worker.idle().await;
        }
    })
    .await;
}
