//! An OTLP endpoint inside the test process, which is asked what arrived.
//!
//! It takes traces and metrics over gRPC and over HTTP/protobuf, on one port, from the real
//! exporters of this or any other process. What it is asked for may still be on its way, so each
//! question waits, within a bound; an answer that does not come is an error that shows the spans
//! that came instead.
//!
//! ```
//! use flightpath_testkit::collector::Collector;
//! # use flightpath_testkit::collector::Unexpected;
//! # use opentelemetry_proto::tonic::collector::trace::v1::{
//! #     ExportTraceServiceRequest, trace_service_client::TraceServiceClient,
//! # };
//! # use opentelemetry_proto::tonic::trace::v1::{ResourceSpans, ScopeSpans, Span};
//! # async fn run_a_query(endpoint: String) {
//! #     let span = |id: u8, parent: &[u8], name: &str| Span {
//! #         trace_id: vec![1; 16],
//! #         span_id: vec![id; 8],
//! #         parent_span_id: parent.to_vec(),
//! #         name: name.to_string(),
//! #         ..Default::default()
//! #     };
//! #     let spans = vec![span(1, &[], "query"), span(2, &[1; 8], "stage 1"), span(3, &[2; 8], "task")];
//! #     let scope_spans = vec![ScopeSpans { spans, ..Default::default() }];
//! #     let resource_spans = vec![ResourceSpans { scope_spans, ..Default::default() }];
//! #     let mut client = TraceServiceClient::connect(endpoint).await.unwrap();
//! #     client.export(ExportTraceServiceRequest { resource_spans }).await.unwrap();
//! # }
//!
//! # #[tokio::main]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let collector = Collector::start()?;
//! // Runs with its exporter on this endpoint, and flushes it.
//! run_a_query(collector.endpoint()).await;
//!
//! let trace = collector.expect_one_trace().await?;
//! let query = trace.root("query")?;
//! let tasks = query.child("stage 1")?.children("task")?;
//! assert!(!tasks.is_empty());
//! # Ok(())
//! # }
//! ```

mod encrypted;
mod metric;
mod receive;
mod trace;
mod unexpected;

use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

pub use metric::{Metric, MetricKind, MetricValue, Point};
pub use trace::{SpanRef, Trace};
pub use unexpected::Unexpected;

use encrypted::{Certificate, Encrypted};
use receive::Received;
use tokio::sync::oneshot;

/// How long a question waits by default: exporters send every five seconds unless they are
/// flushed, and machines that run tests are busy.
const PATIENCE: Duration = Duration::from_secs(20);

/// An OTLP endpoint on a free port of the loopback interface.
///
/// It serves from a thread of its own, so tests with and without a runtime can use it, and keeps
/// everything until it is dropped.
#[derive(Debug)]
pub struct Collector {
    address: SocketAddr,
    /// If it is one of https.
    certificate: Option<Certificate>,
    received: Arc<Received>,
    patience: Duration,
    stop: Option<oneshot::Sender<()>>,
    server: Option<JoinHandle<()>>,
}

#[derive(Clone, Copy)]
enum Security {
    Plain,
    Encrypted,
    Mutual,
}

impl Collector {
    /// Starts to listen.
    ///
    /// # Errors
    /// If there is no free port, or no thread.
    pub fn start() -> std::io::Result<Self> {
        Self::listen(Security::Plain)
    }

    /// Starts to listen for https alone, with a [`certificate`](Self::certificate) that nobody else knows.
    ///
    /// # Errors
    /// If there is no free port, or no thread.
    pub fn start_encrypted() -> std::io::Result<Self> {
        Self::listen(Security::Encrypted)
    }

    /// Starts to listen for https, from clients alone that show the same [`certificate`](Self::certificate) as the
    /// collector does. They need its [`key`](Self::key) for that.
    ///
    /// # Errors
    /// If there is no free port, or no thread.
    pub fn start_mutual() -> std::io::Result<Self> {
        Self::listen(Security::Mutual)
    }

