//! Every state against invalid packets and against the corpus.

use narrows_cc::{Nanos, Random};
use proptest::prelude::*;

use super::fuzz::{MEMORY, drain, options, small};
use super::net::*;
use super::numbers::protocol_state;
use crate::{Header, Kind, Seq};

const CORPUS: [&str; 2] =
    [include_str!("../../../tests/corpus/valid.hex"), include_str!("../../../tests/corpus/options.hex")];

/// All states of all endpoints.
const STATES: [(usize, State); 12] = [
    (SERVER, State::Listen),
    (CLIENT, State::Request),
    (SERVER, State::Respond),
    (CLIENT, State::PartOpen),
    (CLIENT, State::Open),
    (SERVER, State::Open),
    (SERVER, State::CloseReq),
    (CLIENT, State::Closing),
    (SERVER, State::Closing),
    (CLIENT, State::TimeWait),
    (SERVER, State::TimeWait),
    (SERVER, State::Closed),
];

/// An endpoint in this state, with nothing to send, and the time.
fn end_in(side: usize, state: State, scheme: &str) -> (Connection, Nanos) {
    let (client, mut server) = (small(Role::Client, scheme), small(Role::Server, scheme));
    server.close_request = side != SERVER || state == State::CloseReq;
    let mut net = Net::new(&client, &server, Link::default(), 1);
    match state {
        State::Listen => {}
        State::Request => net.lose = Box::new(|_, _| true),
        State::Respond => net.lose = Box::new(|from, header| from == CLIENT && header.kind != Kind::Request),
        State::PartOpen => net.lose = Box::new(|from, header| from == SERVER && header.kind != Kind::Response),
        _ => {}
    }
    net.run(if state == State::Listen { ms(0) } else { ms(100) });
    if state > State::PartOpen || state == State::Closed {
        net.push_every(ms(10), &[CLIENT, SERVER], 40, 300);
        net.run_for(ms(500));
    }
    match state {
        State::CloseReq | State::Closing => {
            net.lose = Box::new(|_, _| true);
            net.close(side);
        }
        State::TimeWait => net.close(side),
        State::Closed => net.close(1 - side),
        _ => {}
    }
    net.run_for(if state == State::TimeWait || state == State::Closed { ms(200) } else { ms(1) });
    let now = net.now;
    let mut end = net.ends.into_iter().nth(side).expect("two ends");
    if state == State::Listen {
        end = Connection::new(&server, Random::stream(1, "end", 1), now);
    }
    assert_eq!(end.state(), state, "{side}");
    drain(&mut end, now, 64);
    (end, now)
}

/// The table of RFC 4340 section 7.5.3; `active`: a valid packet arrived within three round trips.
fn is_valid(end: &Connection, kind: Kind, seq: Seq, ack: Option<Seq>, active: bool) -> bool {
    let ((swl, swh), (awl, awh)) = (end.sequence_window(), end.acknowledgement_window());
    let between = |n: Seq, low: Seq, high: Seq| n.minus(low) >= 0 && high.minus(n) >= 0;
    let (low, least) = match kind {
        Kind::CloseReq | Kind::Close | Kind::Reset => (end.gsr.add(1), end.gar),
        _ => (swl, awl),
    };
    let ahead = matches!(kind, Kind::Sync | Kind::SyncAck) && !active;
    let numbered = if ahead { seq.minus(swl) >= 0 } else { between(seq, low, swh) };
    numbered && ack.is_none_or(|ack| between(ack, least, awh) && ack.minus(awl) >= 0)
}

