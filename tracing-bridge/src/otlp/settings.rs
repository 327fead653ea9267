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
    service_name: Option<&'static str>,
}

impl OtlpSettings {
    /// To this endpoint. With [`Protocol::HttpProtobuf`] it has the path, such as `/v1/traces`.
    pub fn new(role: Role, endpoint: impl Into<String>, protocol: Protocol) -> Self {
        Self {
            endpoint: Some(endpoint.into()),
            protocol,
            service_name: Some(role.service_name()),
        }
    }

    /// As the standard variables say:
    ///
    /// | variable | what it says |
    /// |---|---|
    /// | `OTEL_EXPORTER_OTLP_ENDPOINT`, `OTEL_EXPORTER_OTLP_TRACES_ENDPOINT` | where to; without one, nowhere |
    /// | `OTEL_EXPORTER_OTLP_PROTOCOL`, `OTEL_EXPORTER_OTLP_TRACES_PROTOCOL` | `grpc` (default) or `http/protobuf` |
    /// | `OTEL_TRACES_EXPORTER` | `otlp` (default) or `none` |
    /// | `OTEL_SDK_DISABLED` | `true`: nowhere |
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
        let exports = match get("OTEL_TRACES_EXPORTER").as_deref() {
            None | Some("otlp") => !disabled,
            Some("none") => false,
            Some(other) => {
                return config_err!("OTEL_TRACES_EXPORTER is {other:?}; known are otlp and none");
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
            endpoint: endpoint.filter(|_| exports),
            protocol,
            service_name: (!named).then(|| role.service_name()),
        })
    }

    /// Starts to send spans, as [`init`](crate::init) does.
    ///
    /// # Errors
    /// If the exporter cannot be built, or the program has set a subscriber.
    pub fn init(&self) -> Result<Telemetry> {
        super::set_subscriber(Telemetry::start(self)?)
    }

    /// Where spans are sent, if anywhere.
    pub fn endpoint(&self) -> Option<&str> {
        self.endpoint.as_deref()
    }

    /// How they are sent.
    pub fn protocol(&self) -> Protocol {
        self.protocol
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
        ] {
            let message = read(&[ENDPOINT, (name, value)]).unwrap_err().to_string();
            assert!(message.contains(value), "{message}");
        }
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
