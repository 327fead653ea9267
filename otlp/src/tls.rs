//! Endpoints of https.

#[cfg(feature = "tls")]
pub(crate) use with_tls::{grpc, http};
#[cfg(not(feature = "tls"))]
pub(crate) use without_tls::{grpc, http};

#[cfg(feature = "tls")]
mod with_tls {
    use std::path::Path;
    use std::sync::Arc;

    use datafusion::common::{Result, config_datafusion_err, config_err};
    use opentelemetry_otlp::WithTonicConfig;
    use opentelemetry_otlp::tonic_types::transport::{Certificate as PemFile, ClientTlsConfig};
    use ureq::config::ConfigBuilder;
    use ureq::tls::{Certificate, PemItem, RootCerts, TlsConfig, TlsProvider, parse_pem};
    use ureq::typestate::AgentScope;

    use crate::endpoint::Endpoint;

    pub(crate) fn grpc<B: WithTonicConfig>(endpoint: &Endpoint, exporter: B) -> Result<B> {
        let trusted = match endpoint.certificate().map(read).transpose()? {
            Some((pem, _)) => ClientTlsConfig::new().ca_certificate(PemFile::from_pem(pem)),
            None => ClientTlsConfig::new().with_enabled_roots(),
        };
        Ok(exporter.with_tls_config(trusted))
    }

    pub(crate) fn http(
        endpoint: &Endpoint,
        client: ConfigBuilder<AgentScope>,
    ) -> Result<ConfigBuilder<AgentScope>> {
        let trusted = match endpoint.certificate().map(read).transpose()? {
            Some((_, certificates)) => certificates,
            None => {
                let found = rustls_native_certs::load_native_certs().certs;
                found
                    .iter()
                    .map(|found| Certificate::from_der(found).to_owned())
                    .collect()
            }
        };
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let tls = TlsConfig::builder()
            .provider(TlsProvider::Rustls)
            .unversioned_rustls_crypto_provider(provider)
            .root_certs(RootCerts::Specific(Arc::new(trusted)))
            .build();
        Ok(client.tls_config(tls))
    }

    /// A PEM file, and its certificates: at least one, which clients do not see to themselves.
    fn read(file: &Path) -> Result<(Vec<u8>, Vec<Certificate<'static>>)> {
        let shown = file.display();
        let pem = std::fs::read(file).map_err(|error| {
            config_datafusion_err!("cannot read the certificates {shown}: {error}")
        })?;
        let certificates: Vec<_> = parse_pem(&pem)
            .filter_map(|item| match item {
                Ok(PemItem::Certificate(certificate)) => Some(certificate),
                _ => None,
            })
            .collect();
        match certificates.is_empty() {
            true => {
                config_err!("{shown} has no certificate; expected a PEM file of those to trust")
            }
            false => Ok((pem, certificates)),
        }
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
