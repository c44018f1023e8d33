//! Peers that flood, stall, lie or request too much.

use std::net::{SocketAddr, UdpSocket};
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::{Duration, Instant};

use narrows_host::testing::print_row;
use noq::{ClientConfig, Connection, Endpoint, RecvStream, SendStream, TransportConfig};
use noq_proto::crypto::rustls::QuicClientConfig;

use super::super::control::{Asked, REQUEST};
use super::super::{Event, MAX_DURATION, PerfError, Request, Service, Trust, client, tls, transport};
use super::{ended, log, request, service, serving, serving_as, settings, tested};

fn config(address: SocketAddr) -> ClientConfig {
    let (crypto, _) = tls::client(&Trust::Any).expect("TLS");
    let mut config = ClientConfig::new(Arc::new(QuicClientConfig::try_from(crypto).expect("TLS")));
    config.transport_config(transport(&settings(address, "bbr"), 1 << 20, 1 << 20).expect("a transport"));
    config
}

/// The first packet of a new connection.
fn initial(address: SocketAddr) -> Vec<u8> {
    let mut endpoint = noq_proto::Endpoint::new(Arc::default(), None, true);
    let now = Instant::now();
    let (_, mut connection) = endpoint.connect(now, config(address), address, "localhost").expect("begins");
    let mut packet = Vec::new();
    let _ = connection.poll_transmit(now, NonZeroUsize::MIN, &mut packet).expect("a first packet");
    packet
}

/// Opens a connection, which ends when the returned endpoint is dropped.
async fn connect(address: SocketAddr) -> (Endpoint, Connection) {
    let endpoint = Endpoint::client("127.0.0.1:0".parse().expect("an address")).expect("a socket");
    let connecting = endpoint.connect_with(config(address), address, "localhost").expect("begins");
    let connection = connecting.await.expect("connects");
    (endpoint, connection)
}

/// Opens a connection and runs `work` with it.
fn connected<T, F: Future<Output = T>>(address: SocketAddr, work: impl FnOnce(Connection) -> F) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let (_endpoint, connection) = connect(address).await;
        work(connection).await
    })
}

/// Opens the control stream and writes `request` to it.
async fn asking(connection: &Connection, request: &[u8]) -> (SendStream, RecvStream) {
    let (mut send, receive) = connection.open_bi().await.expect("a stream");
    send.write_all(request).await.expect("sent");
    (send, receive)
}

/// A request for one stream, in the protocol version without scheme names.
fn asked(reverse: bool, duration: Duration) -> Asked {
    Asked { reverse, streams: 1, duration, named: false }
}

/// A thousand first packets with spoofed addresses occupy no test slot: a client runs at the same time, and the
/// server's answers have at most three times the bytes of these packets (RFC 9000 section 8).
/// have at most three times their bytes (RFC 9000 section 8).
#[test]
#[ignore = "real time: `make test-long`"]
fn long_client_connects_beside_spoofed_handshakes() {
    serving("bbr", |address, _| {
        let mut sent = 0;
        let flood: Vec<UdpSocket> = (0..100).map(|_| UdpSocket::bind("127.0.0.1:0").expect("a socket")).collect();
        for socket in flood.iter().cycle().take(1000) {
            let packet = initial(address);
            sent += packet.len();
            socket.send_to(&packet, address).expect("sent");
        }
        assert!(tested(address).is_ok_and(|summary| summary.complete));
        let mut answered = 0;
        for socket in &flood {
            socket.set_nonblocking(true).expect("set");
            while let Ok(bytes) = socket.recv(&mut [0; 2048]) {
                answered += bytes;
            }
        }
        assert!((1..=3 * sent).contains(&answered), "{answered} bytes for {sent}");
        let result = format!("a client ran beside them, {answered} bytes in answer to {sent}");
        print_row("QUIC server: first packets in foreign names", 1_000, &result);
    });
}

/// Connections without a request occupy no test slot, and their number is bounded per address.
#[test]
#[ignore = "real time: `make test-long`"]
fn long_silent_connections_hold_no_test() {
    let service = Service { connections: 1, per_address: 3, ..service() };
    serving_as(&service, "bbr", |address, _| {
        connected(address, |first| async move {
            let second = connect(address).await;
            let done = tokio::task::spawn_blocking(move || tested(address)).await.expect("no panic");
            assert!(done.is_ok_and(|summary| summary.complete));
            drop((first, second));
        });
    });
}

