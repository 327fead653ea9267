//! Spans of requests between coordinator and workers, and of other clients.

use arrow_flight::Action;
use arrow_flight::flight_service_client::FlightServiceClient;
use datafusion::execution::SessionStateBuilder;
use datafusion::prelude::SessionConfig;
use flightpath_core::{FlightpathConfig, TraceDetail};
use flightpath_testkit::Cluster;
use opentelemetry::trace::TraceId;
use opentelemetry_proto::tonic::trace::v1::span::SpanKind;
use tonic::transport::Endpoint;
use tonic::{Code, Request};

use super::collector::{SpanRef, collector, text};
use super::detail::trace_of;
use super::support::QUERY;
use super::traces::{hooks, traced_cluster};

const SERVICE: &str = "arrow.flight.protocol.FlightService";

fn of_kind<'a>(spans: &[SpanRef<'a>], kind: SpanKind) -> Vec<SpanRef<'a>> {
    let spans = spans.iter().copied();
    spans.filter(|span| span.kind() == kind).collect()
}

fn every_request() -> FlightpathConfig {
    FlightpathConfig {
        trace_detail: TraceDetail::Rpc,
        ..Default::default()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_request_is_seen_at_both_ends() {
    let cluster = traced_cluster(3).await;
    let trace = trace_of(&cluster, every_request(), QUERY).await;
    for method in ["DoExchange", "DoGet"] {
        let method = format!("{SERVICE}/{method}");
        let spans = trace.named(&method);
        let clients = of_kind(&spans, SpanKind::Client);
        let servers = of_kind(&spans, SpanKind::Server);
        assert_eq!(clients.len(), servers.len(), "{}", trace.draw());
        assert!(clients.len() >= 3, "{}", trace.draw());
        for span in &spans {
            assert_eq!(text(span, "rpc.system.name"), Some("grpc"));
            assert_eq!(text(span, "rpc.method"), Some(&*method));
            assert_eq!(text(span, "rpc.status_code"), Some("OK"), "{span:?}");
            assert!(span.error().is_none(), "{span:?}");
        }
        for server in servers {
            let client = server.parent().unwrap();
            assert_eq!(client.name, method);
            assert_eq!(client.kind(), SpanKind::Client);
        }
        for client in clients {
            let parent = client.parent().unwrap();
            match parent.name.as_str() {
                "query" => assert!(method.ends_with("DoExchange")),
                name => assert!(name.starts_with("Network") && method.ends_with("DoGet")),
            }
        }
    }
    cluster.stop().await.unwrap();
}

/// A cluster of one worker whose own settings show requests.
async fn telling_worker() -> Cluster {
    let configure = |builder: flightpath_core::WorkerBuilder| {
        let config = SessionConfig::new().with_option_extension(every_request());
        let session = SessionStateBuilder::new()
            .with_config(config)
            .with_default_features()
            .build();
        builder.with_session_state(session).with_hooks(hooks())
    };
    Cluster::start_with(1, configure).await.unwrap()
}

async fn act(url: &str, name: &str, traceparent: Option<&str>) -> Result<(), Code> {
    let endpoint = Endpoint::from_shared(url.to_string()).unwrap();
    let mut client = FlightServiceClient::new(endpoint.connect_lazy());
    let mut request = Request::new(Action::new(name, ""));
    if let Some(parent) = traceparent {
        let parent = parent.parse().unwrap();
        request.metadata_mut().insert("traceparent", parent);
    }
    let answer = client.do_action(request).await;
    answer.map(|_| ()).map_err(|status| status.code())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_action_of_a_foreign_client_is_part_of_its_trace() {
    let exported = collector();
    let cluster = telling_worker().await;
    let url = &cluster.urls()[0];
    let id = "0af7651916cd43dd8448eb211c803aaa";
    let parent = format!("00-{id}-b7ad6b7169203331-01");
    act(url, "version", Some(&parent)).await.unwrap();
    let refused = act(url, "nonsense", Some(&parent)).await;
    assert_eq!(refused, Err(Code::InvalidArgument));
    // Without a parent, or with one that makes no sense, nothing is traced.
    act(url, "version", None).await.unwrap();
    act(url, "version", Some("00-xx-yy-01")).await.unwrap();
    let id = TraceId::from_hex(id).unwrap();
    let trace = exported.trace(id, |trace| trace.spans().count() == 2).await;
    let spans: Vec<SpanRef<'_>> = trace.spans().collect();
    for (span, code) in spans.iter().zip(["OK", "INVALID_ARGUMENT"]) {
        assert_eq!(span.name, format!("{SERVICE}/DoAction"));
        assert_eq!(span.kind(), SpanKind::Server);
        assert_eq!(span.parent_span_id, 0xb7ad_6b71_6920_3331_u64.to_be_bytes());
        assert_eq!(text(span, "rpc.status_code"), Some(code));
        assert!(span.error().is_none(), "the client is to blame");
    }
    cluster.stop().await.unwrap();
}
