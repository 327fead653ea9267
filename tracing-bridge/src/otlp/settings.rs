//! Where spans go, as the environment says.

use datafusion::common::{Result, config_err};

use super::Telemetry;

/// What this process does in queries; names its service by default.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// `flightpath-coordinator`
    Coordinator,
    /// `flightpath-worker`
    Worker,
}

/// How spans are encoded and sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Protocol {
    /// OTLP over gRPC.
    #[default]
    Grpc,
    /// OTLP as protobuf over HTTP.
    HttpProtobuf,
}

/// Where spans go.
#[derive(Clone, Debug)]
pub struct OtlpSettings {
    endpoint: Option<String>,
    protocol: Protocol,
    console: bool,
    service_name: Option<&'static str>,
    value_limit: Option<usize>,
}

impl OtlpSettings {
    /// To this endpoint. With [`Protocol::HttpProtobuf`] it has the path, such as `/v1/traces`.
    pub fn new(role: Role, endpoint: impl Into<String>, protocol: Protocol) -> Self {
        Self {
            endpoint: Some(endpoint.into()),
            protocol,
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
    /// | `OTEL_TRACES_EXPORTER` | `otlp` (default), `console` (standard output) or `none`; more than one with commas |
    /// | `OTEL_SDK_DISABLED` | `true`: nowhere |
    /// | `OTEL_ATTRIBUTE_VALUE_LENGTH_LIMIT`, `OTEL_SPAN_ATTRIBUTE_VALUE_LENGTH_LIMIT` | how many characters of a text are kept |
    ///
    /// The exporter and the SDK read more by themselves: `OTEL_EXPORTER_OTLP_HEADERS` and
    /// `_TIMEOUT`, `OTEL_SERVICE_NAME`, `OTEL_RESOURCE_ATTRIBUTES`, `OTEL_TRACES_SAMPLER`,
    /// `OTEL_BSP_*`.
    ///
    /// # Errors
    /// If a variable has a value that is not listed here.
    pub fn from_env(role: Role) -> Result<Self> {
        Self::from_lookup(role, |name| std::env::var(name).ok())
    }

    fn from_lookup(role: Role, lookup: impl Fn(&str) -> Option<String>) -> Result<Self> {
        // The specification has empty values count as unset.
        let get = |name: &str| {
            let value = lookup(name)?;
            let value = value.trim();
            (!value.is_empty()).then(|| value.to_string())
        };
        let disabled = get("OTEL_SDK_DISABLED").is_some_and(|on| on.eq_ignore_ascii_case("true"));
        let exporters = get("OTEL_TRACES_EXPORTER").unwrap_or_else(|| "otlp".to_string());
        let (mut otlp, mut console) = (false, false);
        for name in exporters.split(',') {
            match name.trim() {
                "otlp" => otlp = !disabled,
                "console" => console = !disabled,
                "none" => {}
                unknown => {
                    return config_err!(
                        "OTEL_TRACES_EXPORTER names {unknown:?}; known are otlp, console and none"
                    );
                }
            }
        }
        let value_limit = get("OTEL_SPAN_ATTRIBUTE_VALUE_LENGTH_LIMIT")
            .or_else(|| get("OTEL_ATTRIBUTE_VALUE_LENGTH_LIMIT"));
        let value_limit = match value_limit.as_deref().map(str::parse) {
            None => None,
            Some(Ok(limit)) => Some(limit),
            Some(Err(_)) => {
                return config_err!(
                    "the limit for the length of attribute values is no number of characters: {:?}",
                    value_limit.unwrap_or_default()
                );
            }
        };
        let protocol = get("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL")
            .or_else(|| get("OTEL_EXPORTER_OTLP_PROTOCOL"));
        let protocol = match protocol.as_deref() {
            None | Some("grpc") => Protocol::Grpc,
            Some("http/protobuf") => Protocol::HttpProtobuf,
            Some(other) => {
                return config_err!(
                    "the OTLP protocol is {other:?}; known are grpc and http/protobuf"
                );
            }
        };
        let endpoint = get("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT").or_else(|| {
            let base = get("OTEL_EXPORTER_OTLP_ENDPOINT")?;
            Some(match protocol {
                Protocol::Grpc => base,
                Protocol::HttpProtobuf => format!("{}/v1/traces", base.trim_end_matches('/')),
            })
        });
        let named = get("OTEL_SERVICE_NAME").is_some()
            || get("OTEL_RESOURCE_ATTRIBUTES").is_some_and(|list| list.contains("service.name="));
        Ok(Self {
            endpoint: endpoint.filter(|_| otlp),
            protocol,
            console,
            service_name: (!named).then(|| role.service_name()),
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
        self.endpoint.as_deref()
    }

    /// How they are sent.
    pub fn protocol(&self) -> Protocol {
        self.protocol
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

    pub(super) fn default_service_name(&self) -> Option<&'static str> {
        self.service_name
    }
}

impl Role {
    fn service_name(self) -> &'static str {
        match self {
            Self::Coordinator => "flightpath-coordinator",
            Self::Worker => "flightpath-worker",
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn read(variables: &[(&str, &str)]) -> Result<OtlpSettings> {
        OtlpSettings::from_lookup(Role::Worker, |name| {
            let found = variables.iter().find(|(known, _)| *known == name);
            found.map(|(_, value)| value.to_string())
        })
    }

    const ENDPOINT: (&str, &str) = ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://jaeger:4317/");

    #[test]
    fn without_an_endpoint_nothing_is_sent() {
        assert_eq!(read(&[]).unwrap().endpoint(), None);
        let empty = read(&[("OTEL_EXPORTER_OTLP_ENDPOINT", " ")]).unwrap();
        assert_eq!(empty.endpoint(), None);
    }

    #[test]
    fn it_can_be_switched_off() {
        for off in [
            ("OTEL_SDK_DISABLED", "TRUE"),
            ("OTEL_TRACES_EXPORTER", "none"),
        ] {
            assert_eq!(read(&[ENDPOINT, off]).unwrap().endpoint(), None);
        }
    }

    #[test]
    fn the_general_endpoint_gets_the_path_and_the_special_one_has_it() {
        let http = ("OTEL_EXPORTER_OTLP_PROTOCOL", "http/protobuf");
        let general = read(&[ENDPOINT, http]).unwrap();
        assert_eq!(general.endpoint(), Some("http://jaeger:4317/v1/traces"));
        assert_eq!(general.protocol(), Protocol::HttpProtobuf);
        let own = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "http://jaeger/own");
        let special = read(&[ENDPOINT, http, own]).unwrap();
        assert_eq!(special.endpoint(), Some("http://jaeger/own"));
        assert_eq!(read(&[ENDPOINT]).unwrap().endpoint(), Some(ENDPOINT.1));
    }

    #[test]
    fn unknown_values_are_named() {
        for (name, value) in [
            ("OTEL_EXPORTER_OTLP_PROTOCOL", "smoke"),
            ("OTEL_TRACES_EXPORTER", "zipkin"),
            ("OTEL_ATTRIBUTE_VALUE_LENGTH_LIMIT", "long"),
        ] {
            let message = read(&[ENDPOINT, (name, value)]).unwrap_err().to_string();
            assert!(message.contains(value), "{message}");
        }
    }

    #[test]
    fn exporters_are_chosen_by_name() {
        let of = |exporters| {
            let settings = read(&[ENDPOINT, ("OTEL_TRACES_EXPORTER", exporters)]).unwrap();
            (settings.endpoint().is_some(), settings.console())
        };
        assert_eq!(of("otlp"), (true, false));
        assert_eq!(of("console"), (false, true));
        assert_eq!(of("otlp, console"), (true, true));
        let off = read(&[
            ("OTEL_TRACES_EXPORTER", "console"),
            ("OTEL_SDK_DISABLED", "true"),
        ]);
        assert!(!off.unwrap().console());
    }

    #[test]
    fn the_limit_for_spans_goes_before_the_general_one() {
        let general = ("OTEL_ATTRIBUTE_VALUE_LENGTH_LIMIT", "20");
        let own = ("OTEL_SPAN_ATTRIBUTE_VALUE_LENGTH_LIMIT", "10");
        assert_eq!(read(&[]).unwrap().value_limit(), None);
        assert_eq!(read(&[general]).unwrap().value_limit(), Some(20));
        assert_eq!(read(&[general, own]).unwrap().value_limit(), Some(10));
    }

    #[test]
    fn the_environment_may_name_the_service() {
        let role = read(&[]).unwrap();
        assert_eq!(role.default_service_name(), Some("flightpath-worker"));
        for named in [
            ("OTEL_SERVICE_NAME", "mine"),
            ("OTEL_RESOURCE_ATTRIBUTES", "a=b,service.name=mine"),
        ] {
            assert_eq!(read(&[named]).unwrap().default_service_name(), None);
        }
    }
}
