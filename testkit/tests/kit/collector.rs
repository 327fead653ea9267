//! The collector, asked about what the real exporters send.

use std::time::Duration;

use flightpath_otlp::{Endpoint, Protocol};
use flightpath_testkit::collector::{Collector, MetricKind, MetricValue, Trace, Unexpected};
use opentelemetry::metrics::MeterProvider;
use opentelemetry::trace::{
    SpanContext, SpanId, Status, TraceContextExt, TraceFlags, TraceId, TraceState, Tracer,
    TracerProvider,
};
use opentelemetry::{Context, KeyValue};
use opentelemetry_otlp::{MetricExporter, SpanExporter, WithExportConfig};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::metrics::SdkMeterProvider;
use opentelemetry_sdk::trace::{SdkTracer, SdkTracerProvider};

const SERVICE: &str = "flightpath-test";

fn collector() -> Collector {
    Collector::start().unwrap()
}

/// Not to wait long for what does not come.
fn impatient() -> Collector {
    collector().with_patience(Duration::from_millis(50))
}

fn resource() -> Resource {
    Resource::builder().with_service_name(SERVICE).build()
}

fn over_grpc(collector: &Collector) -> SpanExporter {
    let builder = SpanExporter::builder().with_tonic();
    builder.with_endpoint(collector.endpoint()).build().unwrap()
}

fn over_http(collector: &Collector) -> SpanExporter {
    let endpoint = Endpoint::new(collector.http_traces(), Protocol::HttpProtobuf);
    let builder = endpoint.over_http(SpanExporter::builder().with_http());
    builder.unwrap().build().unwrap()
}

/// A query with one stage of two tasks, the second of which failed, and a reader of both.
fn query(tracer: &SdkTracer) {
    let child = |name: &'static str, parent: &Context, links: Vec<SpanContext>| {
        let links = links
            .into_iter()
            .map(opentelemetry::trace::Link::with_context);
        let builder = tracer.span_builder(name).with_links(links.collect());
        parent.with_span(builder.start_with_context(tracer, parent))
    };
    let query = Context::new().with_span(tracer.start("query"));
    let stage = child("stage 1", &query, vec![]);
    let tasks = [0, 1].map(|index| {
        let task = child("task", &stage, vec![]);
        let attributes = [
            KeyValue::new("flightpath.task.index", index),
            KeyValue::new("flightpath.task.status", "finished"),
        ];
        task.span().set_attributes(attributes);
        task
    });
    tasks[1].span().set_status(Status::error("no memory"));
    let read = tasks.iter().map(|task| task.span().span_context().clone());
    let reader = child("NetworkShuffleExec", &query, read.collect());
    for context in tasks.iter().chain([&reader, &stage, &query]) {
        context.span().end();
    }
}

async fn send(exporter: SpanExporter, emit: impl FnOnce(&SdkTracer)) {
    let provider = SdkTracerProvider::builder()
        .with_batch_exporter(exporter)
        .with_resource(resource())
        .build();
    emit(&provider.tracer("test"));
    let sent = tokio::task::spawn_blocking(move || provider.shutdown());
    sent.await.unwrap().unwrap();
}

fn check(trace: &Trace) -> Result<(), Unexpected> {
    let query = trace.root("query")?;
    assert_eq!(query.service()?, SERVICE);
    let tasks = query.child("stage 1")?.children("task")?;
    let index = tasks[1].number("flightpath.task.index")?;
    assert_eq!((tasks.len(), index), (2, 1.0));
    assert_eq!(tasks[0].text("flightpath.task.status")?, "finished");
    assert_eq!(
        (tasks[0].error(), tasks[1].error()),
        (None, Some("no memory"))
    );
    assert_eq!(tasks[0].above("query")?.span_id, query.span_id);
    let reader = trace.only("NetworkShuffleExec")?;
    assert_eq!(reader.links_to("task")?.len(), 2);
    Ok(())
}

#[tokio::test]
async fn a_trace_arrives_over_grpc() -> Result<(), Unexpected> {
    let collector = collector();
    send(over_grpc(&collector), query).await;
    check(&collector.expect_one_trace().await?)
}

#[tokio::test]
async fn a_trace_arrives_over_http() -> Result<(), Unexpected> {
    let collector = collector();
    send(over_http(&collector), query).await;
    check(&collector.expect_one_trace().await?)
}

