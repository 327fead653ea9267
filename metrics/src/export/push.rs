//! Sending metrics.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use datafusion::common::{DataFusionError, Result};
use opentelemetry_otlp::{ExporterBuildError, MetricExporter, WithExportConfig};
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
    let builder = MetricExporter::builder();
    match protocol {
        Protocol::Grpc => builder.with_tonic().with_endpoint(endpoint).build(),
        Protocol::HttpProtobuf => builder
            .with_http()
            .with_protocol(opentelemetry_otlp::Protocol::HttpBinary)
            .with_endpoint(endpoint)
            .build(),
    }
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
