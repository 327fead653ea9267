//! Where metrics go, as the environment says.

use datafusion::common::{Result, config_err};

/// What this process does in queries; names its service by default.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// `flightpath-coordinator`
    Coordinator,
    /// `flightpath-worker`
    Worker,
}

impl Role {
    fn service_name(self) -> &'static str {
        match self {
            Self::Coordinator => "flightpath-coordinator",
            Self::Worker => "flightpath-worker",
        }
    }
}

/// How metrics are encoded and sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Protocol {
    /// OTLP over gRPC.
    #[default]
    Grpc,
    /// OTLP as protobuf over HTTP.
    HttpProtobuf,
}

/// Where metrics are sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Destination {
    /// Nowhere; they can still be served.
    Nowhere,
    /// Standard output.
    Console,
    /// An OTLP endpoint; over HTTP it has the path, such as `/v1/metrics`.
    Otlp(Protocol, String),
}

/// Where metrics go, and from whom.
#[derive(Clone, Debug)]
pub struct MetricsSettings {
    pub(super) disabled: bool,
    pub(super) destination: Destination,
    pub(super) service_name: Option<&'static str>,
}

impl MetricsSettings {
    /// To this destination.
    pub fn new(role: Role, destination: Destination) -> Self {
        Self {
            disabled: false,
            destination,
            service_name: Some(role.service_name()),
        }
    }

    /// As the standard variables say:
    ///
    /// | variable | what it says |
    /// |---|---|
    /// | `OTEL_EXPORTER_OTLP_ENDPOINT`, `OTEL_EXPORTER_OTLP_METRICS_ENDPOINT` | where to; without one, nowhere |
    /// | `OTEL_EXPORTER_OTLP_PROTOCOL`, `OTEL_EXPORTER_OTLP_METRICS_PROTOCOL` | `grpc` (default) or `http/protobuf` |
    /// | `OTEL_METRICS_EXPORTER` | `otlp` (default), `console` or `none` |
    /// | `OTEL_SDK_DISABLED` | `true`: nothing is measured |
    ///
    /// The exporter and the SDK read more by themselves: `OTEL_METRIC_EXPORT_INTERVAL` (in
    /// milliseconds; a minute by default), `OTEL_EXPORTER_OTLP_HEADERS`, `_TIMEOUT` and
    /// `_METRICS_TEMPORALITY_PREFERENCE`, `OTEL_SERVICE_NAME`, `OTEL_RESOURCE_ATTRIBUTES`.
    ///
    /// # Errors
    /// If a variable has a value that is not listed here.
    pub fn from_env(role: Role) -> Result<Self> {
        Self::from_lookup(role, |name| std::env::var(name).ok())
    }

    fn from_lookup(role: Role, lookup: impl Fn(&str) -> Option<String>) -> Result<Self> {
        // The specification has empty values count as unset.
        let get = |name: &str| {
            let value = lookup(name)?.trim().to_owned();
            (!value.is_empty()).then_some(value)
        };
        let own_or_general = |setting: &str| {
            get(&format!("OTEL_EXPORTER_OTLP_METRICS_{setting}"))
                .map(|own| (own, true))
                .or_else(|| Some((get(&format!("OTEL_EXPORTER_OTLP_{setting}"))?, false)))
        };
        let protocol = own_or_general("PROTOCOL").map(|(protocol, _)| protocol);
        let protocol = match protocol.as_deref() {
            None | Some("grpc") => Protocol::Grpc,
            Some("http/protobuf") => Protocol::HttpProtobuf,
            Some(other) => {
                return config_err!(
                    "the OTLP protocol is {other:?}; known are grpc and http/protobuf"
                );
            }
        };
        let endpoint = own_or_general("ENDPOINT").map(|(url, own)| match protocol {
            Protocol::HttpProtobuf if !own => format!("{}/v1/metrics", url.trim_end_matches('/')),
            _ => url,
        });
        let destination = match get("OTEL_METRICS_EXPORTER").as_deref() {
            None | Some("otlp") => endpoint.map_or(Destination::Nowhere, |endpoint| {
                Destination::Otlp(protocol, endpoint)
            }),
            Some("console") => Destination::Console,
            Some("none") => Destination::Nowhere,
            Some(other) => {
                return config_err!(
                    "OTEL_METRICS_EXPORTER is {other:?}; known are otlp, console and none"
                );
            }
        };
        let named = get("OTEL_SERVICE_NAME").is_some()
            || get("OTEL_RESOURCE_ATTRIBUTES").is_some_and(|list| list.contains("service.name="));
        Ok(Self {
            disabled: get("OTEL_SDK_DISABLED").is_some_and(|on| on.eq_ignore_ascii_case("true")),
            destination,
            service_name: (!named).then(|| role.service_name()),
        })
    }

