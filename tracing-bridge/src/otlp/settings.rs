//! Where spans go, as the environment says.

use std::path::PathBuf;

use datafusion::common::{Result, config_err};
use flightpath_otlp::{Endpoint, Environment, Protocol, Role, Signal};

use super::Telemetry;

/// Where spans go.
#[derive(Clone, Debug)]
pub struct OtlpSettings {
    otlp: Option<Endpoint>,
    console: bool,
    service_name: Option<&'static str>,
    value_limit: Option<usize>,
}

impl OtlpSettings {
    /// To this endpoint. With [`Protocol::HttpProtobuf`] it has the path, such as `/v1/traces`.
    pub fn new(role: Role, endpoint: impl Into<String>, protocol: Protocol) -> Self {
        Self {
            otlp: Some(Endpoint::new(endpoint, protocol)),
            console: false,
            service_name: Some(role.service_name()),
            value_limit: None,
        }
    }

    /// As the standard variables say:
    ///
    /// | variable | what it says |
    /// |---|---|
    /// | `OTEL_EXPORTER_OTLP_ENDPOINT`, `OTEL_EXPORTER_OTLP_TRACES_ENDPOINT` | where to; without one, nowhere |
    /// | `OTEL_EXPORTER_OTLP_PROTOCOL`, `OTEL_EXPORTER_OTLP_TRACES_PROTOCOL` | `grpc` (default) or `http/protobuf` |
    /// | `OTEL_EXPORTER_OTLP_CERTIFICATE`, `OTEL_EXPORTER_OTLP_TRACES_CERTIFICATE` | a PEM file of the certificates to trust in place of the system's |
    /// | `OTEL_EXPORTER_OTLP_TIMEOUT`, `OTEL_EXPORTER_OTLP_TRACES_TIMEOUT` | milliseconds that a request may take; 10,000 by default |
    /// | `OTEL_TRACES_EXPORTER` | `otlp` (default), `console` (standard output) or `none`; more than one with commas |
    /// | `OTEL_SDK_DISABLED` | `true`: nowhere |
    /// | `OTEL_ATTRIBUTE_VALUE_LENGTH_LIMIT`, `OTEL_SPAN_ATTRIBUTE_VALUE_LENGTH_LIMIT` | how many characters of a text are kept |
    ///
    /// The exporter and the SDK read more by themselves: `OTEL_EXPORTER_OTLP_HEADERS`,
    /// `OTEL_SERVICE_NAME`, `OTEL_RESOURCE_ATTRIBUTES`, `OTEL_TRACES_SAMPLER`,
    /// `OTEL_BSP_*`.
    ///
    /// # Errors
    /// If a variable has a value that is not listed here.
    pub fn from_env(role: Role) -> Result<Self> {
        Self::read(role, &Environment::of_process())
    }

    fn read(role: Role, environment: &Environment) -> Result<Self> {
        let limit = environment
            .get("OTEL_SPAN_ATTRIBUTE_VALUE_LENGTH_LIMIT")
            .or_else(|| environment.get("OTEL_ATTRIBUTE_VALUE_LENGTH_LIMIT"));
        let value_limit = match limit.map(|limit| (limit.parse(), limit)) {
            None => None,
            Some((Ok(characters), _)) => Some(characters),
            Some((Err(_), limit)) => {
                return config_err!(
                    "the limit for the length of attribute values is no number of characters: {limit:?}"
                );
            }
        };
        Ok(Self {
            otlp: environment.endpoint(Signal::Traces)?,
            console: environment.exporters(Signal::Traces)?.console,
            service_name: environment.default_service_name(role),
            value_limit,
        })
    }

    /// Starts to send spans, as [`init`](crate::init) does.
    ///
    /// # Errors
    /// If the exporter cannot be built, or the program has set a subscriber.
    pub fn init(&self) -> Result<Telemetry> {
        super::set_subscriber(Telemetry::start(self)?)
    }

    /// Where spans are sent, if they are sent by OTLP.
    pub fn endpoint(&self) -> Option<&str> {
        self.otlp.as_ref().map(Endpoint::url)
    }

    /// How they are sent.
    pub fn protocol(&self) -> Protocol {
        self.otlp
            .as_ref()
            .map(Endpoint::protocol)
            .unwrap_or_default()
    }

    /// Whether spans are written to standard output.
    pub fn console(&self) -> bool {
        self.console
    }

    /// How many characters of an attribute's text are kept; `None` for all.
    pub fn value_limit(&self) -> Option<usize> {
        self.value_limit
    }

    /// Keeps this many characters of each attribute's text.
    pub fn with_value_limit(mut self, characters: usize) -> Self {
        self.value_limit = Some(characters);
        self
    }

    /// Trusts the certificates in this PEM file when spans are sent to an https endpoint, in place of those that the
    /// system trusts.
    pub fn with_certificate(mut self, file: impl Into<PathBuf>) -> Self {
        self.otlp = self.otlp.map(|endpoint| endpoint.with_certificate(file));
        self
    }

    pub(super) fn otlp(&self) -> Option<&Endpoint> {
        self.otlp.as_ref()
    }

    pub(super) fn default_service_name(&self) -> Option<&'static str> {
        self.service_name
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn read(variables: &'static [(&str, &str)]) -> Result<OtlpSettings> {
        let environment = Environment::of(|name| {
            let found = variables.iter().find(|(known, _)| *known == name);
            found.map(|(_, value)| value.to_string())
        });
        OtlpSettings::read(Role::Worker, &environment)
    }

    #[test]
    fn the_limit_for_spans_goes_before_the_general_one() {
        const GENERAL: (&str, &str) = ("OTEL_ATTRIBUTE_VALUE_LENGTH_LIMIT", "20");
        const OWN: (&str, &str) = ("OTEL_SPAN_ATTRIBUTE_VALUE_LENGTH_LIMIT", "10");
        assert_eq!(read(&[]).unwrap().value_limit(), None);
        assert_eq!(read(&[GENERAL]).unwrap().value_limit(), Some(20));
        assert_eq!(read(&[GENERAL, OWN]).unwrap().value_limit(), Some(10));
        let error = read(&[("OTEL_ATTRIBUTE_VALUE_LENGTH_LIMIT", "long")]).unwrap_err();
        assert!(error.to_string().contains("long"), "{error}");
    }

    #[test]
    fn settings_are_as_the_variables_say() {
        let settings = read(&[
            ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://jaeger:4318"),
            ("OTEL_EXPORTER_OTLP_PROTOCOL", "http/protobuf"),
            ("OTEL_TRACES_EXPORTER", "otlp,console"),
        ]);
        let settings = settings.unwrap();
        assert_eq!(settings.endpoint(), Some("http://jaeger:4318/v1/traces"));
        assert_eq!(settings.protocol(), Protocol::HttpProtobuf);
        assert!(settings.console());
        assert_eq!(settings.default_service_name(), Some("flightpath-worker"));
    }
}
