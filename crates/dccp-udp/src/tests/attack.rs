//! A server under attack, in virtual time: state, answers, work and signs of life.

use narrows_dccp::{Opt, options};
use narrows_host::buckets::{BUCKETS, Buckets, Hasher};
use narrows_host::testing::print_row;

use super::*;
use crate::admission::{ANSWER_BURST, ANSWERS_PER_SECOND, HALF_OPEN};
use crate::timewait::{LIMIT, TimeWait};

/// The n-th of many loopback addresses with a port.
fn address(n: u32) -> SocketAddr {
    let [_, a, b, c] = (n / 16 + 2).to_be_bytes();
    SocketAddr::new([127, a, b, c].into(), 20_000 + (n % 16) as u16)
}

fn request(dccp_port: u16, seq: u64) -> Vec<u8> {
    packet(Kind::Request, |header| (header.source, header.seq) = (dccp_port, seq), &[], &[])
}

fn has_cookie(packet: &[u8]) -> bool {
    let body = udp::open(packet).expect("a packet").1;
    options(body.options).any(|option| matches!(option, Ok(Opt::InitCookie(_))))
}

/// Unfinished Requests neither lock out a client nor leave more than a few connections.
#[test]
fn server_unfinished_requests_lock_out_nobody() {
    let settings = Settings { connections: 64, ..settings() };
    with_server(&settings, async |mut test| {
        for n in 0..1_000 {
            test.deliver_from(SECOND, address(n), &request(40_000, u64::from(n)));
        }
        test.answers(SECOND).await;
        assert_eq!(test.server.counts(), (HALF_OPEN, 0, 0));
        let mut client = test.client(50_001);
        let answers = test.exchange(SECOND, &mut client).await;
        assert_eq!(header(&answers).kind, Kind::Response);
        assert!(has_cookie(&answers[0]), "the server kept state");
        assert_eq!(test.server.counts(), (HALF_OPEN, 0, 0));
        client.on_packet(SECOND, &answers[0], 0);
        // The first packets with the cookie are lost; the connection opens with a later packet.
        let mut lost = Vec::new();
        while client.poll_transmit(SECOND, &mut lost).is_some() {}
        client.on_timer(SECOND * 2);
        let answers = test.exchange(SECOND * 2, &mut client).await;
        assert_eq!(test.server.counts(), (HALF_OPEN, 1, 0));
        for packet in answers {
            client.on_packet(SECOND * 2, &packet, 0);
        }
        client.push(SECOND * 2, b"datagram").expect("room");
        test.exchange(SECOND * 2, &mut client).await;
        client.close(SECOND * 3);
        let answers = test.exchange(SECOND * 3, &mut client).await;
        assert_eq!(code(&answers), ResetCode::Closed as u8);
        let ends = test.listener.ends.borrow();
        assert_eq!((ends.len(), ends[0].datagrams, ends[0].end), (1, 1, "closed"));
        print_row("DCCP server: unfinished Requests, then a client", 1_000, "served, 16 handshakes with state");
    });
}

/// A cookie opens a connection once: a cookie returned after the end of its connection is refused.
#[test]
fn server_cookie_returned_after_the_end_opens_nothing() {
    with_server(&settings(), async |mut test| {
        for n in 0..HALF_OPEN as u32 {
            test.deliver_from(SECOND, address(n), &request(40_000, 9));
        }
        let mut client = test.client(50_001);
        let answers = test.exchange(SECOND, &mut client).await;
        client.on_packet(SECOND, &answers[0], 0);
        let mut ack = Vec::new();
        client.poll_transmit(SECOND, &mut ack).expect("an Ack");
        test.deliver(SECOND, &ack);
        assert_eq!(test.server.counts().1, 1);
        client.close(SECOND);
        let answers = test.exchange(SECOND, &mut client).await;
        assert!(answers.iter().any(|packet| udp::open(packet).unwrap().0.kind == Kind::Reset));
        assert_eq!(test.server.counts().1, 0);
        test.deliver(SECOND * 2, &ack);
        assert_eq!(code(&test.answers(SECOND * 2).await), ResetCode::NoConnection as u8);
        assert_eq!(test.server.counts().1, 0, "the old cookie opened a connection");
        // A cookie from another DCCP port is never valid.
        let (mut forged, body) = udp::open(&ack).unwrap();
        forged.source += 1;
        let mut bytes = Vec::new();
        forged.encode(body.options, &[], &mut bytes);
        test.deliver(SECOND * 3, &bytes);
        assert_eq!(code(&test.answers(SECOND * 3).await), ResetCode::BadInitCookie as u8);
    });
}

