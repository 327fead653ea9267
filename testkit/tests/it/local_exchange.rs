//! Streams within a worker do not go over the network.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::Mutex;

use async_trait::async_trait;
use datafusion::common::{Result, exec_err};
use datafusion::prelude::SessionContext;
use flightpath_core::{Connector, FlightpathConfig, Headers, Hooks, TaskKey, TcpConnector};
use flightpath_testkit::Cluster;
use tonic::transport::Channel;

use crate::harness::{Ran, config, register, rows, run_as_local, within};

const SQL: &str = "SELECT a.g, count(*), sum(b.k) FROM a JOIN b ON a.k = b.k GROUP BY a.g";

/// Keeps a worker from others.
#[derive(Debug)]
struct Nowhere;

#[async_trait]
impl Connector for Nowhere {
    async fn connect(&self, url: &str, _config: &FlightpathConfig) -> Result<Channel> {
        exec_err!("this worker connects to nobody, and {url} was asked for")
    }
}

/// Remembers what a worker dialled, and which producers it read from.
#[derive(Debug, Default)]
struct Seen {
    dialled: Mutex<BTreeSet<String>>,
    opened: Mutex<Vec<TaskKey>>,
}

#[async_trait]
impl Connector for Seen {
    async fn connect(&self, url: &str, config: &FlightpathConfig) -> Result<Channel> {
        self.dialled.lock().unwrap().insert(url.to_string());
        TcpConnector.connect(url, config).await
    }
}

impl Hooks for Seen {
    fn stream_opened(&self, producer: &TaskKey, _headers: &Headers) {
        self.opened.lock().unwrap().push(*producer);
    }
}

fn session(cluster: &Cluster) -> SessionContext {
    let settings = [
        ("datafusion.execution.target_partitions", "2"),
        (
            "datafusion.optimizer.hash_join_single_partition_threshold",
            "0",
        ),
        (
            "datafusion.optimizer.hash_join_single_partition_threshold_rows",
            "0",
        ),
    ];
    let ctx = cluster.context_with(config(&settings)).unwrap();
    register(&ctx, "a", rows(4, 2_000, 16));
    register(&ctx, "b", rows(4, 1_500, 16));
    ctx
}

fn shuffles(ran: &Ran) -> usize {
    ran.text().matches("NetworkShuffleExec").count()
}

#[tokio::test(flavor = "multi_thread")]
async fn one_worker_exchanges_everything_in_process() {
    within(60, async {
        let cluster = Cluster::start_with(1, |builder| builder.with_connector(Arc::new(Nowhere)))
            .await
            .unwrap();
        let ran = run_as_local(&session(&cluster), SQL).await;
        assert_eq!(shuffles(&ran), 3, "{}", ran.text());
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn two_workers_use_both_ways_at_once() {
    within(60, async {
        let seen = Mutex::new(vec![]);
        let cluster = Cluster::start_with(2, |builder| {
            let own = Arc::<Seen>::default();
            seen.lock().unwrap().push(Arc::clone(&own));
            builder
                .with_hooks(Arc::clone(&own) as Arc<dyn Hooks>)
                .with_connector(own)
        })
        .await
        .unwrap();
        let ran = run_as_local(&session(&cluster), SQL).await;
        let urls: Vec<String> = cluster
            .urls()
            .iter()
            .map(|url| url.trim_end_matches('/').to_string())
            .collect();
        let reports = ran.reports();
        for (own, seen) in urls.iter().zip(seen.into_inner().unwrap()) {
            let others: BTreeSet<_> = urls.iter().filter(|url| *url != own).cloned().collect();
            assert_eq!(*seen.dialled.lock().unwrap(), others);
            let opened = seen.opened.lock().unwrap();
            let worker =
                |key: &TaskKey| reports.report(key.stage, key.task).unwrap().worker.clone();
            let (near, far): (Vec<TaskKey>, Vec<TaskKey>) =
                opened.iter().partition(|key| worker(key) == *own);
            // Three shuffles of two partitions each, from one producer on either worker.
            assert_eq!((near.len(), far.len()), (6, 6));
        }
    })
    .await;
}
