//! A small file server over QUIC, with the congestion control scheme as a flag.
//!
//! ```text
//! cargo run --release --example file_server -- serve FOLDER 127.0.0.1:4433 cert.der bbr-gc
//! cargo run --release --example file_server -- get 127.0.0.1:4433 cert.der NAME > FILE
//! ```
//! The server writes its self-made certificate to `cert.der`; the client trusts that one. A request is the name of a file
//! in the folder, an answer its contents. The three lines that select the scheme are in [`transport`].

use std::error::Error;
use std::io::Write;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use noq::crypto::rustls::QuicClientConfig;
use noq::{ClientConfig, Connection, Endpoint, ServerConfig, TransportConfig};
use rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer};

type Failure = Box<dyn Error + Send + Sync>;

/// Longest name of a file.
const NAME: usize = 255;
/// Largest file that the client takes.
const LARGEST: usize = 1 << 30;

/// A transport that runs this scheme.
pub fn transport(scheme: &str) -> Result<Arc<TransportConfig>, Failure> {
    let mut transport = TransportConfig::default();
    transport.congestion_controller_factory(narrows_quic::controller(scheme)?);
    Ok(Arc::new(transport))
}

/// A server of the files in a folder, before it serves, and its certificate.
pub fn server(at: SocketAddr, scheme: &str) -> Result<(Endpoint, CertificateDer<'static>), Failure> {
    let certified = rcgen::generate_simple_self_signed(["localhost".to_owned()])?;
    let certificate = certified.cert.der().clone();
    let key = PrivatePkcs8KeyDer::from(certified.signing_key.serialize_der());
    let mut config = ServerConfig::with_single_cert(vec![certificate.clone()], key.into())?;
    config.transport_config(transport(scheme)?);
    Ok((Endpoint::server(config, at)?, certificate))
}

/// Serves connections until the endpoint is closed.
pub async fn serve(endpoint: Endpoint, folder: PathBuf) {
    while let Some(incoming) = endpoint.accept().await {
        let folder = folder.clone();
        tokio::spawn(async move {
            match incoming.await {
                Ok(connection) => answer(connection, &folder).await,
                Err(error) => eprintln!("no connection: {error}"),
            }
        });
    }
}

async fn answer(connection: Connection, folder: &Path) {
    while let Ok((mut send, mut receive)) = connection.accept_bi().await {
        let folder = folder.to_owned();
        tokio::spawn(async move {
            let Ok(name) = receive.read_to_end(NAME).await else { return };
            let contents = String::from_utf8(name).ok().and_then(|name| read(&folder, &name));
            let sent = match &contents {
                Some(contents) => send.write_all(contents).await.is_ok(),
                None => send.reset(404_u32.into()).is_ok(),
            };
            if sent && contents.is_some() && send.finish().is_ok() {
                let _ = send.stopped().await;
            }
        });
    }
}

/// A file directly in the folder.
fn read(folder: &Path, name: &str) -> Option<Vec<u8>> {
    let plain = Path::new(name).file_name().is_some_and(|last| last == name);
    let path = folder.join(name);
    let inside = plain && std::fs::symlink_metadata(&path).is_ok_and(|found| found.is_file());
    inside.then(|| std::fs::read(path).ok()).flatten()
}

/// Asks a server for a file.
pub async fn get(
    at: SocketAddr,
    certificate: CertificateDer<'static>,
    name: &str,
    scheme: &str,
) -> Result<Vec<u8>, Failure> {
    let mut roots = rustls::RootCertStore::empty();
    roots.add(certificate)?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let crypto = rustls::ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13])?
        .with_root_certificates(roots)
        .with_no_client_auth();
    let mut config = ClientConfig::new(Arc::new(QuicClientConfig::try_from(crypto)?));
    config.transport_config(transport(scheme)?);
    let endpoint = Endpoint::client((Ipv4Addr::UNSPECIFIED, 0).into())?;
    let connection = endpoint.connect_with(config, at, "localhost")?.await?;
    let (mut send, mut receive) = connection.open_bi().await?;
    send.write_all(name.as_bytes()).await?;
    send.finish()?;
    let contents = receive.read_to_end(LARGEST).await?;
    connection.close(0_u32.into(), b"done");
    endpoint.wait_idle().await;
    Ok(contents)
}

#[allow(dead_code)] // a test includes this file
#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Failure> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match words[..] {
        ["serve", folder, at, certificate, ref scheme @ ..] if scheme.len() < 2 => {
            let (endpoint, own) = server(at.parse()?, scheme.first().copied().unwrap_or("bbr-gc"))?;
            std::fs::write(certificate, &own)?;
            eprintln!("serving {folder} at {}", endpoint.local_addr()?);
            serve(endpoint, folder.into()).await;
        }
        ["get", at, certificate, name] => {
            let trusted = std::fs::read(certificate)?.into();
            std::io::stdout().write_all(&get(at.parse()?, trusted, name, "bbr-gc").await?)?;
        }
        _ => {
            eprintln!("accepted: serve FOLDER ADDRESS CERTIFICATE [SCHEME], or get ADDRESS CERTIFICATE NAME");
            std::process::exit(2);
        }
    }
    Ok(())
}
