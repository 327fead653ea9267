//! Who leaves takes its tasks with it, and nobody else's.

use arrow_flight::Action;
use arrow_flight::decode::FlightRecordBatchStream;
use datafusion::arrow::array::RecordBatch;
use flightpath_testkit::Cluster;
use futures::{StreamExt, TryStreamExt};
use serde_json::json;

use crate::bad_input::plan_of;
use crate::big::{ALL, Big, JOINED, begun, config};
use crate::fixture::{eventually, within};
use crate::pair::{cut, rows_of};
use crate::wire::{Control, Hello, connect, tasks};

async fn idle(cluster: &Cluster) {
    for url in cluster.urls() {
        eventually("no task is left", async || tasks(&url).await.is_empty()).await;
    }
}

async fn busy(cluster: &Cluster) {
    for url in cluster.urls() {
        assert!(!tasks(&url).await.is_empty(), "{url} has nothing to do");
    }
}

#[tokio::test]
async fn a_client_that_stops_reading() {
    within(60, async {
        let cluster = Cluster::start(2).await.unwrap();
        let big = Big::new().await;
        let ctx = cluster.context_with(config()).unwrap();
        big.register(&ctx).await;
        for sql in [ALL, JOINED] {
            let rows = begun(&ctx, sql).await;
            busy(&cluster).await;
            drop(rows);
            idle(&cluster).await;
        }
    })
    .await;
}

/// As in a program that blocks on its runtime and drops what it got outside.
#[test]
fn a_client_that_leaves_outside_of_the_runtime() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let start = async {
        let cluster = Cluster::start(2).await.unwrap();
        let big = Big::new().await;
        let ctx = cluster.context_with(config()).unwrap();
        big.register(&ctx).await;
        (cluster, big, ctx)
    };
    let (cluster, _big, ctx) = runtime.block_on(within(60, start));
    for sql in [ALL, JOINED] {
        let rows = runtime.block_on(within(30, begun(&ctx, sql)));
        runtime.block_on(busy(&cluster));
        drop(rows);
        runtime.block_on(within(30, idle(&cluster)));
    }
}

#[tokio::test]
async fn a_control_stream_that_is_dropped() {
    within(60, async {
        let cluster = Cluster::start(1).await.unwrap();
        let url = cluster.urls().remove(0);
        let rows = rows_of("SELECT random() AS v FROM generate_series(1, 1000000)").await;
        let plan = plan_of(&cut(&rows, 50));
        let mut queries = vec![];
        for _ in 0..2 {
            let hello = Hello::new(&url);
            let mut control = Control::greet(&url, hello.clone()).await.unwrap();
            for task in 0..2 {
                let task = hello.key(1, task).with_plan(plan.clone());
                assert_eq!(control.task(task).await, None);
            }
            let stream = connect(&url).await.do_get(hello.key(1, 0).ticket(0)).await;
            let stream = stream.unwrap().into_inner().map_err(Into::into);
            let mut stream = FlightRecordBatchStream::new_from_flight_data(stream);
            let first = stream.next().await.unwrap().unwrap();
            queries.push((control, stream, first.num_rows()));
        }
        assert_eq!(tasks(&url).await.len(), 4);
        let (control, stays, first) = queries.pop().unwrap();
        let (leaves, stream, _) = queries.pop().unwrap();
        drop(leaves);
        eventually("two tasks are left", async || tasks(&url).await.len() == 2).await;
        let cut_off: Result<Vec<RecordBatch>, _> = stream.try_collect().await;
        let error = cut_off.unwrap_err().to_string();
        assert!(error.contains("was cancelled"), "{error}");

        let rest: Vec<RecordBatch> = stays.try_collect().await.unwrap();
        let rest: usize = rest.iter().map(RecordBatch::num_rows).sum();
        assert_eq!(first + rest, 1_000_000);
        drop(control);
        idle(&cluster).await;
    })
    .await;
}

/// As a reader in the middle is told: else one that comes late, because another task has failed, counts as failed.
#[tokio::test]
async fn a_reader_that_came_after_a_cancel_was_told_only_that_the_task_is_over() {
    within(60, async {
        let cluster = Cluster::start(1).await.unwrap();
        let url = cluster.urls().remove(0);
        let plan = plan_of(&cut(&rows_of("SELECT 1 AS v").await, 1));
        let hello = Hello::new(&url);
        let mut control = Control::greet(&url, hello.clone()).await.unwrap();
        let task = hello.key(1, 0).with_plan(plan);
        assert_eq!(control.task(task).await, None);
        let mut client = connect(&url).await;
        let query = tasks(&url).await[0]["query_id"].clone();
        let cancel = Action::new("cancel", json!({ "query_id": query }).to_string());
        let answers = client.do_action(cancel).await.unwrap().into_inner();
        answers.try_collect::<Vec<_>>().await.unwrap();
        let error = client.do_get(hello.key(1, 0).ticket(0)).await.unwrap_err();
        let expected = "the task was cancelled: a client asked for it";
        assert!(error.message().contains(expected), "{error}");
    })
    .await;
}
