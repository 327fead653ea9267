//! The side that runs tasks.
//!
//! ```text
//! WorkerServer    listens, drains, stops
//!   Worker        the Flight service
//!     Registry    the queries it takes part in, one control stream each
//!       Task      a plan, and the readers of its partitions
//! ```

mod actions;
mod control;
mod going;
mod query;
mod server;
mod service;
mod stoppable;
mod stream;
mod task;

use std::sync::Arc;

use arrow_flight::flight_service_server::FlightServiceServer;
use datafusion::execution::{SessionState, SessionStateBuilder};
use datafusion_proto::physical_plan::PhysicalExtensionCodec;

pub use server::{ShutdownSummary, WorkerServer};

use crate::config::FlightpathConfig;
use crate::engine::connect::{Connections, Connector, MESSAGE_OVERHEAD, TcpConnector};
use crate::model::hooks::{Both, Hooks, NoHooks};
use crate::model::metric_codec::{MetricCodec, MetricCodecs};
use query::Registry;

/// Runs tasks for coordinators, as an Arrow Flight service.
///
/// It runs whatever plans it is sent, so whoever reaches it can read what it can read. Serve it
/// with [`WorkerServer`], or put [`into_service`](Self::into_service) on a tonic server of your
/// own; there, switch off the limit on concurrent streams.
#[derive(Clone, Debug)]
pub struct Worker {
    pub(crate) registry: Arc<Registry>,
}

impl Worker {
    /// A worker with DataFusion's default session.
    pub fn new() -> Self {
        Self::builder().build()
    }

    /// For a worker with a session, codecs or hooks of its own.
    pub fn builder() -> WorkerBuilder {
        WorkerBuilder::default()
    }

    /// The Flight service, for a tonic server.
    pub fn into_service(self) -> FlightServiceServer<Self> {
        let limit = self
            .registry
            .max_plan_bytes
            .saturating_add(MESSAGE_OVERHEAD);
        FlightServiceServer::new(self)
            .max_decoding_message_size(limit)
            .max_encoding_message_size(usize::MAX)
    }
}

impl Default for Worker {
    fn default() -> Self {
        Self::new()
    }
}

/// Builds a [`Worker`].
#[derive(Debug)]
pub struct WorkerBuilder {
    session: Option<SessionState>,
    codec: Option<Arc<dyn PhysicalExtensionCodec>>,
    metric_codecs: MetricCodecs,
    hooks: Arc<dyn Hooks>,
    connector: Arc<dyn Connector>,
    max_plan_bytes: usize,
}

impl Default for WorkerBuilder {
    fn default() -> Self {
        Self {
            session: None,
            codec: None,
            metric_codecs: MetricCodecs::new(),
            hooks: Arc::new(NoHooks),
            connector: Arc::new(TcpConnector),
            max_plan_bytes: FlightpathConfig::default().max_plan_bytes,
        }
    }
}

impl WorkerBuilder {
    /// The session that tasks run in: its functions, object stores, memory pool and settings.
    /// Settings of a query go before the session's.
    pub fn with_session_state(mut self, session: SessionState) -> Self {
        self.session = Some(session);
        self
    }

    /// Decodes what the coordinator's codec encoded.
    pub fn with_codec(mut self, codec: Arc<dyn PhysicalExtensionCodec>) -> Self {
        self.codec = Some(codec);
        self
    }

    /// Encodes user-defined metrics for reports.
    pub fn with_metric_codec(mut self, codec: Arc<dyn MetricCodec>) -> Self {
        self.metric_codecs = self.metric_codecs.with_codec(codec);
        self
    }

    /// Takes part in every task of the worker, after the hooks added earlier.
    pub fn with_hooks(mut self, hooks: Arc<dyn Hooks>) -> Self {
        self.hooks = Arc::new(Both(self.hooks, hooks));
        self
    }

    /// Reaches other workers another way.
    pub fn with_connector(mut self, connector: Arc<dyn Connector>) -> Self {
        self.connector = connector;
        self
    }

    /// The largest encoded plan that is accepted, in bytes; by default that of
    /// `flightpath.max_plan_bytes`.
    pub fn with_max_plan_bytes(mut self, bytes: usize) -> Self {
        self.max_plan_bytes = bytes;
        self
    }

    /// The worker.
    pub fn build(self) -> Worker {
        let session = self
            .session
            .unwrap_or_else(|| SessionStateBuilder::new().with_default_features().build());
        self.hooks.worker_begins(session.runtime_env());
        let registry = Registry::new(
            session,
            self.codec,
            self.metric_codecs,
            self.hooks,
            Connections::new(self.connector),
            self.max_plan_bytes,
        );
        Worker {
            registry: Arc::new(registry),
        }
    }
}
