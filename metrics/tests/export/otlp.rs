//! How metrics leave a process.

use flightpath_metrics::export::{Destination, MetricsExport, MetricsSettings, Protocol, Role};
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

fn to(destination: Destination) -> MetricsExport {
    MetricsExport::start(&MetricsSettings::new(Role::Coordinator, destination)).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn over_grpc_from_many_threads() {
    let collector = Collector::start().unwrap();
    let metrics = to(Destination::Otlp(Protocol::Grpc, collector.endpoint()));
    within(60, sent_by(metrics, &collector)).await;
}

#[tokio::test]
async fn over_grpc_from_one_thread() {
    let collector = Collector::start().unwrap();
    let metrics = to(Destination::Otlp(Protocol::Grpc, collector.endpoint()));
    within(60, sent_by(metrics, &collector)).await;
}

#[tokio::test]
async fn over_http() {
    let collector = Collector::start().unwrap();
    let http = Destination::Otlp(Protocol::HttpProtobuf, collector.http_metrics());
    within(60, sent_by(to(http), &collector)).await;
}

/// Built, flushed and dropped where there is no runtime.
#[test]
fn outside_of_a_runtime() {
    let collector = Collector::start().unwrap();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    for (protocol, endpoint) in [
        (Protocol::Grpc, collector.endpoint()),
        (Protocol::HttpProtobuf, collector.http_metrics()),
    ] {
        let metrics = to(Destination::Otlp(protocol, endpoint));
        let measured = runtime.block_on(async {
            let measured = Measured::start(&metrics).await;
            measured.run(GROUPS).await.0.unwrap();
            measured
        });
        metrics.flush().unwrap();
        let arrived = collector.expect_metric("flightpath.task.duration", |_| true);
        runtime.block_on(within(60, arrived)).unwrap();
        drop(metrics);
        drop(measured);
    }
    let services = collector.metrics();
    let queries = services
        .iter()
        .find(|metric| metric.name == "flightpath.query.duration");
    assert_eq!(queries.unwrap().points.len(), 2, "one for each process");
}

/// Dropped in async code, and with nobody at the endpoint: it ends, and queries do not notice.
#[tokio::test]
async fn to_an_endpoint_that_is_not_there() {
    within(60, async {
        let gone = Collector::start().unwrap().endpoint();
        for protocol in [Protocol::Grpc, Protocol::HttpProtobuf] {
            let metrics = to(Destination::Otlp(protocol, gone.clone()));
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

#[test]
fn an_endpoint_that_cannot_be_sent_to_is_an_error() {
    for (protocol, endpoint) in [
        (Protocol::Grpc, "no endpoint"),
        (Protocol::HttpProtobuf, "https://encrypted:4318/v1/metrics"),
    ] {
        let destination = Destination::Otlp(protocol, endpoint.to_owned());
        let settings = MetricsSettings::new(Role::Worker, destination);
        let error = MetricsExport::start(&settings).unwrap_err();
        assert!(error.to_string().contains(endpoint), "{error}");
    }
}

#[test]
fn https_works_over_grpc() {
    let encrypted = "https://encrypted:4317".to_owned();
    drop(to(Destination::Otlp(Protocol::Grpc, encrypted)));
}
