//! Sending metrics.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use datafusion::common::{DataFusionError, Result};
use flightpath_otlp::{Endpoint, ExporterRuntime, Protocol};
use opentelemetry_otlp::MetricExporter;
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::metrics::Temporality;
use opentelemetry_sdk::metrics::data::ResourceMetrics;
use opentelemetry_sdk::metrics::exporter::PushMetricExporter;

/// An exporter to an endpoint, and the runtime that its connection lives in.
pub(super) fn otlp(
    endpoint: &Endpoint,
) -> Result<(impl PushMetricExporter + use<>, ExporterRuntime)> {
    let runtime = ExporterRuntime::new("flightpath-metrics")?;
    let exporter = {
        let _inside = runtime.enter();
        exporter(endpoint)
    };
    let exporter = exporter
        .map_err(|error| error.context(format!("cannot send metrics to {}", endpoint.url())))?;
    let told = Told {
        exporter,
        endpoint: endpoint.clone(),
        warned: AtomicBool::new(false),
    };
    Ok((told, runtime))
}

fn exporter(endpoint: &Endpoint) -> Result<MetricExporter> {
    let builder = MetricExporter::builder();
    let exporter = match endpoint.protocol() {
        Protocol::Grpc => endpoint.over_grpc(builder.with_tonic())?.build(),
        Protocol::HttpProtobuf => endpoint.over_http(builder.with_http())?.build(),
    };
    exporter.map_err(|error| DataFusionError::External(error.into()))
}

/// Tells of the first time that sending fails, and of no other until it has gone well again.
#[derive(Debug)]
struct Told {
    exporter: MetricExporter,
    endpoint: Endpoint,
    warned: AtomicBool,
}

impl PushMetricExporter for Told {
    async fn export(&self, metrics: &ResourceMetrics) -> OTelSdkResult {
        let result = self.exporter.export(metrics).await;
        let failed = result.is_err();
        if let (Err(error), false) = (&result, self.warned.swap(failed, Ordering::Relaxed)) {
            tracing::warn!("{}", self.endpoint.cannot_send("metrics", error));
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
