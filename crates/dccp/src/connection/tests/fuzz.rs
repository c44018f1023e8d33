//! Random packets and calls: no panic, bounded memory, bounded replies.

use narrows_cc::{Nanos, Random};
use proptest::prelude::*;

use super::net::*;
use crate::connection::*;
use crate::{Header, Kind, ResetCode, Seq};

/// Memory limit of a connection with small queues and rings.
pub(super) const MEMORY: usize = 1 << 20;

pub(super) fn small(role: Role, scheme: &str) -> Config {
    let mut config = config(role, scheme);
    (config.queue, config.outstanding, config.ack_vector_limit) = (8, 256, 256);
    config
}

/// One call on the connection.
#[derive(Clone, Debug)]
enum Step {
    Bytes(Vec<u8>),
    /// A packet with numbers close to valid numbers.
    Near {
        kind: u8,
        seq: i16,
        ack: i16,
        long: bool,
        options: Vec<u8>,
        data: u8,
        ecn: u8,
    },
    /// Exchanges all packets with the peer.
    Exchange,
    Time(u32),
    Push(u16),
    Backlogged(u16),
    Window(u64),
    Close,
    Abort,
}

/// Options, often well-formed.
pub(super) fn options() -> impl Strategy<Value = Vec<u8>> {
    let value = proptest::collection::vec(any::<u8>(), 0..12);
    let kind = prop_oneof![Just(1u8), 32..=45u8, 192..=195u8, any::<u8>()];
    let feature = prop_oneof![1..10u8, Just(192), any::<u8>()];
    let option = (kind, feature, value).prop_map(|(kind, feature, value)| {
        if kind < 32 {
            return vec![kind];
        }
        let mut bytes = vec![kind, value.len() as u8 + 3, feature];
        bytes.extend(value);
        bytes
    });
    proptest::collection::vec(option, 0..8).prop_map(|options| options.concat())
}

fn step() -> impl Strategy<Value = Step> {
    let near = (0..10u8, -40..1200i16, -1200..40i16, any::<bool>(), options(), 0..100u8, 0..4u8);
    prop_oneof![
        1 => proptest::collection::vec(any::<u8>(), 0..80).prop_map(Step::Bytes),
        6 => near.prop_map(|(kind, seq, ack, long, options, data, ecn)| {
            Step::Near { kind, seq, ack, long, options, data, ecn }
        }),
        6 => Just(Step::Exchange),
        3 => (0..2_000_000u32).prop_map(Step::Time),
        1 => any::<u32>().prop_map(Step::Time),
        3 => (0..1500u16).prop_map(Step::Push),
        1 => (0..1500u16).prop_map(Step::Backlogged),
        1 => any::<u64>().prop_map(Step::Window),
        1 => prop_oneof![4 => Just(Step::Push(1)), 1 => Just(Step::Close), 1 => Just(Step::Abort)],
    ]
}

/// Polls up to `most` packets from an endpoint.
pub(super) fn drain(end: &mut Connection, now: Nanos, most: usize) -> Vec<Vec<u8>> {
    let mut packets = vec![];
    while packets.len() < most {
        let mut out = vec![];
        let Some(sent) = end.poll_transmit(now, &mut out) else { break };
        let (_, body) = Header::decode(&out).expect("a packet");
        assert_eq!(body.data.len(), usize::from(sent.data));
        packets.push(out);
    }
    packets
}

