//! Who a process is to OpenTelemetry, and how its spans and metrics leave it.
//!
//! What `flightpath-tracing-bridge` and `flightpath-metrics` have in common: both read the same `OTEL_*` variables,
//! send to the same kinds of endpoint, and describe the process by the same [`resource`], so that a viewer can tell
//! which metrics and which traces are of one process. Most programs meet this crate only through those two.
//!
//! ```
//! use flightpath_otlp::{Environment, Role, Signal, resource};
//!
//! # fn main() -> datafusion::common::Result<()> {
//! let environment = Environment::of_process();
//! match environment.endpoint(Signal::Traces)? {
//!     Some(endpoint) => println!("spans go to {}", endpoint.url()),
//!     None => println!("spans go nowhere"),
//! }
//! let resource = resource(environment.default_service_name(Role::Worker));
//! assert!(resource.get(&"service.instance.id".into()).is_some());
//! # Ok(())
//! # }
//! ```
//!
//! | feature | default | what it adds |
//! |---|---|---|
//! | `tls` | yes | https endpoints |

mod endpoint;
mod environment;
mod resource;
mod runtime;
mod tls;

pub use endpoint::{Endpoint, Protocol};
pub use environment::{Environment, Exporters, Signal};
pub use resource::{Role, resource, scope};
pub use runtime::ExporterRuntime;
