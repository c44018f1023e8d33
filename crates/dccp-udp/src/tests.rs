//! Tests without waiting: files, numbers, messages, and a server's answers to packets.

mod attack;
mod endings;
mod load;
mod pair;
mod parts;

use std::cell::RefCell;
use std::net::{SocketAddr, UdpSocket as StdSocket};
use std::path::PathBuf;
use std::time::Duration;

use narrows_cc::{Bytes, Nanos, Random};
use narrows_dccp::{Config, Connection, Header, Kind, ResetCode, Role, udp};
use narrows_host::alarm::Alarm;
use narrows_host::socket::{Received, Socket};
use narrows_traffic::{App, AppConfig};
use narrows_units::Histogram;

use crate::block_on;
use crate::capture::{Capture, Recorder};
use crate::port::{AddressPair, Port};
use crate::report::{Delay, Overview, Report};
use crate::server::Server;
use crate::session::Session;
use crate::settings::{Caller, LiveError, Settings, Stop};
use crate::source::{Source, queue_for};

const SECOND: Nanos = Nanos::from_secs(1);

fn settings() -> Settings {
    Settings {
        config: Config::default(),
        address: "127.0.0.1:6511".parse().expect("an address"),
        app: AppConfig::Bulk,
        queue: None,
        duration: None,
        timeout: Duration::from_secs(8),
        once: false,
        connections: 2,
        capture: None,
    }
}

/// Records the caller's reports.
#[derive(Default)]
struct Listener {
    ends: RefCell<Vec<Report>>,
    /// Peers whose progress was reported.
    progress: RefCell<Vec<String>>,
    overviews: RefCell<Vec<Overview>>,
    warnings: RefCell<Vec<String>>,
}

impl Caller for Listener {
    fn stop(&self) -> Stop {
        Stop::No
    }
    fn listening(&self, _: SocketAddr) {}
    fn progress(&self, report: &Report) {
        self.progress.borrow_mut().push(report.remote.clone());
    }
    fn overview(&self, overview: &Overview) {
        self.overviews.borrow_mut().push(overview.clone());
    }
    fn warning(&self, text: &str) {
        self.warnings.borrow_mut().push(text.to_owned());
    }
    fn ended(&self, report: &Report) {
        self.ends.borrow_mut().push(report.clone());
    }
}

/// A server with its socket, and clients on one socket. Packets to the server are passed directly, its
/// answers come through the socket.
struct TestServer<'a> {
    server: Server<'a>,
    port: Port,
    clients: StdSocket,
    listener: Listener,
}

impl<'a> TestServer<'a> {
    fn new(settings: &'a Settings) -> Self {
        let any: SocketAddr = "127.0.0.1:0".parse().expect("an address");
        let clients = StdSocket::bind(any).expect("a free port");
        clients.set_read_timeout(Some(Duration::from_secs(5))).expect("a read timeout");
        let socket = Socket::open(any, None).expect("a free port");
        let server = Server::new(settings, socket.local()).expect("random numbers");
        let port = Port::new(socket, None).expect("no capture");
        Self { server, port, clients, listener: Listener::default() }
    }

    fn client(&self, dccp_port: u16) -> Connection {
        let config = Config { local_port: dccp_port, ..Config::default() };
        Connection::new(&config, Random::stream(1, "client", 0), Nanos::ZERO)
    }

    /// Delivers all packets of a client and returns the answers.
    async fn exchange(&mut self, now: Nanos, client: &mut Connection) -> Vec<Vec<u8>> {
        let mut packet = Vec::new();
        while client.poll_transmit(now, &mut packet).is_some() {
            self.deliver(now, &std::mem::take(&mut packet));
        }
        self.answers(now).await
    }

    fn deliver(&mut self, now: Nanos, bytes: &[u8]) {
        self.deliver_from(now, self.clients.local_addr().expect("a bound socket"), bytes);
    }

    fn deliver_from(&mut self, now: Nanos, from: SocketAddr, bytes: &[u8]) {
        let received = Received { from, to: self.port.socket.local(), ecn: 0, bytes };
        self.server.on_packet(now, &received, &mut self.port.recorder).expect("random numbers");
    }

