//! Where telemetry goes, and how it gets there.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use datafusion::common::Result;
use opentelemetry_http::{HttpClient, HttpError, Request, Response};
use opentelemetry_otlp::{WithExportConfig, WithHttpConfig, WithTonicConfig};
use tokio::runtime::Runtime;
use ureq::Agent;

use super::tls;

/// Of one request, where nothing else is said: the specification's default.
const TIMEOUT: Duration = Duration::from_secs(10);

/// How telemetry is encoded and sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Protocol {
    /// OTLP over gRPC.
    #[default]
    Grpc,
    /// OTLP as protobuf over HTTP.
    HttpProtobuf,
}

/// Where telemetry is sent, and how.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint {
    url: String,
    protocol: Protocol,
    certificate: Option<PathBuf>,
    timeout: Duration,
}

impl Endpoint {
    /// With [`Protocol::HttpProtobuf`] the URL has the path, such as `/v1/traces`.
    pub fn new(url: impl Into<String>, protocol: Protocol) -> Self {
        Self {
            url: url.into(),
            protocol,
            certificate: None,
            timeout: TIMEOUT,
        }
    }

    /// Trusts the certificates in this PEM file, in place of those that the system trusts.
    pub fn with_certificate(mut self, file: impl Into<PathBuf>) -> Self {
        self.certificate = Some(file.into());
        self
    }

    /// How long a request may take; 10 seconds by default.
    pub fn with_timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// Where telemetry is sent.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// How it is sent.
    pub fn protocol(&self) -> Protocol {
        self.protocol
    }

    /// The file of the certificates that are trusted; `None` for those that the system trusts.
    pub fn certificate(&self) -> Option<&Path> {
        self.certificate.as_deref()
    }

    /// Has an exporter send over gRPC.
    ///
    /// # Errors
    /// If a file of certificates cannot be read, or the build lacks the feature `tls` and the URL is one of https.
    pub fn over_grpc<B: WithExportConfig + WithTonicConfig>(&self, exporter: B) -> Result<B> {
        let exporter = exporter.with_endpoint(&self.url).with_timeout(self.timeout);
        match self.is_https() {
            true => tls::grpc(self, exporter),
            false => Ok(exporter),
        }
    }

    /// Has an exporter send over HTTP, by a client that blocks the exporter's own thread. Which client that is does not
    /// depend on the features of the exporter's crate, which any other crate of a program could change.
    ///
    /// # Errors
    /// As of [`over_grpc`](Self::over_grpc).
    pub fn over_http<B: WithExportConfig + WithHttpConfig>(&self, exporter: B) -> Result<B> {
        let mut client = Agent::config_builder()
            .timeout_global(Some(self.timeout))
            .http_status_as_error(false);
        if self.is_https() {
            client = tls::http(self, client)?;
        }
        Ok(exporter
            .with_protocol(opentelemetry_otlp::Protocol::HttpBinary)
            .with_endpoint(&self.url)
            .with_timeout(self.timeout)
            .with_http_client(Client(client.build().into())))
    }

    fn is_https(&self) -> bool {
        let start = self.url.get(..8);
        start.is_some_and(|start| start.eq_ignore_ascii_case("https://"))
    }
}

#[derive(Debug)]
struct Client(Agent);

#[async_trait]
impl HttpClient for Client {
    async fn send_bytes(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        let answer = self.0.run(request.map(|body| body.to_vec()))?;
        let (parts, mut body) = answer.into_parts();
        Ok(Response::from_parts(parts, body.read_to_vec()?.into()))
    }
}

/// A runtime that connections of an exporter live in: it exports from a thread of its own, where there is none, and
/// that of the program may be busy, or gone.
///
/// # Errors
/// If the system gives no thread.
pub fn runtime(thread_name: &str) -> io::Result<Runtime> {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .thread_name(thread_name)
        .enable_all()
        .build()
}
