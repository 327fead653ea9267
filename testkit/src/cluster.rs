//! A cluster inside one process: real workers, real sockets, nothing to install.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use datafusion::common::Result;
use datafusion::execution::SessionStateBuilder;
use datafusion::prelude::{SessionConfig, SessionContext};
use flightpath_core::{
    Coordinator, SessionStateBuilderExt, StaticWorkers, Worker, WorkerBuilder, WorkerServer,
};
use futures::future::try_join_all;

/// What [`Cluster::stop`] leaves tasks that still run: long enough for a query to be cancelled, short
/// enough for a test.
const GRACE: Duration = Duration::from_secs(5);

/// Workers that listen on ports of the loopback interface, in this process.
///
/// They speak to each other and to the coordinator over TCP as they would between machines, so
/// plans, rows and errors take the same way.
///
/// ```
/// use flightpath_testkit::Cluster;
///
/// # #[tokio::main]
/// # async fn main() -> datafusion::common::Result<()> {
/// let cluster = Cluster::start(2).await?;
/// let ctx = cluster.context()?;
/// ctx.sql("SELECT 1").await?.show().await?;
/// cluster.stop().await
/// # }
/// ```
///
/// Dropping a cluster ends its workers at once; [`stop`](Self::stop) also tells of what went wrong.
pub struct Cluster {
    workers: Vec<WorkerServer>,
}

impl Cluster {
    /// Starts this many workers.
    pub async fn start(workers: usize) -> Result<Self> {
        Self::start_with(workers, |builder| builder).await
    }

    /// Starts this many workers, each built with what `configure` adds: functions, codecs, memory
    /// limits.
    ///
    /// What a plan needs must be known on both ends: give the codecs to the coordinator as well,
    /// see [`coordinator`](Self::coordinator).
    pub async fn start_with(
        workers: usize,
        configure: impl Fn(WorkerBuilder) -> WorkerBuilder,
    ) -> Result<Self> {
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let mut servers = Vec::with_capacity(workers);
        for _ in 0..workers {
            let worker = configure(Worker::builder()).build();
            servers.push(WorkerServer::bind(address, worker, false).await?);
        }
        Ok(Self { workers: servers })
    }

    /// Where the workers listen, in the order in which they started.
    pub fn urls(&self) -> Vec<String> {
        let urls = self.workers.iter().map(WorkerServer::url);
        urls.map(ToString::to_string).collect()
    }

    /// The workers themselves.
    pub fn workers(&self) -> &[WorkerServer] {
        &self.workers
    }

    /// A coordinator of these workers, to be given codecs and the like.
    pub fn coordinator(&self) -> Result<Coordinator> {
        Ok(Coordinator::new(StaticWorkers::new(self.urls())?))
    }

    /// A session whose queries run on these workers.
    pub fn context(&self) -> Result<SessionContext> {
        self.context_with(SessionConfig::new())
    }

    /// [`context`](Self::context) with settings of your own.
    pub fn context_with(&self, config: SessionConfig) -> Result<SessionContext> {
        let state = SessionStateBuilder::new()
            .with_config(config)
            .with_default_features()
            .with_flightpath(self.coordinator()?)
            .build();
        Ok(SessionContext::new_with_state(state))
    }

    /// Stops all workers; tasks that still run have a few seconds to end.
    pub async fn stop(self) -> Result<()> {
        let workers = self.workers.into_iter();
        try_join_all(workers.map(|worker| worker.shutdown(GRACE))).await?;
        Ok(())
    }
}
