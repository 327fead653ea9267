//! What the standard variables say.

use std::collections::HashMap;
use std::fmt;
use std::ops::RangeInclusive;
use std::time::Duration;

use datafusion::common::{Result, config_err};

use super::endpoint::{Endpoint, Protocol};
use super::resource::Role;

/// An hour, in milliseconds.
const LONGEST_TIMEOUT: u64 = 3_600_000;

/// What is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    /// Spans.
    Traces,
    /// What instruments measure.
    Metrics,
}

impl Signal {
    fn as_str(self) -> &'static str {
        match self {
            Self::Traces => "TRACES",
            Self::Metrics => "METRICS",
        }
    }

    /// Under the base of an HTTP endpoint.
    fn path(self) -> &'static str {
        match self {
            Self::Traces => "/v1/traces",
            Self::Metrics => "/v1/metrics",
        }
    }
}

/// By what a signal leaves the process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Exporters {
    /// Over OTLP, where there is an endpoint.
    pub otlp: bool,
    /// Standard output.
    pub console: bool,
}

type Lookup = dyn Fn(&str) -> Option<String> + Send + Sync;

/// The `OTEL_*` variables. One that is empty counts as unset, as the specification has it.
pub struct Environment(Box<Lookup>);

impl Environment {
    /// Those of this process, as they are when they are asked for.
    pub fn of_process() -> Self {
        Self(Box::new(|name| std::env::var(name).ok()))
    }

    /// These variables and no others, for tests.
    pub fn of(variables: &[(&str, &str)]) -> Self {
        let pairs = variables.iter().copied();
        let variables: HashMap<String, String> = pairs
            .map(|(name, value)| (name.to_string(), value.to_string()))
            .collect();
        Self(Box::new(move |name| variables.get(name).cloned()))
    }

    /// The value of a variable, without the space around it.
    pub fn get(&self, name: &str) -> Option<String> {
        let value = (self.0)(name)?;
        let value = value.trim();
        (!value.is_empty()).then(|| value.to_string())
    }

    /// `OTEL_SDK_DISABLED`
    pub fn is_disabled(&self) -> bool {
        self.get("OTEL_SDK_DISABLED")
            .is_some_and(|on| on.eq_ignore_ascii_case("true"))
    }

    /// `OTEL_TRACES_EXPORTER` or `OTEL_METRICS_EXPORTER`: `otlp` (default), `console` or `none`, more than one with
    /// commas. None at all if the SDK is disabled.
    ///
    /// # Errors
    /// If it names one that is unknown.
    pub fn exporters(&self, signal: Signal) -> Result<Exporters> {
        let variable = format!("OTEL_{}_EXPORTER", signal.as_str());
        let names = self.get(&variable).unwrap_or_else(|| "otlp".to_string());
        let mut exporters = Exporters::default();
        for name in names.split(',') {
            match name.trim() {
                "otlp" => exporters.otlp = true,
                "console" => exporters.console = true,
                "none" => {}
                unknown => {
                    return config_err!(
                        "{variable} names {unknown:?}; known are otlp, console and none"
                    );
                }
            }
        }
        match self.is_disabled() {
            true => Ok(Exporters::default()),
            false => Ok(exporters),
        }
    }

    /// A variable that is a whole number.
    ///
    /// # Errors
    /// If it is none, or out of range.
    pub fn number(&self, name: &str, range: RangeInclusive<u64>) -> Result<Option<u64>> {
        let Some(value) = self.get(name) else {
            return Ok(None);
        };
        match value.parse() {
            Ok(number) if range.contains(&number) => Ok(Some(number)),
            _ => {
                let (least, most) = range.into_inner();
                config_err!("{name} is {value:?}; expected a whole number from {least} to {most}")
            }
        }
    }

    fn check_pairs(&self, variable: &str) -> Result<()> {
        let pairs = self.get(variable).unwrap_or_default();
        match pairs.split_terminator(',').all(|pair| pair.contains('=')) {
            true => Ok(()),
            // What it says may be secret.
            false => config_err!("{variable} is no list of key=value with commas between"),
        }
    }

