//! A client and a server that exchange packets by hand, at stated times.

use std::cell::Cell;

use narrows_cc::Rate;

use super::*;
use crate::peer::largest;

/// A client with a socket of its own, beside the server of a rig.
struct Ends<'a> {
    rig: Rig<'a>,
    peer: Peer<'a>,
    port: Port,
    way: Way,
}

impl<'a> Ends<'a> {
    fn new(settings: &'a Settings) -> Result<Self, LiveError> {
        let rig = Rig::new(settings);
        let remote = rig.port.socket.local();
        let socket = Socket::open("127.0.0.1:0".parse().unwrap(), Some(remote))?;
        let way = Way { local: socket.local(), remote };
        let peer = Peer::new(settings, Role::Client, way, SECOND)?;
        Ok(Self { rig, peer, port: Port::new(socket, None)?, way })
    }

    /// The client does what is due, and the server takes all that comes.
    async fn go(&mut self, now: Nanos, packets: usize) -> Result<(), LiveError> {
        self.peer.advance(&|| now, &mut self.port).await?;
        let mut come = 0;
        while come < packets {
            for bytes in take(&mut self.rig.port).await {
                let arrived = Arrived { from: self.way.local, to: self.way.remote, ecn: 0, bytes: &bytes };
                self.rig.server.on_packet(now, &arrived, None)?;
                come += 1;
            }
        }
        self.rig.server.advance(&|| now, &self.rig.listener, &mut self.rig.port).await
    }

    /// What the server answered reaches the client.
    async fn hear(&mut self, now: Nanos) {
        for bytes in take(&mut self.port).await {
            tell(&mut self.peer, now, &bytes);
        }
    }
}

#[test]
fn the_wait_for_a_late_timer_is_no_part_of_the_round_trip() {
    let ms = Nanos::from_millis;
    let rate = Rate::from_bits_per_sec(1_120_000); // 1400 bytes in 10 ms
    let settings = Settings {
        app: AppConfig::Cbr { rate, write: Bytes::new(1400) },
        timeout: Duration::from_secs(60),
        ..settings()
    };
    block_on(async {
        let mut ends = Ends::new(&settings)?;
        ends.go(SECOND, 1).await?;
        ends.hear(SECOND).await;
        assert!(ends.peer.was_connected());
        let told = Cell::new(0.0);
        let mut now = SECOND;
        for _ in 0..40 {
            // Two datagrams and their acknowledgement; the system wakes 7 ms after the time.
            now = now.max(ends.peer.deadline()) + ms(7);
            ends.go(now, 1).await?;
            now = now.max(ends.peer.deadline()) + ms(7);
            ends.go(now, 1).await?;
            ends.hear(now + ms(1)).await;
            told.set(ends.peer.report(now + ms(1)).rtt_ms.unwrap_or_default());
        }
        assert!((0.5..1.5).contains(&told.get()), "{} ms", told.get());
        Ok(())
    })
    .expect("it runs");
}

#[test]
fn the_coverage_that_a_packet_names_has_no_effect_in_udp() {
    // RFC 6773 section 3.3.2. CsCov is the lower half of byte 5, and 15 is more than any of these has data.
    let covered = |mut bytes: Vec<u8>| {
        bytes[5] |= 15;
        bytes
    };
    let settings = settings();
    block_on(async {
        let mut ends = Ends::new(&settings)?;
        ends.peer.advance(&|| SECOND, &mut ends.port).await?;
        let request = covered(take(&mut ends.rig.port).await.remove(0));
        ends.rig.hand(SECOND, &request);
        let response = ends.rig.answers(SECOND).await;
        assert_eq!(header(&response).kind, Kind::Response);
        tell(&mut ends.peer, SECOND, &covered(response[0].clone()));
        ends.peer.advance(&|| SECOND, &mut ends.port).await?;
        assert!(ends.peer.was_connected());
        Ok(())
    })
    .expect("it runs");
}

