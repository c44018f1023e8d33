//! Certificates of throughput tests: self-signed certificates for a first try, and certificates in files.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, WebPkiSupportedAlgorithms, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer, ServerName, UnixTime};
use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, Error, OtherError, RootCertStore, ServerConfig,
    SignatureScheme,
};

use super::PerfError;

/// The application protocol (ALPN).
pub const ALPN: &[u8] = b"narrows-perf/3";
/// The previous application protocol, which both endpoints still support.
pub const ALPN_BEFORE: &[u8] = b"narrows-perf/2";
/// Files with the authorities that the system trusts.
const SYSTEM: [&str; 3] =
    ["/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/cert.pem"];
/// Number of hexadecimal digits of a SHA-256.
const DIGITS: usize = 64;

/// A server's certificate chain and key, in PEM files.
#[derive(Clone, Debug)]
pub struct Identity {
    /// File with the certificate chain.
    pub certificate: PathBuf,
    /// File with the private key.
    pub key: PathBuf,
}

/// Selects the certificates that a client accepts.
#[derive(Clone, Debug)]
pub enum Trust {
    /// Certificates from authorities that the system trusts.
    System,
    /// Certificates from the authorities in a PEM file.
    Authorities(PathBuf),
    /// The certificate with this SHA-256, in hexadecimal digits with or without colons.
    Fingerprint(String),
    /// Any certificate: the server is not authenticated.
    Any,
}

fn provider() -> Arc<CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}

fn failed(error: impl std::fmt::Display) -> PerfError {
    PerfError::failed("set up TLS", error)
}

fn unreadable(path: &Path, error: impl std::fmt::Display) -> PerfError {
    PerfError::Refused(format!("{}: {error}; accepted: a PEM file", path.display()))
}

type Chain = (Vec<CertificateDer<'static>>, PrivateKeyDer<'static>);

/// The server's certificate chain and key; without files, a self-signed pair.
pub(super) fn identity(files: Option<&Identity>) -> Result<Chain, PerfError> {
    let Some(files) = files else {
        let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).map_err(failed)?;
        let key = PrivatePkcs8KeyDer::from(made.signing_key.serialize_der());
        return Ok((vec![made.cert.der().clone()], key.into()));
    };
    let chain = certificates(&files.certificate)?;
    let key = PrivateKeyDer::from_pem_file(&files.key).map_err(|error| unreadable(&files.key, error))?;
    Ok((chain, key))
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, PerfError> {
    let read = CertificateDer::pem_file_iter(path).map_err(|error| unreadable(path, error))?;
    let chain: Vec<_> = read.collect::<Result<_, _>>().map_err(|error| unreadable(path, error))?;
    if chain.is_empty() {
        return Err(unreadable(path, "no certificate in it"));
    }
    Ok(chain)
}

pub(super) fn server(
    chain: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
    files: Option<&Identity>,
) -> Result<ServerConfig, PerfError> {
    let builder = ServerConfig::builder_with_provider(provider())
        .with_protocol_versions(&[&rustls::version::TLS13])
        .map_err(failed)?;
    let mut config = builder.with_no_client_auth().with_single_cert(chain, key).map_err(|error| match files {
        Some(files) => PerfError::Refused(format!(
            "{} and {} do not fit: {error}; accepted: a certificate and its own key",
            files.certificate.display(),
            files.key.display()
        )),
        None => failed(error),
    })?;
    config.alpn_protocols = vec![ALPN.to_vec(), ALPN_BEFORE.to_vec()];
    Ok(config)
}

/// The reason why a client has refused a certificate, if it has.
#[derive(Clone, Debug, Default)]
pub(super) struct Verdict(Arc<Mutex<Option<String>>>);

impl Verdict {
    pub(super) fn take(&self) -> Option<String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

pub(super) fn client(trust: &Trust) -> Result<(ClientConfig, Verdict), PerfError> {
    let builder = ClientConfig::builder_with_provider(provider())
        .with_protocol_versions(&[&rustls::version::TLS13])
        .map_err(failed)?;
    let system = || {
        let path = SYSTEM.iter().map(Path::new).find(|path| path.is_file());
        path.ok_or_else(|| PerfError::Refused("this system has no list of authorities; accepted: --ca FILE".to_owned()))
    };
    let (accepted, issuers) = match trust {
        Trust::System => (Accepted::Signed(authorities(system()?)?), "an authority that this system trusts".to_owned()),
        Trust::Authorities(path) => {
            (Accepted::Signed(authorities(path)?), format!("an authority in {}", path.display()))
        }
        Trust::Fingerprint(text) => (Accepted::Digest(digits(text)?), String::new()),
        Trust::Any => (Accepted::Any, String::new()),
    };
    let (algorithms, verdict) = (provider().signature_verification_algorithms, Verdict::default());
    let verifier = Arc::new(Verifier { accepted, issuers, algorithms, verdict: verdict.clone() });
    let mut config = builder.dangerous().with_custom_certificate_verifier(verifier).with_no_client_auth();
    config.alpn_protocols = vec![ALPN.to_vec(), ALPN_BEFORE.to_vec()];
    Ok((config, verdict))
}

fn authorities(path: &Path) -> Result<Arc<dyn ServerCertVerifier>, PerfError> {
    let mut roots = RootCertStore::empty();
    // The file may contain certificates that this library cannot read.
    let (added, _) = roots.add_parsable_certificates(certificates(path)?);
    if added == 0 {
        return Err(unreadable(path, "no authority in it"));
    }
    let verifier = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider()).build();
    Ok(verifier.map_err(failed)?)
}

