//! Metrics of distributed queries.
//!
//! [`export`] measures a process with instruments of OpenTelemetry, and brings them to an OTLP
//! endpoint and to Prometheus.

#[cfg(feature = "export")]
pub mod export;
