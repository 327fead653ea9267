//! What a worker cannot use it answers with what it expected, and lives on.

use std::sync::Arc;

use arrow_flight::{Action, FlightDescriptor, Ticket};
use datafusion::arrow::array::RecordBatch;
use datafusion::datasource::memory::MemorySourceConfig;
use datafusion_proto::bytes::physical_plan_to_bytes;
use flightpath_testkit::Cluster;
use prost::Message;
use tonic::{Code, Status};

use crate::fixture::within;
use crate::pair::{Pair, config, cut, rows_of};
use crate::wire::{Control, Hello, connect, tasks};

const ROWS: &str = "SELECT value AS v FROM generate_series(1, 100)";

/// A plan of one partition.
pub(crate) fn plan_of(batches: &[RecordBatch]) -> Vec<u8> {
    let schema = batches[0].schema();
    let plan = MemorySourceConfig::try_new_exec(&[batches.to_vec()], schema, None).unwrap();
    physical_plan_to_bytes(plan).unwrap().to_vec()
}

fn refused<T>(answer: Result<T, Status>, code: Code, expected: &str) {
    let status = answer.err().unwrap();
    assert_eq!(status.code(), code, "{status:?}");
    assert!(status.message().contains(expected), "{status:?}");
}

/// A worker, and a query that it must answer at the end.
async fn start() -> (Pair, String) {
    let pair = Pair::start(1).await;
    pair.table("t", 3, ROWS).await;
    let url = pair.cluster.urls().remove(0);
    (pair, url)
}

async fn still_works(pair: &Pair, url: &str) {
    crate::fixture::eventually("no task is left", async || tasks(url).await.is_empty()).await;
    pair.same("SELECT v % 3, count(*) FROM t GROUP BY v % 3")
        .await;
}

#[tokio::test]
async fn tickets() {
    within(30, async {
        let (pair, url) = start().await;
        let mut client = connect(&url).await;
        for garbage in ["", "SELECT 1", "flightpath1:\u{1}garbage"] {
            let answer = client.do_get(Ticket::new(garbage.to_string())).await;
            refused(answer, Code::InvalidArgument, "expected a ticket");
        }
        let hello = Hello::new(&url);
        let unknown = client.do_get(hello.key(1, 0).ticket(0)).await;
        refused(unknown, Code::Unknown, "takes no part in query");

        let mut control = Control::greet(&url, hello.clone()).await.unwrap();
        // More than buffers hold, so that it does not end unread.
        let rows = rows_of("SELECT random() AS v FROM generate_series(1, 1000000)").await;
        let task = hello.key(1, 0).with_plan(plan_of(&cut(&rows, 50)));
        assert_eq!(control.task(task).await, None);
        let other_task = client.do_get(hello.key(1, 5).ticket(0)).await;
        refused(other_task, Code::Unknown, "has no task");
        let other_partition = client.do_get(hello.key(1, 0).ticket(7)).await;
        refused(other_partition, Code::Unknown, "and 7 was asked for");
        let _first = client.do_get(hello.key(1, 0).ticket(0)).await.unwrap();
        let again = client.do_get(hello.key(1, 0).ticket(0)).await;
        refused(again, Code::Unknown, "has been read already");
        drop(control);
        still_works(&pair, &url).await;
    })
    .await;
}

