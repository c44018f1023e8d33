//! The server's side of Nodectl (Algorithm 3) against a network written by hand: messages lost, repeated, late, forged.

mod common;

use std::cell::RefCell;
use std::rc::Rc;

use common::{Fate, Pipe, delay, ms, sender};
use narrows_cc::{Nanos, Rate};
use narrows_endpoint::{AppConfig, Negotiation as Wishes, TcpConfig};
use narrows_net::allocator::negotiation::{Adjustment, Id, MOST, Message, Negotiation};
use narrows_net::packet::{Flags, Packet};
use proptest::prelude::*;

const ID: Id = Id { content: 7, destination: 9, subflow: 0 };
/// Bytes per second on the wire.
const MB: u64 = 1_000_000;

fn rate(n: u64) -> Rate {
    Rate::from_bytes_per_sec(n)
}

fn config(min: u64, paths: u8) -> TcpConfig {
    let negotiation = Wishes { content: 7, destination: 9, min: rate(min), paths, ..Wishes::default() };
    TcpConfig { negotiation, ..TcpConfig::default() }
}

fn read(packet: &Packet) -> Option<Message> {
    let (bytes, len) = packet.message();
    packet.flags.has(Flags::CONTROL).then(|| Message::decode(&bytes[..len]).ok()).flatten()
}

fn is_control(packet: &Packet) -> bool {
    packet.flags.has(Flags::CONTROL)
}

/// A round trip of 40 ms; `fate` decides about control messages on the way there.
fn pipe(config: &TcpConfig, mut fate: impl FnMut(&Packet) -> bool + 'static) -> Pipe {
    let forward: Fate =
        Box::new(move |packet, _| if is_control(packet) && !fate(packet) { vec![] } else { vec![ms(20)] });
    Pipe::new(sender("nodectl", &[], config, AppConfig::Bulk), config, forward, delay(ms(20)))
}

/// A node that gives each way so much at the most, or nothing.
fn gives(shares: Vec<u64>) -> common::Mangle {
    Box::new(move |packet| {
        if let Some(Message::Negotiation { kind: Negotiation::Request, max, min, id, rtt_us }) = read(packet)
        {
            let share = rate(shares[usize::from(packet.path())]).min(max);
            // The user refuses what is below Min.
            let message = Message::Negotiation {
                kind: Negotiation::Request,
                max: share.max(rate(1)),
                min: min.min(share.max(rate(1))),
                id,
                rtt_us,
            };
            packet.set_message(message.encode().as_bytes());
        }
    })
}

/// When requests left, over which way, for how much.
fn requests(pipe: &Pipe) -> Vec<(Nanos, u8, u64)> {
    let request = |(at, packet): &(Nanos, Packet)| match read(packet) {
        Some(Message::Negotiation { kind: Negotiation::Request, max, .. }) => {
            Some((*at, packet.path(), max.as_bytes_per_sec()))
        }
        _ => None,
    };
    pipe.log.iter().filter_map(request).collect()
}

fn data(pipe: &Pipe) -> Vec<(Nanos, u8)> {
    pipe.log.iter().filter(|(_, p)| p.payload > 0).map(|(at, p)| (*at, p.path())).collect()
}

/// The payload rate that goes with a rate on the wire.
fn payload(wire: u64) -> Rate {
    rate((wire as f64 * 1448.0 / 1500.0) as u64)
}

fn tell(pipe: &mut Pipe, path: u8, message: &Message) {
    let mut packet = Packet::control(0, Flags::REVERSE, message.encode().as_bytes());
    packet.set_path(path);
    pipe.sender.on_packet(pipe.now, &packet);
}

fn adjustment(kind: Adjustment, speed: u64) -> Message {
    Message::Adjustment { kind, id: ID, speed: rate(speed) }
}