    fn listen(security: Security) -> std::io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        let received = Arc::new(Received::default());
        let routes = receive::routes(&received);
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        let identity = match security {
            Security::Plain => None,
            Security::Encrypted => Some(encrypted::identity(address, false)?),
            Security::Mutual => Some(encrypted::identity(address, true)?),
        };
        let (acceptor, certificate) = identity.unzip();
        let (stop, stopped) = oneshot::channel();
        let serve = async move {
            let listener = tokio::net::TcpListener::from_std(listener)?;
            let ended = async {
                match acceptor {
                    Some(acceptor) => axum::serve(Encrypted { listener, acceptor }, routes).await,
                    None => axum::serve(listener, routes).await,
                }
            };
            tokio::select! {
                ended = ended => ended,
                // Not gracefully: exporters keep their connections open.
                _ = stopped => Ok(()),
            }
        };
        let server = std::thread::Builder::new()
            .name("otlp-collector".to_string())
            .spawn(move || {
                if let Err(error) = runtime.block_on(serve) {
                    tracing::error!("the OTLP collector has ended: {error}");
                }
            })?;
        Ok(Self {
            address,
            certificate,
            received,
            patience: PATIENCE,
            stop: Some(stop),
            server: Some(server),
        })
    }

    /// How long each question waits for what is on its way; 20 s by default.
    pub fn with_patience(mut self, patience: Duration) -> Self {
        self.patience = patience;
        self
    }

    /// Where it listens: the endpoint for gRPC, and for HTTP what `OTEL_EXPORTER_OTLP_ENDPOINT`
    /// is set to.
    pub fn endpoint(&self) -> String {
        let scheme = match self.certificate {
            Some(_) => "https",
            None => "http",
        };
        format!("{scheme}://{}", self.address)
    }

    /// Where it takes traces over HTTP, for exporters that want the whole URL.
    pub fn http_traces(&self) -> String {
        format!("{}{}", self.endpoint(), receive::TRACES)
    }

    /// Where it takes metrics over HTTP, for exporters that want the whole URL.
    pub fn http_metrics(&self) -> String {
        format!("{}{}", self.endpoint(), receive::METRICS)
    }

    /// What exporters have to trust, as PEM, if it listens for https.
    pub fn certificate(&self) -> Option<&str> {
        Some(&self.certificate.as_ref()?.chain)
    }

    /// The private key of the certificate, as PEM.
    pub fn key(&self) -> Option<&str> {
        Some(&self.certificate.as_ref()?.key)
    }

    /// How many requests have come compressed.
    pub fn compressed_count(&self) -> usize {
        self.received.compressed_count()
    }

    /// How many spans have arrived, of all traces.
    pub fn span_count(&self) -> usize {
        self.received.span_count()
    }

    /// What has arrived of one trace; it may be nothing.
    pub fn trace(&self, id: [u8; 16]) -> Trace {
        self.received.trace(&id)
    }

    /// What has arrived, a trace for each id, in order of arrival.
    pub fn traces(&self) -> Vec<Trace> {
        self.received.traces()
    }

    /// The only trace, once it [is complete](Trace::is_complete).
    ///
    /// # Errors
    /// If there is more than one, or none is complete in time.
    pub async fn expect_one_trace(&self) -> Result<Trace, Unexpected> {
        let arrived = || match &mut self.received.traces()[..] {
            [trace] if trace.is_complete() => Some(Ok(std::mem::take(trace))),
            [] | [_] => None,
            several => {
                let message = format!("expected one trace, there are {}", several.len());
                Some(Err(Unexpected::new(message, self.draw())))
            }
        };
        match self.wait(arrived).await {
            Some(found) => found,
            None => Err(self.late("one complete trace")),
        }
    }

    /// A trace, once `ready` says that it has all that is waited for.
    ///
    /// # Errors
    /// If it is not so in time.
    pub async fn expect_trace(
        &self,
        id: [u8; 16],
        ready: impl Fn(&Trace) -> bool,
    ) -> Result<Trace, Unexpected> {
        let arrived = || Some(self.trace(id)).filter(|trace| ready(trace));
        let late = || self.late("a trace that has what is waited for");
        self.wait(arrived).await.ok_or_else(late)
    }

    /// An instrument, once `ready` says that it has all that is waited for.
    ///
    /// # Errors
    /// If it is not so in time.
    pub async fn expect_metric(
        &self,
        name: &str,
        ready: impl Fn(&Metric) -> bool,
    ) -> Result<Metric, Unexpected> {
        let arrived = || self.received.metric(name).filter(|metric| ready(metric));
        let late = || {
            let message = format!("{name} is not as expected after {:?}", self.patience);
            let seen: Vec<String> = self.metrics().iter().map(Metric::to_string).collect();
            Unexpected::new(message, seen.join("\n"))
        };
        self.wait(arrived).await.ok_or_else(late)
    }

    /// All instruments that have arrived, by name.
    pub fn metrics(&self) -> Vec<Metric> {
        self.received.metrics()
    }

    async fn wait<T>(&self, arrived: impl Fn() -> Option<T>) -> Option<T> {
        let mut changes = self.received.subscribe();
        let change = async {
            loop {
                if let Some(found) = arrived() {
                    return Some(found);
                }
                changes.changed().await.ok()?;
            }
        };
        tokio::time::timeout(self.patience, change)
            .await
            .ok()
            .flatten()
    }

    fn late(&self, what: &str) -> Unexpected {
        let message = format!("{what} did not arrive in {:?}", self.patience);
        Unexpected::new(message, self.draw())
    }

    fn draw(&self) -> String {
        let traces = self.traces();
        let drawn: Vec<String> = traces.iter().map(Trace::draw).collect();
        drawn.join("\n")
    }
}

impl Drop for Collector {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(server) = self.server.take() {
            // A server that panicked has said so.
            let _ended = server.join();
        }
    }
}
