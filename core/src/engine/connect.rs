//! Connections to workers, made in one place.

use std::error::Error;
use std::fmt::{self, Debug};
use std::sync::Arc;

use arrow_flight::flight_service_client::FlightServiceClient;
use async_trait::async_trait;
use dashmap::DashMap;
use datafusion::common::{DataFusionError, Result};
use tonic::transport::{Channel, Endpoint};

use crate::config::FlightpathConfig;

/// HTTP/2's largest window. What a stream may hold is limited per stream; the window of the
/// connection must never be what is full, or one stream that nobody reads blocks the others.
pub(crate) const CONNECTION_WINDOW: u32 = i32::MAX as u32;

/// Smallest window HTTP/2 can start with that is of use.
const LEAST_STREAM_WINDOW: u32 = 65_535;

/// Beside a plan or batch itself, what its message holds.
pub(crate) const MESSAGE_OVERHEAD: usize = 1 << 20;

/// Opens connections to workers. Replace it to reach them another way.
#[async_trait]
pub trait Connector: Debug + Send + Sync {
    /// A channel to the worker at `url`, connected.
    ///
    /// # Errors
    /// If there is no connection within the configured time.
    async fn connect(&self, url: &str, config: &FlightpathConfig) -> Result<Channel>;
}

/// Plain HTTP/2 over TCP.
#[derive(Clone, Copy, Debug, Default)]
pub struct TcpConnector;

#[async_trait]
impl Connector for TcpConnector {
    async fn connect(&self, url: &str, config: &FlightpathConfig) -> Result<Channel> {
        let timeout = config.connect_timeout.0;
        let failed = |error: tonic::transport::Error| {
            DataFusionError::External(Box::new(Unreachable(error)))
                .context(format!("no connection to worker {url}"))
        };
        let endpoint = Endpoint::from_shared(url.to_string())
            .map_err(failed)?
            .connect_timeout(timeout)
            .tcp_nodelay(true)
            .initial_stream_window_size(config.stream_window())
            .initial_connection_window_size(CONNECTION_WINDOW);
        match tokio::time::timeout(timeout, endpoint.connect()).await {
            Ok(connected) => connected.map_err(failed),
            Err(_) => Err(DataFusionError::Execution(format!(
                "no connection to worker {url} within {timeout:?}"
            ))),
        }
    }
}

/// Says what is at the root of an error, where tonic says "transport error".
#[derive(Debug)]
struct Unreachable(tonic::transport::Error);

impl fmt::Display for Unreachable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut root: &dyn Error = &self.0;
        while let Some(source) = root.source() {
            root = source;
        }
        fmt::Display::fmt(root, f)
    }
}

impl Error for Unreachable {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        Some(&self.0)
    }
}

impl FlightpathConfig {
    pub(crate) fn stream_window(&self) -> u32 {
        u32::try_from(self.stream_buffer_bytes)
            .unwrap_or(CONNECTION_WINDOW)
            .clamp(LEAST_STREAM_WINDOW, CONNECTION_WINDOW)
    }
}

/// One connection for each worker and window, kept for later queries.
#[derive(Clone, Debug)]
pub(crate) struct Connections {
    connector: Arc<dyn Connector>,
    open: Arc<DashMap<(String, u32), Channel>>,
}

impl Connections {
    pub(crate) fn new(connector: Arc<dyn Connector>) -> Self {
        Self {
            connector,
            open: Arc::default(),
        }
    }

    /// A client of the worker at `url`, over a connection that may have served others before.
    pub(crate) async fn client(
        &self,
        url: &str,
        config: &FlightpathConfig,
    ) -> Result<FlightServiceClient<Channel>> {
        let key = (url.to_string(), config.stream_window());
        let known = self.open.get(&key).map(|channel| channel.clone());
        let channel = match known {
            Some(channel) => channel,
            None => {
                let channel = self.connector.connect(url, config).await?;
                self.open.insert(key, channel.clone());
                channel
            }
        };
        let limit = config.max_message_bytes.saturating_add(MESSAGE_OVERHEAD);
        Ok(FlightServiceClient::new(channel)
            .max_decoding_message_size(limit)
            .max_encoding_message_size(limit.max(config.max_plan_bytes + MESSAGE_OVERHEAD)))
    }

    /// Forgets the connection to a worker that was lost; the next query dials again.
    pub(crate) fn forget(&self, url: &str) {
        self.open.retain(|(known, _), _| known != url);
    }
}
