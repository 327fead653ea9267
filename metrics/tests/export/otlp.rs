//! How metrics leave a process.

use flightpath_metrics::export::{Endpoint, MetricsExport, MetricsSettings, Protocol, Role};
use flightpath_testkit::collector::{Collector, MetricKind};

use crate::support::{GROUPS, Measured, unsent, within};

async fn sent_by(metrics: MetricsExport, collector: &Collector) {
    let measured = Measured::start(&metrics).await;
    measured.run(GROUPS).await.0.unwrap();
    metrics.shutdown().await;
    let queries = collector.expect_metric("flightpath.query.duration", |_| true);
    let queries = queries.await.unwrap();
    assert_eq!(queries.kind, MetricKind::Histogram);
    let resource = &queries.points[0].resource;
    assert_eq!(resource["service.name"], "flightpath-coordinator");
    for attribute in [
        "host.name",
        "service.version",
        "service.instance.id",
        "process.pid",
    ] {
        assert!(resource.contains_key(attribute), "{attribute}");
    }
}

fn to(endpoint: Endpoint) -> MetricsExport {
    let settings = MetricsSettings::new(Role::Coordinator).with_endpoint(endpoint);
    MetricsExport::start(&settings).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn over_grpc_from_many_threads() {
    let collector = Collector::start().unwrap();
    let metrics = to(Endpoint::new(collector.endpoint(), Protocol::Grpc));
    within(60, sent_by(metrics, &collector)).await;
}

#[tokio::test]
async fn over_grpc_from_one_thread() {
    let collector = Collector::start().unwrap();
    let metrics = to(Endpoint::new(collector.endpoint(), Protocol::Grpc));
    within(60, sent_by(metrics, &collector)).await;
}

#[tokio::test]
async fn over_http() {
    let collector = Collector::start().unwrap();
    let http = Endpoint::new(collector.http_metrics(), Protocol::HttpProtobuf);
    within(60, sent_by(to(http), &collector)).await;
}

/// Built, flushed and dropped where there is no runtime.
#[test]
fn outside_of_a_runtime() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    for protocol in [Protocol::Grpc, Protocol::HttpProtobuf] {
        let collector = Collector::start().unwrap();
        let endpoint = match protocol {
            Protocol::Grpc => collector.endpoint(),
            Protocol::HttpProtobuf => collector.http_metrics(),
        };
        let metrics = to(Endpoint::new(endpoint, protocol));
        let measured = runtime.block_on(async {
            let measured = Measured::start(&metrics).await;
            measured.run(GROUPS).await.0.unwrap();
            measured
        });
        metrics.flush().unwrap();
        let arrived = collector.expect_metric("flightpath.query.duration", |_| true);
        runtime.block_on(within(60, arrived)).unwrap();
        drop(metrics);
        drop(measured);
    }
}

/// Dropped in async code, and with nobody at the endpoint: it ends, and queries do not notice.
#[tokio::test]
async fn to_an_endpoint_that_is_not_there() {
    within(60, async {
        let gone = Collector::start().unwrap().endpoint();
        for protocol in [Protocol::Grpc, Protocol::HttpProtobuf] {
            let metrics = to(Endpoint::new(gone.clone(), protocol));
            let measured = Measured::start(&metrics).await;
            measured.run(GROUPS).await.0.unwrap();
            drop(metrics);
        }
    })
    .await;
}

#[tokio::test]
async fn nowhere() {
    within(60, async {
        let metrics = unsent();
        let measured = Measured::start(&metrics).await;
        measured.run(GROUPS).await.0.unwrap();
        metrics.flush().unwrap();
        assert!(
            metrics
                .text()
                .unwrap()
                .contains("flightpath_query_duration")
        );
        metrics.shutdown().await;
    })
    .await;
}

#[tokio::test]
async fn an_endpoint_that_cannot_be_sent_to_was_a_panic_in_async_code() {
    let no_certificate = concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml");
    let encrypted = Endpoint::new("https://localhost:1/v1/metrics", Protocol::HttpProtobuf);
    for (endpoint, expected) in [
        (Endpoint::new("no endpoint", Protocol::Grpc), "no endpoint"),
        (encrypted.with_certificate(no_certificate), no_certificate),
    ] {
        let settings = MetricsSettings::new(Role::Worker).with_endpoint(endpoint);
        let error = MetricsExport::start(&settings).unwrap_err();
        assert!(error.to_string().contains(expected), "{error}");
    }
}

#[tokio::test]
async fn over_https() {
    let collector = Collector::start_encrypted().unwrap();
    let certificate = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(&certificate, collector.certificate().unwrap()).unwrap();
    for (protocol, url) in [
        (Protocol::Grpc, collector.endpoint()),
        (Protocol::HttpProtobuf, collector.http_metrics()),
    ] {
        let endpoint = Endpoint::new(url, protocol).with_certificate(certificate.path());
        within(60, sent_by(to(endpoint), &collector)).await;
    }
}