/// A server that refuses a client states which limit was reached: simultaneous tests, or connections from an address.
#[test]
#[ignore = "real time: `make test`"]
fn busy_server_says_so() {
    for (connections, per_address, reason) in [(1, 8, "busy: 1 test at a time"), (8, 1, "this address")] {
        let service = Service { connections, per_address, ..service() };
        serving_as(&service, "bbr", |address, _| {
            connected(address, |first| async move {
                let _control = asking(&first, &asked(true, Duration::from_secs(60)).encode()).await;
                let mut data = first.accept_uni().await.expect("the test runs");
                let second = tokio::task::spawn_blocking(move || tested(address));
                while !second.is_finished() {
                    data.read_chunk(usize::MAX).await.expect("data");
                }
                let refused = second.await.expect("no panic").expect_err("no place").to_string();
                assert!(refused.contains(reason), "{refused}");
            });
        });
    }
}

/// Both endpoints refuse excessive and malformed requests, and state the accepted values.
#[test]
fn greedy_requests_are_refused() {
    let service = Service { longest: Duration::from_secs(5), ..service() };
    let seen = serving_as(&service, "bbr", |address, _| {
        let long = Request { duration: Duration::from_secs(6), ..request(Trust::Any, false) };
        let refused = client(&settings(address, "bbr"), &long, log().0.as_ref()).expect_err("too long");
        assert!(refused.to_string().contains("accepted: above 0, 5 s at most"), "{refused}");
        for wrong in [
            Request { duration: MAX_DURATION * 2, ..long.clone() },
            Request { streams: 129, ..long.clone() },
            Request { streams: 0, ..long },
        ] {
            let refused = client(&settings(address, "bbr"), &wrong, log().0.as_ref()).expect_err("misuse");
            assert!(refused.to_string().contains("accepted: "), "{refused}");
        }
        let foreign = connected(address, |connection| async move {
            let _control = asking(&connection, &[0xff; REQUEST]).await;
            connection.closed().await
        });
        assert!(foreign.to_string().contains("no request of narrows perf"), "{foreign}");
    });
    assert!(ended(&seen).is_empty(), "{seen:?}");
}

/// A receiver that reports more bytes than were sent, or an impossible time, ends the test, and no result
/// contains its numbers.
#[test]
#[ignore = "real time: `make test`"]
fn lying_receiver_ends_the_test() {
    let bytes = [&[0; 8][..], &[0, 1, 0, 0], &[0xff; 8]].concat();
    let time = [&[0xff; 8][..], &[0, 0]].concat();
    for (report, reason) in [(bytes, "more than were sent"), (time, "the test took")] {
        let seen = serving("fixed:rate=1mbit", |address, _| {
            connected(address, |connection| async move {
                let request = asked(true, Duration::from_secs(600)).encode();
                let _control = asking(&connection, &[&request[..], &report].concat()).await;
                connection.closed().await
            });
        });
        let summary = &ended(&seen)[0];
        assert!(summary.failure.as_ref().is_some_and(|text| text.contains(reason)), "{seen:?}");
        assert_eq!((summary.total.bytes, summary.received.as_ref().map(|own| own.seconds)), (0, Some(0.0)));
    }
}

/// Control characters in a peer's reason are escaped before the reason is printed.
#[test]
fn reasons_of_peers_are_printable() {
    let seen = serving("bbr", |address, _| {
        connected(address, |connection| async move {
            connection.close(7_u32.into(), b"\x1b[2Jgone\n");
            tokio::time::sleep(Duration::from_millis(300)).await;
        });
    });
    let text = seen.iter().find_map(|event| match event {
        Event::Warning { text } => Some(text.clone()),
        _ => None,
    });
    let text = text.expect("a warning");
    assert!(text.contains("gone") && !text.contains(char::is_control), "{text:?}");
}

