use arrow_flight::{Action, FlightClient};
use flightpath_core::TaskStatus;
use futures::{StreamExt, TryStreamExt};
use serde_json::{Value, json};
use tonic::transport::Endpoint;

use crate::fixture::{Setup, eventually, within};

/// A billion rows: nobody waits for its end.
const ENDLESS: &str = "SELECT a.id + b.id + c.id AS sum FROM sales a, sales b, sales c";

/// As many, none of which comes out: the nodes of a task hand each other batches without a pause.
const BUSY: &str = "SELECT count(*) FROM sales a, sales b, sales c, sales d
    WHERE a.amount + b.amount + c.amount + d.amount < 0";

async fn client(url: &str) -> FlightClient {
    let endpoint = Endpoint::from_shared(url.to_string()).unwrap();
    FlightClient::new(endpoint.connect().await.unwrap())
}

/// What the workers say of their tasks to anybody who asks.
async fn tasks(setup: &Setup) -> Vec<Value> {
    let mut states = vec![];
    for url in setup.cluster.urls() {
        let flights = client(&url).await.list_flights("").await.unwrap();
        let flights: Vec<_> = flights.try_collect().await.unwrap();
        let states_here = flights
            .iter()
            .map(|flight| serde_json::from_slice(&flight.app_metadata));
        states.extend(states_here.map(|state| state.unwrap()));
    }
    states
}

#[tokio::test]
async fn a_client_that_leaves_stops_all_tasks() {
    within(60, async {
        let setup = Setup::new().await;
        let planned = setup.plan(ENDLESS).await;
        let mut rows = planned.stream();
        assert!(rows.next().await.unwrap().unwrap().num_rows() > 0);
        let running = tasks(&setup).await;
        assert!(
            running.iter().any(|task| task["status"] == "running"),
            "{running:?}"
        );

        drop(rows);
        eventually("no worker has a task left", async || {
            tasks(&setup).await.is_empty()
        })
        .await;
        let reports = planned.reports();
        eventually("every task has reported", async || {
            reports.missing().is_empty()
        })
        .await;
        let counts = reports.counts();
        assert_eq!(counts.failed, 0, "{counts:?}");
        let all = reports.reports();
        assert_eq!(all.len(), running.len());
        let cut = all
            .iter()
            .find(|report| report.status == TaskStatus::Cancelled)
            .unwrap();
        let metrics = cut
            .nodes
            .iter()
            .filter_map(|node| node.metrics.output_rows());
        assert!(metrics.sum::<usize>() > 0, "{cut:?}");
        assert!(all.iter().map(|report| report.output_rows).sum::<u64>() > 0);
    })
    .await;
}

#[tokio::test]
async fn a_stream_that_is_never_polled_starts_nothing() {
    within(60, async {
        let setup = Setup::new().await;
        let planned = setup.plan(ENDLESS).await;
        drop(planned.stream());
        assert!(tasks(&setup).await.is_empty());
        assert!(planned.reports().missing().is_empty());
    })
    .await;
}

#[tokio::test]
async fn anybody_can_cancel_a_query_on_a_worker() {
    within(60, async {
        let setup = Setup::new().await;
        let planned = setup.plan(ENDLESS).await;
        let mut rows = planned.stream();
        rows.next().await.unwrap().unwrap();
        let body = json!({ "query_id": planned.reports().query_id().to_string() }).to_string();
        for url in setup.cluster.urls() {
            let cancel = Action::new("cancel", body.clone());
            let answers = client(&url).await.do_action(cancel).await.unwrap();
            answers.try_collect::<Vec<_>>().await.unwrap();
        }
        let error = rows.try_collect::<Vec<_>>().await.unwrap_err().to_string();
        assert!(
            error.contains("cancelled: a client asked for it"),
            "{error}"
        );
        eventually("no worker has a task left", async || {
            tasks(&setup).await.is_empty()
        })
        .await;
        assert!(planned.reports().missing().is_empty());
    })
    .await;
}

/// Such a task held its thread until its end, and could be stopped no earlier.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_task_that_never_waits_is_stopped() {
    within(60, async {
        let setup = Setup::new().await;
        let planned = setup.plan(BUSY).await;
        let reading = tokio::spawn(planned.stream().try_collect::<Vec<_>>());
        let running = |task: &Value| task["status"] == "running" && task["stage"] == 4;
        eventually("the joins run", async || {
            tasks(&setup).await.iter().any(running)
        })
        .await;
        reading.abort();
        eventually("no worker has a task left", async || {
            tasks(&setup).await.is_empty()
        })
        .await;
    })
    .await;
}
