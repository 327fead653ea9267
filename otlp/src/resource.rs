//! Who a process is.

use std::sync::LazyLock;

use opentelemetry::KeyValue;
use opentelemetry_sdk::Resource;
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

/// This process: `service.instance.id`, the same at each call, `service.version`, `process.pid` and `host.name`; and
/// `service.name`, unless the environment names the service, which the SDK reads by itself.
pub fn resource(service_name: Option<&'static str>) -> Resource {
    let host = gethostname::gethostname();
    let host = host.to_string_lossy();
    let mut attributes = vec![
        KeyValue::new("service.version", env!("CARGO_PKG_VERSION")),
        KeyValue::new("service.instance.id", INSTANCE.to_string()),
        KeyValue::new("process.pid", i64::from(std::process::id())),
        KeyValue::new("host.name", host.into_owned()),
    ];
    attributes.extend(service_name.map(|name| KeyValue::new("service.name", name)));
    Resource::builder().with_attributes(attributes).build()
}