#[tokio::test]
async fn what_is_not_there_is_told_with_what_is() {
    let collector = impatient();
    let nothing = collector.expect_one_trace().await.unwrap_err().to_string();
    assert!(nothing.contains("nothing has arrived"), "{nothing}");

    send(over_grpc(&collector), query).await;
    let trace = collector.expect_one_trace().await.unwrap();
    let stage = trace.only("stage 1").unwrap();
    let reader = trace.only("NetworkShuffleExec").unwrap();
    let messages = [
        trace.root("caller").unwrap_err(),
        trace.only("task").unwrap_err(),
        stage.child("SortExec").unwrap_err(),
        stage.child("task").unwrap_err(),
        stage.above("plan").unwrap_err(),
        stage.links_to("task").unwrap_err(),
        reader.links_to("stage 1").unwrap_err(),
        stage.number("flightpath.stage.id").unwrap_err(),
    ];
    for (message, says) in messages.iter().zip([
        "the root is query, not caller",
        "expected one task, there are 2",
        "stage 1 has no child SortExec",
        "stage 1 has 2 children task, not one",
        "stage 1 has no plan above it",
        "stage 1 has no link",
        "NetworkShuffleExec has a link to task, not to stage 1",
        "stage 1 has flightpath.stage.id=None, which is no number",
    ]) {
        let message = message.to_string();
        assert!(message.starts_with(says), "{message}");
        let tree = "query\n  stage 1\n    task\n    task, error: no memory\n";
        for line in tree.lines() {
            assert!(message.contains(line), "{message}");
        }
    }

    send(over_grpc(&collector), query).await;
    let two = collector.expect_one_trace().await.unwrap_err().to_string();
    assert!(two.starts_with("expected one trace, there are 2"), "{two}");
}

#[tokio::test]
async fn a_trace_whose_root_is_missing_is_not_complete() {
    let collector = impatient();
    let child_only = |tracer: &SdkTracer| {
        let (trace, span) = (TraceId::from_bytes([1; 16]), SpanId::from_bytes([1; 8]));
        let root = SpanContext::new(trace, span, TraceFlags::SAMPLED, true, TraceState::NONE);
        drop(tracer.start_with_context("task", &Context::new().with_remote_span_context(root)));
    };
    send(over_grpc(&collector), child_only).await;
    let message = collector.expect_one_trace().await.unwrap_err().to_string();
    assert!(
        message.contains("one complete trace did not arrive"),
        "{message}"
    );
    assert!(message.ends_with("task\n"), "{message}");
    assert_eq!(collector.traces()[0].orphans().len(), 1);
}

#[tokio::test]
async fn metrics_arrive_over_both_and_the_last_value_stays() -> Result<(), Unexpected> {
    let collector = collector();
    let grpc = MetricExporter::builder().with_tonic();
    let http = Endpoint::new(collector.http_metrics(), Protocol::HttpProtobuf);
    let http = http.over_http(MetricExporter::builder().with_http());
    let exporters = [
        grpc.with_endpoint(collector.endpoint()).build().unwrap(),
        http.unwrap().build().unwrap(),
    ];
    for (exporter, protocol) in exporters.into_iter().zip(["grpc", "http"]) {
        let provider = SdkMeterProvider::builder()
            .with_periodic_exporter(exporter)
            .with_resource(resource())
            .build();
        let meter = provider.meter("test");
        let over = [KeyValue::new("protocol", protocol)];
        let rows = meter.u64_counter("rows").with_unit("{row}").build();
        let active = meter.i64_up_down_counter("active").build();
        let duration = meter.f64_histogram("duration").with_unit("s").build();
        rows.add(2, &over);
        let flushed = provider.clone();
        let flushing = tokio::task::spawn_blocking(move || flushed.force_flush());
        flushing.await.unwrap().unwrap();
        rows.add(3, &over);
        active.add(-1, &over);
        duration.record(0.5, &over);
        let ending = tokio::task::spawn_blocking(move || provider.shutdown());
        ending.await.unwrap().unwrap();
    }
    let rows = collector
        .expect_metric("rows", |rows| rows.total() == 10.0)
        .await?;
    assert_eq!((rows.kind, &*rows.unit), (MetricKind::Counter, "{row}"));
    for protocol in ["grpc", "http"] {
        let [point] = rows.with("protocol", protocol)[..] else {
            panic!("not one point for {protocol}: {rows}");
        };
        assert_eq!(point.value, MetricValue::Number(5.0));
        assert_eq!(point.resource["service.name"], SERVICE);
    }
    let active = collector.expect_metric("active", |_| true).await?;
    assert_eq!(
        (active.kind, active.total()),
        (MetricKind::UpDownCounter, -2.0)
    );
    let duration = collector.expect_metric("duration", |_| true).await?;
    assert_eq!(
        (duration.kind, &*duration.unit),
        (MetricKind::Histogram, "s")
    );
    let MetricValue::Histogram { count, sum, .. } = duration.points[0].value else {
        panic!("no histogram: {duration}");
    };
    assert_eq!((count, sum), (1, 0.5));

    let absent = impatient()
        .expect_metric("rows", |_| true)
        .await
        .unwrap_err();
    assert!(
        absent.to_string().starts_with("rows is not as expected"),
        "{absent}"
    );
    Ok(())
}