#[test]
fn data_waits_a_round_trip_for_its_rate_and_follows_what_it_is_told() {
    let mut pipe = pipe(&config(0, 1), |_| true);
    pipe.mangle = Some(gives(vec![MB]));
    pipe.run_until(ms(500));
    assert_eq!(requests(&pipe), [(ms(40), 0, MOST.as_bytes_per_sec())]);
    assert_eq!(data(&pipe)[0], (ms(80), 0));
    assert_eq!(pipe.sender.pacing_rate(), Some(payload(MB)));
    // A reduction counts, one that allows more does not.
    for (speed, expected) in [(MB / 2, MB / 2), (MB * 3 / 4, MB / 2), (MB / 4, MB / 4)] {
        tell(&mut pipe, 0, &adjustment(Adjustment::Reduce, speed));
        assert_eq!(pipe.sender.pacing_rate(), Some(payload(expected)));
    }
}

#[test]
fn a_request_is_sent_four_times_with_twice_the_patience_each_and_then_data_flows_without_a_rate() {
    let mut pipe = pipe(&config(0, 1), |_| false);
    pipe.run_until(ms(12_000));
    let at: Vec<Nanos> = requests(&pipe).iter().map(|request| request.0).collect();
    // Twice the round-trip time of 40 ms, four times, eight times; it gives up after sixteen, and asks again after ten
    // seconds.
    assert_eq!(at, [40, 120, 280, 600, 11_240].map(ms));
    assert_eq!(data(&pipe)[0].0, ms(1_240));
    assert_eq!(pipe.sender.pacing_rate(), None);
}

#[test]
fn where_no_node_takes_part_data_flows_without_a_rate_after_one_round_trip() {
    let mut pipe = pipe(&config(0, 1), |_| true);
    pipe.run_until(ms(300));
    assert_eq!((data(&pipe)[0].0, pipe.sender.pacing_rate()), (ms(80), None));
}

#[test]
fn one_lost_request_costs_its_patience() {
    let mut first = true;
    let mut pipe = pipe(&config(0, 1), move |_| !std::mem::take(&mut first));
    pipe.mangle = Some(gives(vec![MB]));
    pipe.run_until(ms(400));
    assert_eq!((requests(&pipe).len(), data(&pipe)[0].0), (2, ms(160)));
    assert_eq!(pipe.sender.pacing_rate(), Some(payload(MB)));
}

#[test]
fn all_ways_are_asked_in_turn_and_again_after_a_second_and_no_data_leaves_meanwhile() {
    let mut pipe = pipe(&config(MB, 3), |_| true);
    let shares = Rc::new(RefCell::new([MB / 2, MB / 2, MB / 2]));
    let given = Rc::clone(&shares);
    // A node that answers itself: what is below Min comes back as a failure.
    pipe.mangle_back = Some(Box::new(move |packet| {
        if let Some(Message::Negotiation { kind: Negotiation::Success, min, id, rtt_us, .. }) = read(packet) {
            let share = rate(given.borrow()[usize::from(packet.path())]);
            let kind = if share < min { Negotiation::Failure } else { Negotiation::Success };
            packet
                .set_message(Message::Negotiation { kind, max: share, min, id, rtt_us }.encode().as_bytes());
        }
    }));
    pipe.run_until(ms(1_100));
    let asked: Vec<_> = requests(&pipe).iter().map(|request| (request.0, request.1)).collect();
    assert_eq!(asked, [(ms(40), 0), (ms(80), 1), (ms(120), 2)]);
    // All have refused at 160 ms.
    pipe.run_until(ms(1_170));
    assert_eq!(requests(&pipe).last().map(|request| (request.0, request.1)), Some((ms(1_160), 0)));
    assert!(data(&pipe).is_empty());
    shares.borrow_mut()[1] = 2 * MB;
    pipe.run_until(ms(1_500));
    assert_eq!(data(&pipe)[0], (ms(1_240), 1));
    assert_eq!(pipe.sender.pacing_rate(), Some(payload(2 * MB)));
}

