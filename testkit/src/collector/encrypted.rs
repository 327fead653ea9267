//! TLS for the collector, with a certificate of its own.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use axum::serve::Listener;
use rcgen::CertifiedKey;
use rustls::pki_types::PrivatePkcs8KeyDer;
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

/// A certificate and its private key, as PEM.
#[derive(Debug)]
pub(super) struct Certificate {
    pub(super) chain: String,
    pub(super) key: String,
}

/// What makes connections those of https, and what clients have to trust: a certificate of the host in URLs that have
/// this address. If it is mutual, clients have to show the same one.
pub(super) fn identity(
    address: SocketAddr,
    mutual: bool,
) -> io::Result<(TlsAcceptor, Certificate)> {
    let CertifiedKey { cert, signing_key } =
        rcgen::generate_simple_self_signed([address.ip().to_string()]).map_err(io::Error::other)?;
    let key = PrivatePkcs8KeyDer::from(signing_key.serialize_der());
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .map_err(io::Error::other)?;
    let config = match mutual {
        true => {
            let mut known = RootCertStore::empty();
            known.add(cert.der().clone()).map_err(io::Error::other)?;
            let known = Arc::new(known);
            let clients = WebPkiClientVerifier::builder_with_provider(known, provider);
            config.with_client_cert_verifier(clients.build().map_err(io::Error::other)?)
        }
        false => config.with_no_client_auth(),
    };
    let mut config = config
        .with_single_cert(vec![cert.der().clone()], key.into())
        .map_err(io::Error::other)?;
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    let certificate = Certificate {
        chain: cert.pem(),
        key: signing_key.serialize_pem(),
    };
    Ok((TlsAcceptor::from(Arc::new(config)), certificate))
}

/// Gives out connections that have been encrypted; others are closed.
pub(super) struct Encrypted {
    pub(super) listener: TcpListener,
    pub(super) acceptor: TlsAcceptor,
}

impl Listener for Encrypted {
    type Io = TlsStream<TcpStream>;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Self::Io, Self::Addr) {
        loop {
            let (connection, peer) = Listener::accept(&mut self.listener).await;
            match self.acceptor.accept(connection).await {
                Ok(encrypted) => return (encrypted, peer),
                Err(error) => tracing::debug!("{peer} does not speak TLS: {error}"),
            }
        }
    }

    fn local_addr(&self) -> io::Result<Self::Addr> {
        self.listener.local_addr()
    }
}