    async fn answers(&mut self, now: Nanos) -> Vec<Vec<u8>> {
        self.port.socket.writable().await.expect("an open socket");
        self.server.advance(&|| now, &self.listener, &mut self.port).await.expect("the socket works");
        // Send a marker after all other datagrams; loopback keeps the order of datagrams, so the marker arrives last.
        let to = self.clients.local_addr().expect("a bound socket");
        let addresses = AddressPair { local: self.port.socket.local(), remote: to };
        self.port.answer(addresses, b"end");
        let (mut found, mut buffer) = (Vec::new(), [0; 2048]);
        loop {
            let length = self.clients.recv(&mut buffer).expect("the last datagram arrives");
            if &buffer[..length] == b"end" {
                return found;
            }
            found.push(buffer[..length].to_vec());
        }
    }

    async fn connect(&mut self, now: Nanos, dccp_port: u16) -> Connection {
        let mut client = self.client(dccp_port);
        for _ in 0..3 {
            for packet in self.exchange(now, &mut client).await {
                client.on_packet(now, &packet, 0);
            }
        }
        assert!(client.state().is_open(), "{:?}", client.state());
        client
    }
}

/// Runs `work` with a server of these settings.
fn with_server(settings: &Settings, work: impl AsyncFnOnce(TestServer<'_>)) {
    let run = async {
        work(TestServer::new(settings)).await;
        Ok(())
    };
    block_on(run).expect("a runtime");
}

/// A packet to the server's DCCP port, with these fields, options and data.
fn packet(kind: Kind, set: impl FnOnce(&mut Header), options: &[u8], data: &[u8]) -> Vec<u8> {
    let (mut header, mut packet) = (Header::new(kind), Vec::new());
    header.destination = Config::default().local_port;
    set(&mut header);
    header.encode(options, data, &mut packet);
    packet
}

fn header(packets: &[Vec<u8>]) -> Header {
    assert_eq!(packets.len(), 1, "{packets:?}");
    udp::open(&packets[0]).expect("a packet").0
}

fn code(packets: &[Vec<u8>]) -> u8 {
    let header = header(packets);
    assert_eq!(header.kind, Kind::Reset);
    header.reset.0
}

/// A server serves connections up to its limit, refuses the next as too busy, and accepts again after a
/// close.
#[test]
fn server_at_connection_limit_answers_too_busy() {
    with_server(&settings(), async |mut test| {
        let mut first = test.connect(SECOND, 50_001).await;
        let _second = test.connect(SECOND, 50_002).await;
        let mut third = test.client(50_003);
        let answer = test.exchange(SECOND * 2, &mut third).await;
        assert_eq!(code(&answer), ResetCode::TooBusy as u8);
        third.on_packet(SECOND * 2, &answer[0], 0);
        assert!(third.state().is_over(), "the Reset does not end the Request");
        // One connection closes, so that another connection can open.
        first.close(SECOND * 3);
        let answer = test.exchange(SECOND * 3, &mut first).await;
        assert_eq!(code(&answer), ResetCode::Closed as u8);
        assert_eq!(test.listener.ends.borrow().len(), 1);
        test.connect(SECOND * 4, 50_004).await;
    });
}

/// Packets without a connection get a Reset with the reason, rate-limited.
#[test]
fn server_packets_without_connection_get_limited_resets() {
    with_server(&settings(), async |mut test| {
        let request_with = |change: fn(&mut Header)| {
            let set = |header: &mut Header| {
                (header.source, header.seq) = (50_000, 77);
                change(header);
            };
            packet(Kind::Request, set, &[], &[])
        };
        let cases: [(Vec<u8>, ResetCode); 3] = [
            (request_with(|header| header.destination += 1), ResetCode::ConnectionRefused),
            (request_with(|header| header.service = 9), ResetCode::BadServiceCode),
            (request_with(|header| (header.kind, header.ack) = (Kind::Close, Some(41))), ResetCode::NoConnection),
        ];
        for (n, (packet, why)) in (1..).zip(cases) {
            test.deliver(SECOND * n, &packet);
            // A duplicate at the same time gets no second answer.
            test.deliver(SECOND * n, &packet);
            let answers = test.answers(SECOND * n).await;
            assert_eq!(code(&answers), why as u8);
            let answer = header(&answers);
            assert_eq!((answer.source, answer.destination), (udp::open(&packet).unwrap().0.destination, 50_000));
            // RFC 4340 section 8.3.1: the sequence number follows the acknowledgement, or is zero.
            let expected = if why == ResetCode::NoConnection { 42 } else { 0 };
            assert_eq!((answer.seq, answer.ack), (expected, Some(77)));
        }
        // Resets and malformed packets get no answer.
        test.deliver(SECOND * 9, &request_with(|header| (header.kind, header.ack) = (Kind::Reset, Some(41))));
        test.deliver(SECOND * 10, &[0; 40]);
        assert!(test.answers(SECOND * 10).await.is_empty());
        assert!(test.server.deadline() == Nanos::MAX, "state without a connection");
    });
}

/// A late packet gets a Reset in TIMEWAIT and afterwards; the connection is reported once.
#[test]
fn server_late_packet_is_answered_in_and_after_timewait() {
    with_server(&settings(), async |mut test| {
        let mut client = test.connect(SECOND, 50_001).await;
        let mut late = Vec::new();
        client.push(SECOND, b"late").expect("room in the queue");
        client.poll_transmit(SECOND, &mut late).expect("room in the window");
        client.abort(SECOND, ResetCode::Aborted);
        assert!(test.exchange(SECOND, &mut client).await.is_empty(), "an answer to a Reset");
        let ends = test.listener.ends.borrow().iter().map(|report| report.end).collect::<Vec<_>>();
        assert_eq!(ends, ["reset"]);
        // TIMEWAIT lasts 2 MSL, half of the timeout.
        assert_eq!(test.server.deadline(), SECOND * 5);
        for at in [SECOND * 2, SECOND * 6] {
            test.deliver(at, &late);
            assert_eq!(code(&test.answers(at).await), ResetCode::NoConnection as u8, "{at:?}");
            assert_eq!(test.server.deadline() == Nanos::MAX, at == SECOND * 6);
        }
        assert_eq!(test.listener.ends.borrow().len(), 1, "one report");
    });
}

fn deliver(session: &mut Session<'_>, now: Nanos, bytes: &[u8]) {
    let (header, body) = udp::open(bytes).expect("a packet");
    session.on_packet(now, &header, &body, 0);
}

/// Waits for a packet at a socket and takes all available packets.
async fn receive_all(port: &mut Port) -> Vec<Vec<u8>> {
    let (mut alarm, mut found) = (Alarm::new().expect("a timer"), Vec::new());
    while found.is_empty() {
        assert!(alarm.wait(&port.socket, Duration::from_secs(5)).await.expect("an open socket"), "no packet in 5 s");
        let _ = port.socket.receive(|packet| found.push(packet.bytes.to_vec()));
    }
    found
}

/// A server gives up a silent sender after the timeout and continues to serve other senders.
#[test]
fn server_gives_up_silent_sender_after_timeout() {
    with_server(&settings(), async |mut test| {
        let _client = test.connect(SECOND, 50_001).await;
        assert!(test.answers(SECOND * 8).await.is_empty());
        assert!(test.listener.ends.borrow().is_empty());
        assert_eq!(code(&test.answers(SECOND * 9).await), ResetCode::Aborted as u8);
        assert_eq!(test.listener.ends.borrow()[0].end, "peer gone");
        assert!(!test.server.is_done());
        test.connect(SECOND * 10, 50_001).await;
    });
}

/// The checksum of RFC 1071 over 16-bit words, independent of the crate's implementation.
fn checksum(words: &[u8]) -> u16 {
    let mut sum = 0_u64;
    for pair in words.chunks(2) {
        sum += u64::from(pair[0]) * 256 + u64::from(pair.get(1).copied().unwrap_or(0));
    }
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}

/// The headers of a capture have valid lengths and checksums, for IPv4 and IPv6.
#[test]
fn capture_headers_have_valid_lengths_and_checksums() {
    let path = std::env::temp_dir().join(format!("narrows-capture-{}.pcap", std::process::id()));
    let mut capture = Capture::create(&path).expect("a writable folder");
    let mut packet = Vec::new();
    Header::new(Kind::Data).encode(&[], b"odd", &mut packet);
    let [four, six] = ["10.1.2.3:5000", "[fe80::1:2]:5000"].map(|text| text.parse::<SocketAddr>().unwrap());
    capture.write(four, "10.255.2.4:6511".parse().unwrap(), 2, &packet).expect("a written capture");
    capture.write(six, "[2001:db8::ffff]:6511".parse().unwrap(), 3, &packet).expect("a written capture");
    capture.flush().expect("a written capture");
    let file = std::fs::read(&path).expect("the capture file");
    std::fs::remove_file(&path).expect("the capture file");
    let word = |at: usize| u32::from_le_bytes(file[at..at + 4].try_into().unwrap()) as usize;
    assert_eq!((word(0), word(20)), (0xa1b2_3c4d, 101), "nanoseconds, raw IP");
    let (first, udp_length) = (24 + 16, (8 + packet.len()) as u16);
    assert_eq!([word(32), word(36)], [20 + usize::from(udp_length); 2]);
    let ip = &file[first..first + word(32)];
    assert_eq!((ip[0], ip[1], ip[9]), (0x45, 2, 17));
    assert_eq!(checksum(&ip[..20]), 0xffff, "the header's checksum");
    let pseudo = [&ip[12..20], &[0, 17], &udp_length.to_be_bytes(), &ip[20..]].concat();
    assert_eq!(checksum(&pseudo), 0xffff, "the checksum of UDP");
    assert_eq!(&ip[28..], packet);
    let second = first + word(32) + 16;
    let ip = &file[second..];
    assert_eq!(ip.len(), 40 + usize::from(udp_length));
    assert_eq!((ip[0] >> 4, (ip[1] >> 4) & 3, ip[6]), (6, 3, 17));
    let pseudo = [&ip[8..40], &[0, 17], &udp_length.to_be_bytes(), &ip[40..]].concat();
    assert_eq!(checksum(&pseudo), 0xffff, "the checksum of UDP");
}

/// The error of a capture that cannot be written names its path.
#[test]
fn capture_error_names_its_path() {
    let socket = |path: PathBuf| {
        block_on(async {
            let socket = Socket::open("127.0.0.1:0".parse().unwrap(), None)?;
            Ok(Port::new(socket, Some(&path)).err().map(|error| error.to_string()))
        })
    };
    let message = socket("/nowhere/x.pcap".into()).unwrap().expect("an error");
    assert!(message.starts_with("/nowhere/x.pcap: "), "{message}");
}

/// Packets of a batch arrive with their sizes and their codepoint.
#[test]
fn socket_batch_keeps_sizes_and_codepoint() {
    block_on(async {
        let local = "127.0.0.1:0".parse().unwrap();
        let mut to = Socket::open(local, None)?;
        let from = Socket::open(local, Some(to.local()))?;
        let mut alarm = Alarm::new()?;
        let count = from.segments(100).min(5);
        let contents: Vec<u8> = (0..count as u8).flat_map(|n| [n; 100]).chain([9; 30]).collect();
        let segments = contents.len().div_ceil(100);
        // Without segmentation offload each packet needs a separate call.
        let calls = if from.segments(100) >= segments { vec![&contents[..]] } else { contents.chunks(100).collect() };
        for call in calls {
            from.writable().await?;
            from.send(to.local(), None, 2, call, 100)?;
        }
        let (mut got, mut sizes) = (Vec::new(), Vec::new());
        while got.len() < contents.len() {
            assert!(alarm.wait(&to, Duration::from_secs(5)).await?, "no packet in 5 s");
            let _ = to.receive(|packet| {
                assert_eq!((packet.from, packet.ecn), (from.local(), 2));
                sizes.push(packet.bytes.len());
                got.extend_from_slice(packet.bytes);
            });
        }
        assert_eq!(got, contents);
        assert_eq!(sizes.iter().filter(|size| **size == 100).count(), count);
        let nothing = to.receive(|_| panic!("an unexpected packet"));
        assert_eq!(nothing.expect_err("no packets").kind(), std::io::ErrorKind::WouldBlock);
        assert!(!alarm.wait(&to, Duration::from_micros(200)).await?, "an unexpected packet");
        Ok(())
    })
    .expect("no error");
}
