//! Where spans go, as the environment says.

use std::path::PathBuf;

use datafusion::common::{Result, config_err};
use flightpath_otlp::{Endpoint, Environment, Exporters, Protocol, Role, Signal};
use opentelemetry_sdk::trace::Sampler;

use super::Telemetry;
use super::limits::Limits;

/// Where spans go.
#[derive(Clone, Debug)]
pub struct OtlpSettings {
    otlp: Option<Endpoint>,
    console: bool,
    off: bool,
    service_name: Option<&'static str>,
    limits: Limits,
    /// Where there is none, the SDK looks for one.
    sampler: Option<Sampler>,
}

impl OtlpSettings {
    /// To this URL. With [`Protocol::HttpProtobuf`] it has the path, such as `/v1/traces`.
    pub fn new(role: Role, url: impl Into<String>, protocol: Protocol) -> Self {
        Self::to(role, Endpoint::new(url, protocol))
    }

    /// To this endpoint, which may have certificates, compression and a time of its own.
    pub fn to(role: Role, endpoint: Endpoint) -> Self {
        Self {
            otlp: Some(endpoint),
            console: false,
            off: false,
            service_name: Some(role.service_name()),
            limits: Limits::default(),
            sampler: None,
        }
    }

    /// As the standard variables say:
    ///
    /// | variable | what it says |
    /// |---|---|
    /// | `OTEL_EXPORTER_OTLP_ENDPOINT`, `OTEL_EXPORTER_OTLP_TRACES_ENDPOINT` | where to; without one, nowhere |
    /// | `OTEL_EXPORTER_OTLP_PROTOCOL`, `OTEL_EXPORTER_OTLP_TRACES_PROTOCOL` | `grpc` (default) or `http/protobuf` |
    /// | `OTEL_EXPORTER_OTLP_CERTIFICATE`, `OTEL_EXPORTER_OTLP_TRACES_CERTIFICATE` | a PEM file of the certificates to trust in place of the system's |
    /// | `OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE`, `OTEL_EXPORTER_OTLP_CLIENT_KEY` and the same with `TRACES` | PEM files that show the endpoint who this is |
    /// | `OTEL_EXPORTER_OTLP_COMPRESSION`, `OTEL_EXPORTER_OTLP_TRACES_COMPRESSION` | `none` (default) or `gzip` |
    /// | `OTEL_EXPORTER_OTLP_TIMEOUT`, `OTEL_EXPORTER_OTLP_TRACES_TIMEOUT` | milliseconds that a request may take; 10,000 by default |
    /// | `OTEL_TRACES_EXPORTER` | `otlp` (default), `console` (standard output) or `none`; more than one with commas |
    /// | `OTEL_SDK_DISABLED` | `true`: nowhere |
    /// | `OTEL_TRACES_SAMPLER` | `parentbased_always_on` (default), `parentbased_always_off`, `parentbased_traceidratio`, or one of these without `parentbased_`, which does not ask what the caller's trace is |
    /// | `OTEL_TRACES_SAMPLER_ARG` | the share of traces that a `traceidratio` takes, from 0 to 1 (default) |
    /// | `OTEL_ATTRIBUTE_VALUE_LENGTH_LIMIT`, `OTEL_SPAN_ATTRIBUTE_VALUE_LENGTH_LIMIT` | how many characters of a text are kept |
    /// | `OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT`, `OTEL_SPAN_LINK_COUNT_LIMIT`, `OTEL_SPAN_EVENT_COUNT_LIMIT` | how many of each a span has; 256, 1,024 and 128 by default |
    /// | `OTEL_BSP_MAX_QUEUE_SIZE` | how many spans may wait to be sent; 16,384 by default |
    /// | `OTEL_BSP_SCHEDULE_DELAY`, `OTEL_BSP_EXPORT_TIMEOUT`, `OTEL_BSP_MAX_EXPORT_BATCH_SIZE` | milliseconds that spans wait, milliseconds that sending them may take, and how many go at once; 5,000, 30,000 and 512 by default |
    ///
    /// The exporter and the SDK read more by themselves: `OTEL_EXPORTER_OTLP_HEADERS` (`key=value`, with commas
    /// between), `OTEL_SERVICE_NAME`, `OTEL_RESOURCE_ATTRIBUTES`.
    ///
    /// # Errors
    /// If a variable has a value that is not listed here.
    pub fn from_env(role: Role) -> Result<Self> {
        Self::read(role, &Environment::of_process())
    }

