//! Endpoints that fail while queries run, limits, and who sends.

use std::net::TcpListener;
use std::time::Duration;

use flightpath_testkit::Cluster;
use flightpath_tracing_bridge::{Endpoint, OtlpSettings, Protocol, Role, Telemetry};
use opentelemetry::trace::{SpanContext, SpanId, TraceFlags, TraceId, TraceState};
use tracing_opentelemetry::OpenTelemetrySpanExt;
use tracing_subscriber::layer::SubscriberExt;

use super::collector::{Collector, SpanRef};
use super::support::{QUERY, answer, expected, session};
use super::traces::hooks;

fn start(collector: &Collector) -> (Telemetry, tracing::subscriber::DefaultGuard) {
    let settings = OtlpSettings::new(Role::Worker, collector.endpoint(), Protocol::Grpc);
    start_with(&settings)
}

fn start_with(settings: &OtlpSettings) -> (Telemetry, tracing::subscriber::DefaultGuard) {
    let telemetry = Telemetry::start(settings).unwrap();
    let subscriber = tracing_subscriber::registry().with(telemetry.layer());
    let guard = tracing::subscriber::set_default(subscriber);
    (telemetry, guard)
}

/// Runs a query on two workers; all of it on this thread, whose subscriber it has.
async fn query() {
    let cluster = Cluster::start_with(2, |builder| builder.with_hooks(hooks()));
    let cluster = cluster.await.unwrap();
    let coordinator = cluster.coordinator().unwrap().with_hooks(hooks());
    let ctx = session(coordinator, vec![], vec![]);
    assert_eq!(answer(&ctx, QUERY).await, expected(QUERY).await);
    drop(ctx);
    cluster.stop().await.unwrap();
}

#[tokio::test(flavor = "current_thread")]
async fn queries_are_right_whatever_becomes_of_their_spans() {
    // It listens, and never answers.
    let hangs = TcpListener::bind("127.0.0.1:0").unwrap();
    let gone = TcpListener::bind("127.0.0.1:0").unwrap().local_addr();
    for address in [hangs.local_addr().unwrap(), gone.unwrap()] {
        let endpoint = format!("http://{address}");
        let settings = OtlpSettings::new(Role::Coordinator, endpoint, Protocol::Grpc);
        let (telemetry, guard) = start_with(&settings);
        query().await;
        drop(guard);
        let summary = telemetry.shutdown().await;
        assert_eq!(summary.sent, 0);
        assert!(summary.failed + summary.dropped > 10, "{summary:?}");
    }
}

#[tokio::test(flavor = "current_thread")]
async fn a_collector_that_dies_midway_costs_only_the_spans_after() {
    let collector = Collector::start().unwrap();
    let (telemetry, guard) = start(&collector);
    query().await;
    let before = telemetry.flush();
    assert!(before.sent > 10 && before.failed == 0, "{before:?}");
    drop(collector);
    query().await;
    drop(guard);
    let summary = telemetry.shutdown().await;
    assert_eq!(summary.sent, before.sent);
    assert!(summary.failed + summary.dropped > 10, "{summary:?}");
}

#[tokio::test]
async fn spans_say_who_sent_them() {
    let collector = Collector::start().unwrap();
    let (telemetry, guard) = start(&collector);
    tracing::info_span!(parent: None, "span").in_scope(|| {});
    drop(guard);
    telemetry.shutdown().await;
    let trace = collector.expect_one_trace().await.unwrap();
    let span = trace.root("span").unwrap();
    assert_eq!(span.service().unwrap(), "flightpath-worker");
    let own = |key| span.resource(key).unwrap_or_default().to_string();
    assert_eq!(own("service.version"), env!("CARGO_PKG_VERSION"));
    assert_eq!(own("process.pid"), std::process::id().to_string());
    assert_eq!(own("service.instance.id").len(), 36);
    assert!(!own("host.name").is_empty());
}

#[tokio::test]
async fn long_texts_are_cut_by_characters() {
    let collector = Collector::start().unwrap();
    let settings = OtlpSettings::new(Role::Worker, collector.endpoint(), Protocol::Grpc);
    let (telemetry, guard) = start_with(&settings.with_value_limit(4));
    tracing::info_span!(parent: None, "span", db.query.text = "Größe", short = "Ulm")
        .in_scope(|| {});
    drop(guard);
    telemetry.shutdown().await;
    let trace = collector.expect_one_trace().await.unwrap();
    let span = trace.root("span").unwrap();
    assert_eq!(span.text("db.query.text").unwrap(), "Größ");
    assert_eq!(span.text("short").unwrap(), "Ulm");
}

