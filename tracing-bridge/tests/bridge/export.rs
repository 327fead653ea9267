//! Endpoints that are there, that speak HTTP, that are gone, and none.

use std::net::TcpListener;
use std::time::{Duration, Instant};

use flightpath_tracing_bridge::{OtlpSettings, Protocol, Role, Telemetry, init};
use tracing::subscriber::with_default;
use tracing_subscriber::layer::SubscriberExt;

use super::collector::{Collector, collector};

/// Opens as many spans as asked for, with a subscriber of its own.
fn emit(telemetry: &Telemetry, spans: usize) {
    let subscriber = tracing_subscriber::registry().with(telemetry.layer());
    with_default(subscriber, || {
        for _ in 0..spans {
            tracing::info_span!(parent: None, "span").in_scope(|| {});
            // What the exporter's own libraries do is nobody's trace.
            tracing::info_span!(target: "h2::client", parent: None, "own").in_scope(|| {});
        }
    });
}

fn over_grpc(collector: &Collector) -> Telemetry {
    let settings = OtlpSettings::new(Role::Worker, collector.endpoint(), Protocol::Grpc);
    Telemetry::start(&settings).unwrap()
}

#[tokio::test]
async fn all_spans_arrive_over_both_protocols_and_are_counted() {
    let collector = Collector::start().unwrap();
    for (endpoint, protocol) in [
        (collector.endpoint(), Protocol::Grpc),
        (collector.http_traces(), Protocol::HttpProtobuf),
    ] {
        let before = collector.span_count();
        let telemetry = Telemetry::start(&OtlpSettings::new(Role::Worker, endpoint, protocol));
        let telemetry = telemetry.unwrap();
        emit(&telemetry, 100);
        let summary = telemetry.shutdown().await;
        assert_eq!((summary.sent, summary.failed, summary.dropped), (100, 0, 0));
        assert_eq!(collector.span_count(), before + 100);
    }
}

/// On the one thread of this runtime, which a blocking drop stops for its time.
#[tokio::test(flavor = "current_thread")]
async fn dropping_the_guard_sends_what_is_left() {
    let collector = Collector::start().unwrap();
    let telemetry = over_grpc(&collector);
    emit(&telemetry, 3);
    drop(telemetry);
    assert_eq!(collector.span_count(), 3);
}

#[test]
fn the_guard_needs_no_runtime() {
    let collector = Collector::start().unwrap();
    let telemetry = over_grpc(&collector);
    emit(&telemetry, 3);
    assert_eq!(telemetry.flush().sent, 3);
    drop(telemetry);
    assert_eq!(collector.span_count(), 3);
}

#[tokio::test]
async fn an_endpoint_that_is_not_there_is_counted_as_failed() {
    let unused = TcpListener::bind("127.0.0.1:0").unwrap().local_addr();
    let endpoint = format!("http://{}", unused.unwrap());
    for protocol in [Protocol::Grpc, Protocol::HttpProtobuf] {
        let settings = OtlpSettings::new(Role::Worker, endpoint.clone(), protocol);
        let telemetry = Telemetry::start(&settings).unwrap();
        emit(&telemetry, 10);
        let summary = telemetry.shutdown().await;
        assert_eq!((summary.sent, summary.failed, summary.dropped), (0, 10, 0));
    }
}

#[tokio::test]
async fn an_endpoint_that_hangs_slows_nothing_and_no_span_is_unaccounted_for() {
    // It listens, and never answers.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let endpoint = format!("http://{}", listener.local_addr().unwrap());
    let settings = OtlpSettings::new(Role::Worker, endpoint, Protocol::Grpc);
    let telemetry = Telemetry::start(&settings).unwrap();
    let begin = Instant::now();
    emit(&telemetry, 20_000);
    assert!(
        begin.elapsed() < Duration::from_secs(5),
        "spans do not wait"
    );
    let summary = telemetry.shutdown().await;
    assert!(
        begin.elapsed() < Duration::from_secs(30),
        "nor does the end for long"
    );
    assert_eq!(summary.sent, 0);
    assert_eq!(summary.failed + summary.dropped, 20_000, "{summary:?}");
    assert!(summary.dropped > 0, "the queue is shorter: {summary:?}");
}

#[tokio::test]
async fn spans_of_a_whole_budget_were_too_many_to_wait() {
    let collector = Collector::start().unwrap();
    let telemetry = over_grpc(&collector);
    emit(&telemetry, 10_000);
    let summary = telemetry.shutdown().await;
    assert_eq!(summary.dropped, 0, "{summary:?}");
}

#[tokio::test]
async fn without_an_endpoint_nothing_is_exported() {
    let settings = OtlpSettings::from_env(Role::Coordinator).unwrap();
    assert_eq!(
        settings.endpoint(),
        None,
        "tests run without OTEL_ variables"
    );
    let telemetry = Telemetry::start(&settings).unwrap();
    assert!(!telemetry.is_exporting());
    emit(&telemetry, 5);
    assert_eq!(telemetry.shutdown().await.sent, 0);
    // Nor is a subscriber set: any number of times.
    assert!(!init(Role::Worker).unwrap().is_exporting());
    assert!(!init(Role::Worker).unwrap().is_exporting());
}

#[test]
fn a_subscriber_that_is_set_stays() {
    let _global = collector();
    let other = Collector::start().unwrap();
    let settings = OtlpSettings::new(Role::Worker, other.endpoint(), Protocol::Grpc);
    let message = settings.init().unwrap_err().to_string();
    assert!(message.contains("Telemetry::layer"), "{message}");
    tracing::info_span!(parent: None, "span").in_scope(|| {});
    assert_eq!(other.span_count(), 0);
}

#[tokio::test]
async fn an_endpoint_that_is_no_url_was_a_panic_in_async_code() {
    for url in ["no url", "localhost:4317"] {
        for protocol in [Protocol::Grpc, Protocol::HttpProtobuf] {
            let settings = OtlpSettings::new(Role::Worker, url, protocol);
            let message = Telemetry::start(&settings).unwrap_err().to_string();
            assert!(
                message.contains(url) && message.contains("expected a URL"),
                "{message}"
            );
        }
    }
}
