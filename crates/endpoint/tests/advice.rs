//! Answers of the network that nobody vouches for, in acknowledgements: any tag, any field, replayed, late, in pieces. A
//! sender with data always sends again within a stated time, and what it could not use it has counted.

mod common;

use common::{Fate, Pipe, ms, sender};
use narrows_cc::schemes::{ALL, Entry};
use narrows_cc::{Bytes, Explicit, Nanos, Value};
use narrows_endpoint::{AppConfig, Sender, TcpConfig};
use narrows_net::{Extension, Packet};
use proptest::prelude::*;

const SEGMENTS: u64 = 60;
/// Acknowledgements take up to this long.
const LATEST: u64 = 300;
/// The longest that a sender with data may be silent: the least rate is a packet per second, and the acknowledgement that
/// opens a window takes [`LATEST`], its delay of 40 ms and 20 ms of the way there.
const SILENCE: Nanos = Nanos::from_millis(1_400);

/// Every scheme that speaks an explicit header, with that header.
fn explicit() -> Vec<(&'static Entry, Explicit)> {
    let config = TcpConfig::default();
    ALL.iter()
        .filter_map(|entry| Some((entry, common::scheme(entry.info.name, &[], &config).explicit()?)))
        .collect()
}

fn pipe(scheme: &str, app: AppConfig, reverse: Fate) -> Pipe {
    let config = TcpConfig::default();
    Pipe::new(sender(scheme, &[], &config, app), &config, common::delay(ms(20)), reverse)
}

/// All that a sender tells of advice that it did not follow.
fn ignored(sender: &Sender) -> f64 {
    let mut found = None;
    sender.scheme().telemetry(&mut |name, value| {
        if let ("advice_ignored", Value::Number(count)) = (name, value) {
            found = Some(count);
        }
    });
    found.expect("a scheme that takes advice counts what it ignores")
}

/// Runs until everything is delivered, and checks that the sender is never silent for long while it has data to send.
fn deliver(scheme: &str, pipe: &mut Pipe) {
    let mut sent = 0;
    let mut last = Nanos::ZERO;
    while pipe.sender.completed_at().is_none() {
        assert!(pipe.step(), "{scheme} is at an end before its time");
        for &(at, _) in &pipe.log[sent..] {
            assert!(at - last <= SILENCE, "{scheme} is silent from {last:?} to {at:?}");
            last = at;
        }
        sent = pipe.log.len();
        assert!(pipe.now - last <= SILENCE, "{scheme} is silent since {last:?}");
    }
    assert_eq!(pipe.delivered, SEGMENTS * 1448, "{scheme}");
}

/// What happens to the extension of one acknowledgement.
#[derive(Clone, Copy, Debug)]
enum Said {
    /// Any tag and any fields.
    Raw(u8, [(u32, u32); 2]),
    /// A tag that exists, and fields that are numbers of some sort.
    Fields(u8, f32, u32),
    /// One that was sent so many acknowledgements ago.
    Replayed(usize),
    /// What the receiver wrote.
    Untouched,
}

fn said() -> impl Strategy<Value = Said> {
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
        2 => (any::<u8>(), any::<[(u32, u32); 2]>()).prop_map(|(tag, slots)| Said::Raw(tag, slots)),
        4 => (0u8..12, number, any::<u32>()).prop_map(|(tag, field, other)| Said::Fields(tag, field, other)),
        1 => (1usize..20).prop_map(Said::Replayed),
        1 => Just(Said::Untouched),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn whatever_acknowledgements_say_a_sender_with_data_sends_again(
        all in prop::collection::vec(said(), 1..60),
        fates in prop::collection::vec(prop::collection::vec(20..=LATEST, 1..3), 1..30),
    ) {
        for (entry, _) in explicit() {
            let (all, fates) = (all.clone(), fates.clone());
            let reverse: Fate =
                Box::new(move |_, n| fates[n as usize % fates.len()].iter().copied().map(ms).collect());
            let mut pipe = pipe(entry.info.name, AppConfig::File(Bytes::new(SEGMENTS * 1448)), reverse);
            let mut history: Vec<Extension> = Vec::new();
            pipe.mangle_back = Some(Box::new(move |packet: &mut Packet| {
                let n = history.len();
                let extension = match all[n % all.len()] {
                    Said::Raw(tag, slots) => Extension::decode(tag, slots),
                    Said::Fields(tag, field, other) => {
                        Extension::decode(tag, [(field.to_bits(), other), (field.to_bits(), other)])
                    }
                    Said::Replayed(ago) => history.get(n.wrapping_sub(ago)).copied().unwrap_or_default(),
                    Said::Untouched => packet.extension(),
                };
                history.push(extension);
                packet.set_extension(extension);
            }));
            deliver(entry.info.name, &mut pipe);
        }
    }
}

/// Answers that no sender can follow.
fn impossible(explicit: Explicit) -> Vec<Extension> {
    match explicit {
        Explicit::Rcp => {
            [0.0, -0.0, -1.0, f32::NAN, f32::NEG_INFINITY].map(|rate| Extension::RcpReply { rate }).into()
        }
        // More per second than the sender's line carries, 100 Gbit/s.
        Explicit::Xcp => [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, f32::MAX, 2e10]
            .map(|delta| Extension::XcpReply { delta })
            .into(),
    }
}

#[test]
fn advice_that_cannot_be_followed_is_counted_each_time_and_changes_nothing() {
    for (entry, explicit) in explicit() {
        let name = entry.info.name;
        for extension in impossible(explicit) {
            let mut pipe = pipe(name, AppConfig::File(Bytes::new(SEGMENTS * 1448)), common::delay(ms(20)));
            pipe.mangle_back = Some(Box::new(move |packet: &mut Packet| packet.set_extension(extension)));
            let window = pipe.sender.window();
            deliver(name, &mut pipe);
            // The SYN-ACK, an acknowledgement for every two segments, and that of the FIN.
            assert!(ignored(&pipe.sender) >= SEGMENTS as f64 / 2.0, "{name}: {extension:?}");
            assert_eq!(
                (pipe.sender.window(), pipe.sender.pacing_rate()),
                (window, None),
                "{name}: {extension:?}"
            );
        }
    }
}

/// The most that can be asked of a sender, by its parameter `line_rate`, here in Mbit/s.
#[test]
fn no_advice_makes_a_sender_faster_than_its_line() {
    const LINE: f64 = 8.0;
    for (entry, explicit) in explicit() {
        let name = entry.info.name;
        let high = match explicit {
            Explicit::Rcp => Extension::RcpReply { rate: f32::INFINITY },
            // Each in itself within the line; together they ask for many times as much.
            Explicit::Xcp => Extension::XcpReply { delta: 0.9e6 },
        };
        let config = TcpConfig::default();
        let made = sender(name, &[("line_rate", LINE)], &config, AppConfig::Bulk);
        let mut pipe = Pipe::new(made, &config, common::delay(ms(20)), common::delay(ms(20)));
        pipe.mangle_back = Some(Box::new(move |packet: &mut Packet| packet.set_extension(high)));
        pipe.run_until(Nanos::from_secs(3));
        let settled = pipe.delivered;
        pipe.run_until(Nanos::from_secs(13));
        let rate = (pipe.delivered - settled) as f64 * 8.0 / 10.0 / 1e6;
        // Of a window for a smoothed round-trip time that counts delayed acknowledgements, a little more.
        assert!(rate <= 1.05 * LINE && rate >= 0.5 * LINE, "{name}: {rate} Mbit/s");
    }
}
