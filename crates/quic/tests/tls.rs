//! TLS configuration for endpoints in one process.

use std::sync::Arc;

use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};

/// A certificate for `localhost`, its key, and a client that trusts it.
pub fn made() -> (Vec<CertificateDer<'static>>, PrivateKeyDer<'static>, rustls::ClientConfig) {
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).expect("a certificate");
    let certificate = made.cert.der().clone();
    let mut roots = rustls::RootCertStore::empty();
    roots.add(certificate.clone()).expect("a certificate");
    let client = rustls::ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_protocol_versions(&[&rustls::version::TLS13])
        .expect("TLS 1.3")
        .with_root_certificates(roots)
        .with_no_client_auth();
    (vec![certificate], PrivatePkcs8KeyDer::from(made.signing_key.serialize_der()).into(), client)
}
