//! Sending metrics.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use datafusion::common::{DataFusionError, Result};
use opentelemetry_otlp::{
    ExporterBuildError, MetricExporter, MetricExporterBuilder, TonicExporterBuilderSet,
    WithExportConfig,
};
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::metrics::Temporality;
use opentelemetry_sdk::metrics::data::ResourceMetrics;
use opentelemetry_sdk::metrics::exporter::PushMetricExporter;
use tokio::runtime::Runtime;

use super::settings::Protocol;

/// An exporter to an endpoint, and the runtime that its connection lives in: the reader exports
/// from a thread of its own, where there is none, and a program's runtime may be busy, or gone.
pub(super) fn otlp(
    protocol: Protocol,
    endpoint: &str,
) -> Result<(impl PushMetricExporter + use<>, Runtime)> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .thread_name("flightpath-metrics")
        .enable_all()
        .build()?;
    let exporter = {
        let _inside = runtime.enter();
        exporter(protocol, endpoint)
    };
    let exporter = exporter.map_err(|error| {
        let context = format!("cannot send metrics to {endpoint}");
        DataFusionError::External(error.into()).context(context)
    })?;
    let told = Told {
        exporter,
        endpoint: endpoint.to_owned(),
        warned: AtomicBool::new(false),
    };
    Ok((told, runtime))
}

fn exporter(
    protocol: Protocol,
    endpoint: &str,
) -> std::result::Result<MetricExporter, ExporterBuildError> {
    let https = endpoint.to_ascii_lowercase().starts_with("https://");
    let builder = MetricExporter::builder();
    match protocol {
        Protocol::Grpc if https => with_tls(builder.with_tonic().with_endpoint(endpoint))?.build(),
        Protocol::Grpc => builder.with_tonic().with_endpoint(endpoint).build(),
        // The blocking HTTP client comes without TLS, which would need a toolchain for C.
        Protocol::HttpProtobuf if https => Err(ExporterBuildError::InvalidConfiguration(
            "https works with the protocol grpc, and http/protobuf with http alone".to_owned(),
        )),
        Protocol::HttpProtobuf => builder
            .with_http()
            .with_protocol(opentelemetry_otlp::Protocol::HttpBinary)
            .with_endpoint(endpoint)
            .build(),
    }
}

type Grpc = MetricExporterBuilder<TonicExporterBuilderSet>;

#[cfg(feature = "tls")]
fn with_tls(builder: Grpc) -> std::result::Result<Grpc, ExporterBuildError> {
    use opentelemetry_otlp::WithTonicConfig;
    use opentelemetry_otlp::tonic_types::transport::ClientTlsConfig;

    Ok(builder.with_tls_config(ClientTlsConfig::new().with_enabled_roots()))
}

#[cfg(not(feature = "tls"))]
fn with_tls(_builder: Grpc) -> std::result::Result<Grpc, ExporterBuildError> {
    Err(ExporterBuildError::InvalidConfiguration(
        "https needs the feature tls of flightpath-metrics".to_owned(),
    ))
}

/// Tells of the first time that sending fails, and of no other until it has gone well again.
#[derive(Debug)]
struct Told {
    exporter: MetricExporter,
    endpoint: String,
    warned: AtomicBool,
}

impl PushMetricExporter for Told {
    async fn export(&self, metrics: &ResourceMetrics) -> OTelSdkResult {
        let result = self.exporter.export(metrics).await;
        let failed = result.is_err();
        if let (Err(error), false) = (&result, self.warned.swap(failed, Ordering::Relaxed)) {
            let endpoint = &self.endpoint;
            tracing::warn!("metrics cannot be sent to {endpoint}, queries go on without: {error}");
        }
        result
    }

    fn force_flush(&self) -> OTelSdkResult {
        self.exporter.force_flush()
    }

    fn shutdown_with_timeout(&self, timeout: Duration) -> OTelSdkResult {
        self.exporter.shutdown_with_timeout(timeout)
    }

    fn temporality(&self) -> Temporality {
        self.exporter.temporality()
    }
}
