//! TLS for the collector, with a certificate of its own.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use axum::serve::Listener;
use rcgen::CertifiedKey;
use rustls::ServerConfig;
use rustls::pki_types::PrivatePkcs8KeyDer;
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

/// What a server needs to be one of https.
pub(super) struct Identity {
    pub(super) acceptor: TlsAcceptor,
    /// What its clients have to trust, as PEM.
    pub(super) certificate: String,
}

impl Identity {
    /// Of the host in URLs that have this address.
    pub(super) fn of(address: SocketAddr) -> io::Result<Self> {
        let CertifiedKey { cert, signing_key } =
            rcgen::generate_simple_self_signed([address.ip().to_string()])
                .map_err(io::Error::other)?;
        let key = PrivatePkcs8KeyDer::from(signing_key.serialize_der());
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(io::Error::other)?
            .with_no_client_auth()
            .with_single_cert(vec![cert.der().clone()], key.into())
            .map_err(io::Error::other)?;
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Ok(Self {
            acceptor: TlsAcceptor::from(Arc::new(config)),
            certificate: cert.pem(),
        })
    }
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
