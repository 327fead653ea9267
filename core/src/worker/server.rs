//! A worker on a socket.

use std::net::SocketAddr;
use std::time::Duration;

use datafusion::common::runtime::SpawnedTask;
use datafusion::common::{DataFusionError, Result, config_err, exec_datafusion_err};
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tonic::transport::Server;
use tonic::transport::server::TcpIncoming;
use url::Url;

use super::Worker;
use crate::config::FlightpathConfig;
use crate::engine::connect::CONNECTION_WINDOW;

/// How long connections may take to close once no query is left.
const CLOSING: Duration = Duration::from_secs(1);

/// Serves a [`Worker`] until it is shut down.
#[derive(Debug)]
pub struct WorkerServer {
    worker: Worker,
    url: Url,
    stop: oneshot::Sender<()>,
    serving: SpawnedTask<Result<(), tonic::transport::Error>>,
}

/// What became of the queries that ran when a worker was shut down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShutdownSummary {
    /// Queries that ended within the time given.
    pub finished: usize,
    /// Queries that were cancelled after it.
    pub cancelled: usize,
}

impl WorkerServer {
    /// Listens on `address`; port 0 takes a free one.
    ///
    /// # Errors
    /// If `address` is not a loopback address and `insecure` is not set: there is neither
    /// encryption nor authentication, and whoever reaches a worker can run plans on it. If the
    /// address cannot be bound.
    pub async fn bind(address: SocketAddr, worker: Worker, insecure: bool) -> Result<Self> {
        if !address.ip().is_loopback() && !insecure {
            return config_err!(
                "{address} can be reached from other machines, and whoever reaches a worker can \
                 run plans on it, since connections are neither encrypted nor authenticated: \
                 listen on a loopback address such as 127.0.0.1, or say --insecure if only \
                 trusted machines can reach this one"
            );
        }
        let unbound = |error: std::io::Error| {
            DataFusionError::IoError(error).context(format!("cannot listen on {address}"))
        };
        let listener = TcpListener::bind(address).await.map_err(unbound)?;
        let address = listener.local_addr().map_err(unbound)?;
        let url = Url::parse(&format!("http://{address}"))
            .map_err(|error| exec_datafusion_err!("{address} makes no URL: {error}"))?;
        let (stop, stopped) = oneshot::channel();
        let server = Server::builder()
            .max_concurrent_streams(u32::MAX)
            // A query that fails or has enough leaves many streams at once, over a connection that
            // others use: HTTP/2's guard against that would close it under them.
            .http2_max_pending_accept_reset_streams(Some(usize::MAX))
            .http2_max_local_error_reset_streams(None)
            .initial_stream_window_size(FlightpathConfig::default().stream_window())
            .initial_connection_window_size(CONNECTION_WINDOW)
            .add_service(worker.clone().into_service());
        let serving = SpawnedTask::spawn(server.serve_with_incoming_shutdown(
            // The server's own setting is for sockets that it binds itself.
            TcpIncoming::from(listener).with_nodelay(Some(true)),
            async {
                // Dropped or sent, it is over.
                let _ = stopped.await;
            },
        ));
        Ok(Self {
            worker,
            url,
            stop,
            serving,
        })
    }

    /// Where to reach it.
    pub fn url(&self) -> &Url {
        &self.url
    }

    /// Takes no new query, waits up to `grace` for those that run, cancels the rest, and stops.
    ///
    /// # Errors
    /// If the server had failed before.
    pub async fn shutdown(self, grace: Duration) -> Result<ShutdownSummary> {
        let registry = &self.worker.registry;
        registry.drain();
        let running = registry.queries().len();
        // What is left after the time is cancelled below.
        let _ = tokio::time::timeout(grace, registry.idle()).await;
        let left = registry.queries();
        for query in &left {
            query.stop("the worker is shutting down", |_| true);
        }
        let cancelled = left.len();
        drop(left);
        let _ = tokio::time::timeout(CLOSING, registry.idle()).await;
        // An error means that the server has stopped by itself.
        let _ = self.stop.send(());
        // Connections that clients keep open end with the task, when the time is over.
        if let Ok(Ok(served)) = tokio::time::timeout(CLOSING, self.serving.join()).await {
            served.map_err(|error| DataFusionError::External(error.into()))?;
        }
        Ok(ShutdownSummary {
            finished: running.saturating_sub(cancelled),
            cancelled,
        })
    }
}
