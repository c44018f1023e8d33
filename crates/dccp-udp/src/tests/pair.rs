//! A client and a server that exchange packets by hand at stated times.

use std::cell::Cell;

use narrows_cc::Rate;

use super::*;
use crate::session::largest_datagram;

/// A client on a separate socket beside a test server.
struct Pair<'a> {
    server: TestServer<'a>,
    session: Session<'a>,
    port: Port,
    addresses: AddressPair,
}

impl<'a> Pair<'a> {
    fn new(settings: &'a Settings) -> Result<Self, LiveError> {
        let server = TestServer::new(settings);
        let remote = server.port.socket.local();
        let socket = Socket::open("127.0.0.1:0".parse().unwrap(), Some(remote))?;
        let addresses = AddressPair { local: socket.local(), remote };
        let session = Session::new(settings, Role::Client, addresses, SECOND)?;
        Ok(Self { server, session, port: Port::new(socket, None)?, addresses })
    }

    /// Advances the client and delivers `packets` packets to the server.
    async fn step(&mut self, now: Nanos, packets: usize) -> Result<(), LiveError> {
        self.session.advance(&|| now, &mut self.port).await?;
        let mut delivered = 0;
        while delivered < packets {
            for bytes in receive_all(&mut self.server.port).await {
                self.deliver_to_server(now, &bytes);
                delivered += 1;
            }
        }
        self.advance_server(now).await
    }

    fn deliver_to_server(&mut self, now: Nanos, bytes: &[u8]) {
        self.server.deliver_from(now, self.addresses.local, bytes);
    }

    async fn advance_server(&mut self, now: Nanos) -> Result<(), LiveError> {
        self.server.server.advance(&|| now, &self.server.listener, &mut self.server.port).await
    }

    /// Delivers the server's answers to the client.
    async fn deliver_answers(&mut self, now: Nanos) {
        for bytes in receive_all(&mut self.port).await {
            deliver(&mut self.session, now, &bytes);
        }
    }
}

/// Settings of a source that writes 1400 bytes every 10 ms.
fn every_ten_ms() -> Settings {
    let app = AppConfig::Cbr { rate: Rate::from_bits_per_sec(1_120_000), write: Bytes::new(1400) };
    Settings { app, timeout: Duration::from_secs(60), ..settings() }
}

/// A connection counts as closed although the answer to its Close was lost.
#[test]
fn client_close_with_lost_answer_ends_as_closed() {
    let settings = Settings { app: AppConfig::File(Bytes::new(8)), ..settings() };
    block_on(async {
        let mut pair = Pair::new(&settings)?;
        // The first step exchanges Request and Response; the second sends the datagram, whose ACK is not yet due.
        for answered in [true, false] {
            pair.step(SECOND, 1).await?;
            while answered && !pair.session.was_connected() {
                pair.deliver_answers(SECOND).await;
            }
        }
        assert!(pair.session.was_connected());
        let mut answers = Vec::new();
        for n in 2..4 {
            pair.session.supervise(SECOND * n, Stop::Close);
            pair.step(SECOND * n, 1).await?;
            // Discard the first answer.
            answers = receive_all(&mut pair.port).await;
        }
        assert_eq!(code(&answers), ResetCode::NoConnection as u8);
        deliver(&mut pair.session, SECOND * 4, &answers[0]);
        pair.session.advance(&|| SECOND * 4, &mut pair.port).await?;
        assert!(pair.session.is_over());
        assert_eq!(pair.session.outcome(SECOND * 4, &pair.server.listener)?.end, "closed");
        Ok(())
    })
    .expect("no error");
}

/// The delay of a late timer does not count as round-trip time.
#[test]
fn session_late_timer_does_not_count_as_rtt() {
    let ms = Nanos::from_millis;
    let settings = every_ten_ms();
    block_on(async {
        let mut pair = Pair::new(&settings)?;
        pair.step(SECOND, 1).await?;
        pair.deliver_answers(SECOND).await;
        assert!(pair.session.was_connected());
        let rtt = Cell::new(0.0);
        let mut now = SECOND;
        for _ in 0..40 {
            // Two datagrams leave and their ACK returns; at each step the system wakes the client 7 ms late.
            now = now.max(pair.session.deadline()) + ms(7);
            pair.step(now, 1).await?;
            now = now.max(pair.session.deadline()) + ms(7);
            pair.step(now, 1).await?;
            pair.deliver_answers(now + ms(1)).await;
            rtt.set(pair.session.report(now + ms(1)).rtt_ms.unwrap_or_default());
        }
        assert!((0.5..1.5).contains(&rtt.get()), "{} ms", rtt.get());
        Ok(())
    })
    .expect("no error");
}