    fn read(role: Role, environment: &Environment) -> Result<Self> {
        let exporters = environment.exporters(Signal::Traces)?;
        Ok(Self {
            otlp: environment.endpoint(Signal::Traces)?,
            console: exporters.console,
            off: exporters == Exporters::default(),
            service_name: environment.default_service_name(role),
            limits: Limits::read(environment)?,
            sampler: sampler(environment)?,
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

    /// Whether the environment says that spans go nowhere, and not merely nothing of where.
    pub fn is_off(&self) -> bool {
        self.off
    }

    /// Whether spans are written to standard output.
    pub fn console(&self) -> bool {
        self.console
    }

    /// How many characters of an attribute's text are kept; `None` for all.
    pub fn value_limit(&self) -> Option<usize> {
        self.limits.value
    }

    /// Keeps this many characters of each attribute's text.
    pub fn with_value_limit(mut self, characters: usize) -> Self {
        self.limits.value = Some(characters);
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

    pub(super) fn limits(&self) -> Limits {
        self.limits
    }

    pub(super) fn sampler(&self) -> Option<&Sampler> {
        self.sampler.as_ref()
    }

    pub(super) fn default_service_name(&self) -> Option<&'static str> {
        self.service_name
    }
}

fn sampler(environment: &Environment) -> Result<Option<Sampler>> {
    const NAME: &str = "OTEL_TRACES_SAMPLER";
    const SHARE: &str = "OTEL_TRACES_SAMPLER_ARG";
    let Some(name) = environment.get(NAME) else {
        return Ok(None);
    };
    let inherits = name.strip_prefix("parentbased_");
    let sampler = match inherits.unwrap_or(&name) {
        "always_on" => Sampler::AlwaysOn,
        "always_off" => Sampler::AlwaysOff,
        "traceidratio" => {
            let share = environment.get(SHARE).unwrap_or_else(|| "1".to_string());
            match share.parse() {
                Ok(ratio) if (0.0..=1.0).contains(&ratio) => Sampler::TraceIdRatioBased(ratio),
                _ => return config_err!("{SHARE} is {share:?}; expected a number from 0 to 1"),
            }
        }
        _ => {
            return config_err!(
                "{NAME} is {name:?}; known are always_on, always_off, traceidratio, and these after parentbased_"
            );
        }
    };
    Ok(Some(match inherits {
        Some(_) => Sampler::ParentBased(Box::new(sampler)),
        None => sampler,
    }))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn read(variables: &[(&str, &str)]) -> Result<OtlpSettings> {
        OtlpSettings::read(Role::Worker, &Environment::of(variables))
    }

    #[test]
    fn samplers_that_are_unknown_passed_in_silence() {
        const NAME: &str = "OTEL_TRACES_SAMPLER";
        const SHARE: &str = "OTEL_TRACES_SAMPLER_ARG";
        for (variables, expected) in [
            (&[] as &[_], "None"),
            (&[(NAME, "always_off")], "Some(AlwaysOff)"),
            (
                &[(NAME, "parentbased_always_on")],
                "Some(ParentBased(AlwaysOn))",
            ),
            (
                &[(NAME, "traceidratio"), (SHARE, "0.25")],
                "Some(TraceIdRatioBased(0.25))",
            ),
            (
                &[(NAME, "parentbased_traceidratio")],
                "Some(ParentBased(TraceIdRatioBased(1.0)))",
            ),
        ] {
            let sampler = read(variables).unwrap().sampler;
            assert_eq!(format!("{sampler:?}"), expected, "{variables:?}");
        }
        for (variables, named) in [
            (&[(NAME, "sometimes")] as &[_], "sometimes"),
            (&[(NAME, "parentbased_jaeger_remote")], "jaeger_remote"),
            (&[(NAME, "traceidratio"), (SHARE, "1.5")], "1.5"),
            (&[(NAME, "traceidratio"), (SHARE, "half")], "half"),
        ] {
            let message = read(variables).unwrap_err().to_string();
            assert!(message.contains(named), "{message}");
        }
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
        assert!(settings.console() && !settings.is_off());
        let off = read(&[("OTEL_TRACES_EXPORTER", "none")]).unwrap();
        assert!(off.is_off() && off.endpoint().is_none());
        assert!(!read(&[]).unwrap().is_off());
        assert_eq!(settings.default_service_name(), Some("flightpath-worker"));
    }
}
