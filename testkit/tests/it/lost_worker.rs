//! A worker that dies or freezes in the middle of a query fails it soon, and by name.

use std::io::{BufRead, BufReader};
use std::net::{Ipv4Addr, SocketAddr};
use std::process::{Child, Command, Stdio};

use flightpath_core::{Worker, WorkerServer};
use flightpath_testkit::Cluster;

use crate::big::{ALL, Big, JOINED, begun, config, rest};
use crate::fixture::{eventually, within};
use crate::pair::session_on;
use crate::wire::tasks;

const ROLE: &str = "FLIGHTPATH_TEST_WORKER";

/// Not a test, but what [`Process`] runs: a worker that ends with the process that started it.
#[test]
#[ignore = "a worker for other tests"]
fn serve_a_worker() {
    if std::env::var_os(ROLE).is_none() {
        return;
    }
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    let server = runtime.block_on(WorkerServer::bind(address, Worker::new(), false));
    println!("\nworker {}", server.as_ref().unwrap().url());
    std::io::copy(&mut std::io::stdin(), &mut std::io::sink()).unwrap();
}

/// A worker in a process of its own.
struct Process {
    child: Child,
    url: String,
}

impl Process {
    fn start() -> Self {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args([
                "lost_worker::serve_a_worker",
                "--exact",
                "--ignored",
                "--nocapture",
            ])
            .env(ROLE, "")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let url = lines
            .map_while(Result::ok)
            .find_map(|line| line.strip_prefix("worker ").map(str::to_string))
            .expect("the process says where it listens");
        let url = url.trim_end_matches('/').to_string();
        Self { child, url }
    }

    fn freeze(&self) {
        let pid = self.child.id().to_string();
        let done = Command::new("kill").args(["-STOP", &pid]).status().unwrap();
        assert!(done.success());
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Runs a query on a worker here and one in another process, to which `disaster` happens.
async fn error_after(sql: &str, settings: &[&str], disaster: impl FnOnce(&mut Process)) -> String {
    let cluster = Cluster::start(1).await.unwrap();
    let mut process = Process::start();
    let here = cluster.urls().remove(0);
    let ctx = session_on(&[here.clone(), process.url.clone()], config());
    let big = Big::new().await;
    big.register(&ctx).await;
    for setting in settings {
        ctx.sql(setting).await.unwrap();
    }
    let rows = within(60, begun(&ctx, sql)).await;
    assert!(!tasks(&process.url).await.is_empty());
    disaster(&mut process);
    let error = within(10, rest(rows)).await.unwrap_err().to_string();
    assert!(error.contains(&process.url), "{error}");
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
        error_after(sql, &[], |process| process.child.kill().unwrap()).await;
    }
}

#[tokio::test]
async fn frozen() {
    let settings = ["SET flightpath.worker_timeout = '1s'"];
    for sql in [ALL, JOINED] {
        let error = error_after(sql, &settings, |process| process.freeze()).await;
        assert!(error.contains("no sign of life for 1s"), "{error}");
    }
}
