//! Where metrics go, as the environment says.

use datafusion::common::Result;
use flightpath_otlp::{Endpoint, Environment, Role, Signal};

/// Where metrics go, and from whom.
#[derive(Clone, Debug)]
pub struct MetricsSettings {
    disabled: bool,
    otlp: Option<Endpoint>,
    console: bool,
    service_name: Option<&'static str>,
}

impl MetricsSettings {
    /// Sent nowhere; they can still be served.
    pub fn new(role: Role) -> Self {
        Self {
            disabled: false,
            otlp: None,
            console: false,
            service_name: Some(role.service_name()),
        }
    }

    /// As the standard variables say:
    ///
    /// | variable | what it says |
    /// |---|---|
    /// | `OTEL_EXPORTER_OTLP_ENDPOINT`, `OTEL_EXPORTER_OTLP_METRICS_ENDPOINT` | where to; without one, nowhere |
    /// | `OTEL_EXPORTER_OTLP_PROTOCOL`, `OTEL_EXPORTER_OTLP_METRICS_PROTOCOL` | `grpc` (default) or `http/protobuf` |
    /// | `OTEL_EXPORTER_OTLP_CERTIFICATE`, `OTEL_EXPORTER_OTLP_METRICS_CERTIFICATE` | a PEM file of the certificates to trust in place of the system's |
    /// | `OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE`, `OTEL_EXPORTER_OTLP_CLIENT_KEY` and the same with `METRICS` | PEM files that show the endpoint who this is |
    /// | `OTEL_EXPORTER_OTLP_COMPRESSION`, `OTEL_EXPORTER_OTLP_METRICS_COMPRESSION` | `none` (default) or `gzip` |
    /// | `OTEL_EXPORTER_OTLP_TIMEOUT`, `OTEL_EXPORTER_OTLP_METRICS_TIMEOUT` | milliseconds that a request may take; 10,000 by default |
    /// | `OTEL_METRICS_EXPORTER` | `otlp` (default), `console` (standard output) or `none`; more than one with commas |
    /// | `OTEL_SDK_DISABLED` | `true`: nothing is measured |
    ///
    /// The exporter and the SDK read more by themselves: `OTEL_METRIC_EXPORT_INTERVAL` (in
    /// milliseconds; a minute by default), `OTEL_EXPORTER_OTLP_HEADERS` and
    /// `_METRICS_TEMPORALITY_PREFERENCE`, `OTEL_SERVICE_NAME`, `OTEL_RESOURCE_ATTRIBUTES`.
    ///
    /// # Errors
    /// If a variable has a value that is not listed here.
    pub fn from_env(role: Role) -> Result<Self> {
        let environment = Environment::of_process();
        Ok(Self {
            disabled: environment.is_disabled(),
            otlp: environment.endpoint(Signal::Metrics)?,
            console: environment.exporters(Signal::Metrics)?.console,
            service_name: environment.default_service_name(role),
        })
    }

    /// Sent to this endpoint over OTLP.
    pub fn with_endpoint(mut self, endpoint: Endpoint) -> Self {
        self.otlp = Some(endpoint);
        self
    }

    /// Where metrics are sent over OTLP, if they are.
    pub fn endpoint(&self) -> Option<&Endpoint> {
        self.otlp.as_ref()
    }

    /// Whether metrics are written to standard output.
    pub fn console(&self) -> bool {
        self.console
    }

    pub(super) fn is_disabled(&self) -> bool {
        self.disabled
    }

    pub(super) fn default_service_name(&self) -> Option<&'static str> {
        self.service_name
    }
}