/// A sender that claims more bytes than were received, or impossible times or losses, ends the test with the
/// reason, and no result contains its numbers.
#[test]
#[ignore = "real time: `make test-long`"]
fn long_lying_sender_ends_the_test() {
    const SENT: u64 = 1_000;
    let (second, day) = (1_000_000, 86_400_000_000);
    for (time, lost, bytes, reason) in [
        (second, 0, u64::MAX, "these are 1000"),
        (u64::MAX, 0, SENT, "s at most"),
        (day, 0, SENT, "s at most"),
        (second, u64::MAX, SENT, "packets were lost in 1 s; accepted: "),
    ] {
        let seen = serving("bbr", |address, _| {
            connected(address, |connection| async move {
                let request = asked(false, Duration::from_millis(200)).encode();
                let (mut send, _receive) = asking(&connection, &request).await;
                let mut data = connection.open_uni().await.expect("a stream");
                data.write_all(&[0; SENT as usize]).await.expect("sent");
                data.finish().expect("open");
                data.stopped().await.expect("read");
                let result = [time, lost, bytes].map(u64::to_be_bytes).concat();
                send.write_all(&result).await.expect("sent");
                connection.closed().await
            });
        });
        let summary = &ended(&seen)[0];
        assert!(summary.failure.as_ref().is_some_and(|text| text.contains(reason)), "{summary:?}");
        assert!(summary.sent.is_none() && summary.total.bytes == SENT, "{summary:?}");
        assert_eq!(summary.begun.scheme, None, "version 2 states none");
    }
}

/// A scheme name must be visible ASCII; otherwise the test does not begin.
#[test]
fn false_names_of_schemes_are_refused() {
    for (name, reason) in [(&b"\x07\x1b[2Jgone"[..], "visible ASCII"), (&[0], "0 bytes"), (&[65], "65 bytes")] {
        let seen = serving("bbr", |address, _| {
            let closed = connected(address, |connection| async move {
                let request = Asked { named: true, ..asked(false, Duration::from_secs(1)) }.encode();
                let _control = asking(&connection, &[&request[..], name].concat()).await;
                connection.closed().await
            });
            assert!(closed.to_string().contains(reason), "{closed}");
        });
        assert!(ended(&seen).is_empty(), "{seen:?}");
    }
}

/// Runs one of our clients against a server that supports this protocol and only accepts the connection.
fn accepting<F: Future<Output = ()>>(
    protocol: &[u8],
    transport: TransportConfig,
    work: impl FnOnce(Connection) -> F,
) -> PerfError {
    let (chain, key) = tls::identity(None).expect("a certificate");
    let mut crypto = tls::server(chain, key, None).expect("TLS");
    crypto.alpn_protocols = vec![protocol.to_vec()];
    let crypto = noq_proto::crypto::rustls::QuicServerConfig::try_from(crypto).expect("TLS");
    let mut config = noq::ServerConfig::with_crypto(Arc::new(crypto));
    config.transport_config(Arc::new(transport));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let endpoint = Endpoint::server(config, "127.0.0.1:0".parse().expect("an address")).expect("a socket");
        let address = endpoint.local_addr().expect("an address");
        let running = tokio::task::spawn_blocking(move || tested(address));
        work(endpoint.accept().await.expect("a client").await.expect("connects")).await;
        running.await.expect("no panic").expect_err("the connection was closed")
    })
}

/// A server of the previous version gets a request of that version, and no scheme name, which it would read as
/// part of the result.
#[test]
fn client_speaks_the_version_before() {
    accepting(tls::ALPN_BEFORE, TransportConfig::default(), |connection| async move {
        let (_send, mut receive) = connection.accept_bi().await.expect("a stream");
        let mut data = connection.accept_uni().await.expect("a stream of data");
        data.read_chunk(1 << 20).await.expect("data");
        let mut control = [0; REQUEST + 1];
        let read = receive.read(&mut control).await.expect("a request");
        assert_eq!((read, control[0]), (Some(REQUEST), 2), "version 2, and no scheme behind it");
        connection.close(0_u32.into(), b"enough");
    });
}

/// A client escapes control characters and line breaks in the reason with which a server closes the connection.
#[test]
fn close_reason_is_shown_escaped() {
    // Without streams, the client cannot begin the test before the server closes.
    let mut transport = TransportConfig::default();
    transport.max_concurrent_bidi_streams(0_u32.into());
    let error = accepting(tls::ALPN, transport, |connection| async move {
        connection.close(7_u32.into(), b"\x1b[2Jfull\r\nnarrows: all is well\xc2\x9b1m");
    });
    let text = error.to_string();
    assert!(text.contains(r"\u{1b}[2Jfull\u{d}\u{a}narrows: all is well\u{9b}1m"), "{text}");
    assert!(!text.contains(char::is_control), "{text:?}");
}
