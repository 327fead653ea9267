//! Where telemetry goes, and how it gets there.

use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use datafusion::common::{Result, config_err};
use opentelemetry_http::{HttpClient, HttpError, Request, Response};
use opentelemetry_otlp::{Compression, WithExportConfig, WithHttpConfig, WithTonicConfig};
use ureq::Agent;
use url::Url;

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
    client: Option<(PathBuf, PathBuf)>,
    gzip: bool,
    timeout: Duration,
}

impl Endpoint {
    /// With [`Protocol::HttpProtobuf`] the URL has the path, such as `/v1/traces`.
    pub fn new(url: impl Into<String>, protocol: Protocol) -> Self {
        Self {
            url: url.into(),
            protocol,
            certificate: None,
            client: None,
            gzip: false,
            timeout: TIMEOUT,
        }
    }

    /// Trusts the certificates in this PEM file, in place of those that the system trusts.
    pub fn with_certificate(mut self, file: impl Into<PathBuf>) -> Self {
        self.certificate = Some(file.into());
        self
    }

    /// Shows the endpoint who this is, by a certificate and its private key, both PEM files.
    pub fn with_client(mut self, certificate: impl Into<PathBuf>, key: impl Into<PathBuf>) -> Self {
        self.client = Some((certificate.into(), key.into()));
        self
    }

    /// Compresses what is sent.
    pub fn with_gzip(mut self) -> Self {
        self.gzip = true;
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

    /// The files of the certificate and of the key that show who this is.
    pub fn client(&self) -> Option<(&Path, &Path)> {
        let (certificate, key) = self.client.as_ref()?;
        Some((certificate, key))
    }

    /// Has an exporter send over gRPC.
    ///
    /// # Errors
    /// If the URL is none of http or https, a file of certificates or keys cannot be read, or the build lacks the
    /// feature `tls` and the URL is one of https.
    pub fn over_grpc<B: WithExportConfig + WithTonicConfig>(&self, exporter: B) -> Result<B> {
        let mut exporter = exporter.with_endpoint(&self.url).with_timeout(self.timeout);
        if self.gzip {
            exporter = exporter.with_compression(Compression::Gzip);
        }
        match self.parsed()?.scheme() {
            "https" => tls::grpc(self, exporter),
            _ => Ok(exporter),
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
        if self.parsed()?.scheme() == "https" {
            client = tls::http(self, client)?;
        }
        let exporter = exporter
            .with_protocol(opentelemetry_otlp::Protocol::HttpBinary)
            .with_endpoint(&self.url)
            .with_timeout(self.timeout)
            .with_http_client(Client(client.build().into()));
        Ok(match self.gzip {
            true => exporter.with_compression(Compression::Gzip),
            false => exporter,
        })
    }

    /// What to tell a person of the first time that something cannot be sent: where to, why, and what to try where the
    /// port is known for the other protocol.
    pub fn cannot_send(&self, what: &str, error: &dyn fmt::Display) -> String {
        let url = &self.url;
        let parsed = self.parsed().ok();
        let port = parsed.as_ref().and_then(Url::port);
        let path = parsed.as_ref().map(Url::path);
        let hint = match (self.protocol, port) {
            (Protocol::Grpc, Some(4318)) => {
                "; port 4318 is for HTTP as a rule: try OTEL_EXPORTER_OTLP_PROTOCOL=http/protobuf"
            }
            (Protocol::HttpProtobuf, Some(4317)) => {
                "; port 4317 is for gRPC as a rule: try OTEL_EXPORTER_OTLP_PROTOCOL=grpc"
            }
            (Protocol::HttpProtobuf, _) if path == Some("/") => {
                "; the endpoint of one signal has its path over HTTP, such as /v1/traces"
            }
            _ => "",
        };
        format!("{what} cannot be sent to {url}, queries go on without: {error}{hint}")
    }

    fn parsed(&self) -> Result<Url> {
        match Url::parse(&self.url) {
            Ok(url) if matches!(url.scheme(), "http" | "https") => Ok(url),
            _ => config_err!(
                "{:?} is no endpoint; expected a URL of http or https, such as http://localhost:4317",
                self.url
            ),
        }
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

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn a_port_of_the_other_protocol_is_pointed_out() {
        use Protocol::{Grpc, HttpProtobuf};
        for (url, protocol, hint) in [
            (
                "http://localhost:4318",
                Grpc,
                Some("PROTOCOL=http/protobuf"),
            ),
            (
                "http://localhost:4317/v1/traces",
                HttpProtobuf,
                Some("PROTOCOL=grpc"),
            ),
            ("http://localhost:4318", HttpProtobuf, Some("/v1/traces")),
            ("http://localhost:4317", Grpc, None),
            ("http://localhost:4318/v1/traces", HttpProtobuf, None),
        ] {
            let told = Endpoint::new(url, protocol).cannot_send("spans", &"gone");
            assert!(told.starts_with(&format!("spans cannot be sent to {url}")));
            match hint {
                Some(hint) => assert!(told.ends_with(hint), "{told}"),
                None => assert!(told.ends_with("gone"), "{told}"),
            }
        }
    }

    #[test]
    fn what_is_no_url_of_http_was_taken_for_an_endpoint() {
        for url in ["localhost:4317", "no url", "ftp://localhost", "http://", ""] {
            for protocol in [Protocol::Grpc, Protocol::HttpProtobuf] {
                let error = Endpoint::new(url, protocol).parsed().unwrap_err();
                let message = error.to_string();
                assert!(
                    message.contains("such as http://localhost:4317"),
                    "{message}"
                );
            }
        }
        for url in [
            "http://localhost",
            "HTTPS://[::1]:4317/",
            "http://10.0.0.1:1/v1/traces",
        ] {
            assert!(Endpoint::new(url, Protocol::Grpc).parsed().is_ok(), "{url}");
        }
    }
}
