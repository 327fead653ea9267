//! Where spans can go.

use std::time::Duration;

use datafusion::common::{DataFusionError, Result};
use opentelemetry_otlp::{
    ExporterBuildError, SpanExporter, SpanExporterBuilder, TonicExporterBuilderSet,
    WithExportConfig,
};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::trace::{SpanData, SpanExporter as SpanExport};

use super::settings::{OtlpSettings, Protocol};

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
        let otlp = settings.endpoint().map(|endpoint| {
            otlp(endpoint, settings.protocol()).map_err(|error| {
                let context = format!("cannot send spans to {endpoint}");
                DataFusionError::External(error.into()).context(context)
            })
        });
        Ok(Self {
            otlp: otlp.transpose()?,
            console: settings.console().then(Default::default),
        })
    }
}

fn otlp(endpoint: &str, protocol: Protocol) -> Result<SpanExporter, ExporterBuildError> {
    let https = endpoint
        .get(..8)
        .is_some_and(|start| start.eq_ignore_ascii_case("https://"));
    let builder = SpanExporter::builder();
    match protocol {
        Protocol::Grpc => {
            let builder = builder.with_tonic().with_endpoint(endpoint);
            match https {
                true => with_tls(builder)?,
                false => builder,
            }
            .build()
        }
        // What could do it in the HTTP client builds with much of a C toolchain only.
        Protocol::HttpProtobuf if https => Err(ExporterBuildError::InvalidConfiguration(
            "https works with the protocol grpc, and http/protobuf with http alone".to_string(),
        )),
        Protocol::HttpProtobuf => builder
            .with_http()
            .with_protocol(opentelemetry_otlp::Protocol::HttpBinary)
            .with_endpoint(endpoint)
            .build(),
    }
}

type Grpc = SpanExporterBuilder<TonicExporterBuilderSet>;

#[cfg(feature = "tls")]
fn with_tls(builder: Grpc) -> Result<Grpc, ExporterBuildError> {
    use opentelemetry_otlp::WithTonicConfig;
    use opentelemetry_otlp::tonic_types::transport::ClientTlsConfig;

    Ok(builder.with_tls_config(ClientTlsConfig::new().with_enabled_roots()))
}

#[cfg(not(feature = "tls"))]
fn with_tls(_builder: Grpc) -> Result<Grpc, ExporterBuildError> {
    Err(ExporterBuildError::InvalidConfiguration(
        "https needs the feature tls of flightpath-tracing-bridge".to_string(),
    ))
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