proptest! {
    #![proptest_config(ProptestConfig::default())]

    /// Random packets and calls in any order cause no panic, bound the memory, and keep the packet counters
    /// consistent.
    #[test]
    fn connection_random_calls_keep_invariants(
        steps in proptest::collection::vec(step(), 1..120),
        scheme in prop_oneof![Just("newreno"), Just("bbr"), Just("ccid2"), Just("ccid3"), Just("dccp-bbr")],
        role in prop_oneof![Just(CLIENT), Just(SERVER)],
        seed in 0..4u64,
    ) {
        let roles = [Role::Client, Role::Server];
        let end = |i: usize| Connection::new(&small(roles[i], scheme), Random::stream(seed, "end", i as u64), Nanos::ZERO);
        let (mut end, mut other) = (end(role), end(1 - role));
        let mut now = Nanos::ZERO;
        let mut sent: Vec<Vec<u8>> = vec![];
        for step in steps {
            match step {
                Step::Bytes(bytes) => end.on_packet(now, &bytes, 3),
                Step::Near { kind, seq, ack, long, options, data, ecn } => {
                    let mut header = Header::new(Kind::from_wire(kind).expect("a type"));
                    (header.source, header.destination, header.long) = (5001, 5001, long);
                    header.seq = end.gsr.add(i64::from(seq)).get();
                    header.ack = header.ack.map(|_| end.gss.add(i64::from(ack)).get());
                    header.ccval = data % 16;
                    let mut bytes = vec![];
                    header.encode(&options, &vec![7; usize::from(data)], &mut bytes);
                    end.on_packet(now, &bytes, ecn);
                }
                Step::Exchange => {
                    for packet in sent.drain(..) {
                        other.on_packet(now, &packet, 0);
                    }
                    for packet in drain(&mut other, now, 64) {
                        end.on_packet(now, &packet, 0);
                    }
                }
                Step::Time(micros) => {
                    now += Nanos::from_micros(u64::from(micros));
                    end.on_timer(now);
                    other.on_timer(now);
                }
                Step::Push(size) => {
                    let _ = end.push(now, &vec![1; usize::from(size)]);
                }
                Step::Backlogged(size) => end.set_backlogged(size),
                Step::Window(width) => end.set_sequence_window(now, width),
                Step::Close => end.close(now),
                Step::Abort => end.abort(now, ResetCode::Aborted),
            }
            sent.extend(drain(&mut end, now, 64));
            sent.truncate(64);
            while let Some(event) = end.poll_event() {
                if let Event::Datagram(data) = event {
                    end.recycle(data);
                }
            }
            while other.poll_event().is_some() {}
            prop_assert!(end.memory() < MEMORY, "{} bytes", end.memory());
            let inflight = end.inflight().as_u64();
            prop_assert!(inflight <= end.stats().bytes_sent);
            prop_assert_eq!(end.data_packets_in_flight() == 0, inflight == 0);
            // Sent = delivered + lost − late + unanswered + in flight, at any time.
            let stats = end.stats();
            let known = stats.delivered_packets + stats.lost_packets - stats.late_packets;
            prop_assert_eq!(stats.data_packets_sent, known + stats.unanswered_packets + end.data_packets_in_flight());
        }
    }

    /// A packet with arbitrary numbers triggers at most one reply, within the limit, in LISTEN, REQUEST, OPEN
    /// and TIMEWAIT.
    #[test]
    fn connection_unproven_packet_gets_one_short_reply(
        kind in 0..10u8, seq in any::<u64>(), ack in any::<u64>(), options in options(), state in 0..4usize,
    ) {
        // LISTEN, REQUEST, OPEN and TIMEWAIT, with arbitrary numbers.
        let mut net = Net::with("newreno");
        if state >= 2 {
            net.run(ms(1_000));
        }
        if state == 3 {
            net.close(CLIENT);
            net.run(ms(2_000));
        }
        let to = if state == 0 { SERVER } else { CLIENT };
        let now = net.now;
        let end = &mut net.ends[to];
        drain(end, now, 10);
        let kind = Kind::from_wire(kind).expect("a type");
        let bytes = packet(kind, Seq::new(seq), Seq::new(ack), &options, &[]);
        end.on_packet(now, &bytes, 0);
        let replies = drain(end, now, 10);
        prop_assert!(replies.len() <= 1);
        prop_assert!(replies.iter().all(|reply| reply.len() <= REPLY_LIMIT), "{} bytes", replies[0].len());
    }
}

/// A Response that confirms every feature fits the reply limit.
#[test]
fn handshake_longest_response_fits_reply_limit() {
    // A Request with Changes for every feature at both endpoints, and for unknown features.
    let mut options = vec![];
    for feature in (1..=9).chain([192, 200, 201, 202, 203, 204]) {
        for kind in [32, 34] {
            options.extend([kind, 11, feature, 0, 1, 2, 3, 248, 249, 250, 251]);
        }
    }
    let mut config = config(Role::Server, "bbr");
    (config.short, config.ecn, config.ack_ratio) = (true, false, 3);
    config.accept = vec![2, 3, 248, 249, 250, 251, 252, 253];
    config.fallback = narrows_cc::schemes::find("ccid2");
    let mut end = Connection::new(&config, Random::stream(1, "end", 0), Nanos::ZERO);
    let request = packet(Kind::Request, Seq::new(99), Seq::new(0), &options, &[]);
    end.on_packet(Nanos::ZERO, &request, 0);
    let replies = drain(&mut end, Nanos::ZERO, 10);
    assert_eq!(replies.len(), 1);
    assert_eq!(Header::decode(&replies[0]).unwrap().0.kind, Kind::Response);
    assert!((100..=REPLY_LIMIT).contains(&replies[0].len()), "{}", replies[0].len());
}
