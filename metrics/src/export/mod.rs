//! Metrics of a process for those who watch it: over OTLP, and for Prometheus.
//!
//! A process measures itself with [`MetricsHooks`], whatever part it has in queries, and
//! [`MetricsExport`] brings to others what it has measured.
//!
//! ```
//! use std::sync::Arc;
//!
//! use flightpath_core::Worker;
//! use flightpath_metrics::export::{MetricsExport, Role};
//!
//! # #[tokio::main]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! // Sends to where OTEL_EXPORTER_OTLP_ENDPOINT says, if it says anything.
//! let metrics = MetricsExport::from_env(Role::Worker)?;
//! let worker = Worker::builder().with_hooks(metrics.hooks()).build();
//! // For Prometheus to scrape; port 0 takes a free one.
//! let server = metrics.serve("127.0.0.1:0".parse()?, false).await?;
//! println!("metrics at {}", server.url());
//!
//! # let _ = worker;
//! server.shutdown().await?;
//! metrics.shutdown().await;
//! # Ok(())
//! # }
//! ```

mod endpoint;
mod hooks;
mod instruments;
mod memory;
mod operators;
mod push;
mod queries;
mod settings;

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;

use datafusion::common::{DataFusionError, Result};
use opentelemetry::metrics::MeterProvider;
use opentelemetry_sdk::metrics::{PeriodicReader, SdkMeterProvider};
use prometheus::Registry;

pub use endpoint::MetricsServer;
use flightpath_otlp::ExporterRuntime;
pub use flightpath_otlp::{Endpoint, Protocol, Role};
pub use hooks::MetricsHooks;
pub use settings::MetricsSettings;

/// Measures this process and brings what it measured to others, as long as it lives.
///
/// Dropping it sends what is left, for which it may block for seconds; in async code, prefer
/// [`shutdown`](Self::shutdown).
pub struct MetricsExport {
    hooks: Arc<MetricsHooks>,
    registry: Registry,
    /// Until it has been shut down.
    provider: Option<SdkMeterProvider>,
    /// The exporter's own.
    _runtime: Option<ExporterRuntime>,
}

impl MetricsExport {
    /// [`start`](Self::start) with [`MetricsSettings::from_env`].
    ///
    /// # Errors
    /// If a variable has an unknown value, or the exporter cannot be built.
    pub fn from_env(role: Role) -> Result<Self> {
        Self::start(&MetricsSettings::from_env(role)?)
    }

    /// Starts to measure, and to send every minute, or as `OTEL_METRIC_EXPORT_INTERVAL` says. It
    /// works inside and outside of a Tokio runtime.
    ///
    /// # Errors
    /// If the endpoint is no URL, or needs what this build does not have.
    pub fn start(settings: &MetricsSettings) -> Result<Self> {
        let registry = Registry::new();
        let resource = flightpath_otlp::resource(settings.default_service_name());
        let mut provider = SdkMeterProvider::builder().with_resource(resource);
        let mut runtime = None;
        if !settings.is_disabled() {
            let pulled = opentelemetry_prometheus::exporter()
                .with_registry(registry.clone())
                .scope_info_enabled(false)
                .build()
                .map_err(|error| DataFusionError::External(error.into()))?;
            provider = provider.with_reader(pulled);
            if settings.console() {
                let exporter = opentelemetry_stdout::MetricExporter::default();
                provider = provider.with_reader(PeriodicReader::builder(exporter).build());
            }
            if let Some(endpoint) = settings.endpoint() {
                let (exporter, own) = push::otlp(endpoint)?;
                provider = provider.with_reader(PeriodicReader::builder(exporter).build());
                runtime = Some(own);
            }
        }
        let provider = provider.build();
        let meter = provider.meter_with_scope(flightpath_otlp::scope());
        Ok(Self {
            hooks: Arc::new(MetricsHooks::new(&meter)),
            registry,
            provider: Some(provider),
            _runtime: runtime,
        })
    }

    /// What measures; for the coordinator and for the workers of this process.
    pub fn hooks(&self) -> Arc<MetricsHooks> {
        Arc::clone(&self.hooks)
    }

    /// What has been measured, in the text format of Prometheus.
    ///
    /// # Errors
    /// If it has no such form.
    pub fn text(&self) -> Result<String> {
        endpoint::text(&self.registry)
    }

    /// Serves [`text`](Self::text) over HTTP at `/metrics`; port 0 takes a free one.
    ///
    /// # Errors
    /// If `address` is not a loopback address and `insecure` is not set: there is neither
    /// encryption nor authentication. If the address cannot be bound.
    pub async fn serve(&self, address: SocketAddr, insecure: bool) -> Result<MetricsServer> {
        MetricsServer::bind(address, self.registry.clone(), insecure).await
    }

    /// Sends what has been measured. Blocks until it has left, or failed to.
    ///
    /// # Errors
    /// If it cannot be sent.
    pub fn flush(&self) -> Result<()> {
        let flushed = self.provider.as_ref().map(SdkMeterProvider::force_flush);
        flushed
            .unwrap_or(Ok(()))
            .map_err(|error| DataFusionError::External(error.into()))
    }

    /// Sends what has been measured, and stops measuring. What cannot be sent is told as a
    /// warning.
    pub async fn shutdown(self) {
        // It blocks. A panic in there would have been the exporter's, and told.
        let _ended = tokio::task::spawn_blocking(move || drop(self)).await;
    }
}

impl fmt::Debug for MetricsExport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MetricsExport")
            .field("hooks", &self.hooks)
            .finish_non_exhaustive()
    }
}

impl Drop for MetricsExport {
    fn drop(&mut self) {
        if let Some(provider) = self.provider.take() {
            // The exporter warns of what it cannot send.
            let _told = provider.shutdown();
        }
    }
}