#[tokio::test]
async fn actions_and_descriptors() {
    within(30, async {
        let (pair, url) = start().await;
        let mut client = connect(&url).await;
        let unknown = client.do_action(Action::new("format_disk", "")).await;
        refused(unknown, Code::InvalidArgument, "version, task, cancel");
        let id = uuid::Uuid::now_v7();
        for (body, expected) in [
            ("", "expected a JSON object"),
            ("\u{0}\u{1}", "expected a JSON object"),
            ("[1]", "found no \"query_id\""),
            (r#"{"query_id": 7}"#, "found no \"query_id\""),
            (r#"{"query_id": "seven"}"#, "expected a JSON object"),
            (
                &format!(r#"{{"query_id": "{id}", "stage": 1}}"#),
                "only one of",
            ),
            (
                &format!(r#"{{"query_id": "{id}", "stage": -1, "task": 0}}"#),
                "found -1",
            ),
        ] {
            for action in ["task", "cancel"] {
                let answer = client
                    .do_action(Action::new(action, body.to_string()))
                    .await;
                refused(answer, Code::InvalidArgument, expected);
            }
        }
        let whole = format!(r#"{{"query_id": "{id}"}}"#);
        let answer = client.do_action(Action::new("task", whole.clone())).await;
        refused(answer, Code::InvalidArgument, "\"stage\" and \"task\"");
        let answer = client.do_action(Action::new("cancel", whole)).await;
        refused(answer, Code::NotFound, "takes no part in query");

        for path in [vec![], vec!["x"], vec!["a", "b", "c"]] {
            let path = path.into_iter().map(String::from).collect();
            let answer = client
                .get_flight_info(FlightDescriptor::new_path(path))
                .await;
            refused(answer, Code::InvalidArgument, "[query id, stage, task]");
        }
        let answer = client
            .get_flight_info(FlightDescriptor::new_cmd("SELECT 1"))
            .await;
        refused(answer, Code::InvalidArgument, "[query id, stage, task]");
        still_works(&pair, &url).await;
    })
    .await;
}

#[tokio::test]
async fn greetings() {
    within(30, async {
        let (pair, url) = start().await;
        for garbage in [&b""[..], b"garbage", &[0xff; 40]] {
            let answer = Control::open(&url, garbage.to_vec()).await;
            refused(answer, Code::InvalidArgument, "expected a control message");
        }
        let early = Hello::new(&url).key(1, 0).with_plan(vec![]);
        let answer = Control::open(&url, early.encode_to_vec()).await;
        refused(answer, Code::InvalidArgument, "expected a greeting");
        let other = Hello {
            protocol: 99,
            ..Hello::new(&url)
        };
        let answer = Control::greet(&url, other).await;
        refused(
            answer,
            Code::FailedPrecondition,
            "speaks protocol 99 (release test)",
        );
        let short = Hello {
            query_id: vec![1, 2],
            ..Hello::new(&url)
        };
        let answer = Control::greet(&url, short).await;
        refused(answer, Code::InvalidArgument, "16 bytes, found 2");

        let hello = Hello::new(&url);
        let _first = Control::greet(&url, hello.clone()).await.unwrap();
        let twice = Control::greet(&url, hello).await;
        refused(twice, Code::Unknown, "has a control stream to this worker");
        still_works(&pair, &url).await;
    })
    .await;
}

/// A control stream that broke the protocol just ended, and its client never learned why.
#[tokio::test]
async fn nonsense_on_a_control_stream_is_answered() {
    within(30, async {
        let (pair, url) = start().await;
        let plan = plan_of(&[rows_of(ROWS).await]);
        let hello = Hello::new(&url);
        let again = hello.clone().into_down().encode_to_vec();
        for (nonsense, expected) in [
            (again, "one greeting"),
            (vec![0xff; 9], "a control message"),
        ] {
            let mut control = Control::greet(&url, hello.clone()).await.unwrap();
            let task = hello.key(1, 0).with_plan(plan.clone());
            assert_eq!(control.task(task).await, None);
            control.send(&nonsense).await;
            refused(control.answer().await, Code::InvalidArgument, expected);
            still_works(&pair, &url).await;
        }
    })
    .await;
}

#[tokio::test]
async fn tasks_that_cannot_be_taken() {
    within(30, async {
        let (pair, url) = start().await;
        let hello = Hello::new(&url);
        let mut control = Control::greet(&url, hello.clone()).await.unwrap();
        let plan = plan_of(&[rows_of(ROWS).await]);
        assert_eq!(
            control.task(hello.key(1, 0).with_plan(plan.clone())).await,
            None
        );
        for (task, expected) in [
            (hello.key(1, 0).with_plan(plan.clone()), "is here already"),
            (
                Hello::new(&url).key(1, 1).with_plan(plan.clone()),
                "is of query",
            ),
            (
                hello.key(1, 2).with_plan(vec![0xff; 50]),
                "encoded plan expected",
            ),
            (hello.key(1, 3).with_plan(vec![]), ""),
            (
                hello.key(1, 4).with_plan(plan[..plan.len() / 2].to_vec()),
                "",
            ),
        ] {
            let reason = control.task(task).await.unwrap();
            assert!(reason.contains(expected), "{reason}");
        }
        // The first is still there.
        assert_eq!(tasks(&url).await.len(), 1);
        drop(control);
        still_works(&pair, &url).await;
    })
    .await;
}

/// Up to a megabyte beyond its limit a worker took any plan.
#[tokio::test]
async fn plans_above_the_limit_of_a_worker() {
    within(30, async {
        let limit = 40_000;
        let cluster = Cluster::start_with(1, |builder| builder.with_max_plan_bytes(limit));
        let pair = Pair::on(Arc::new(cluster.await.unwrap()), config());
        pair.table("t", 3, ROWS).await;
        let url = pair.cluster.urls().remove(0);
        let hello = Hello::new(&url);
        let mut control = Control::greet(&url, hello.clone()).await.unwrap();
        let reason = control
            .task(hello.key(1, 0).with_plan(vec![0; limit + 1]))
            .await;
        assert!(
            reason
                .unwrap()
                .contains("takes 40001 bytes, and this worker allows 40000")
        );
        let huge = hello.key(1, 0).with_plan(vec![0; 5 << 20]);
        control.send(&huge.encode_to_vec()).await;
        refused(control.answer().await, Code::OutOfRange, "too large");
        still_works(&pair, &url).await;

        // The rows of an in-memory table are part of plans. Too large, they stay at home.
        let rows = rows_of("SELECT value AS v FROM generate_series(1, 40000)").await;
        let parts: Vec<_> = cut(&rows, 3);
        pair.memory("large", rows.schema(), &parts);
        pair.compare("SELECT v % 3, count(*) FROM large GROUP BY v % 3")
            .await;
        still_works(&pair, &url).await;
    })
    .await;
}