/// An unproven address gets at most three times the bytes that it sent, and few answers in a burst, with and without
/// cookies.
#[test]
fn server_unproven_address_gets_little() {
    for under_load in [false, true] {
        with_server(&settings(), async |mut test| {
            for n in 0..if under_load { HALF_OPEN as u32 } else { 0 } {
                test.deliver_from(SECOND, address(n), &request(40_000, 9));
            }
            let (mut sent, mut got, mut answers) = (0, 0, 0);
            // The address opens many connections, and one connection whose Request is repeated with valid numbers.
            for n in 0..400_u64 {
                let packet = if n < 100 { request(41_000 + n as u16, n) } else { request(50_000, n) };
                sent += packet.len();
                test.deliver(SECOND, &packet);
                for packet in test.answers(SECOND).await {
                    (got, answers) = (got + packet.len(), answers + 1);
                }
                assert!(got <= 3 * sent, "{got} bytes for {sent}");
            }
            assert!((1..=ANSWER_BURST).contains(&answers), "{answers} answers");
            let when = if under_load { " under load" } else { "" };
            let result = format!("{answers} answers, {got} bytes for {sent}");
            print_row(&format!("DCCP server{when}: Requests of one unproven address"), 400, &result);
        });
    }
}

/// A session in RESPOND sends at most three times the bytes received, however much it has to send.
#[test]
fn session_unproven_peer_bounds_what_is_sent() {
    with_server(&settings(), async |mut test| {
        // Change options with long preference lists make a long Response.
        let mut options = Vec::new();
        for feature in [1, 2, 4, 6, 7, 8, 9] {
            options.extend([34, 4, feature, 0]);
        }
        let packet = packet(Kind::Request, |header| (header.source, header.seq) = (50_000, 5), &options, &[]);
        let (mut sent, mut got) = (0, 0);
        for n in 0..20 {
            let at = SECOND * n + SECOND / 10 * n;
            test.deliver(at, &packet);
            sent += packet.len();
            got += test.answers(at).await.iter().map(Vec::len).sum::<usize>();
            assert!(got <= 3 * sent, "{got} bytes for {sent}");
        }
        assert!(got > 0);
        // The Response to the shortest Request and the Reset at the end of the handshake would together exceed the
        // limit.
        test.answers(SECOND * 29).await; // ends the handshake above
        let packet = request(50_001, 5);
        test.deliver(SECOND * 30, &packet);
        let mut got = 0;
        for at in [30, 39, 48] {
            got += test.answers(SECOND * at).await.iter().map(Vec::len).sum::<usize>();
        }
        assert!(got > 0 && got <= 3 * packet.len(), "{got} bytes for {}", packet.len());
        assert_eq!(test.server.counts(), (0, 0, 0));
    });
}