/// Checksum coverage has no effect in UDP (RFC 6773 section 3.3.2).
#[test]
fn session_checksum_coverage_is_ignored_in_udp() {
    // CsCov is the lower half of byte 5; 15 exceeds the data of these packets.
    let covered = |mut bytes: Vec<u8>| {
        bytes[5] |= 15;
        bytes
    };
    let settings = settings();
    block_on(async {
        let mut pair = Pair::new(&settings)?;
        pair.session.advance(&|| SECOND, &mut pair.port).await?;
        let request = covered(receive_all(&mut pair.server.port).await.remove(0));
        pair.server.deliver(SECOND, &request);
        let response = pair.server.answers(SECOND).await;
        assert_eq!(header(&response).kind, Kind::Response);
        deliver(&mut pair.session, SECOND, &covered(response[0].clone()));
        pair.session.advance(&|| SECOND, &mut pair.port).await?;
        assert!(pair.session.was_connected());
        Ok(())
    })
    .expect("no error");
}

/// The default queue of a live source holds its largest write.
#[test]
fn source_queue_holds_its_largest_write() {
    let rate = Rate::from_mbit_per_sec;
    let cbr = |mbit| AppConfig::Cbr { rate: rate(mbit), write: Bytes::new(1400) };
    // 800 Mbit/s are 10 MB in 100 ms; at higher rates the bound of the queue in bytes applies.
    assert_eq!(queue_for(&cbr(800.0), 1400, 256), 10_000_000_usize.div_ceil(1400) + 1);
    assert_eq!(queue_for(&cbr(1.0), 1400, 256), 256);
    assert!(queue_for(&cbr(1e6), 1400, 256) * 1400 < 65 << 20);
    assert_eq!(queue_for(&AppConfig::Bulk, 1400, 256), 32);
    // Every frame of a video fits, whatever its size.
    let app = AppConfig::Video { rate: rate(50.0), frames: 25.0, key_every: 50, key_size: 4.0, variation: 0.5 };
    let config = Config { queue: queue_for(&app, 1400, 256), ..Config::default() };
    let mut video = App::new(app, Random::stream(1, "app", 0), Nanos::ZERO);
    let (mut before, mut largest) = (0, 0);
    for frame in 0..5_000 {
        video.on_time(SECOND * frame / 25, Bytes::new(before));
        largest = largest.max(video.limit().as_u64() - before);
        before = video.limit().as_u64();
    }
    let room = config.queue as u64 * 1400;
    assert!(largest > 256 * 1400 && largest < room && room < 3 * largest, "{largest} in {room}");
}

/// Initial sequence numbers and client ports differ per connection and use all bits.
#[test]
fn session_ports_and_initial_numbers_are_random() {
    let settings = settings();
    block_on(async {
        let (mut ports, mut firsts) = (Vec::new(), Vec::new());
        for _ in 0..64 {
            let mut pair = Pair::new(&settings)?;
            pair.session.advance(&|| SECOND, &mut pair.port).await?;
            let request = header(&receive_all(&mut pair.server.port).await);
            pair.server.deliver(SECOND, &{
                let mut bytes = Vec::new();
                Header { service: settings.config.service, ..request }.encode(&[], &[], &mut bytes);
                bytes
            });
            let response = header(&pair.server.answers(SECOND).await);
            ports.push(request.source);
            firsts.extend([request.seq, response.seq]);
        }
        for bit in 0..48 {
            // The probability that all 128 numbers agree in a bit by chance is about 10^-38.
            assert!(firsts.iter().any(|first| first >> bit & 1 == 1), "bit {bit}");
            assert!(firsts.iter().any(|first| first >> bit & 1 == 0), "bit {bit}");
        }
        firsts.sort_unstable();
        firsts.dedup();
        assert_eq!(firsts.len(), 128);
        ports.sort_unstable();
        ports.dedup();
        assert!(ports.len() > 48 && ports[0] >= 49_152, "{ports:?}");
        Ok(())
    })
    .expect("no error");
}

/// Once the system has refused a batch, packets leave one by one, in this batch and in later batches.
#[test]
fn port_refused_batch_is_sent_packet_by_packet() {
    block_on(async {
        let local = "127.0.0.1:0".parse().unwrap();
        let mut to = Socket::open(local, None)?;
        let from = Socket::open(local, Some(to.local()))?;
        let addresses = AddressPair { local: from.local(), remote: to.local() };
        let mut port = Port::new(from, None)?;
        // Linux segments a batch into at most 128 packets and returns EINVAL for more.
        let sent: Vec<u8> = (0..600_u16).flat_map(|n| (n | 1 << 15).to_be_bytes()).collect();
        port.put(&sent, 2);
        port.flush(addresses).await?;
        assert_eq!(port.socket.segments(2), 1, "batches continue");
        let (mut alarm, mut got) = (Alarm::new()?, Vec::new());
        while got.len() < sent.len() {
            assert!(alarm.wait(&to, Duration::from_secs(5)).await?, "only {} bytes arrived", got.len());
            let _ = to.receive(|packet| got.extend_from_slice(packet.bytes));
        }
        assert_eq!(got, sent);
        Ok(())
    })
    .expect("no error");
}

