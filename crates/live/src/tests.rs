//! What can be tested without waiting: files, numbers, words, and how a server answers packets that are handed to it.

mod ends;

use std::net::{SocketAddr, UdpSocket as Plain};
use std::path::PathBuf;
use std::time::Duration;

use narrows_cc::{Bytes, Nanos, Random};
use narrows_dccp::{Config, Connection, Header, Kind, ResetCode, Role, udp};
use narrows_traffic::{App, AppConfig};
use narrows_units::Histogram;

use crate::alarm::Alarm;
use crate::block_on;
use crate::capture::Capture;
use crate::peer::Peer;
use crate::port::{Port, Way};
use crate::report::{Delay, Report};
use crate::server::Server;
use crate::settings::{Caller, LiveError, Settings, Stop};
use crate::socket::{Arrived, Socket};
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

#[derive(Default)]
struct Listener {
    ends: std::cell::RefCell<Vec<Report>>,
}

impl Caller for Listener {
    fn stop(&self) -> Stop {
        Stop::No
    }
    fn listening(&self, _: SocketAddr) {}
    fn progress(&self, _: &Report) {}
    fn ended(&self, report: &Report) {
        self.ends.borrow_mut().push(report.clone());
    }
}

/// A server on a socket of its own, and clients that share one; packets to the server are handed over, those back are received.
struct Rig<'a> {
    server: Server<'a>,
    port: Port,
    plain: Plain,
    listener: Listener,
}

impl<'a> Rig<'a> {
    fn new(settings: &'a Settings) -> Self {
        let any: SocketAddr = "127.0.0.1:0".parse().expect("an address");
        let plain = Plain::bind(any).expect("a port is free");
        plain.set_read_timeout(Some(Duration::from_secs(5))).expect("it can wait");
        let socket = Socket::open(any, None).expect("a port is free");
        let server = Server::new(settings, socket.local());
        let port = Port::new(socket, None).expect("no file is asked for");
        Self { server, port, plain, listener: Listener::default() }
    }

    fn client(&self, dccp_port: u16) -> Connection {
        let config = Config { local_port: dccp_port, ..Config::default() };
        Connection::new(&config, Random::stream(1, "client", 0), Nanos::ZERO)
    }

    /// Hands all packets of a client over; what comes back.
    async fn exchange(&mut self, now: Nanos, client: &mut Connection) -> Vec<Vec<u8>> {
        let mut packet = Vec::new();
        while client.poll_transmit(now, &mut packet).is_some() {
            self.hand(now, &std::mem::take(&mut packet));
        }
        self.answers(now).await
    }

    fn hand(&mut self, now: Nanos, bytes: &[u8]) {
        let from = self.plain.local_addr().expect("it is bound");
        let arrived = Arrived { from, to: self.port.socket.local(), ecn: 0, bytes };
        self.server.on_packet(now, &arrived, None).expect("no capture can fail");
    }