    /// Where metrics are sent.
    pub fn destination(&self) -> &Destination {
        &self.destination
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    const ENDPOINT: (&str, &str) = ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://collector:4317/");
    const HTTP: (&str, &str) = ("OTEL_EXPORTER_OTLP_PROTOCOL", "http/protobuf");

    fn read(variables: &[(&str, &str)]) -> Result<MetricsSettings> {
        let variables = variables.to_vec();
        MetricsSettings::from_lookup(Role::Worker, move |name| {
            let found = variables.iter().find(|(key, _)| *key == name)?;
            Some(found.1.to_owned())
        })
    }

    fn otlp(protocol: Protocol, endpoint: &str) -> Destination {
        Destination::Otlp(protocol, endpoint.to_owned())
    }

    #[test]
    fn destinations_are_as_the_variables_say() {
        let own = ("OTEL_EXPORTER_OTLP_METRICS_ENDPOINT", "http://own/m");
        let grpc = ("OTEL_EXPORTER_OTLP_METRICS_PROTOCOL", "grpc");
        let exporter = |name| ("OTEL_METRICS_EXPORTER", name);
        let general = otlp(Protocol::Grpc, ENDPOINT.1);
        let path = otlp(Protocol::HttpProtobuf, "http://collector:4317/v1/metrics");
        let cases: [(&[(&str, &str)], Destination); 10] = [
            (&[], Destination::Nowhere),
            (&[(ENDPOINT.0, " ")], Destination::Nowhere),
            (&[ENDPOINT], general.clone()),
            (&[ENDPOINT, HTTP], path),
            (&[ENDPOINT, HTTP, grpc], general.clone()),
            (
                &[ENDPOINT, HTTP, own],
                otlp(Protocol::HttpProtobuf, "http://own/m"),
            ),
            (&[ENDPOINT, own], otlp(Protocol::Grpc, "http://own/m")),
            (&[ENDPOINT, exporter("otlp")], general),
            (&[ENDPOINT, exporter("none")], Destination::Nowhere),
            (&[exporter("console")], Destination::Console),
        ];
        for (variables, expected) in cases {
            assert_eq!(
                read(variables).unwrap().destination,
                expected,
                "{variables:?}"
            );
        }
    }

    #[test]
    fn all_can_be_switched_off() {
        assert!(read(&[("OTEL_SDK_DISABLED", "TRUE")]).unwrap().disabled);
        assert!(!read(&[ENDPOINT]).unwrap().disabled);
    }

    #[test]
    fn unknown_values_are_named() {
        for (name, value) in [
            ("OTEL_EXPORTER_OTLP_PROTOCOL", "smoke"),
            ("OTEL_METRICS_EXPORTER", "abacus"),
        ] {
            let message = read(&[ENDPOINT, (name, value)]).unwrap_err().to_string();
            assert!(message.contains(value), "{message}");
        }
    }

    #[test]
    fn the_environment_may_name_the_service() {
        assert_eq!(read(&[]).unwrap().service_name, Some("flightpath-worker"));
        for named in [
            ("OTEL_SERVICE_NAME", "mine"),
            ("OTEL_RESOURCE_ATTRIBUTES", "a=b,service.name=mine"),
        ] {
            assert_eq!(read(&[named]).unwrap().service_name, None);
        }
    }
}