proptest! {
    #![proptest_config(ProptestConfig::default())]

    /// An invalid packet changes no state of any endpoint and triggers at most one short reply, and at most eight
    /// replies are sent per second.
    #[test]
    fn invalid_packet_changes_no_state(
        at in prop::sample::select(STATES.to_vec()),
        scheme in prop::sample::select(vec!["newreno", "ccid2", "ccid3", "dccp-bbr"]),
        packets in prop::collection::vec(
            (0..10u8, prop_oneof![-1_200..1_200i64, any::<i64>()], prop_oneof![-1_200..10i64, any::<i64>()], options(), 0..60usize),
            1..20,
        ),
    ) {
        let (mut end, mut now) = end_in(at.0, at.1, scheme);
        // Without a known peer, or without a connection, the reply to an invalid packet is a Reset.
        let resets = at.1 <= State::Request || at.1 == State::TimeWait;
        let first = now;
        let mut replies = 0;
        for (kind, seq, ack, options, data) in packets {
            let kind = Kind::from_wire(kind).expect("a type");
            let (seq, number) = (end.gsr.add(seq), end.gss.add(ack));
            let bytes = packet(kind, seq, number, &options, &vec![7; data]);
            let ack = kind.acknowledges().then_some(number);
            let active = now <= end.valid_at.saturating_add(end.srtt_or_default() * 3);
            let taken = match at.1 {
                State::Closed | State::TimeWait => false,
                State::Listen => kind == Kind::Request,
                State::Request => {
                    let (low, high) = end.acknowledgement_window();
                    matches!(kind, Kind::Response | Kind::Reset)
                        && ack.is_some_and(|ack| ack.minus(low) >= 0 && high.minus(ack) >= 0)
                }
                _ => is_valid(&end, kind, seq, ack, active),
            };
            if taken {
                continue;
            }
            // Drain the packets that the endpoint sends without this input.
            drain(&mut end, now, 10);
            let before = protocol_state(&end);
            let size = bytes.len();
            end.on_packet(now, &bytes, 3);
            prop_assert_eq!(protocol_state(&end), before, "{:?} {:?} {:?}", kind, seq, ack);
            let answers = drain(&mut end, now, 10);
            prop_assert!(answers.len() <= 1);
            replies += answers.len();
            for answer in &answers {
                prop_assert!(answer.len() <= REPLY_LIMIT, "{} bytes for {size}", answer.len());
                let (answer, _) = Header::decode(answer).expect("a packet");
                let reset = resets || at.1 == State::Closed;
                prop_assert_eq!(answer.kind, if reset { Kind::Reset } else { Kind::Sync });
                // In states that reply with a Reset, Resets get no reply; in other states, Syncs and SyncAcks get no
                // reply.
                let no_reply: &[Kind] = if reset { &[Kind::Reset] } else { &[Kind::Sync, Kind::SyncAck] };
                prop_assert!(!no_reply.contains(&kind));
            }
            prop_assert!(end.memory() < MEMORY);
            now += ms(10);
        }
        // At most eight replies per second.
        prop_assert!(replies as u64 <= 1 + (now - first).as_nanos() / ms(125).as_nanos());
    }
}

/// Mutated packets of the corpus, mostly with valid numbers, cause no panic and bound the memory in every
/// state.
#[test]
fn corpus_packets_keep_every_state_sound() {
    let packets: Vec<Vec<u8>> = CORPUS
        .iter()
        .flat_map(|text| text.lines())
        .filter(|line| !line.starts_with('#'))
        .map(|line| {
            let hex = line.rsplit_once(':').expect("words: bytes").1.trim();
            (0..hex.len()).step_by(2).map(|at| u8::from_str_radix(&hex[at..at + 2], 16).expect("hex")).collect()
        })
        .collect();
    assert!(packets.len() > 40);
    let mut random = Random::stream(1, "corpus", 0);
    let (mut moved, mut kept) = (0, 0);
    for (side, state) in STATES {
        for scheme in ["newreno", "ccid2", "ccid3", "dccp-bbr"] {
            let (start, start_at) = end_in(side, state, scheme);
            let (mut end, mut now) = (start.clone(), start_at);
            for _ in 0..1_500 {
                let mut bytes = packets[random.below(packets.len() as u64) as usize].clone();
                // Address the packet to the endpoint's port, mostly with numbers close to valid numbers.
                bytes[2..4].copy_from_slice(&5001u16.to_be_bytes());
                if random.chance(0.8)
                    && let Ok((mut header, body)) = Header::decode(&bytes)
                {
                    header.seq = end.gsr.add(random.below(40) as i64 - 5).get();
                    header.ack = header.ack.map(|_| end.gss.add(-(random.below(20) as i64)).get());
                    let (options, data) = (body.options.to_vec(), body.data.to_vec());
                    bytes.clear();
                    header.encode(&options, &data, &mut bytes);
                }
                for _ in 0..random.below(3) {
                    let at = random.below(bytes.len() as u64) as usize;
                    bytes[at] = random.below(256) as u8;
                }
                end.on_packet(now, &bytes, random.below(4) as u8);
                drain(&mut end, now, 20);
                while let Some(event) = end.poll_event() {
                    if let Event::Datagram(data) = event {
                        end.recycle(data);
                    }
                }
                assert!(end.memory() < MEMORY, "{side} {state:?} {scheme}: {} bytes", end.memory());
                now += Nanos::from_micros(random.below(20_000));
                end.on_timer(now);
                // Count packets that keep the state and packets that change it, and restart ended connections.
                if end.state() == state {
                    kept += 1
                } else {
                    moved += 1
                }
                if end.state().is_over() && !state.is_over() {
                    (end, now) = (start.clone(), start_at);
                }
            }
        }
    }
    assert!(moved > 500 && kept > 5_000, "{moved} moved, {kept} kept the state");
}