/// Each address has its own allowance of answers, which refills; the table has a fixed size.
#[test]
fn buckets_refill_and_are_separate() {
    let hasher = Hasher::new().expect("random numbers");
    let mut buckets = Buckets::new(hasher, ANSWERS_PER_SECOND, ANSWER_BURST);
    let [first, second] = ["192.0.2.1", "192.0.2.2"].map(|text| text.parse().unwrap());
    let mut taken = |at: Nanos, ip| (0..1_000).filter(|_| buckets.take(at, ip)).count() as u64;
    assert_eq!(taken(SECOND, first), ANSWER_BURST);
    assert_eq!(taken(SECOND * 2, first), ANSWERS_PER_SECOND);
    // Two addresses share a bucket in one of 4096 cases.
    assert!([ANSWER_BURST, 0].contains(&taken(SECOND * 2, second)));
    // The addresses of one prefix share an allowance.
    let [one, other] = ["2001:db8::1", "2001:db8::ffff"].map(|text| text.parse().unwrap());
    assert_eq!(taken(SECOND * 90, one) + taken(SECOND * 90, other), ANSWER_BURST);
    assert_eq!(size_of::<Nanos>() * BUCKETS, 32 << 10);
}

/// Ended connections are remembered up to a limit, and those that expire first are dropped first.
#[test]
fn timewait_beyond_limit_forgets_oldest() {
    let mut timewait = TimeWait::new(Hasher::new().expect("random numbers"));
    let flow = |n: u32| udp::Flow { remote: address(n), remote_port: 1, local_port: 2 };
    for n in 0..LIMIT as u32 + 100 {
        timewait.insert(&flow(n), SECOND + Nanos::from_nanos(u64::from(n)));
    }
    assert_eq!(timewait.len(), LIMIT);
    print_row("DCCP server: ended connections", LIMIT + 100, &format!("{LIMIT} remembered"));
    assert!(!timewait.contains(&flow(99)) && timewait.contains(&flow(100)));
    // If the same connection is recorded again with a later expiry, the later expiry replaces the earlier one.
    timewait.insert(&flow(100), SECOND * 9);
    assert_eq!((timewait.len(), timewait.deadline()), (LIMIT, SECOND + Nanos::from_nanos(101)));
    timewait.expire(SECOND * 2);
    assert_eq!((timewait.len(), timewait.deadline()), (1, SECOND * 9));
    assert!(timewait.contains(&flow(100)));
    timewait.expire(SECOND * 9);
    assert_eq!((timewait.len(), timewait.deadline()), (0, Nanos::MAX));
}

/// Connections that peers reset leave a compact record each, and no connection.
#[test]
fn server_reset_connections_leave_compact_records() {
    with_server(&settings(), async |mut test| {
        for n in 0..200 {
            // Each connection comes from a different address, so that no limit of answers applies.
            let at = SECOND * (n + 1);
            let mut client = test.connect(at, 50_000 + n as u16).await;
            client.abort(at, ResetCode::Aborted);
            test.exchange(at, &mut client).await;
            let records = test.server.counts().2;
            assert_eq!(test.server.counts().1, 0);
            // TIMEWAIT lasts 2 MSL, half of the timeout: four seconds.
            assert_eq!(records, (n as usize + 1).min(4));
        }
        print_row("DCCP server: connections that peers reset", 200, "4 records at most, no connection");
    });
}

/// A wake-up serves only the connections with packets or due timers. The test prints the memory of an idle connection.
#[test]
fn server_idle_connections_cost_no_work() {
    const IDLE: u16 = 300;
    let settings = Settings { connections: 1_000, timeout: Duration::from_secs(3_600), ..settings() };
    with_server(&settings, async |mut test| {
        let mut at = SECOND;
        for n in 0..IDLE {
            at += SECOND / 5;
            test.connect(at, 50_000 + n).await;
        }
        let mut busy = test.connect(at, 60_000).await;
        assert_eq!(test.server.counts().1, usize::from(IDLE) + 1);
        at += SECOND;
        test.answers(at).await;
        println!("{} bytes of memory per idle connection", test.server.memory() / (usize::from(IDLE) + 1));
        let before = test.server.work;
        for _ in 0..100 {
            at += Nanos::from_millis(1);
            busy.on_timer(at);
            busy.push(at, b"datagram").expect("room");
            for packet in test.exchange(at, &mut busy).await {
                busy.on_packet(at, &packet, 0);
            }
        }
        let work = test.server.work - before;
        assert!((100..=400).contains(&work), "{work} connections served for 100 packets");
        let result = format!("{work} connections served for 100 packets");
        print_row("DCCP server: idle connections beside a busy one", IDLE, &result);
    });
}

