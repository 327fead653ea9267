//! Serving metrics to Prometheus.

use std::net::SocketAddr;
use std::time::Duration;

use axum::Router;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Redirect};
use axum::routing::get;
use datafusion::common::runtime::SpawnedTask;
use datafusion::common::{DataFusionError, Result, config_err};
use prometheus::{Registry, TEXT_FORMAT, TextEncoder};
use tokio::net::TcpListener;
use tokio::sync::oneshot;

/// Where metrics are served.
const PATH: &str = "/metrics";

/// How long scrapes may take to end once it is shut down.
const CLOSING: Duration = Duration::from_secs(1);

/// Serves metrics at `/metrics`, until it is shut down or dropped.
#[derive(Debug)]
pub struct MetricsServer {
    address: SocketAddr,
    stop: oneshot::Sender<()>,
    serving: SpawnedTask<std::io::Result<()>>,
}

impl MetricsServer {
    pub(super) async fn bind(
        address: SocketAddr,
        registry: Registry,
        insecure: bool,
    ) -> Result<Self> {
        if !address.ip().is_loopback() && !insecure {
            return config_err!(
                "{address} can be reached from other machines, and metrics would be served there \
                 without encryption or authentication: listen on a loopback address such as \
                 127.0.0.1, or say --insecure if only trusted machines can reach this one"
            );
        }
        let unbound = |error: std::io::Error| {
            DataFusionError::IoError(error).context(format!("cannot listen on {address}"))
        };
        let listener = TcpListener::bind(address).await.map_err(unbound)?;
        let address = listener.local_addr().map_err(unbound)?;
        let routes = Router::new()
            .route("/", get(async || Redirect::temporary(PATH)))
            .route(PATH, get(async move || exposition(&registry)));
        let (stop, stopped) = oneshot::channel();
        let serving = axum::serve(listener, routes).with_graceful_shutdown(async {
            // Dropped or sent, it is over.
            let _ = stopped.await;
        });
        Ok(Self {
            address,
            stop,
            serving: SpawnedTask::spawn(serving.into_future()),
        })
    }

    /// Where to scrape, such as `http://127.0.0.1:9464/metrics`.
    pub fn url(&self) -> String {
        format!("http://{}{PATH}", self.address)
    }

    /// Answers the scrapes that have come, and stops.
    ///
    /// # Errors
    /// If the server had failed before.
    pub async fn shutdown(self) -> Result<()> {
        // An error means that the server has stopped by itself.
        let _ = self.stop.send(());
        // Connections that are kept open end with the task, when the time is over.
        if let Ok(Ok(served)) = tokio::time::timeout(CLOSING, self.serving.join()).await {
            served?;
        }
        Ok(())
    }
}

/// What is scraped, as text.
pub(super) fn text(registry: &Registry) -> Result<String> {
    TextEncoder::new()
        .encode_to_string(&registry.gather())
        .map_err(|error| DataFusionError::External(error.into()))
}

fn exposition(registry: &Registry) -> impl IntoResponse + use<> {
    match text(registry) {
        Ok(text) => Ok(([(CONTENT_TYPE, TEXT_FORMAT)], text)),
        Err(error) => Err((
            axum::http::StatusCode::INTERNAL_SERVER_ERROR,
            error.strip_backtrace(),
        )),
    }
}
