//! A small file server over QUIC, with the congestion-control scheme as an argument.
//!
//! ```text
//! cargo run --release --example file_server -- serve FOLDER 127.0.0.1:4433 cert.der bbr-gc
//! cargo run --release --example file_server -- get 127.0.0.1:4433 cert.der NAME > FILE
//! ```
//! The server writes its self-signed certificate to `cert.der`; the client trusts only that certificate. A
//! request is the name of a file in the folder, and the answer is the file's contents. The three lines that
//! select the scheme are in [`transport`].
//!
//! Clients are untrusted: names can only refer to plain files directly in the folder, requests and connections
//! are bounded, and the server reads files only as fast as the client accepts the data.

use std::error::Error;
use std::fmt::{Display, Formatter};
use std::io::Write;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use noq::crypto::rustls::QuicClientConfig;
use noq::{
    ClientConfig, Connection, Endpoint, ReadError, ReadToEndError, RecvStream, SendStream, ServerConfig,
    TransportConfig, VarInt,
};
use rustls::RootCertStore;
use rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer};
use tokio::fs::File;
use tokio::io::AsyncReadExt;

/// An error of any kind.
pub type Failure = Box<dyn Error + Send + Sync>;

/// Longest accepted name of a file.
const NAME: usize = 255;
/// Bytes per read from a file.
const CHUNK: usize = 64 << 10;
/// Maximum number of simultaneous connections; further connections are refused.
const CONNECTIONS: usize = 1_000;
/// Time within which a server must answer.
const ANSWER: Duration = Duration::from_secs(5);
/// Error codes for reset streams.
const BROKEN: u32 = 500;
const NO_FILE: u32 = 404;
const TOO_LONG: u32 = 414;

/// An argument that is not accepted.
#[derive(Debug)]
struct UsageError(String);

impl Display for UsageError {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl Error for UsageError {}

/// Creates an error that names the attempted step.
fn failed<E: Display>(what: impl Display) -> impl FnOnce(E) -> Failure {
    move |error| format!("{what}: {error}").into()
}

/// Creates a usage error that names the argument.
fn usage<E: Display>(what: impl Display) -> impl FnOnce(E) -> UsageError {
    move |error| UsageError(format!("{what}: {error}"))
}

/// A transport configuration that runs this scheme.
pub fn transport(scheme: &str) -> Result<Arc<TransportConfig>, Failure> {
    let mut transport = TransportConfig::default();
    transport.congestion_controller_factory(narrows_quic::controller(scheme).map_err(usage("scheme"))?);
    Ok(Arc::new(transport))
}

/// Creates the endpoint of a server, which does not accept connections yet, and its certificate.
pub fn server(at: SocketAddr, scheme: &str) -> Result<(Endpoint, CertificateDer<'static>), Failure> {
    let certified = rcgen::generate_simple_self_signed(["localhost".to_owned()])?;
    let certificate = certified.cert.der().clone();
    let key = PrivatePkcs8KeyDer::from(certified.signing_key.serialize_der());
    let mut config = ServerConfig::with_single_cert(vec![certificate.clone()], key.into())?;
    config.transport_config(transport(scheme)?);
    Ok((Endpoint::server(config, at).map_err(failed(format_args!("serve at {at}")))?, certificate))
}

/// Serves connections until the endpoint is closed.
pub async fn serve(endpoint: Endpoint, folder: PathBuf) {
    let folder = Arc::new(folder);
    while let Some(incoming) = endpoint.accept().await {
        if endpoint.open_connections() > CONNECTIONS {
            incoming.refuse();
            continue;
        }
        let folder = Arc::clone(&folder);
        tokio::spawn(async move {
            match incoming.await {
                Ok(connection) => answer(connection, folder).await,
                Err(error) => eprintln!("no connection: {error}"),
            }
        });
    }
}

async fn answer(connection: Connection, folder: Arc<PathBuf>) {
    while let Ok((send, receive)) = connection.accept_bi().await {
        let folder = Arc::clone(&folder);
        tokio::spawn(async move {
            // If this fails, the client is gone.
            let _ = respond(send, receive, &folder).await;
        });
    }
}

/// Answers a request.
async fn respond(mut send: SendStream, mut receive: RecvStream, folder: &Path) -> Result<(), Failure> {
    let name = match receive.read_to_end(NAME).await {
        Ok(name) => name,
        Err(ReadToEndError::TooLong) => return Ok(send.reset(TOO_LONG.into())?),
        Err(error) => return Err(error.into()),
    };
    let name = String::from_utf8(name).unwrap_or_default();
    let Some(mut file) = open(folder, &name).await else { return Ok(send.reset(NO_FILE.into())?) };
    let mut chunk = vec![0; CHUNK];
    loop {
        match file.read(&mut chunk).await {
            Ok(0) => break,
            Ok(count) => send.write_all(&chunk[..count]).await?,
            // Reset the stream, so that the client does not take the part already sent for the whole file.
            Err(_) => return Ok(send.reset(BROKEN.into())?),
        }
    }
    send.finish()?;
    send.stopped().await?;
    Ok(())
}

/// Opens a file directly in the folder; `None` for any other name.
async fn open(folder: &Path, name: &str) -> Option<File> {
    let plain = Path::new(name).file_name().is_some_and(|last| last == name);
    let path = folder.join(name);
    let is_file = plain && tokio::fs::symlink_metadata(&path).await.is_ok_and(|found| found.is_file());
    if is_file { File::open(path).await.ok() } else { None }
}

/// A root store that trusts only this certificate.
pub fn trusting(certificate: CertificateDer<'static>) -> Result<RootCertStore, rustls::Error> {
    let mut roots = RootCertStore::empty();
    roots.add(certificate)?;
    Ok(roots)
}

/// Requests a file from a server and writes it to `out`. Returns the file's length.
pub async fn get(
    at: SocketAddr,
    roots: RootCertStore,
    name: &str,
    scheme: &str,
    out: &mut impl Write,
) -> Result<u64, Failure> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let crypto = rustls::ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13])?
        .with_root_certificates(roots)
        .with_no_client_auth();
    let mut config = ClientConfig::new(Arc::new(QuicClientConfig::try_from(crypto)?));
    config.transport_config(transport(scheme)?);
    let own: SocketAddr = match at {
        SocketAddr::V4(_) => (Ipv4Addr::UNSPECIFIED, 0).into(),
        SocketAddr::V6(_) => (Ipv6Addr::UNSPECIFIED, 0).into(),
    };
    let endpoint = Endpoint::client(own)?;
    let connecting = tokio::time::timeout(ANSWER, endpoint.connect_with(config, at, "localhost")?);
    let none = format!("connect to {at}: no answer within {} s", ANSWER.as_secs());
    let connection = connecting.await.map_err(|_| none)?.map_err(failed(format_args!("connect to {at}")))?;
    let (mut send, mut receive) = connection.open_bi().await?;
    send.write_all(name.as_bytes()).await?;
    send.finish()?;
    let mut length = 0;
    let ended = loop {
        match receive.read_chunk(CHUNK).await {
            Ok(Some(chunk)) => {
                out.write_all(&chunk).map_err(failed("write the file"))?;
                length += chunk.len() as u64;
            }
            Ok(None) => break Ok(length),
            Err(ReadError::Reset(code)) if code == VarInt::from_u32(NO_FILE) => {
                break Err(format!("the server has no file `{name}`").into());
            }
            Err(error) => break Err(error.into()),
        }
    };
    connection.close(0_u32.into(), b"done");
    endpoint.wait_idle().await;
    ended
}