fn digits(text: &str) -> Result<String, PerfError> {
    let plain: String = text.chars().filter(|c| *c != ':').collect::<String>().to_ascii_lowercase();
    if plain.len() == DIGITS && plain.bytes().all(|digit| digit.is_ascii_hexdigit()) {
        return Ok(plain);
    }
    Err(PerfError::Refused(format!(
        "fingerprint `{text}`; accepted: the SHA-256 that the server prints, {DIGITS} hexadecimal digits"
    )))
}

/// SHA-256 of a certificate, in hexadecimal digits.
pub(super) fn fingerprint(certificate: &CertificateDer<'_>) -> String {
    let suite = rustls::crypto::ring::cipher_suite::TLS13_AES_128_GCM_SHA256;
    let Some(suite) = suite.tls13() else { return String::new() };
    let digest = suite.common.hash_provider.hash(certificate);
    digest.as_ref().iter().fold(String::with_capacity(DIGITS), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// The certificates that a client accepts.
#[derive(Debug)]
enum Accepted {
    /// Certificates that an authority has signed.
    Signed(Arc<dyn ServerCertVerifier>),
    /// The certificate with this fingerprint.
    Digest(String),
    Any,
}

/// Verifies certificates, and keeps the reason for a refusal, because QUIC transmits only an error number.
#[derive(Debug)]
struct Verifier {
    accepted: Accepted,
    /// Description of the accepted issuers.
    issuers: String,
    algorithms: WebPkiSupportedAlgorithms,
    verdict: Verdict,
}

impl Verifier {
    fn reason(&self, error: &Error) -> String {
        let Error::InvalidCertificate(reason) = error else {
            return error.to_string();
        };
        let date = |time: &UnixTime| {
            let (year, month, day) = civil(time.as_secs());
            format!("{year}-{month:02}-{day:02}")
        };
        let certificate = "the server's certificate";
        match reason {
            CertificateError::ExpiredContext { not_after, .. } => {
                format!("{certificate} expired on {}; accepted: one that is valid now", date(not_after))
            }
            CertificateError::NotValidYetContext { not_before, .. } => {
                format!("{certificate} is valid from {}; accepted: one that is valid now", date(not_before))
            }
            CertificateError::NotValidForNameContext { expected, presented } => {
                let names = if presented.is_empty() {
                    "no name".to_owned()
                } else {
                    presented.iter().map(|name| plain(name)).collect::<Vec<_>>().join(", ")
                };
                let wanted = expected.to_str();
                format!("{certificate} is for {names}, not for {wanted}; accepted: --name with a name that it has")
            }
            CertificateError::UnknownIssuer => {
                let issuers = &self.issuers;
                format!("{certificate} is not signed by {issuers}; accepted: --ca FILE, --fingerprint DIGITS")
            }
            CertificateError::Other(OtherError(error)) => match error.downcast_ref::<Error>() {
                Some(Error::General(text)) => text.clone(),
                _ => error.to_string(),
            },
            other => format!("{certificate} is invalid: {}", Error::InvalidCertificate(other.clone())),
        }
    }
}

/// The name without rustls' notation, for example from `DnsName("host.example")` or `IpAddress(192.0.2.1)`.
fn plain(name: &str) -> &str {
    name.split_once('(').and_then(|(_, rest)| rest.strip_suffix(')')).unwrap_or(name).trim_matches('"')
}

/// Year, month and day of a Unix time in seconds (Howard Hinnant's `civil_from_days`).
fn civil(seconds: u64) -> (u64, u64, u64) {
    let days = seconds / 86_400 + 719_468;
    let (era, of_era) = (days / 146_097, days % 146_097);
    let year = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let shifted = (5 * of_year + 2) / 153;
    let day = of_year - (153 * shifted + 2) / 5 + 1;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
    (year + era * 400 + u64::from(month <= 2), month, day)
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let verified = match &self.accepted {
            Accepted::Signed(verifier) => {
                verifier.verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now)
            }
            Accepted::Digest(wanted) if *wanted != fingerprint(end_entity) => {
                let found = fingerprint(end_entity);
                let reason = format!("the server's certificate has the fingerprint {found}");
                // The alert tells the server that the client refused its certificate.
                Err(CertificateError::Other(OtherError(Arc::new(Error::General(reason)))).into())
            }
            Accepted::Digest(_) | Accepted::Any => Ok(ServerCertVerified::assertion()),
        };
        verified.inspect_err(|error| {
            *self.verdict.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(self.reason(error));
        })
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, certificate, signed, &self.algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, certificate, signed, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}