    /// Where a signal is sent over OTLP, if anywhere: `OTEL_EXPORTER_OTLP_ENDPOINT`, `_PROTOCOL` (`grpc`, which is the
    /// default, or `http/protobuf`), `_CERTIFICATE`, `_CLIENT_CERTIFICATE` and `_CLIENT_KEY` (PEM files),
    /// `_COMPRESSION` (`none`, which is the default, or `gzip`) and `_TIMEOUT` (milliseconds), each overruled by the
    /// signal's own, such as `OTEL_EXPORTER_OTLP_TRACES_ENDPOINT`. The general endpoint is a base that gets the
    /// signal's path over HTTP; the signal's own has it.
    ///
    /// # Errors
    /// If a variable has an unknown value.
    pub fn endpoint(&self, signal: Signal) -> Result<Option<Endpoint>> {
        if !self.exporters(signal)?.otlp {
            return Ok(None);
        }
        let own = |setting: &str| format!("OTEL_EXPORTER_OTLP_{}_{setting}", signal.as_str());
        let general = |setting: &str| format!("OTEL_EXPORTER_OTLP_{setting}");
        // The name of the one that holds.
        let either = |setting: &str| match self.get(&own(setting)) {
            Some(_) => own(setting),
            None => general(setting),
        };
        let variable = either("PROTOCOL");
        let protocol = match self.get(&variable).as_deref() {
            None | Some("grpc") => Protocol::Grpc,
            Some("http/protobuf") => Protocol::HttpProtobuf,
            Some(other) => {
                return config_err!("{variable} is {other:?}; known are grpc and http/protobuf");
            }
        };
        let timeout = self.number(&either("TIMEOUT"), 1..=LONGEST_TIMEOUT)?;
        let variable = either("COMPRESSION");
        let gzip = match self.get(&variable).as_deref() {
            None | Some("none") => false,
            Some("gzip") => true,
            Some(other) => return config_err!("{variable} is {other:?}; known are none and gzip"),
        };
        // The exporter and the SDK read these, and leave out what they do not understand.
        self.check_pairs("OTEL_RESOURCE_ATTRIBUTES")?;
        self.check_pairs(&either("HEADERS"))?;
        let (certificate, key) = (either("CLIENT_CERTIFICATE"), either("CLIENT_KEY"));
        let client = match (self.get(&certificate), self.get(&key)) {
            (None, None) => None,
            (Some(certificate), Some(key)) => Some((certificate, key)),
            (Some(_), None) => return config_err!("{certificate} is set, and {key} is not"),
            (None, Some(_)) => return config_err!("{key} is set, and {certificate} is not"),
        };
        let url = self.get(&own("ENDPOINT")).or_else(|| {
            let base = self.get(&general("ENDPOINT"))?;
            Some(match protocol {
                Protocol::Grpc => base,
                Protocol::HttpProtobuf => {
                    format!("{}{}", base.trim_end_matches('/'), signal.path())
                }
            })
        });
        let endpoint = url.map(|url| {
            let mut endpoint = Endpoint::new(url, protocol);
            if let Some(timeout) = timeout {
                endpoint = endpoint.with_timeout(Duration::from_millis(timeout));
            }
            if gzip {
                endpoint = endpoint.with_gzip();
            }
            if let Some((certificate, key)) = client {
                endpoint = endpoint.with_client(certificate, key);
            }
            match self.get(&either("CERTIFICATE")) {
                Some(path) => endpoint.with_certificate(path),
                None => endpoint,
            }
        });
        Ok(endpoint)
    }

    /// The name of the service that goes with the role, unless `OTEL_SERVICE_NAME` or `OTEL_RESOURCE_ATTRIBUTES` name
    /// it.
    pub fn default_service_name(&self, role: Role) -> Option<&'static str> {
        let attributes = self.get("OTEL_RESOURCE_ATTRIBUTES");
        let named = self.get("OTEL_SERVICE_NAME").is_some()
            || attributes.is_some_and(|list| list.contains("service.name="));
        (!named).then(|| role.service_name())
    }
}