#[test]
fn below_its_minimum_it_looks_for_another_way_and_leaves_the_old_one_for_good() {
    let mut pipe = pipe(&config(MB, 2), |_| true);
    pipe.mangle = Some(gives(vec![2 * MB, 3 * MB]));
    pipe.run_until(ms(300));
    tell(&mut pipe, 0, &adjustment(Adjustment::Reduce, MB / 2));
    assert_eq!(pipe.sender.pacing_rate(), Some(payload(MB / 2)));
    let told = pipe.now;
    pipe.run_until(told + ms(100));
    let moved = data(&pipe).into_iter().find(|data| data.1 == 1).expect("it takes the other way");
    assert!(moved.0 <= told + ms(60), "{moved:?}");
    assert_eq!(pipe.sender.pacing_rate(), Some(payload(3 * MB)));
    // The old one is told that it is over.
    let end = adjustment(Adjustment::Terminate, 0);
    let told = pipe.log.iter().filter(|(_, p)| read(p) == Some(end)).map(|(_, p)| p.path());
    assert_eq!(told.collect::<Vec<_>>(), [0]);
    // What a node on it says now is too late.
    tell(&mut pipe, 0, &adjustment(Adjustment::Reduce, MB / 4));
    assert_eq!(pipe.sender.pacing_rate(), Some(payload(3 * MB)));
}

#[test]
fn answers_that_were_not_asked_for_or_grant_too_much_are_refused_and_counted() {
    let mut pipe = pipe(&config(0, 1), |_| true);
    pipe.mangle = Some(gives(vec![MB]));
    pipe.run_until(ms(300));
    let success = |max, rtt_us| Message::Negotiation {
        kind: Negotiation::Success,
        max: rate(max),
        min: Rate::ZERO,
        id: ID,
        rtt_us,
    };
    let foreign =
        Message::Adjustment { kind: Adjustment::Reduce, id: Id { subflow: 1, ..ID }, speed: rate(MB / 2) };
    let last = pipe.log.iter().rev().find_map(|(_, packet)| match read(packet) {
        Some(Message::Negotiation { rtt_us, .. }) => Some(rtt_us),
        _ => None,
    });
    let wrong = [
        success(5 * MB, 12_345),
        success(5 * MB, last.expect("it has asked")),
        foreign,
        adjustment(Adjustment::Terminate, 0),
    ];
    for message in &wrong {
        tell(&mut pipe, 0, message);
    }
    pipe.sender.on_packet(pipe.now, &Packet::control(0, Flags::REVERSE, &[0, 0x12, 3]));
    assert_eq!(pipe.sender.stats().messages_refused, wrong.len() as u64 + 1);
    assert_eq!(pipe.sender.pacing_rate(), Some(payload(MB)));
    // It asks for what an increase names, and is granted no more.
    tell(&mut pipe, 0, &adjustment(Adjustment::Increase, 2 * MB));
    pipe.mangle = None;
    pipe.mangle_back = Some(Box::new(|packet| {
        if let Some(Message::Negotiation { kind, min, id, rtt_us, .. }) = read(packet) {
            let max = rate(3 * MB);
            packet.set_message(Message::Negotiation { kind, max, min, id, rtt_us }.encode().as_bytes());
        }
    }));
    pipe.run_until(pipe.now + ms(60));
    assert_eq!(requests(&pipe).last().map(|request| request.2), Some(2 * MB));
    assert_eq!(pipe.sender.pacing_rate(), Some(payload(MB)));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    /// Where answers are whatever, data flows within ten seconds: four requests take 15 patiences of 80 ms, and nobody but the
    /// flow's own network can make it wait.
    #[test]
    fn whatever_answers_say_the_sender_goes_on_asking_or_sending(
        bodies in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..=40), 1..20),
        kinds in prop::collection::vec(prop::sample::select(vec![0x11u8, 0x12, 0x13, 0x21, 0x22, 0x23]), 1..20),
    ) {
        let mut pipe = pipe(&config(0, 2), |_| true);
        let mut n = 0;
        pipe.mangle_back = Some(Box::new(move |packet| {
            if is_control(packet) {
                let mut body = bodies[n % bodies.len()].clone();
                if body.len() > 1 {
                    (body[0], body[1]) = (0, kinds[n % kinds.len()]);
                }
                packet.set_message(&body);
                n += 1;
            }
        }));
        pipe.run_until(Nanos::from_secs(10));
        let last = pipe.log.iter().map(|sent| sent.0).max().expect("it sends");
        prop_assert!(last + Nanos::from_secs(2) >= pipe.now, "silent since {last:?}");
        prop_assert!(pipe.delivered > 0);
    }
}
