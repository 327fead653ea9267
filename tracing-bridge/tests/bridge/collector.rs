//! An OTLP endpoint inside the test process, over gRPC, that tests ask for traces.

use std::collections::HashSet;
use std::net::SocketAddr;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use flightpath_tracing_bridge::{OtlpSettings, Protocol, Role, Telemetry};
use opentelemetry::trace::{TraceContextExt, TraceId};
use opentelemetry_proto::tonic::collector::trace::v1::trace_service_server::{
    TraceService, TraceServiceServer,
};
use opentelemetry_proto::tonic::collector::trace::v1::{
    ExportTraceServiceRequest, ExportTraceServiceResponse,
};
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::trace::v1::Span;
use parking_lot::Mutex;
use tonic::{Request, Response, Status};
use tracing_opentelemetry::OpenTelemetrySpanExt;
use tracing_subscriber::layer::SubscriberExt;

/// How long spans may take to arrive.
const ARRIVAL: Duration = Duration::from_secs(20);

#[derive(Clone, Default)]
pub(crate) struct Received(Arc<Mutex<Vec<Span>>>);

#[tonic::async_trait]
impl TraceService for Received {
    async fn export(
        &self,
        request: Request<ExportTraceServiceRequest>,
    ) -> Result<Response<ExportTraceServiceResponse>, Status> {
        self.add(request.into_inner());
        Ok(Response::new(ExportTraceServiceResponse::default()))
    }
}

impl Received {
    pub(crate) fn add(&self, request: ExportTraceServiceRequest) {
        let scopes = request
            .resource_spans
            .into_iter()
            .flat_map(|resource| resource.scope_spans);
        self.0.lock().extend(scopes.flat_map(|scope| scope.spans));
    }

    pub(crate) fn len(&self) -> usize {
        self.0.lock().len()
    }

    fn trace(&self, id: TraceId) -> Trace {
        let spans = self.0.lock();
        let spans = spans.iter().filter(|span| span.trace_id == id.to_bytes());
        Trace(spans.cloned().collect())
    }
}

/// Serves gRPC on a runtime of its own, as long as the process lives.
pub(crate) fn serve_grpc() -> (SocketAddr, Received) {
    let received = Received::default();
    let service = TraceServiceServer::new(received.clone());
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        runtime.block_on(async {
            let listener = tokio::net::TcpListener::from_std(listener).unwrap();
            let incoming = tonic::transport::server::TcpIncoming::from(listener);
            let server = tonic::transport::Server::builder().add_service(service);
            server.serve_with_incoming(incoming).await.unwrap();
        });
    });
    (address, received)
}

/// The collector that all spans of this process go to.
pub(crate) struct Collector {
    telemetry: Telemetry,
    received: Received,
}

pub(crate) fn collector() -> &'static Collector {
    static COLLECTOR: OnceLock<Collector> = OnceLock::new();
    COLLECTOR.get_or_init(|| {
        let (address, received) = serve_grpc();
        let endpoint = format!("http://{address}");
        let settings = OtlpSettings::new(Role::Coordinator, endpoint, Protocol::Grpc);
        let telemetry = Telemetry::start(&settings).unwrap();
        let subscriber = tracing_subscriber::registry().with(telemetry.layer());
        tracing::subscriber::set_global_default(subscriber).unwrap();
        Collector {
            telemetry,
            received,
        }
    })
}

impl Collector {
    /// A trace, once `complete` says that it has all that is waited for.
    pub(crate) async fn trace(
        &'static self,
        id: TraceId,
        complete: impl Fn(&Trace) -> bool,
    ) -> Trace {
        let deadline = Instant::now() + ARRIVAL;
        loop {
            tokio::task::spawn_blocking(|| self.telemetry.flush())
                .await
                .unwrap();
            let trace = self.received.trace(id);
            if complete(&trace) {
                return trace;
            }
            assert!(Instant::now() < deadline, "incomplete:\n{}", trace.draw());
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
}

/// A span that a program might have open when it calls, and the id of its trace.
pub(crate) fn caller() -> (tracing::Span, TraceId) {
    let span = tracing::info_span!("caller");
    let id = span.context().span().span_context().trace_id();
    (span, id)
}

/// The spans of one trace.
#[derive(Debug)]
pub(crate) struct Trace(pub(crate) Vec<Span>);

impl Trace {
    pub(crate) fn named(&self, name: &str) -> Vec<&Span> {
        self.0.iter().filter(|span| span.name == name).collect()
    }

    pub(crate) fn parent(&self, of: &Span) -> Option<&Span> {
        self.0.iter().find(|span| span.span_id == of.parent_span_id)
    }

    /// The nearest span with this name above.
    pub(crate) fn above<'a>(&'a self, of: &'a Span, name: &str) -> Option<&'a Span> {
        std::iter::successors(self.parent(of), |span| self.parent(span))
            .find(|span| span.name == name)
    }

    /// Spans whose parent has not arrived.
    pub(crate) fn orphans(&self) -> Vec<&Span> {
        let known: HashSet<&[u8]> = self.0.iter().map(|span| &*span.span_id).collect();
        let is_orphan = |span: &&Span| {
            !span.parent_span_id.is_empty() && !known.contains(&*span.parent_span_id)
        };
        self.0.iter().filter(is_orphan).collect()
    }

    /// The tree, for messages of failed tests.
    pub(crate) fn draw(&self) -> String {
        let mut text = String::new();
        let known: HashSet<&[u8]> = self.0.iter().map(|span| &*span.span_id).collect();
        for root in self
            .0
            .iter()
            .filter(|span| !known.contains(&*span.parent_span_id))
        {
            self.draw_below(root, 0, &mut text);
        }
        text
    }

    fn draw_below(&self, span: &Span, depth: usize, text: &mut String) {
        let links = span.links.len();
        *text += &format!("{:1$}{2} ({links} links)\n", "", depth * 2, span.name);
        for child in self
            .0
            .iter()
            .filter(|child| child.parent_span_id == span.span_id)
        {
            self.draw_below(child, depth + 1, text);
        }
    }
}

/// A numeric attribute.
pub(crate) fn int(span: &Span, key: &str) -> Option<i64> {
    match attribute(span, key)? {
        Value::IntValue(value) => Some(*value),
        _ => None,
    }
}

pub(crate) fn text<'a>(span: &'a Span, key: &str) -> Option<&'a str> {
    match attribute(span, key)? {
        Value::StringValue(value) => Some(value),
        _ => None,
    }
}

fn attribute<'a>(span: &'a Span, key: &str) -> Option<&'a Value> {
    let found = span.attributes.iter().find(|found| found.key == key)?;
    found.value.as_ref()?.value.as_ref()
}
