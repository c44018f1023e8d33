//! Text with which a peer closes a connection reaches people without control characters.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use narrows_perf::{self as perf, Caller, Event, Request, Settings, Trust};
use noq::{Endpoint, ServerConfig, TransportConfig};
use noq_proto::crypto::rustls::QuicServerConfig;
use rustls::pki_types::PrivatePkcs8KeyDer;

struct Quiet;

impl Caller for Quiet {
    fn stop(&self) -> bool {
        false
    }
    fn event(&self, _: &Event) {}
}

/// A server of throughput tests that closes each connection with this reason.
fn hostile(reason: &'static [u8]) -> SocketAddr {
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let key = PrivatePkcs8KeyDer::from(made.signing_key.serialize_der());
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut tls = rustls::ServerConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13])
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![made.cert.der().clone()], key.into())
        .unwrap();
    tls.alpn_protocols = vec![perf::ALPN.to_vec()];
    let mut config = ServerConfig::with_crypto(Arc::new(QuicServerConfig::try_from(tls).unwrap()));
    // The client cannot begin before it is closed.
    let mut transport = TransportConfig::default();
    transport.max_concurrent_bidi_streams(0_u32.into());
    config.transport_config(Arc::new(transport));
    let (tell, told) = std::sync::mpsc::channel();
    // It ends with the process.
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let endpoint = Endpoint::server(config, (Ipv4Addr::LOCALHOST, 0).into()).unwrap();
            tell.send(endpoint.local_addr().unwrap()).unwrap();
            while let Some(incoming) = endpoint.accept().await {
                if let Ok(connection) = incoming.await {
                    connection.close(7_u32.into(), reason);
                }
            }
        });
    });
    told.recv().unwrap()
}

/// A client names the reason, with its escape sequences and lines escaped.
#[test]
fn close_reason_is_shown_escaped() {
    let address = hostile(b"\x1b[2Jfull\r\nnarrows: all is well\xc2\x9b1m");
    let settings =
        Settings { address, scheme: "cubic".to_owned(), params: Vec::new(), interval: Duration::from_secs(1) };
    let request = Request {
        duration: Duration::from_secs(1),
        streams: 1,
        reverse: false,
        name: "localhost".to_owned(),
        trust: Trust::Any,
    };
    let text = perf::client(&settings, &request, &Quiet).expect_err("it was closed").to_string();
    assert!(text.contains(r"\u{1b}[2Jfull\u{d}\u{a}narrows: all is well\u{9b}1m"), "{text}");
    assert!(!text.contains(char::is_control), "{text:?}");
}
