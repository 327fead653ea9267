//! Endpoints of https.

#[cfg(feature = "tls")]
pub(crate) use with_tls::{grpc, http};
#[cfg(not(feature = "tls"))]
pub(crate) use without_tls::{grpc, http};

#[cfg(feature = "tls")]
mod with_tls {
    use std::path::Path;
    use std::sync::Arc;

    use datafusion::common::{DataFusionError, Result, config_datafusion_err, config_err};
    use opentelemetry_otlp::WithTonicConfig;
    use opentelemetry_otlp::tonic_types::transport::{
        Certificate as PemFile, ClientTlsConfig, Identity,
    };
    use ureq::config::ConfigBuilder;
    use ureq::tls::{
        Certificate, ClientCert, PemItem, PrivateKey, RootCerts, TlsConfig, TlsProvider, parse_pem,
    };
    use ureq::typestate::AgentScope;

    use crate::endpoint::Endpoint;

    pub(crate) fn grpc<B: WithTonicConfig>(endpoint: &Endpoint, exporter: B) -> Result<B> {
        let mut tls = match endpoint.certificate().map(certificates).transpose()? {
            Some((pem, _)) => ClientTlsConfig::new().ca_certificate(PemFile::from_pem(pem)),
            None => ClientTlsConfig::new().with_enabled_roots(),
        };
        if let Some((certificate, private)) = endpoint.client() {
            let (certificate, _) = certificates(certificate)?;
            let (key, _) = key(private)?;
            tls = tls.identity(Identity::from_pem(certificate, key));
        }
        Ok(exporter.with_tls_config(tls))
    }

    pub(crate) fn http(
        endpoint: &Endpoint,
        client: ConfigBuilder<AgentScope>,
    ) -> Result<ConfigBuilder<AgentScope>> {
        let trusted = match endpoint.certificate().map(certificates).transpose()? {
            Some((_, certificates)) => certificates,
            None => {
                let found = rustls_native_certs::load_native_certs().certs;
                found
                    .iter()
                    .map(|found| Certificate::from_der(found).to_owned())
                    .collect()
            }
        };
        let client_certificate = endpoint.client().map(|(certificate, private)| {
            let (_, certificates) = certificates(certificate)?;
            let (_, key) = key(private)?;
            Ok::<_, DataFusionError>(ClientCert::new_with_certs(&certificates, key))
        });
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let tls = TlsConfig::builder()
            .provider(TlsProvider::Rustls)
            .unversioned_rustls_crypto_provider(provider)
            .root_certs(RootCerts::Specific(Arc::new(trusted)))
            .client_cert(client_certificate.transpose()?)
            .build();
        Ok(client.tls_config(tls))
    }

    /// A PEM file, and its certificates: at least one, which clients do not see to themselves.
    fn certificates(file: &Path) -> Result<(Vec<u8>, Vec<Certificate<'static>>)> {
        let pem = pem("certificates", file)?;
        let certificates: Vec<_> = parse_pem(&pem)
            .filter_map(|item| match item {
                Ok(PemItem::Certificate(certificate)) => Some(certificate),
                _ => None,
            })
            .collect();
        match certificates.is_empty() {
            true => {
                let shown = file.display();
                config_err!("{shown} has no certificate; expected a PEM file with at least one")
            }
            false => Ok((pem, certificates)),
        }
    }

    /// A PEM file, and its private key.
    fn key(file: &Path) -> Result<(Vec<u8>, PrivateKey<'static>)> {
        let pem = pem("key", file)?;
        match PrivateKey::from_pem(&pem) {
            Ok(key) => Ok((pem, key)),
            Err(_) => {
                let shown = file.display();
                config_err!("{shown} has no private key; expected a PEM file with one")
            }
        }
    }

    fn pem(what: &str, file: &Path) -> Result<Vec<u8>> {
        let shown = file.display();
        std::fs::read(file)
            .map_err(|error| config_datafusion_err!("cannot read the {what} {shown}: {error}"))
    }
}

#[cfg(not(feature = "tls"))]
mod without_tls {
    use datafusion::common::{Result, config_err};
    use ureq::config::ConfigBuilder;
    use ureq::typestate::AgentScope;

    use crate::endpoint::Endpoint;

    pub(crate) fn grpc<B>(endpoint: &Endpoint, _exporter: B) -> Result<B> {
        config_err!("{} needs the feature tls", endpoint.url())
    }

    pub(crate) fn http(
        endpoint: &Endpoint,
        _client: ConfigBuilder<AgentScope>,
    ) -> Result<ConfigBuilder<AgentScope>> {
        config_err!("{} needs the feature tls", endpoint.url())
    }
}
