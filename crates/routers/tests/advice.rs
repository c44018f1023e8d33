//! Untrusted replies of the network, in acknowledgements and in messages: arbitrary tags, fields and bytes, replayed,
//! late or forged. A sender with data always sends again within a stated time, and counts unusable replies.

use crate::common::{Fate, Pipe, delay, ms, sender};
use narrows_cc::schemes::{ALL, Entry};
use narrows_cc::{Bytes, Nanos, Rate, Value};
use narrows_packet::{Flags, Kind, Packet, RawOption};
use narrows_routers::negotiation::{ATTENDED, MOST, Message, Negotiation};
use narrows_routers::protocol::Explicit;
use narrows_routers::{RateHeader, RouterFrame};
use narrows_tcp::{Sender, TcpConfig};
use narrows_traffic::AppConfig;
use proptest::prelude::*;

const SEGMENTS: u64 = 60;
const FILE: AppConfig = AppConfig::File(Bytes::new(SEGMENTS * 1448));
/// Maximum delay of acknowledgements in milliseconds.
const LATEST: u64 = 300;
/// Maximum silence of a sender with data. At the minimum rate a packet leaves every second, and an early probe costs
/// another second. The acknowledgement that opens a window takes [`LATEST`] plus its delay of 40 ms plus 20 ms of
/// propagation.
const SILENCE: Nanos = Nanos::from_millis(2_400);

/// Every scheme with an explicit header, and that header.
fn explicit() -> Vec<(&'static Entry, Explicit)> {
    ALL.iter().filter_map(|entry| Some((entry, Explicit::named(entry.rate_protocol?)?))).collect()
}

fn pipe(scheme: &str, params: &[(&str, f64)], app: AppConfig, reverse: Fate) -> Pipe {
    let config = TcpConfig::default();
    Pipe::new(sender(scheme, params, &config, app), &config, delay(ms(20)), reverse)
}

/// Number of times the sender ignored advice.
fn ignored(sender: &Sender) -> f64 {
    let mut found = None;
    sender.scheme().telemetry(&mut |name, value| {
        if let ("advice_ignored", Value::Number(count)) = (name, value) {
            found = Some(count);
        }
    });
    found.expect("a scheme that takes advice counts ignored advice")
}

/// Runs until all data is delivered, and checks that the sender is never silent for long while it has data.
fn deliver(scheme: &str, pipe: &mut Pipe) {
    let mut sent = 0;
    let mut last = Nanos::ZERO;
    while pipe.sender.completed_at().is_none() {
        assert!(pipe.now < Nanos::from_secs(200), "{scheme} sends, but makes no progress");
        assert!(pipe.step(), "{scheme} has no next event before completion");
        for &(at, _) in &pipe.log[sent..] {
            assert!(at - last <= SILENCE, "{scheme} is silent from {last:?} to {at:?}");
            last = at;
        }
        sent = pipe.log.len();
        assert!(pipe.now - last <= SILENCE, "{scheme} is silent since {last:?}");
    }
    assert_eq!(pipe.delivered, SEGMENTS * 1448, "{scheme}");
}

/// The header of an option with this tag, if any.
fn header(tag: u8, slots: [(u32, u32); 2]) -> RateHeader {
    let known = (1..=RawOption::MAX_TAG).contains(&tag);
    if known { RateHeader::decode(RawOption::new(tag, 0, &slots)) } else { RateHeader::None }
}

/// Change to the rate header of one acknowledgement.
#[derive(Clone, Copy, Debug)]
enum Mutation {
    /// Any tag and any fields.
    Raw(u8, [(u32, u32); 2]),
    /// A known tag with numeric fields.
    Fields(u8, f32, u32),
    /// The header of the acknowledgement that was sent this many acknowledgements earlier.
    Replayed(usize),
    /// The receiver's header, unchanged.
    Untouched,
}

