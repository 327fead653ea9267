//! Where spans can go.

use std::time::Duration;

use datafusion::common::{DataFusionError, Result};
use flightpath_otlp::{Endpoint, Protocol};
use opentelemetry_otlp::SpanExporter;
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::trace::{SpanData, SpanExporter as SpanExport};

use super::settings::OtlpSettings;

/// What the settings name.
#[derive(Debug)]
pub(super) struct Exporters {
    otlp: Option<SpanExporter>,
    console: Option<opentelemetry_stdout::SpanExporter>,
}

impl Exporters {
    /// # Errors
    /// If the endpoint is no URL, or needs what this build does not have.
    pub(super) fn new(settings: &OtlpSettings) -> Result<Self> {
        let otlp = settings.otlp().map(|endpoint| {
            let context = || format!("cannot send spans to {}", endpoint.url());
            otlp(endpoint).map_err(|error| error.context(context()))
        });
        Ok(Self {
            otlp: otlp.transpose()?,
            console: settings.console().then(Default::default),
        })
    }
}

fn otlp(endpoint: &Endpoint) -> Result<SpanExporter> {
    let builder = SpanExporter::builder();
    let exporter = match endpoint.protocol() {
        Protocol::Grpc => endpoint.over_grpc(builder.with_tonic())?.build(),
        Protocol::HttpProtobuf => endpoint.over_http(builder.with_http())?.build(),
    };
    exporter.map_err(|error| DataFusionError::External(error.into()))
}

impl SpanExport for Exporters {
    async fn export(&self, batch: Vec<SpanData>) -> OTelSdkResult {
        match (&self.otlp, &self.console) {
            (Some(otlp), Some(console)) => {
                console.export(batch.clone()).await?;
                otlp.export(batch).await
            }
            (Some(otlp), None) => otlp.export(batch).await,
            (None, Some(console)) => console.export(batch).await,
            (None, None) => Ok(()),
        }
    }

    fn shutdown_with_timeout(&self, timeout: Duration) -> OTelSdkResult {
        if let Some(otlp) = &self.otlp {
            otlp.shutdown_with_timeout(timeout)?;
        }
        Ok(())
    }

    fn set_resource(&mut self, resource: &Resource) {
        if let Some(otlp) = &mut self.otlp {
            otlp.set_resource(resource);
        }
        if let Some(console) = &mut self.console {
            console.set_resource(resource);
        }
    }
}