/// Packets with wrong numbers do not keep a silent sender's connection alive.
#[test]
fn server_invalid_packets_are_no_signs_of_life() {
    with_server(&settings(), async |mut test| {
        test.connect(SECOND, 50_001).await;
        for n in 2..9 {
            let set = |header: &mut Header| (header.source, header.seq, header.ack) = (50_001, n << 40, Some(n));
            test.deliver(SECOND * n, &packet(Kind::DataAck, set, &[], b"noise"));
            test.answers(SECOND * n).await;
        }
        assert!(test.listener.ends.borrow().is_empty());
        test.answers(SECOND * 9).await;
        assert_eq!(test.listener.ends.borrow()[0].end, "peer gone");
        print_row("DCCP server: packets with wrong numbers from a silent sender", 7, "given up in time");
    });
}

/// If there are few connections, each gets a line of progress; many connections share one line.
#[test]
fn server_progress_of_many_is_one_line() {
    for (count, lines, overviews) in [(3_u16, 3, 0), (12, 0, 1)] {
        let settings = Settings { connections: 64, timeout: Duration::from_secs(60), ..settings() };
        with_server(&settings, async |mut test| {
            let mut last = None;
            for n in 0..count {
                last = Some(test.connect(SECOND, 50_000 + n).await);
            }
            test.answers(SECOND).await;
            test.listener.progress.borrow_mut().clear();
            let mut last = last.expect("a client");
            last.push(SECOND, &[1; 100]).expect("room");
            test.exchange(SECOND, &mut last).await;
            test.listener.overviews.borrow_mut().clear();
            let at = SECOND * 2 + Nanos::from_millis(300);
            test.answers(at).await;
            assert_eq!(test.listener.progress.borrow().len(), lines);
            let found = test.listener.overviews.borrow();
            assert_eq!(found.len(), overviews);
            if let Some(overview) = found.first() {
                assert_eq!((overview.connections, overview.half_open), (usize::from(count), 0));
            }
        });
    }
}

/// A Request that is repeated with valid numbers gets no more answers than its address is allowed.
#[test]
fn server_repeated_request_gets_few_answers() {
    with_server(&settings(), async |mut test| {
        let mut answers = 0;
        for n in 0..200 {
            test.deliver(SECOND, &request(50_000, n));
            answers += test.answers(SECOND).await.len() as u64;
        }
        assert!((1..=ANSWER_BURST).contains(&answers), "{answers} answers");
        assert_eq!(test.server.counts(), (1, 0, 0));
        print_row("DCCP server: a repeated Request", 200, &format!("{answers} answers"));
    });
}

/// Resets without a connection count towards the answer limit of their address, not only towards the limit of all
/// addresses.
#[test]
fn server_resets_count_towards_the_answers_of_their_address() {
    with_server(&settings(), async |mut test| {
        let packet = packet(Kind::Ack, |header| (header.source, header.ack) = (50_000, Some(1)), &[], &[]);
        let mut answers = 0;
        for n in 0..500 {
            // For five seconds, packets arrive at the interval at which all addresses together may get a Reset.
            let at = SECOND + crate::admission::REFUSAL_INTERVAL * n;
            test.deliver(at, &packet);
            answers += test.answers(at).await.len() as u64;
        }
        let most = ANSWER_BURST + 5 * ANSWERS_PER_SECOND;
        assert!((ANSWER_BURST..=most).contains(&answers), "{answers} answers");
        print_row("DCCP server: packets without a connection, in 5 s", 500, &format!("{answers} Resets"));
    });
}