#[test]
fn a_queue_holds_what_the_source_writes_at_once() {
    let rate = Rate::from_mbit_per_sec;
    let cbr = |mbit| AppConfig::Cbr { rate: rate(mbit), write: Bytes::new(1400) };
    // 800 Mbit/s are 10 MB in 100 ms; memory has a bound.
    assert_eq!(queue_for(&cbr(800.0), 1400, 256), 10_000_000_usize.div_ceil(1400) + 1);
    assert_eq!(queue_for(&cbr(1.0), 1400, 256), 256);
    assert!(queue_for(&cbr(1e6), 1400, 256) * 1400 < 65 << 20);
    assert_eq!(queue_for(&AppConfig::Bulk, 1400, 256), 32);
    // Every frame of a video finds room, whatever its size.
    let app =
        AppConfig::Video { rate: rate(50.0), frames: 25.0, key_every: 50, key_size: 4.0, variation: 0.5 };
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

#[test]
fn first_numbers_and_ports_are_others_each_time_and_use_all_bits() {
    let settings = settings();
    block_on(async {
        let (mut ports, mut firsts) = (Vec::new(), Vec::new());
        for _ in 0..64 {
            let mut ends = Ends::new(&settings)?;
            ends.peer.advance(&|| SECOND, &mut ends.port).await?;
            let request = header(&take(&mut ends.rig.port).await);
            ends.rig.hand(SECOND, &{
                let mut bytes = Vec::new();
                Header { service: settings.config.service, ..request }.encode(&[], &[], &mut bytes);
                bytes
            });
            let response = header(&ends.rig.answers(SECOND).await);
            ports.push(request.source);
            firsts.extend([request.seq, response.seq]);
        }
        for bit in 0..48 {
            // By chance all 128 agree in a bit once in 10^38 times.
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
    .expect("it runs");
}

#[test]
fn a_batch_that_the_system_refuses_goes_packet_by_packet() {
    block_on(async {
        let local = "127.0.0.1:0".parse().unwrap();
        let mut to = Socket::open(local, None)?;
        let from = Socket::open(local, Some(to.local()))?;
        let way = Way { local: from.local(), remote: to.local() };
        let mut port = Port::new(from, None)?;
        // Linux cuts a batch into 128 packets at most, and says EINVAL of more.
        let sent: Vec<u8> = (0..600_u16).flat_map(|n| (n | 1 << 15).to_be_bytes()).collect();
        port.put(&sent, 2);
        port.flush(way).await?;
        assert_eq!(port.socket.segments(2), 1, "it is not tried again");
        let (mut alarm, mut got) = (Alarm::new()?, Vec::new());
        while got.len() < sent.len() {
            assert!(alarm.wait(&to, Duration::from_secs(5)).await?, "all arrive: {}", got.len());
            let _ = to.receive(|packet| got.extend_from_slice(packet.bytes));
        }
        assert_eq!(got, sent);
        Ok(())
    })
    .expect("it runs");
}

#[test]
fn the_largest_datagram_that_fits_is_known_where_the_interface_is() {
    block_on(async {
        let to: SocketAddr = "127.0.0.1:9".parse().unwrap();
        let mtu = Socket::open("127.0.0.1:0".parse().unwrap(), Some(to))?.mtu().expect("loopback has one");
        assert!(mtu >= 1_500);
        assert_eq!(
            Socket::open("127.0.0.1:0".parse().unwrap(), None)?.mtu(),
            None,
            "without a peer there is no path"
        );
        // IP 20 or 40, UDP 8, DataAck with long numbers 24, options 160.
        assert_eq!(largest(1_400, to), Some(1_188));
        assert_eq!(largest(1_400, "[2001:db8::1]:9".parse().unwrap()), Some(1_168));
        assert_eq!(largest(200, to), None);
        Ok(())
    })
    .expect("it runs");
}

#[test]
fn with_once_a_lone_request_keeps_nobody_out_and_one_is_served() {
    let settings = Settings { once: true, connections: 3, ..settings() };
    block_on(async {
        let mut rig = Rig::new(&settings);
        // One asks and is never heard of again; another has its answer, but is slow.
        let mut lone = rig.client(50_001);
        assert_eq!(header(&rig.exchange(SECOND, &mut lone).await).kind, Kind::Response);
        let mut slow = rig.client(50_002);
        let answer = rig.exchange(SECOND, &mut slow).await;
        slow.on_packet(SECOND, &answer[0], 0);
        let mut client = rig.client(50_003);
        let answer = rig.exchange(SECOND, &mut client).await;
        client.on_packet(SECOND, &answer[0], 0);
        // No more than `connections` may ask at a time.
        let mut fourth = rig.client(50_004);
        assert_eq!(code(&rig.exchange(SECOND, &mut fourth).await), ResetCode::TooBusy as u8);
        let answers = rig.exchange(SECOND, &mut client).await;
        let told = |port: u16| {
            let of = |header: &Header| header.destination == port && header.kind == Kind::Reset;
            let found = answers.iter().map(|bytes| udp::open(bytes).expect("a packet").0).find(of);
            found.map(|header| header.reset.0)
        };
        let busy = Some(ResetCode::TooBusy as u8);
        assert_eq!([50_001, 50_002, 50_003].map(told), [busy, busy, None]);
        for bytes in answers {
            if udp::open(&bytes).expect("a packet").0.destination == 50_003 {
                client.on_packet(SECOND, &bytes, 0);
            }
        }
        assert!(client.state().is_open());
        let mut late = rig.client(50_005);
        assert_eq!(code(&rig.exchange(SECOND * 2, &mut late).await), ResetCode::TooBusy as u8);
        assert!(!rig.server.is_done());
        client.close(SECOND * 3);
        let answers = rig.exchange(SECOND * 3, &mut client).await;
        assert_eq!(code(&answers), ResetCode::Closed as u8);
        assert!(rig.server.is_done());
        assert_eq!(rig.listener.ends.borrow().len(), 1, "it is told of one");
        Ok(())
    })
    .expect("it runs");
}