/// The MTU towards a peer gives the largest datagram; without a peer it is unknown.
#[test]
fn session_largest_datagram_follows_interface_mtu() {
    block_on(async {
        let to: SocketAddr = "127.0.0.1:9".parse().unwrap();
        let mtu = Socket::open("127.0.0.1:0".parse().unwrap(), Some(to))?.mtu().expect("loopback has one");
        assert!(mtu >= 1_500);
        assert_eq!(
            Socket::open("127.0.0.1:0".parse().unwrap(), None)?.mtu(),
            None,
            "without a peer the MTU is unknown"
        );
        // Header bytes: 20 or 40 for IP, 8 for UDP, 24 for DataAck with long sequence numbers, 160 for options.
        assert_eq!(largest_datagram(1_400, to), Some(1_188));
        assert_eq!(largest_datagram(1_400, "[2001:db8::1]:9".parse().unwrap()), Some(1_168));
        assert_eq!(largest_datagram(200, to), None);
        Ok(())
    })
    .expect("no error");
}

/// With `once`, a lone Request blocks no client, and the first completed handshake is served.
#[test]
fn server_once_serves_first_completed_handshake() {
    let settings = Settings { once: true, connections: 3, ..settings() };
    with_server(&settings, async |mut server| {
        // One client sends a Request and falls silent; another client has received its answer but is slow.
        let mut lone = server.client(50_001);
        assert_eq!(header(&server.exchange(SECOND, &mut lone).await).kind, Kind::Response);
        let mut slow = server.client(50_002);
        let answer = server.exchange(SECOND, &mut slow).await;
        slow.on_packet(SECOND, &answer[0], 0);
        let mut client = server.client(50_003);
        let answer = server.exchange(SECOND, &mut client).await;
        client.on_packet(SECOND, &answer[0], 0);
        // Incomplete handshakes beyond `connections` block no client.
        let mut fourth = server.client(50_004);
        assert_eq!(header(&server.exchange(SECOND, &mut fourth).await).kind, Kind::Response);
        let answers = server.exchange(SECOND, &mut client).await;
        let reset_of = |port: u16| {
            let of = |header: &Header| header.destination == port && header.kind == Kind::Reset;
            let found = answers.iter().map(|bytes| udp::open(bytes).expect("a packet").0).find(of);
            found.map(|header| header.reset.0)
        };
        let busy = Some(ResetCode::TooBusy as u8);
        assert_eq!([50_001, 50_002, 50_004, 50_003].map(reset_of), [busy, busy, busy, None]);
        for bytes in answers {
            if udp::open(&bytes).expect("a packet").0.destination == 50_003 {
                client.on_packet(SECOND, &bytes, 0);
            }
        }
        assert!(client.state().is_open());
        let mut late = server.client(50_005);
        assert_eq!(code(&server.exchange(SECOND * 2, &mut late).await), ResetCode::TooBusy as u8);
        assert!(!server.server.is_done());
        client.close(SECOND * 3);
        let answers = server.exchange(SECOND * 3, &mut client).await;
        assert_eq!(code(&answers), ResetCode::Closed as u8);
        assert!(server.server.is_done());
        assert_eq!(server.listener.ends.borrow().len(), 1, "one report");
    });
}

/// Takes all packets at a socket; waits for the first packets briefly, because there may be none.
async fn receive_available(port: &mut Port) -> Vec<Vec<u8>> {
    let (mut alarm, mut found) = (Alarm::new().expect("a timer"), Vec::new());
    while alarm.wait(&port.socket, Duration::from_millis(2)).await.expect("an open socket") {
        let _ = port.socket.receive(|packet| found.push(packet.bytes.to_vec()));
    }
    found
}

/// A sender that has sent all data waits before its Close for the report of a datagram that counts as lost but may
/// arrive late.
#[test]
fn session_waits_for_late_arrivals_before_close() {
    let ms = Nanos::from_millis;
    let settings = Settings { duration: Some(Duration::from_millis(200)), ..every_ten_ms() };
    block_on(async {
        let mut pair = Pair::new(&settings)?;
        pair.step(SECOND, 1).await?;
        pair.deliver_answers(SECOND).await;
        assert!(pair.session.was_connected());
        let mut closed_at = None;
        for n in 1..60 {
            let now = SECOND + ms(10 * n);
            pair.session.supervise(now, Stop::No);
            pair.session.advance(&|| now, &mut pair.port).await?;
            for bytes in receive_available(&mut pair.server.port).await {
                if n == 16 {
                    continue; // this packet is lost, or late
                }
                if udp::open(&bytes).expect("a packet").0.kind == Kind::Close {
                    closed_at.get_or_insert(now);
                }
                pair.deliver_to_server(now, &bytes);
            }
            pair.advance_server(now).await?;
            for bytes in receive_available(&mut pair.port).await {
                deliver(&mut pair.session, now, &bytes);
            }
        }
        // The loss is known by 200 ms, when the source ends. The sender waits 100 ms more for a late arrival; the four
        // round trips take no time here.
        let closed_at = closed_at.expect("a Close");
        assert!((SECOND + ms(250)..=SECOND + ms(310)).contains(&closed_at), "{closed_at:?}");
        Ok(())
    })
    .expect("no error");
}