    async fn answers(&mut self, now: Nanos) -> Vec<Vec<u8>> {
        self.port.socket.writable().await.expect("it is open");
        self.server.advance(&|| now, &self.listener, &mut self.port).await.expect("the socket works");
        // A datagram of its own after all others: on loopback they keep their order.
        let to = self.plain.local_addr().expect("it is bound");
        let way = Way { local: self.port.socket.local(), remote: to };
        self.port.answer(way, b"end").expect("no capture can fail");
        let (mut found, mut buffer) = (Vec::new(), [0; 2048]);
        loop {
            let length = self.plain.recv(&mut buffer).expect("the last datagram arrives");
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

fn header(packets: &[Vec<u8>]) -> Header {
    assert_eq!(packets.len(), 1, "{packets:?}");
    udp::open(&packets[0]).expect("a packet").0
}

fn code(packets: &[Vec<u8>]) -> u8 {
    let header = header(packets);
    assert_eq!(header.kind, Kind::Reset);
    header.reset.0
}

#[test]
fn as_many_are_served_as_may_be_and_the_next_is_told() {
    let settings = settings();
    block_on(async {
        let mut rig = Rig::new(&settings);
        let mut first = rig.connect(SECOND, 50_001).await;
        let _second = rig.connect(SECOND, 50_002).await;
        let mut third = rig.client(50_003);
        let answer = rig.exchange(SECOND * 2, &mut third).await;
        assert_eq!(code(&answer), ResetCode::TooBusy as u8);
        third.on_packet(SECOND * 2, &answer[0], 0);
        assert!(third.state().is_over(), "the client takes it for an answer to its Request");
        // One goes: there is room.
        first.close(SECOND * 3);
        let answer = rig.exchange(SECOND * 3, &mut first).await;
        assert_eq!(code(&answer), ResetCode::Closed as u8);
        assert_eq!(rig.listener.ends.borrow().len(), 1);
        rig.connect(SECOND * 4, 50_004).await;
        Ok(())
    })
    .expect("it runs");
}

#[test]
fn what_belongs_to_no_connection_is_told_why_and_seldom() {
    let settings = settings();
    block_on(async {
        let mut rig = Rig::new(&settings);
        let ask = |change: fn(&mut Header)| {
            let mut header = Header::new(Kind::Request);
            (header.source, header.destination, header.seq) = (50_000, settings.config.local_port, 77);
            change(&mut header);
            let mut packet = Vec::new();
            header.encode(&[], &[], &mut packet);
            packet
        };
        let cases: [(Vec<u8>, ResetCode); 3] = [
            (ask(|header| header.destination += 1), ResetCode::ConnectionRefused),
            (ask(|header| header.service = 9), ResetCode::BadServiceCode),
            (ask(|header| (header.kind, header.ack) = (Kind::Close, Some(41))), ResetCode::NoConnection),
        ];
        for (n, (packet, why)) in (1..).zip(cases) {
            rig.hand(SECOND * n, &packet);
            // The same at the same time: no second answer.
            rig.hand(SECOND * n, &packet);
            let answers = rig.answers(SECOND * n).await;
            assert_eq!(code(&answers), why as u8);
            let answer = header(&answers);
            assert_eq!(
                (answer.source, answer.destination),
                (udp::open(&packet).unwrap().0.destination, 50_000)
            );
            // RFC 4340 section 8.3.1: the number follows the acknowledgement, or is zero.
            let expected = if why == ResetCode::NoConnection { 42 } else { 0 };
            assert_eq!((answer.seq, answer.ack), (expected, Some(77)));
        }
        // Resets are not answered, nor is what is no packet.
        rig.hand(SECOND * 9, &ask(|header| (header.kind, header.ack) = (Kind::Reset, Some(41))));
        rig.hand(SECOND * 10, &[0; 40]);
        assert!(rig.answers(SECOND * 10).await.is_empty());
        assert!(rig.server.deadline() == Nanos::MAX, "nothing is kept of strangers");
        Ok(())
    })
    .expect("it runs");
}

#[test]
fn a_late_packet_is_answered_in_timewait_and_after_it() {
    let settings = settings();
    block_on(async {
        let mut rig = Rig::new(&settings);
        let mut client = rig.connect(SECOND, 50_001).await;
        let mut late = Vec::new();
        client.push(SECOND, b"late").expect("it takes data");
        client.poll_transmit(SECOND, &mut late).expect("it may send");
        client.abort(SECOND, ResetCode::Aborted);
        assert!(rig.exchange(SECOND, &mut client).await.is_empty(), "a Reset is not answered");
        let ends = rig.listener.ends.borrow().iter().map(|report| report.end).collect::<Vec<_>>();
        assert_eq!(ends, ["reset"]);
        // TIMEWAIT lasts 2 MSL, half of the settings' patience.
        assert_eq!(rig.server.deadline(), SECOND * 5);
        for at in [SECOND * 2, SECOND * 6] {
            rig.hand(at, &late);
            assert_eq!(code(&rig.answers(at).await), ResetCode::NoConnection as u8, "{at:?}");
            assert_eq!(rig.server.deadline() == Nanos::MAX, at == SECOND * 6);
        }
        assert_eq!(rig.listener.ends.borrow().len(), 1, "it is told once");
        Ok(())
    })
    .expect("it runs");
}

fn tell(peer: &mut Peer<'_>, now: Nanos, bytes: &[u8]) {
    let (header, body) = udp::open(bytes).expect("a packet");
    peer.on_packet(now, &header, &body, 0);
}

/// Waits for a packet at a socket, and takes all that are there.
async fn take(port: &mut Port) -> Vec<Vec<u8>> {
    let (mut alarm, mut found) = (Alarm::new().expect("the system has one"), Vec::new());
    while found.is_empty() {
        assert!(
            alarm.wait(&port.socket, Duration::from_secs(5)).await.expect("it is open"),
            "something comes"
        );
        let _ = port.socket.receive(|packet| found.push(packet.bytes.to_vec()));
    }
    found
}

#[test]
fn a_close_is_one_even_if_its_answer_is_lost() {
    let settings = Settings { app: AppConfig::File(Bytes::new(8)), ..settings() };
    block_on(async {
        let mut rig = Rig::new(&settings);
        let remote = rig.port.socket.local();
        let socket = Socket::open("127.0.0.1:0".parse().unwrap(), Some(remote))?;
        let way = Way { local: socket.local(), remote };
        let mut port = Port::new(socket, None)?;
        let mut peer = Peer::new(&settings, Role::Client, way, SECOND)?;
        // Request and Response, then the datagram, whose acknowledgement is not yet due.
        for answered in [true, false] {
            peer.advance(&|| SECOND, &mut port).await?;
            for bytes in take(&mut rig.port).await {
                let arrived = Arrived { from: way.local, to: remote, ecn: 0, bytes: &bytes };
                rig.server.on_packet(SECOND, &arrived, None)?;
            }
            rig.server.advance(&|| SECOND, &rig.listener, &mut rig.port).await?;
            while answered && !peer.was_connected() {
                for bytes in take(&mut port).await {
                    tell(&mut peer, SECOND, &bytes);
                }
            }
        }
        assert!(peer.was_connected());
        let mut answers = Vec::new();
        for n in 2..4 {
            peer.supervise(SECOND * n, &rig.listener, Stop::Close);
            peer.advance(&|| SECOND * n, &mut port).await?;
            for bytes in take(&mut rig.port).await {
                let arrived = Arrived { from: way.local, to: remote, ecn: 0, bytes: &bytes };
                rig.server.on_packet(SECOND * n, &arrived, None)?;
            }
            rig.server.advance(&|| SECOND * n, &rig.listener, &mut rig.port).await?;
            // The first answer is lost.
            answers = take(&mut port).await;
        }
        assert_eq!(code(&answers), ResetCode::NoConnection as u8);
        tell(&mut peer, SECOND * 4, &answers[0]);
        peer.advance(&|| SECOND * 4, &mut port).await?;
        assert!(peer.is_over());
        assert_eq!(peer.verdict(SECOND * 4, &rig.listener)?.end, "closed");
        Ok(())
    })
    .expect("it runs");
}

#[test]
fn a_silent_sender_is_given_up_in_the_stated_time_and_the_server_goes_on() {
    let settings = settings();
    block_on(async {
        let mut rig = Rig::new(&settings);
        let _client = rig.connect(SECOND, 50_001).await;
        assert!(rig.answers(SECOND * 8).await.is_empty());
        assert!(rig.listener.ends.borrow().is_empty());
        assert_eq!(code(&rig.answers(SECOND * 9).await), ResetCode::Aborted as u8);
        assert_eq!(rig.listener.ends.borrow()[0].end, "peer gone");
        assert!(!rig.server.is_done());
        rig.connect(SECOND * 10, 50_001).await;
        Ok(())
    })
    .expect("it runs");
}

/// The checksum of RFC 1071 over 16-bit words, written anew.
fn ones(words: &[u8]) -> u16 {
    let mut sum = 0_u64;
    for pair in words.chunks(2) {
        sum += u64::from(pair[0]) * 256 + u64::from(pair.get(1).copied().unwrap_or(0));
    }
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}

#[test]
fn a_capture_has_headers_with_right_lengths_and_checksums() {
    let path = std::env::temp_dir().join(format!("narrows-capture-{}.pcap", std::process::id()));
    let mut capture = Capture::create(&path).expect("the folder is there");
    let mut packet = Vec::new();
    Header::new(Kind::Data).encode(&[], b"odd", &mut packet);
    let [four, six] = ["10.1.2.3:5000", "[fe80::1:2]:5000"].map(|text| text.parse::<SocketAddr>().unwrap());
    capture.write(four, "10.255.2.4:6511".parse().unwrap(), 2, &packet).expect("it is written");
    capture.write(six, "[2001:db8::ffff]:6511".parse().unwrap(), 3, &packet).expect("it is written");
    capture.flush().expect("it is written");
    let file = std::fs::read(&path).expect("it is there");
    std::fs::remove_file(&path).expect("it is there");
    let word = |at: usize| u32::from_le_bytes(file[at..at + 4].try_into().unwrap()) as usize;
    assert_eq!((word(0), word(20)), (0xa1b2_3c4d, 101), "nanoseconds, raw IP");
    let (first, udp_length) = (24 + 16, (8 + packet.len()) as u16);
    assert_eq!([word(32), word(36)], [20 + usize::from(udp_length); 2]);
    let ip = &file[first..first + word(32)];
    assert_eq!((ip[0], ip[1], ip[9]), (0x45, 2, 17));
    assert_eq!(ones(&ip[..20]), 0xffff, "the header's checksum");
    let pseudo = [&ip[12..20], &[0, 17], &udp_length.to_be_bytes(), &ip[20..]].concat();
    assert_eq!(ones(&pseudo), 0xffff, "the checksum of UDP");
    assert_eq!(&ip[28..], packet);
    let second = first + word(32) + 16;
    let ip = &file[second..];
    assert_eq!(ip.len(), 40 + usize::from(udp_length));
    assert_eq!((ip[0] >> 4, (ip[1] >> 4) & 3, ip[6]), (6, 3, 17));
    let pseudo = [&ip[8..40], &[0, 17], &udp_length.to_be_bytes(), &ip[40..]].concat();
    assert_eq!(ones(&pseudo), 0xffff, "the checksum of UDP");
}

#[test]
fn a_capture_that_cannot_be_written_is_named() {
    let socket = |path: PathBuf| {
        block_on(async {
            let socket = Socket::open("127.0.0.1:0".parse().unwrap(), None)?;
            Ok(Port::new(socket, Some(&path)).err().map(|error| error.to_string()))
        })
    };
    let message = socket("/nowhere/x.pcap".into()).unwrap().expect("there is no such folder");
    assert!(message.starts_with("/nowhere/x.pcap: "), "{message}");
}

#[test]
fn packets_of_one_size_may_arrive_together_and_keep_their_codepoint() {
    block_on(async {
        let local = "127.0.0.1:0".parse().unwrap();
        let mut to = Socket::open(local, None)?;
        let from = Socket::open(local, Some(to.local()))?;
        let mut alarm = Alarm::new()?;
        let count = from.segments(100).min(5);
        let contents: Vec<u8> = (0..count as u8).flat_map(|n| [n; 100]).chain([9; 30]).collect();
        let segments = contents.len().div_ceil(100);
        // Without segmentation offload each packet needs a call.
        let calls =
            if from.segments(100) >= segments { vec![&contents[..]] } else { contents.chunks(100).collect() };
        for call in calls {
            from.writable().await?;
            from.send(to.local(), None, 2, call, 100)?;
        }
        let (mut got, mut sizes) = (Vec::new(), Vec::new());
        while got.len() < contents.len() {
            assert!(alarm.wait(&to, Duration::from_secs(5)).await?, "all arrive");
            let _ = to.receive(|packet| {
                assert_eq!((packet.from, packet.ecn), (from.local(), 2));
                sizes.push(packet.bytes.len());
                got.extend_from_slice(packet.bytes);
            });
        }
        assert_eq!(got, contents);
        assert_eq!(sizes.iter().filter(|size| **size == 100).count(), count);
        let nothing = to.receive(|_| panic!("a packet too many"));
        assert_eq!(nothing.expect_err("there is none").kind(), std::io::ErrorKind::WouldBlock);
        assert!(!alarm.wait(&to, Duration::from_micros(200)).await?, "nothing else comes");
        Ok(())
    })
    .expect("it runs");
}

#[test]
fn a_file_is_cut_into_datagrams_and_each_says_when_it_was_written() {
    let app = App::new(AppConfig::File(Bytes::new(250)), Random::stream(1, "app", 0), Nanos::ZERO);
    let mut source = Source::new(app, 100);
    let config = Config { queue: 2, ..Config::default() };
    let mut connection = Connection::new(&config, Random::stream(1, "dccp", 0), Nanos::ZERO);
    source.write(Nanos::ZERO, &mut connection);
    assert_eq!((source.datagrams, source.is_done()), (2, false), "the queue is full");
    let config = Config { queue: 9, ..Config::default() };
    let mut other = Connection::new(&config, Random::stream(1, "dccp", 0), Nanos::ZERO);
    source.write(Nanos::ZERO, &mut other);
    assert_eq!((source.datagrams, source.is_done()), (3, true));
}

#[test]
fn a_report_counts_from_the_connection_and_has_no_delay_without_datagrams() {
    let connection = Connection::new(&Config::default(), Random::stream(1, "dccp", 0), Nanos::ZERO);
    let mut delays = Histogram::default();
    let report = Report::of(true, "there".into(), &connection, (SECOND, Nanos::ZERO), 7, &delays);
    assert_eq!((report.role, report.end, report.datagrams_written), ("sender", "open", 7));
    assert_eq!((report.throughput_mbit_s, report.loss_percent, report.rtt_ms), (0.0, Some(0.0), None));
    assert!(report.scheme.is_some() && report.delay.is_none());
    let receiver = Report::of(false, "there".into(), &connection, (SECOND, SECOND), 0, &delays);
    assert_eq!((receiver.role, receiver.scheme, receiver.lost), ("receiver", None, None));
    for ms in 1..=100 {
        delays.record(ms * 1_000_000);
    }
    let delay = Delay::of(&delays).expect("there are some");
    assert_eq!((delay.min_ms, delay.mean_ms), (1.0, 50.5));
    // Quantiles are those of a bucket.
    for (found, exact) in [(delay.p50_ms, 50.0), (delay.p95_ms, 95.0), (delay.p99_ms, 99.0)] {
        assert!((found / exact - 1.0_f64).abs() < 0.03, "{found} {exact}");
    }
}

#[test]
fn messages_say_who_and_why() {
    let there: SocketAddr = "192.0.2.1:6511".parse().unwrap();
    let text = |error: LiveError| error.to_string();
    assert_eq!(
        text(LiveError::Denied(there, ResetCode::TooBusy as u8)),
        "192.0.2.1:6511: refused by the other side: too busy (9): it serves as many as it can"
    );
    assert_eq!(
        text(LiveError::Reset(there, ResetCode::Aborted as u8)),
        "192.0.2.1:6511: reset by the other side: aborted (2)"
    );
    assert!(text(LiveError::Reset(there, 77)).ends_with(": unknown reason (77)"));
    let long = "192.0.2.1:6511: datagrams of 1400 bytes and their headers are longer than what the path takes in one piece";
    assert_eq!(text(LiveError::TooLong(there, 1_400, Some(1_188))), format!("{long}; 1188 bytes fit"));
    assert_eq!(text(LiveError::TooLong(there, 1_400, None)), format!("{long}; shorter ones fit"));
    assert_eq!(text(LiveError::NoAnswer(there, Duration::from_secs(3))), "192.0.2.1:6511: no answer in 3s");
}