fn address(text: &str) -> Result<SocketAddr, UsageError> {
    text.parse().map_err(|_| UsageError(format!("`{text}` is no address; accepted: IP:PORT, such as 127.0.0.1:4433")))
}

/// Runs a command line.
pub async fn run(words: &[&str]) -> Result<(), Failure> {
    match *words {
        ["serve", folder, at, certificate, ref scheme @ ..] if scheme.len() < 2 => {
            std::fs::read_dir(folder).map_err(usage(folder))?;
            let (endpoint, own) = server(address(at)?, scheme.first().copied().unwrap_or("bbr-gc"))?;
            std::fs::write(certificate, &own).map_err(failed(certificate))?;
            eprintln!("serving {folder} at {}", endpoint.local_addr()?);
            serve(endpoint, folder.into()).await;
        }
        ["get", at, certificate, name] => {
            let at = address(at)?;
            let trusted = std::fs::read(certificate).map_err(usage(certificate))?.into();
            let trusted = trusting(trusted).map_err(usage(format_args!("{certificate} is no certificate in DER")))?;
            get(at, trusted, name, "bbr-gc", &mut std::io::stdout()).await?;
        }
        _ => {
            let accepted = "accepted: serve FOLDER ADDRESS CERTIFICATE [SCHEME], or get ADDRESS CERTIFICATE NAME";
            return Err(UsageError(accepted.to_owned()).into());
        }
    }
    Ok(())
}

/// The exit status: 2 for wrong usage, 1 for a failure.
pub fn status(error: &Failure) -> u8 {
    if error.is::<UsageError>() { 2 } else { 1 }
}

#[allow(dead_code)] // a test includes this file
fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let done = runtime.map_err(Failure::from).and_then(|runtime| runtime.block_on(run(&words)));
    let Err(error) = done else { return ExitCode::SUCCESS };
    eprintln!("{error}");
    status(&error).into()
}
