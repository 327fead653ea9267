//! A worker that dies or freezes in the middle of a query fails it soon, and by name.

use flightpath_core::Worker;
use flightpath_testkit::{Cluster, WorkerProcess, process};

use crate::big::{ALL, Big, JOINED, begun, config, rest};
use crate::fixture::{eventually, within};
use crate::pair::session_on;
use crate::wire::tasks;

/// Not a test, but what [`WorkerProcess`] runs.
#[test]
#[ignore = "a worker for other tests"]
fn serve_a_worker() {
    process::serve(Worker::new).unwrap();
}

/// Runs a query on a worker here and one in another process, to which `disaster` happens.
async fn error_after(
    sql: &str,
    settings: &[&str],
    disaster: impl FnOnce(&mut WorkerProcess),
) -> String {
    let cluster = Cluster::start(1).await.unwrap();
    let mut process = WorkerProcess::start("lost_worker::serve_a_worker").unwrap();
    let here = cluster.urls().remove(0);
    let ctx = session_on(&[here.clone(), process.url().to_string()], config());
    let big = Big::new().await;
    big.register(&ctx).await;
    for setting in settings {
        ctx.sql(setting).await.unwrap();
    }
    let rows = within(60, begun(&ctx, sql)).await;
    assert!(!tasks(process.url()).await.is_empty());
    disaster(&mut process);
    let error = within(10, rest(rows)).await.unwrap_err().to_string();
    assert!(error.contains(process.url()), "{error}");
    assert!(
        error.contains("task 1.") || error.contains("task 2.") || error.contains("task 3."),
        "{error}"
    );
    eventually("no task is left", async || tasks(&here).await.is_empty()).await;
    error
}

#[tokio::test]
async fn killed() {
    for sql in [ALL, JOINED] {
        error_after(sql, &[], |process| process.kill().unwrap()).await;
    }
}

#[tokio::test]
async fn frozen() {
    let settings = ["SET flightpath.worker_timeout = '1s'"];
    for sql in [ALL, JOINED] {
        let error = error_after(sql, &settings, |process| process.freeze().unwrap()).await;
        assert!(error.contains("no sign of life for 1s"), "{error}");
    }
}
