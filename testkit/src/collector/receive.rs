//! Both protocols of OTLP on one port, and where what they bring is kept.

use std::collections::BTreeMap;
use std::error::Error;
use std::future::ready;
use std::io::Read;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use axum::body::Bytes;
use axum::extract::{DefaultBodyLimit, Request as HttpRequest};
use axum::http::header::{CONTENT_ENCODING, CONTENT_TYPE, HeaderName};
use axum::http::{HeaderMap, StatusCode};
use axum::middleware::map_request;
use axum::response::{IntoResponse, Response as HttpResponse};
use axum::routing::post;
use flate2::read::GzDecoder;
use opentelemetry_proto::tonic::collector::metrics::v1::metrics_service_server::{
    MetricsService, MetricsServiceServer,
};
use opentelemetry_proto::tonic::collector::metrics::v1::{
    ExportMetricsServiceRequest, ExportMetricsServiceResponse,
};
use opentelemetry_proto::tonic::collector::trace::v1::trace_service_server::{
    TraceService, TraceServiceServer,
};
use opentelemetry_proto::tonic::collector::trace::v1::{
    ExportTraceServiceRequest, ExportTraceServiceResponse,
};
use opentelemetry_proto::tonic::common::v1::KeyValue;
use parking_lot::Mutex;
use prost::Message;
use tokio::sync::watch;
use tonic::codec::CompressionEncoding;
use tonic::service::Routes;
use tonic::{Request, Response, Status};

use super::metric::{self, Metric, Resource};
use super::trace::{Arrived, Trace};

pub(super) const TRACES: &str = "/v1/traces";
pub(super) const METRICS: &str = "/v1/metrics";

const GRPC_ENCODING: HeaderName = HeaderName::from_static("grpc-encoding");

/// What one request may weigh: exporters send 512 spans at a time, of a few kB each.
const MAX_REQUEST: usize = 64 * 1024 * 1024;

#[derive(Debug)]
pub(super) struct Received {
    spans: Mutex<Vec<Arrived>>,
    metrics: Mutex<BTreeMap<String, Metric>>,
    compressed: AtomicUsize,
    changes: watch::Sender<()>,
}

impl Default for Received {
    fn default() -> Self {
        Self {
            spans: Mutex::default(),
            metrics: Mutex::default(),
            compressed: AtomicUsize::new(0),
            changes: watch::Sender::new(()),
        }
    }
}

impl Received {
    /// Tells of each request that comes from now on.
    pub(super) fn subscribe(&self) -> watch::Receiver<()> {
        self.changes.subscribe()
    }

    pub(super) fn compressed_count(&self) -> usize {
        self.compressed.load(Ordering::Relaxed)
    }

    pub(super) fn span_count(&self) -> usize {
        self.spans.lock().len()
    }

    pub(super) fn trace(&self, id: &[u8]) -> Trace {
        let spans = self.spans.lock();
        let of_it = spans.iter().filter(|arrived| arrived.span.trace_id == id);
        of_it.cloned().collect()
    }

    pub(super) fn traces(&self) -> Vec<Trace> {
        let spans = self.spans.lock();
        let mut ids: Vec<&[u8]> = vec![];
        for arrived in spans.iter() {
            let id = arrived.span.trace_id.as_slice();
            if !ids.contains(&id) {
                ids.push(id);
            }
        }
        let trace = |id| spans.iter().filter(move |seen| seen.span.trace_id == id);
        ids.into_iter()
            .map(|id| trace(id).cloned().collect())
            .collect()
    }

    pub(super) fn metric(&self, name: &str) -> Option<Metric> {
        self.metrics.lock().get(name).cloned()
    }

    pub(super) fn metrics(&self) -> Vec<Metric> {
        self.metrics.lock().values().cloned().collect()
    }

    fn add_traces(&self, request: ExportTraceServiceRequest) {
        for from in request.resource_spans {
            let resource = resource(from.resource.map(|resource| resource.attributes));
            let spans = from.scope_spans.into_iter().flat_map(|scope| scope.spans);
            self.spans.lock().extend(spans.map(|span| Arrived {
                span,
                resource: Arc::clone(&resource),
            }));
        }
        self.changes.send_replace(());
    }