fn mutations() -> impl Strategy<Value = Mutation> {
    let number = prop_oneof![
        Just(0.0f32),
        Just(-0.0f32),
        Just(1.0f32),
        2.0..1e5f32,
        Just(f32::INFINITY),
        Just(f32::NEG_INFINITY),
        Just(f32::NAN),
        Just(f32::MAX),
        Just(f32::MIN_POSITIVE),
        -1e9..1e9f32
    ];
    prop_oneof![
        2 => (any::<u8>(), any::<[(u32, u32); 2]>()).prop_map(|(tag, slots)| Mutation::Raw(tag, slots)),
        4 => (0u8..12, number, any::<u32>()).prop_map(|(tag, field, other)| Mutation::Fields(tag, field, other)),
        1 => (1usize..20).prop_map(Mutation::Replayed),
        1 => Just(Mutation::Untouched),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    /// A sender with data sends again under any acknowledgements.
    #[test]
    fn sender_survives_any_acknowledgements(
        all in prop::collection::vec(mutations(), 1..60),
        fates in prop::collection::vec(prop::collection::vec(20..=LATEST, 1..3), 1..30),
    ) {
        for (entry, _) in explicit() {
            let (all, fates) = (all.clone(), fates.clone());
            let reverse: Fate =
                Box::new(move |_, n| fates[n as usize % fates.len()].iter().copied().map(ms).collect());
            let mut pipe = pipe(entry.info.name, &[], FILE, reverse);
            let mut history: Vec<RateHeader> = Vec::new();
            pipe.mangle_back = Some(Box::new(move |packet: &mut Packet| {
                // Messages have no such fields; the next tests cover them.
                if packet.kind() == Kind::Message {
                    return;
                }
                let n = history.len();
                let extension = match all[n % all.len()] {
                    Mutation::Raw(tag, slots) => header(tag, slots),
                    Mutation::Fields(tag, field, other) => {
                        header(tag, [(field.to_bits(), other), (field.to_bits(), other)])
                    }
                    Mutation::Replayed(ago) => history.get(n.wrapping_sub(ago)).copied().unwrap_or_default(),
                    Mutation::Untouched => packet.rate_header(),
                };
                history.push(extension);
                packet.set_rate_header(extension);
            }));
            deliver(entry.info.name, &mut pipe);
        }
    }
}

/// Replies that no sender can follow. Nodectl takes advice in messages; see below.
fn impossible(explicit: Explicit) -> Vec<RateHeader> {
    match explicit {
        // The last three exceed 1 Tbit/s, the maximum rate.
        Explicit::Rcp => [0.0, -0.0, -1.0, f32::NAN, f32::NEG_INFINITY, f32::INFINITY, f32::MAX, 1.4e11]
            .map(|rate| RateHeader::RcpReply { rate })
            .into(),
        // The last two are finite but above the sender's line rate, 100 Gbit/s.
        Explicit::Xcp => [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, f32::MAX, 2e10]
            .map(|delta| RateHeader::XcpReply { delta })
            .into(),
        // The first two codes are zero; the others are 13, 2000 and 6552 times 10^9 B/s, above 100 Gbit/s.
        Explicit::Brf => [0, 9, 139, 20_009, 65_529].map(|code| RateHeader::BrfRate { code }).into(),
        Explicit::Nodectl => Vec::new(),
    }
}

/// Impossible advice is counted each time and has no effect.
#[test]
fn impossible_advice_is_counted_and_ignored() {
    for (entry, explicit) in explicit() {
        let name = entry.info.name;
        // BRF waits for a share longer than the transfer lasts; otherwise CUBIC takes over.
        let params: &[(&str, f64)] = if explicit == Explicit::Brf { &[("timeout_rtts", 100.0)] } else { &[] };
        for extension in impossible(explicit) {
            let mut pipe = pipe(name, params, FILE, delay(ms(20)));
            pipe.mangle_back = Some(Box::new(move |packet: &mut Packet| packet.set_rate_header(extension)));
            let window = pipe.sender.window();
            deliver(name, &mut pipe);
            // Advice comes in the SYN-ACK, in one acknowledgement per two segments, and in the acknowledgement of the
            // FIN.
            assert!(ignored(&pipe.sender) >= SEGMENTS as f64 / 2.0, "{name}: {extension:?}");
            assert_eq!((pipe.sender.window(), pipe.sender.pacing_rate()), (window, None), "{name}: {extension:?}");
        }
    }
}

/// Parameter `line_rate`, here in Mbit/s, limits all advice.
#[test]
fn advice_never_exceeds_line_rate() {
    const LINE: f64 = 8.0;
    for (entry, explicit) in explicit() {
        let name = entry.info.name;
        let high = match explicit {
            // Every other reply becomes infinite; the others return the rate that the sender requested.
            Explicit::Rcp => RateHeader::RcpReply { rate: f32::INFINITY },
            // Each change is within the line rate, but the sum of the changes exceeds the line rate many times.
            Explicit::Xcp => RateHeader::XcpReply { delta: 0.9e6 },
            // BRF ignores rates above its line rate and follows lower rates; this rate is 10^6 B/s.
            Explicit::Brf => RateHeader::BrfRate { code: 10_003 },
            Explicit::Nodectl => RateHeader::None,
        };
        let mut pipe = pipe(name, &[("line_rate", LINE)], AppConfig::Bulk, delay(ms(20)));
        let mut n = 0;
        pipe.mangle_back = Some(Box::new(move |packet: &mut Packet| {
            grant(packet, 1 << 40);
            n += 1;
            if explicit != Explicit::Rcp || n % 2 == 0 {
                packet.set_rate_header(high);
            }
        }));
        pipe.run_until(Nanos::from_secs(3));
        let settled = pipe.delivered;
        pipe.run_until(Nanos::from_secs(13));
        let rate = (pipe.delivered - settled) as f64 * 8.0 / 10.0 / 1e6;
        if explicit == Explicit::Rcp {
            let (ignored, acks) = (ignored(&pipe.sender), pipe.receiver.stats().acks_sent as f64);
            // The 14 acknowledgements of the last round trip are in flight.
            assert!((ignored - acks / 2.0).abs() <= 10.0, "{ignored} of {acks}");
        }
        // The rate may slightly exceed the line rate if the scheme computes cwnd from a smoothed round-trip time that
        // includes delayed acknowledgements.
        assert!((0.5 * LINE..=1.05 * LINE).contains(&rate), "{name}: {rate} Mbit/s");
    }
}

/// Rates in acknowledgements that are old, or of data never sent, are counted and ignored.
#[test]
fn stale_or_forged_rates_are_counted_and_ignored() {
    // Each acknowledgement carries a rate 1 kB/s above the previous one, starting at 100 kB/s, and arrives again 55 ms
    // later. Every fourth acknowledgement acknowledges data never sent and carries 1 kB/s.
    let reverse: Fate = Box::new(|_, _| vec![ms(20), ms(75)]);
    let mut pipe = pipe("brf", &[], FILE, reverse);
    let mut n = 0;
    pipe.mangle_back = Some(Box::new(move |packet: &mut Packet| {
        n += 1;
        let forged = n % 4 == 0 && n > 4;
        *packet.tcp_mut().ack += if forged { 1 << 30 } else { 0 };
        let code = if forged { 1_000 } else { (100 + n) * 10 + 3 };
        packet.set_rate_header(RateHeader::BrfRate { code });
    }));
    let mut rate = None;
    while pipe.sender.completed_at().is_none() {
        assert!(pipe.step());
        let now = pipe.sender.pacing_rate();
        assert!(now >= rate, "from {rate:?} to {now:?} at {:?}", pipe.now);
        rate = now;
    }
    assert!(rate.is_some_and(|rate| rate.as_bytes_per_sec() > 100_000), "{rate:?}");
    // All second copies are stale, and a quarter of the first copies is forged.
    let (acks, stale) = (pipe.receiver.stats().acks_sent, pipe.sender.stats().stale_advice);
    assert!(stale >= acks, "{stale} of {acks} acknowledgements");
    assert_eq!(ignored(&pipe.sender), 0.0);
}

/// Lowers the grant to `rate` bytes per second if `packet` answers a request.
fn grant(packet: &mut Packet, rate: u64) {
    if packet.kind() != Kind::Message {
        return;
    }
    let message = packet.message();
    if let Ok(Message::Negotiation { kind: Negotiation::Success, min, id, rtt_us, max }) =
        Message::decode(message.as_bytes())
    {
        let max = max.min(Rate::from_bytes_per_sec(rate)).min(Rate::from_bytes_per_sec(MOST.as_bytes_per_sec() - 1));
        let rtt_us = rtt_us | ATTENDED;
        let lowered = Message::Negotiation { kind: Negotiation::Success, max, min, id, rtt_us };
        packet.set_message(lowered.encode().as_bytes());
    }
}

fn message(bytes: &[u8]) -> Packet {
    Packet::control(0, Flags::REVERSE, bytes)
}

/// A forged message to a sender.
#[derive(Clone, Debug)]
enum Forged {
    Bytes(Vec<u8>),
    Negotiation(u16, u64, u64, u32),
    Adjustment(u16, u64, bool),
}

impl Forged {
    fn packet(&self) -> Packet {
        // The connection's ID is all zeros in this test.
        match *self {
            Self::Bytes(ref bytes) => message(bytes),
            Self::Negotiation(kind, max, min, rtt) => {
                let fields = [&kind.to_be_bytes()[..], &max.to_be_bytes(), &min.to_be_bytes(), &[0; 10]];
                message(&[&fields.concat()[..], &rtt.to_be_bytes()].concat())
            }
            Self::Adjustment(kind, speed, own) => {
                let id = if own { [0; 10] } else { [7; 10] };
                message(&[&kind.to_be_bytes()[..], &id, &speed.to_be_bytes()].concat())
            }
        }
    }
}

fn forged() -> impl Strategy<Value = Forged> {
    let kind = || prop_oneof![0x10u16..0x15, 0x20u16..0x25, any::<u16>()];
    let rate = || prop_oneof![Just(0u64), Just(1), 1_000..1_000_000_000u64, Just(u64::MAX), any::<u64>()];
    prop_oneof![
        prop::collection::vec(any::<u8>(), 0..=40).prop_map(Forged::Bytes),
        (kind(), rate(), rate(), prop_oneof![0u32..200_000, any::<u32>()])
            .prop_map(|(kind, max, min, rtt)| Forged::Negotiation(kind, max, min, rtt)),
        (kind(), rate(), any::<bool>()).prop_map(|(kind, speed, own)| Forged::Adjustment(kind, speed, own)),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    /// A sender with data sends again under any messages.
    #[test]
    fn sender_survives_any_messages(
        all in prop::collection::vec((0u64..3_000, forged()), 0..60),
        rate in prop_oneof![Just(None), (1u64..10_000_000).prop_map(Some)],
    ) {
        for (entry, _) in explicit() {
            let mut pipe = pipe(entry.info.name, &[], FILE, delay(ms(20)));
            if let Some(rate) = rate {
                pipe.mangle_back = Some(Box::new(move |packet: &mut Packet| grant(packet, rate)));
            }
            for (at, forged) in &all {
                pipe.forge(ms(*at), forged.packet());
            }
            deliver(entry.info.name, &mut pipe);
        }
    }
}

/// Messages that are invalid, unsolicited or of another connection are refused and counted.
#[test]
fn unusable_messages_are_refused_and_counted() {
    let refused = [
        Forged::Bytes(vec![]),
        Forged::Bytes(vec![0; 40]),
        // A request, which is not for a sender; a success and a failure that answer no request; an unknown type.
        Forged::Negotiation(0x11, 1_000, 0, 40_000),
        Forged::Negotiation(0x12, 1_000, 0, 77),
        Forged::Negotiation(0x13, 0, 1_000, 77),
        Forged::Negotiation(0x14, 1_000, 0, 40_000),
        // A rate of zero, a rate above the maximum, another ID, and a termination, which is not for a sender.
        Forged::Adjustment(0x21, 0, true),
        Forged::Adjustment(0x22, u64::MAX, true),
        Forged::Adjustment(0x21, 1_000, false),
        Forged::Adjustment(0x23, 0, true),
    ];
    let count = refused.len() as u64;
    let mut pipe = pipe("nodectl", &[], AppConfig::Bulk, delay(ms(20)));
    pipe.mangle_back = Some(Box::new(|packet: &mut Packet| grant(packet, 1_000_000)));
    pipe.run_until(ms(500));
    let granted = pipe.sender.pacing_rate();
    assert!(granted.is_some());
    for forged in &refused {
        pipe.forge(ms(600), forged.packet());
    }
    pipe.run_until(ms(1_000));
    assert_eq!(pipe.sender.stats().messages_refused, count);
    assert_eq!(pipe.sender.pacing_rate(), granted);
    // The sender follows a valid message: 100 kB/s on the wire.
    pipe.forge(ms(1_100), Forged::Adjustment(0x21, 100_000, true).packet());
    pipe.run_until(ms(1_200));
    assert_eq!(pipe.sender.stats().messages_refused, count);
    let reduced = pipe.sender.pacing_rate().expect("a rate").as_bytes_per_sec() as f64;
    assert!((reduced / (100_000.0 * 1448.0 / 1500.0) - 1.0).abs() < 1e-3, "{reduced}");
}

/// A grant above the line rate is refused, and a grant within it is followed.
#[test]
fn grant_above_line_is_refused() {
    // 8 Mbit/s of payload are 1 MB/s, and 1 035 911 B/s on the wire, the maximum requested.
    const WIRE: u64 = 1_000_000 * 1500 / 1448;
    for (granted, refused) in [(WIRE + 1, true), (1 << 36, true), (WIRE, false)] {
        let mut pipe = pipe("nodectl", &[("line_rate", 8.0)], FILE, delay(ms(20)));
        pipe.mangle = Some(Box::new(|packet: &mut Packet| {
            if let Some(Message::Negotiation { max, .. }) = read(packet) {
                assert_eq!(max.as_bytes_per_sec(), WIRE);
            }
        }));
        pipe.mangle_back = Some(Box::new(move |packet: &mut Packet| raise(packet, granted)));
        pipe.run_until(ms(200));
        let (rate, count) = (pipe.sender.pacing_rate(), pipe.sender.stats().messages_refused);
        if refused {
            // The sender requested at 40 ms and, for lack of a valid answer, at 120 ms.
            assert_eq!((rate, count), (None, 2), "{granted}");
        } else {
            // The rate was rounded down to whole bytes twice.
            let rate = rate.expect("a rate").as_bytes_per_sec();
            assert!((999_998..=1_000_000).contains(&rate) && count == 0, "{rate}");
        }
        deliver("nodectl", &mut pipe);
    }
}

/// The message in a packet, if any.
fn read(packet: &Packet) -> Option<Message> {
    let read = || Message::decode(packet.message().as_bytes()).expect("a valid message");
    (packet.kind() == Kind::Message).then(read)
}

/// Replaces an answer by a grant of this rate, whatever the request.
fn raise(packet: &mut Packet, rate: u64) {
    if let Some(Message::Negotiation { min, id, rtt_us, .. }) = read(packet) {
        let max = Rate::from_bytes_per_sec(rate);
        let raised = Message::Negotiation { kind: Negotiation::Success, max, min, id, rtt_us };
        packet.set_message(raised.encode().as_bytes());
    }
}
