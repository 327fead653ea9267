//! The collector that all spans of this process go to.

use std::borrow::Borrow;
use std::sync::OnceLock;
use std::time::Duration;

pub(crate) use flightpath_testkit::collector::{Collector, SpanRef, Trace};
use flightpath_tracing_bridge::{OtlpSettings, Protocol, Role, Telemetry};
use opentelemetry::trace::{TraceContextExt, TraceId};
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use tracing_opentelemetry::OpenTelemetrySpanExt;
use tracing_subscriber::layer::SubscriberExt;

/// A collector, and the exporter that sends to it.
pub(crate) struct Exported {
    telemetry: Telemetry,
    collector: Collector,
}

pub(crate) fn collector() -> &'static Exported {
    static EXPORTED: OnceLock<Exported> = OnceLock::new();
    EXPORTED.get_or_init(|| {
        let collector = Collector::start().unwrap();
        let settings = OtlpSettings::new(Role::Coordinator, collector.endpoint(), Protocol::Grpc);
        let telemetry = Telemetry::start(&settings).unwrap();
        let subscriber = tracing_subscriber::registry().with(telemetry.layer());
        tracing::subscriber::set_global_default(subscriber).unwrap();
        Exported {
            telemetry,
            collector,
        }
    })
}

impl Exported {
    /// A trace, once `complete` says that it has all that is waited for.
    pub(crate) async fn trace(
        &'static self,
        id: TraceId,
        complete: impl Fn(&Trace) -> bool,
    ) -> Trace {
        // Spans end when they end: each flush sends what has ended by then.
        let flushing = async {
            loop {
                tokio::task::spawn_blocking(|| self.telemetry.flush())
                    .await
                    .unwrap();
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        };
        tokio::select! {
            trace = self.collector.expect_trace(id.to_bytes(), complete) => trace.unwrap(),
            () = flushing => unreachable!("it never ends"),
        }
    }

    /// What has arrived, once all that has ended is sent.
    pub(crate) async fn sent(&'static self) -> &'static Collector {
        tokio::task::spawn_blocking(|| self.telemetry.flush())
            .await
            .unwrap();
        &self.collector
    }
}

/// A span that a program might have open when it calls, and the id of its trace.
pub(crate) fn caller() -> (tracing::Span, TraceId) {
    let span = tracing::info_span!("caller");
    let id = span.context().span().span_context().trace_id();
    (span, id)
}

/// An attribute that is a whole number, if it is set.
pub(crate) fn int<'a>(span: impl Borrow<SpanRef<'a>>, key: &str) -> Option<i64> {
    match span.borrow().attribute(key)? {
        Value::IntValue(value) => Some(*value),
        _ => None,
    }
}

/// An attribute that is text, if it is set.
pub(crate) fn text<'a>(span: impl Borrow<SpanRef<'a>>, key: &str) -> Option<&'a str> {
    span.borrow().text(key).ok()
}