impl fmt::Debug for Environment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Environment").finish_non_exhaustive()
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::Signal::{Metrics, Traces};
    use super::*;

    const ENDPOINT: (&str, &str) = ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://jaeger:4317/");
    const HTTP: (&str, &str) = ("OTEL_EXPORTER_OTLP_PROTOCOL", "http/protobuf");

    fn endpoint(signal: Signal, variables: &[(&str, &str)]) -> Option<Endpoint> {
        Environment::of(variables).endpoint(signal).unwrap()
    }

    #[test]
    fn without_an_endpoint_nothing_is_sent() {
        assert_eq!(endpoint(Traces, &[]), None);
        assert_eq!(endpoint(Traces, &[(ENDPOINT.0, " ")]), None);
    }

    #[test]
    fn it_can_be_switched_off() {
        for off in [
            ("OTEL_SDK_DISABLED", "TRUE"),
            ("OTEL_METRICS_EXPORTER", "none"),
        ] {
            assert_eq!(endpoint(Metrics, &[ENDPOINT, off]), None);
        }
        let traces_go = [ENDPOINT, ("OTEL_METRICS_EXPORTER", "none")];
        assert!(endpoint(Traces, &traces_go).is_some());
    }

    #[test]
    fn the_general_endpoint_gets_the_path_and_the_special_one_has_it() {
        let own = ("OTEL_EXPORTER_OTLP_METRICS_ENDPOINT", "http://jaeger/own");
        let grpc = ("OTEL_EXPORTER_OTLP_METRICS_PROTOCOL", "grpc");
        for (signal, variables, url, protocol) in [
            (Traces, &[ENDPOINT][..], ENDPOINT.1, Protocol::Grpc),
            (
                Traces,
                &[ENDPOINT, HTTP, own, grpc],
                "http://jaeger:4317/v1/traces",
                Protocol::HttpProtobuf,
            ),
            (
                Metrics,
                &[ENDPOINT, HTTP],
                "http://jaeger:4317/v1/metrics",
                Protocol::HttpProtobuf,
            ),
            (
                Metrics,
                &[ENDPOINT, HTTP, own],
                own.1,
                Protocol::HttpProtobuf,
            ),
            (Metrics, &[ENDPOINT, HTTP, own, grpc], own.1, Protocol::Grpc),
        ] {
            let expected = Some(Endpoint::new(url, protocol));
            assert_eq!(endpoint(signal, variables), expected, "{variables:?}");
        }
    }

    #[test]
    fn timeouts_and_certificates_are_read() {
        let general = ("OTEL_EXPORTER_OTLP_CERTIFICATE", "all.pem");
        let own = ("OTEL_EXPORTER_OTLP_TRACES_CERTIFICATE", "own.pem");
        let timeout = ("OTEL_EXPORTER_OTLP_TIMEOUT", "250");
        let plain = Endpoint::new(ENDPOINT.1, Protocol::Grpc);
        let timed = plain.clone().with_timeout(Duration::from_millis(250));
        assert_eq!(endpoint(Traces, &[ENDPOINT, timeout]), Some(timed));
        for (signal, file) in [(Traces, "own.pem"), (Metrics, "all.pem")] {
            let expected = plain.clone().with_certificate(file);
            assert_eq!(endpoint(signal, &[ENDPOINT, general, own]), Some(expected));
        }
    }

    #[test]
    fn compression_and_client_certificates_passed_in_silence() {
        let gzip = ("OTEL_EXPORTER_OTLP_COMPRESSION", "gzip");
        let none = ("OTEL_EXPORTER_OTLP_TRACES_COMPRESSION", "none");
        let certificate = ("OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE", "me.pem");
        let key = ("OTEL_EXPORTER_OTLP_TRACES_CLIENT_KEY", "key.pem");
        let plain = Endpoint::new(ENDPOINT.1, Protocol::Grpc);
        let variables = [ENDPOINT, gzip, none, certificate, key];
        let expected = plain.clone().with_client("me.pem", "key.pem");
        assert_eq!(endpoint(Traces, &variables), Some(expected));
        let variables = [ENDPOINT, gzip, none];
        assert_eq!(endpoint(Metrics, &variables), Some(plain.with_gzip()));
        for alone in [certificate, key] {
            let error = Environment::of(&[ENDPOINT, alone])
                .endpoint(Traces)
                .unwrap_err();
            assert!(error.to_string().contains("is set, and OTEL_"), "{error}");
        }
    }

    #[test]
    fn headers_that_are_none_passed_in_silence() {
        for name in ["OTEL_EXPORTER_OTLP_HEADERS", "OTEL_RESOURCE_ATTRIBUTES"] {
            for fine in ["a=b", "a=b,c=d,", "authorization=Basic%20c2VjcmV0"] {
                assert!(endpoint(Traces, &[ENDPOINT, (name, fine)]).is_some());
            }
            let error = Environment::of(&[ENDPOINT, (name, "a=b,secret")]).endpoint(Traces);
            let message = error.unwrap_err().to_string();
            assert!(
                message.contains(name) && !message.contains("secret"),
                "{message}"
            );
        }
    }

    #[test]
    fn unknown_values_are_named() {
        for (name, value) in [
            (HTTP.0, "smoke"),
            ("OTEL_EXPORTER_OTLP_COMPRESSION", "brotli"),
            ("OTEL_METRICS_EXPORTER", "abacus"),
            ("OTEL_EXPORTER_OTLP_TIMEOUT", "soon"),
            ("OTEL_EXPORTER_OTLP_METRICS_TIMEOUT", "0"),
        ] {
            let error = Environment::of(&[ENDPOINT, (name, value)]).endpoint(Metrics);
            let message = error.unwrap_err().to_string();
            assert!(
                message.contains(name) && message.contains(value),
                "{message}"
            );
        }
    }

    #[test]
    fn exporters_are_chosen_by_name() {
        let of = |names| {
            let chosen = Environment::of(&[("OTEL_TRACES_EXPORTER", names)]);
            let Exporters { otlp, console } = chosen.exporters(Traces).unwrap();
            (otlp, console)
        };
        assert_eq!(of(""), (true, false));
        assert_eq!(of("otlp"), (true, false));
        assert_eq!(of("console"), (false, true));
        assert_eq!(of("otlp, console"), (true, true));
        let off = [
            ("OTEL_TRACES_EXPORTER", "console"),
            ("OTEL_SDK_DISABLED", "true"),
        ];
        assert_eq!(
            Environment::of(&off).exporters(Traces).unwrap(),
            Exporters::default()
        );
    }

    #[test]
    fn the_environment_may_name_the_service() {
        let name = |variables: &[_]| Environment::of(variables).default_service_name(Role::Worker);
        assert_eq!(name(&[]), Some("flightpath-worker"));
        for named in [
            ("OTEL_SERVICE_NAME", "mine"),
            ("OTEL_RESOURCE_ATTRIBUTES", "a=b,service.name=mine"),
        ] {
            assert_eq!(name(&[named]), None);
        }
    }
}
