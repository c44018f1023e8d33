//! Certificates that a run creates for its connections.

use std::io;
use std::sync::Arc;

use narrows_host::HostError;
use noq_proto::crypto::rustls::QuicClientConfig;
use noq_proto::{ClientConfig, ServerConfig};
use rustls::RootCertStore;
use rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer};

/// The name in the certificate.
pub(super) const NAME: &str = "localhost";

/// The TLS keys of a run: the receivers' certificate and key, and the senders' configuration that trusts the
/// certificate.
pub(super) struct Keys {
    chain: Vec<CertificateDer<'static>>,
    key: Vec<u8>,
    client: Arc<QuicClientConfig>,
}

fn failed(error: impl std::error::Error + Send + Sync + 'static) -> HostError {
    HostError::step("make a certificate", io::Error::other(error))
}

impl Keys {
    /// Creates a certificate that is valid for this run.
    pub(super) fn new() -> Result<Self, HostError> {
        let certified = rcgen::generate_simple_self_signed([NAME.to_owned()]).map_err(failed)?;
        let chain = vec![certified.cert.der().clone()];
        let mut roots = RootCertStore::empty();
        roots.add(chain[0].clone()).map_err(failed)?;
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let client = rustls::ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&rustls::version::TLS13])
            .map_err(failed)?
            .with_root_certificates(roots)
            .with_no_client_auth();
        let client = Arc::new(QuicClientConfig::try_from(client).map_err(failed)?);
        Ok(Self { chain, key: certified.signing_key.serialize_der(), client })
    }

    pub(super) fn client(&self) -> ClientConfig {
        ClientConfig::new(self.client.clone())
    }

    pub(super) fn server(&self) -> Result<ServerConfig, HostError> {
        let key = PrivatePkcs8KeyDer::from(self.key.clone());
        ServerConfig::with_single_cert(self.chain.clone(), key.into()).map_err(failed)
    }
}