    fn add_metrics(&self, request: ExportMetricsServiceRequest) {
        for from in request.resource_metrics {
            let resource = resource(from.resource.map(|resource| resource.attributes));
            let scopes = from.scope_metrics.into_iter();
            for sent in scopes.flat_map(|scope| scope.metrics) {
                metric::keep(&mut self.metrics.lock(), sent, &resource);
            }
        }
        self.changes.send_replace(());
    }
}

fn resource(attributes: Option<Vec<KeyValue>>) -> Arc<Resource> {
    Arc::new(metric::texts(attributes.unwrap_or_default()))
}

/// gRPC is HTTP too: its services are routes beside those of HTTP/protobuf.
pub(super) fn routes(received: &Arc<Received>) -> axum::Router {
    let service = Service(Arc::clone(received));
    let traces = TraceServiceServer::new(service.clone())
        .accept_compressed(CompressionEncoding::Gzip)
        .max_decoding_message_size(MAX_REQUEST);
    let metrics = MetricsServiceServer::new(service)
        .accept_compressed(CompressionEncoding::Gzip)
        .max_decoding_message_size(MAX_REQUEST);
    let [of_traces, of_metrics, of_all] = [(); 3].map(|()| Arc::clone(received));
    let post_traces = async move |headers: HeaderMap, body: Bytes| {
        answer(
            &headers,
            &body,
            |request| of_traces.add_traces(request),
            ExportTraceServiceResponse::default(),
        )
    };
    let post_metrics = async move |headers: HeaderMap, body: Bytes| {
        answer(
            &headers,
            &body,
            |request| of_metrics.add_metrics(request),
            ExportMetricsServiceResponse::default(),
        )
    };
    Routes::new(traces)
        .add_service(metrics)
        .into_axum_router()
        .route(TRACES, post(post_traces))
        .route(METRICS, post(post_metrics))
        .layer(DefaultBodyLimit::max(MAX_REQUEST))
        .layer(map_request(move |request: HttpRequest| {
            let headers = request.headers();
            if is_gzip(headers, GRPC_ENCODING) || is_gzip(headers, CONTENT_ENCODING) {
                of_all.compressed.fetch_add(1, Ordering::Relaxed);
            }
            ready(request)
        }))
}

fn is_gzip(headers: &HeaderMap, encoding: HeaderName) -> bool {
    headers
        .get(encoding)
        .is_some_and(|encoding| encoding == "gzip")
}

fn answer<T: Message + Default>(
    headers: &HeaderMap,
    body: &[u8],
    add: impl FnOnce(T),
    answer: impl Message,
) -> HttpResponse {
    match decode(headers, body) {
        Ok(request) => {
            add(request);
            let protobuf = [(CONTENT_TYPE, "application/x-protobuf")];
            (protobuf, answer.encode_to_vec()).into_response()
        }
        Err(error) => (StatusCode::BAD_REQUEST, error.to_string()).into_response(),
    }
}

fn decode<T: Message + Default>(headers: &HeaderMap, body: &[u8]) -> Result<T, Box<dyn Error>> {
    if !is_gzip(headers, CONTENT_ENCODING) {
        return Ok(T::decode(body)?);
    }
    let mut plain = vec![];
    GzDecoder::new(body).read_to_end(&mut plain)?;
    Ok(T::decode(&plain[..])?)
}

#[derive(Clone)]
struct Service(Arc<Received>);

#[async_trait::async_trait]
impl TraceService for Service {
    async fn export(
        &self,
        request: Request<ExportTraceServiceRequest>,
    ) -> Result<Response<ExportTraceServiceResponse>, Status> {
        self.0.add_traces(request.into_inner());
        Ok(Response::new(ExportTraceServiceResponse::default()))
    }
}

#[async_trait::async_trait]
impl MetricsService for Service {
    async fn export(
        &self,
        request: Request<ExportMetricsServiceRequest>,
    ) -> Result<Response<ExportMetricsServiceResponse>, Status> {
        self.0.add_metrics(request.into_inner());
        Ok(Response::new(ExportMetricsServiceResponse::default()))
    }
}