#[tokio::test]
async fn links_without_room_are_counted() {
    let collector = Collector::start().unwrap();
    let (telemetry, guard) = start(&collector);
    let span = tracing::info_span!(parent: None, "span");
    span.in_scope(|| {});
    for producer in 1..=1_500_u64 {
        let id = SpanId::from_bytes(producer.to_be_bytes());
        let trace = TraceId::from_bytes([9; 16]);
        let (sampled, state) = (TraceFlags::SAMPLED, TraceState::NONE);
        span.add_link(SpanContext::new(trace, id, sampled, true, state));
    }
    drop((span, guard));
    let summary = telemetry.shutdown().await;
    let trace = collector.expect_one_trace().await.unwrap();
    let kept = |span: SpanRef<'_>| (span.links.len() as u64, u64::from(span.dropped_links_count));
    let (kept, dropped) = kept(trace.root("span").unwrap());
    assert_eq!(kept + dropped, 1_500);
    assert!(dropped > 0, "{kept} links are kept");
    assert_eq!(summary.dropped_links, dropped);
    assert_eq!((summary.sent, summary.failed, summary.dropped), (1, 0, 0));
}

#[tokio::test]
async fn spans_that_are_open_can_be_waited_for() {
    let collector = Collector::start().unwrap();
    let (telemetry, _guard) = start(&collector);
    assert!(telemetry.idle(Duration::ZERO).await);
    let span = tracing::info_span!(parent: None, "span");
    span.in_scope(|| {});
    assert!(!telemetry.idle(Duration::ZERO).await);
    let ending = std::thread::spawn(move || drop(span));
    assert!(telemetry.idle(Duration::from_secs(20)).await);
    ending.join().unwrap();
}

#[tokio::test]
async fn spans_go_over_https_to_whom_the_certificate_says() {
    let collector = Collector::start_encrypted().unwrap();
    let certificate = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(&certificate, collector.certificate().unwrap()).unwrap();
    for (protocol, url) in [
        (Protocol::Grpc, collector.endpoint()),
        (Protocol::HttpProtobuf, collector.http_traces()),
    ] {
        let settings = OtlpSettings::new(Role::Worker, url, protocol);
        let trusting = settings.clone().with_certificate(certificate.path());
        for (settings, sent, failed) in [(trusting, 1, 0), (settings, 0, 1)] {
            let telemetry = Telemetry::start(&settings).unwrap();
            let subscriber = tracing_subscriber::registry().with(telemetry.layer());
            tracing::subscriber::with_default(subscriber, || {
                tracing::info_span!(parent: None, "span").in_scope(|| {});
            });
            let summary = telemetry.shutdown().await;
            assert_eq!(
                (summary.sent, summary.failed),
                (sent, failed),
                "{settings:?}"
            );
        }
    }
    assert_eq!(collector.span_count(), 2);
}

#[tokio::test]
async fn an_endpoint_asks_who_sends_and_gets_it_compressed() {
    let collector = Collector::start_mutual().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let [certificate, key] = ["certificate.pem", "key.pem"].map(|file| folder.path().join(file));
    std::fs::write(&certificate, collector.certificate().unwrap()).unwrap();
    std::fs::write(&key, collector.key().unwrap()).unwrap();
    for (protocol, url) in [
        (Protocol::Grpc, collector.endpoint()),
        (Protocol::HttpProtobuf, collector.http_traces()),
    ] {
        let stranger = Endpoint::new(url, protocol).with_certificate(&certificate);
        let known = stranger.clone().with_client(&certificate, &key);
        let compressed = collector.compressed_count();
        for (endpoint, sent) in [(stranger, 0), (known.clone(), 1), (known.with_gzip(), 1)] {
            let telemetry = Telemetry::start(&OtlpSettings::to(Role::Worker, endpoint)).unwrap();
            let subscriber = tracing_subscriber::registry().with(telemetry.layer());
            tracing::subscriber::with_default(subscriber, || {
                tracing::info_span!(parent: None, "span").in_scope(|| {});
            });
            let summary = telemetry.shutdown().await;
            assert_eq!((summary.sent, summary.failed), (sent, 1 - sent));
        }
        assert_eq!(collector.compressed_count(), compressed + 1, "{protocol:?}");
    }
    assert_eq!(collector.span_count(), 4);
    let endpoint = Endpoint::new(collector.endpoint(), Protocol::Grpc);
    let endpoint = endpoint.with_client(&certificate, &certificate);
    let error = Telemetry::start(&OtlpSettings::to(Role::Worker, endpoint)).unwrap_err();
    assert!(error.to_string().contains("has no private key"), "{error}");
}

#[tokio::test]
async fn a_certificate_that_is_none_is_an_error() {
    for (file, expected) in [
        ("/nowhere/ca.pem", "cannot read the certificates"),
        (
            concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml"),
            "expected a PEM file",
        ),
    ] {
        for protocol in [Protocol::Grpc, Protocol::HttpProtobuf] {
            let settings = OtlpSettings::new(Role::Worker, "https://localhost:1", protocol);
            let error = Telemetry::start(&settings.with_certificate(file)).unwrap_err();
            let message = error.to_string();
            assert!(
                message.contains(expected) && message.contains(file),
                "{message}"
            );
        }
    }
}
