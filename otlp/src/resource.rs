//! Who a process is.

use std::sync::LazyLock;

use opentelemetry::{InstrumentationScope, KeyValue};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::resource::{
    EnvResourceDetector, ResourceDetector, SdkProvidedResourceDetector, TelemetryResourceDetector,
};
use uuid::Uuid;

/// What a process does in queries; names its service by default.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// `flightpath-coordinator`
    Coordinator,
    /// `flightpath-worker`
    Worker,
}

impl Role {
    /// The name of the service, where the environment gives none.
    pub fn service_name(self) -> &'static str {
        match self {
            Self::Coordinator => "flightpath-coordinator",
            Self::Worker => "flightpath-worker",
        }
    }
}

static INSTANCE: LazyLock<Uuid> = LazyLock::new(Uuid::now_v7);

/// This process: `service.instance.id`, the same at each call, `process.pid` and `host.name`, and the name of the
/// service, if one is given, with Flightpath's version: that of a service with another name is not known here. What
/// `OTEL_RESOURCE_ATTRIBUTES` says of these goes before; without a name given, `OTEL_SERVICE_NAME` goes before all.
pub fn resource(service_name: Option<&'static str>) -> Resource {
    let mut detectors: Vec<Box<dyn ResourceDetector>> = vec![
        Box::new(TelemetryResourceDetector),
        Box::new(EnvResourceDetector::new()),
    ];
    if service_name.is_none() {
        detectors.push(Box::new(SdkProvidedResourceDetector));
    }
    described(service_name, &detectors)
}

/// Flightpath, as what makes the spans and instruments.
pub fn scope() -> InstrumentationScope {
    InstrumentationScope::builder("flightpath")
        .with_version(env!("CARGO_PKG_VERSION"))
        .build()
}

fn described(
    service_name: Option<&'static str>,
    detectors: &[Box<dyn ResourceDetector>],
) -> Resource {
    let host = gethostname::gethostname();
    let host = host.to_string_lossy();
    let mut attributes = vec![
        KeyValue::new("service.instance.id", INSTANCE.to_string()),
        KeyValue::new("process.pid", i64::from(std::process::id())),
        KeyValue::new("host.name", host.into_owned()),
    ];
    if let Some(name) = service_name {
        attributes.push(KeyValue::new("service.name", name));
        attributes.push(KeyValue::new("service.version", env!("CARGO_PKG_VERSION")));
    }
    Resource::builder_empty()
        .with_attributes(attributes)
        .with_detectors(detectors)
        .build()
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Said(&'static str, &'static str);

    impl ResourceDetector for Said {
        fn detect(&self) -> Resource {
            let said = KeyValue::new(self.0, self.1);
            Resource::builder_empty().with_attribute(said).build()
        }
    }

    #[test]
    fn the_version_of_another_service_was_taken_for_ours() {
        let version = |name| described(name, &[]).get(&"service.version".into());
        assert_eq!(version(None), None);
        let own = version(Some("flightpath-worker")).map(|version| version.to_string());
        assert_eq!(own.as_deref(), Some(env!("CARGO_PKG_VERSION")));
    }

    #[test]
    fn what_the_environment_said_of_a_process_was_overruled() {
        let said = Said("service.version", "9");
        let resource = described(Some("flightpath-worker"), &[Box::new(said)]);
        let get = |key: &'static str| resource.get(&key.into()).map(|value| value.to_string());
        assert_eq!(get("service.version").as_deref(), Some("9"));
        assert_eq!(get("service.name").as_deref(), Some("flightpath-worker"));
        assert_eq!(get("service.instance.id"), Some(INSTANCE.to_string()));
    }
}
