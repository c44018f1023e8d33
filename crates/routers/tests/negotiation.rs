//! The rate requester of Nodectl with hand-written answers, and both endpoints with untrusted messages.

use crate::common::{Pipe, delay, ms};
use crate::talk::{ID, RTT, Talk, is_message, made, rate, read, with_id};
use narrows_cc::{Bytes, Nanos, Rate};
use narrows_packet::{Flags, Packet};
use narrows_routers::negotiation::{ATTENDED, Adjustment, Id, MOST, Message, Negotiation};
use narrows_routers::{NegotiationConfig as Settings, endpoint};
use narrows_tcp::TcpConfig;
use narrows_traffic::AppConfig;
use proptest::prelude::*;

/// No data is sent before the answer; then data follows at the granted rate.
#[test]
fn data_waits_for_answer_then_follows_grant() {
    let mut talk = Talk::begin(Settings::default(), AppConfig::Bulk);
    let (max, token, path) = talk.request();
    assert_eq!((max, path), (MOST, 0));
    // The round-trip time with the request number in its lowest bits.
    assert_eq!((token & !7, token & 7), (40_000, 1));
    talk.pass(ms(50), true);
    assert_eq!(talk.data(), 0);
    talk.answer(Negotiation::Success, 1_500_000, token);
    assert_eq!(talk.data(), 1);
    talk.pass(ms(100), true);
    // 1500 B at 1.5 MB/s: one packet per millisecond.
    assert_eq!(talk.data(), 101);
}

/// A request is sent four times, with growing timeouts.
#[test]
fn request_is_repeated_four_times() {
    let mut talk = Talk::begin(Settings::default(), AppConfig::Bulk);
    talk.pass(Nanos::from_millis(1_300), true);
    let sent = talk.sent();
    let requests: Vec<_> =
        sent.iter().filter(|(_, packet)| is_message(packet)).map(|(at, packet)| (*at, *packet)).collect();
    // The first request leaves 40 ms after the start, the others 80, 160 and 320 ms later; data follows after another
    // 640 ms.
    let at: Vec<_> = requests.iter().map(|request| request.0).collect();
    assert_eq!(at, [ms(40), ms(120), ms(280), ms(600)]);
    let first_data = sent.iter().find(|(_, packet)| packet.payload > 0).expect("it gives up");
    assert_eq!(first_data.0, ms(1_240));
    // The packets sent at 1240 ms are CUBIC's initial window; acknowledgements release further packets.
    assert_eq!(sent.iter().filter(|(at, packet)| *at == ms(1_240) && packet.payload > 0).count(), 10);
    // Only the last request can still be answered; the next request follows ten seconds later.
    for (n, (_, packet)) in requests.iter().enumerate() {
        let Message::Negotiation { rtt_us, .. } = read(packet) else { panic!("a request") };
        talk.answer(Negotiation::Success, 1_500_000, rtt_us);
        assert_eq!(talk.sender.stats().messages_refused, (n as u64 + 1).min(3));
    }
    talk.assert_rate(1_500_000);
}

/// The answer of a responder to a request that passed no node.
fn unattended(max: u64, token: u32) -> Message {
    Message::Negotiation { kind: Negotiation::Success, max: rate(max), min: Rate::ZERO, id: ID, rtt_us: token }
}

/// An answer shows whether a node handled the request, regardless of the limits of the endpoints.
#[test]
fn answer_shows_whether_node_took_part() {
    let mut talk = Talk::begin(Settings::default(), AppConfig::Bulk);
    let (_, token, _) = talk.request();
    talk.deliver(&unattended(MOST.as_bytes_per_sec(), token));
    // CUBIC's initial window leaves immediately, without pacing.
    assert_eq!((talk.data(), talk.sender.pacing_rate()), (10, None));
    // With a limit of the sender, CUBIC's window is paced within that limit.
    let settings = Settings { max: rate(150_000), ..Settings::default() };
    let mut talk = Talk::begin(settings, AppConfig::Bulk);
    let (max, token, _) = talk.request();
    assert_eq!(max, rate(150_000));
    talk.deliver(&unattended(150_000, token));
    talk.assert_rate(150_000);
    assert_eq!((talk.sender.window(), talk.data()), (Bytes::new(14_480), 1));
    // With a lower limit of the responder, the window is paced within that limit.
    let mut talk = Talk::begin(settings, AppConfig::Bulk);
    let (_, token, _) = talk.request();
    talk.deliver(&unattended(50_000, token));
    talk.assert_rate(50_000);
    assert_eq!(talk.sender.window(), Bytes::new(14_480));
    // A node's grant of the same rate is binding: the window is twice 50 kB/s · 40 ms, at least four
    // segments.
    let mut talk = Talk::begin(settings, AppConfig::Bulk);
    talk.grant(50_000);
    talk.assert_rate(50_000);
    assert_eq!(talk.sender.window(), Bytes::new(4 * 1_448));
}

/// After a failure the requester waits a second and requests again.
#[test]
fn failure_waits_a_second_then_requests_again() {
    let mut talk = Talk::begin(Settings::default(), AppConfig::Bulk);
    let (_, token, _) = talk.request();
    talk.fail(token);
    talk.pass(ms(999), true);
    assert!(talk.sent().is_empty());
    talk.pass(ms(1), true);
    let (_, token, _) = talk.request();
    assert_eq!(talk.data(), 0);
    talk.answer(Negotiation::Success, 1_500_000, token);
    assert_eq!(talk.data(), 1);
}

/// After a failure other paths are tried first.
#[test]
fn failure_tries_other_paths_first() {
    let settings = Settings { paths: 3, min: rate(100), ..Settings::default() };
    let mut talk = Talk::begin(settings, AppConfig::Bulk);
    let (_, token, path) = talk.request();
    assert_eq!(path, 0);
    talk.fail(token);
    let (_, token, path) = talk.request();
    assert_eq!(path, 1);
    talk.fail(token);
    let (_, token, path) = talk.request();
    assert_eq!(path, 2);
    talk.answer(Negotiation::Success, 1_500_000, token);
    talk.pass(ms(10), true);
    assert!(talk.data() > 5 && talk.sent().iter().all(|(_, packet)| packet.path() == 2));
}

/// A reduction takes effect immediately, and is announced after a time without another reduction.
#[test]
fn reduction_is_obeyed_then_announced() {
    let mut talk = Talk::granted(Settings::default(), 1_500_000);
    talk.pass(ms(100), true);
    talk.adjust(Adjustment::Reduce, 1_000_000);
    talk.assert_rate(1_000_000);
    // Another reduction postpones the announcement; a higher rate does not.
    talk.pass(ms(300), true);
    talk.adjust(Adjustment::Reduce, 900_000);
    talk.adjust(Adjustment::Reduce, 1_200_000);
    talk.assert_rate(900_000);
    let from = talk.now;
    talk.sent();
    // The announcement follows after at least 8 and at most 16 round trips.
    talk.pass(RTT * 8, true);
    assert!(talk.sent().iter().all(|(_, packet)| !is_message(packet)));
    while talk.log.iter().all(|(_, packet)| !is_message(packet)) {
        talk.pass(ms(1), true);
        assert!(talk.now <= from + RTT * 17, "no announcement");
    }
    let (max, token, _) = talk.request();
    assert_eq!(max, rate(900_000));
    talk.answer(Negotiation::Success, 900_000, token);
    talk.pass(RTT * 40, true);
    assert!(talk.sent().iter().all(|(_, packet)| !is_message(packet)));
    talk.assert_rate(900_000);
}

/// When a reduction and an answer cross, the lower rate holds until the nodes resolve the conflict.
#[test]
fn crossing_reduction_and_answer_keep_lower_rate() {
    let mut talk = Talk::granted(Settings::default(), 1_000_000);
    talk.pass(ms(100), true);
    talk.sent();
    talk.adjust(Adjustment::Increase, 1_500_000);
    let (_, token, _) = talk.request();
    // The sender cannot know whether the node sent the reduction before or after it handled the request.
    talk.adjust(Adjustment::Reduce, 700_000);
    talk.answer(Negotiation::Success, 1_400_000, token);
    talk.assert_rate(700_000);
    talk.pass(RTT * 17, true);
    let (max, token, _) = talk.request();
    assert_eq!(max, rate(1_400_000));
    talk.answer(Negotiation::Success, 1_400_000, token);
    talk.assert_rate(1_400_000);
    // The conflict is resolved: no further request is sent.
    talk.pass(RTT * 40, true);
    assert!(talk.sent().iter().all(|(_, packet)| !is_message(packet)));
}

/// After ten seconds of silence the requester probes the nodes.
#[test]
fn ten_silent_seconds_probe_the_nodes() {
    let mut talk = Talk::granted(Settings::default(), 150_000);
    talk.pass(Nanos::from_secs(9), true);
    // A node repeats its last message.
    talk.adjust(Adjustment::Reduce, 150_000);
    talk.sent();
    talk.pass(ms(9_999), true);
    assert!(talk.sent().iter().all(|(_, packet)| !is_message(packet)));
    talk.pass(ms(1), true);
    let (max, token, _) = talk.request();
    assert_eq!(max, MOST);
    talk.assert_rate(150_000);
    // No node handled the request: the requester falls back.
    talk.deliver(&unattended(MOST.as_bytes_per_sec(), token));
    assert_eq!(talk.sender.pacing_rate(), None);
}

/// An increase is requested, and followed once granted.
#[test]
fn increase_is_requested_and_followed() {
    let mut talk = Talk::granted(Settings { max: rate(2_000_000), ..Settings::default() }, 1_000_000);
    talk.sent();
    talk.adjust(Adjustment::Increase, 1_500_000);
    let (max, token, _) = talk.request();
    assert_eq!(max, rate(1_500_000));
    talk.assert_rate(1_000_000);
    talk.answer(Negotiation::Success, 1_400_000, token);
    talk.assert_rate(1_400_000);
    // The requester requests at most its maximum, and a failure leaves the grant unchanged.
    talk.adjust(Adjustment::Increase, 9_000_000);
    let (max, token, _) = talk.request();
    assert_eq!(max, rate(2_000_000));
    talk.fail(token);
    talk.assert_rate(1_400_000);
    // A rate below the grant is no increase.
    talk.adjust(Adjustment::Increase, 1_300_000);
    assert_eq!(talk.sent().iter().filter(|(_, packet)| is_message(packet)).count(), 0);
}

/// A flow leaves a hot node for another path while data continues.
#[test]
fn hot_node_is_left_while_data_flows() {
    let settings = Settings { paths: 2, min: rate(600_000), ..Settings::default() };
    let mut talk = Talk::granted(settings, 1_000_000);
    talk.pass(ms(20), true);
    talk.sent();
    talk.adjust(Adjustment::Reduce, 500_000);
    talk.assert_rate(500_000);
    let (max, token, path) = talk.request();
    assert_eq!((max, path), (MOST, 1));
    talk.pass(ms(20), true);
    assert!(talk.data() >= 5 && talk.sent().iter().all(|(_, packet)| packet.path() == 0));
    // The other path refuses: data continues, and another request on that path follows, either a second later or when
    // the nodes of the current path do not answer the announcement.
    talk.fail(token);
    talk.assert_rate(500_000);
    talk.pass(ms(3_500), true);
    let sent = talk.sent();
    let requested: Vec<_> =
        sent.iter().filter(|(_, packet)| is_message(packet)).map(|(_, packet)| packet.path()).collect();
    assert!(requested.contains(&1), "{requested:?}");
    let settings = Settings { paths: 2, min: rate(600_000), ..Settings::default() };
    let mut talk = Talk::granted(settings, 1_000_000);
    talk.sent();
    talk.adjust(Adjustment::Reduce, 500_000);
    talk.grant(2_000_000);
    talk.assert_rate(2_000_000);
    let sent = talk.sent();
    let end = Message::Adjustment { kind: Adjustment::Terminate, id: ID, speed: Rate::ZERO };
    let (_, first) = sent.iter().find(|(_, packet)| is_message(packet)).expect("a termination on path 0");
    assert_eq!((read(first), first.path()), (end, 0));
    talk.pass(ms(20), true);
    assert!(talk.sent().iter().all(|(_, packet)| packet.path() == 1));
    // Messages about the old path no longer have an effect.
    talk.adjust(Adjustment::Reduce, 400_000);
    talk.assert_rate(2_000_000);
    talk.adjust_over(1, Adjustment::Reduce, 1_500_000);
    talk.assert_rate(1_500_000);
}

/// The termination is sent twice.
#[test]
fn termination_is_sent_twice() {
    let mut talk = Talk::begin(Settings::default(), AppConfig::File(Bytes::new(14_480)));
    talk.grant(1_500_000);
    talk.pass(Nanos::from_secs(10), true);
    assert!(talk.sender.is_closed());
    let ends: Vec<_> = talk
        .sent()
        .into_iter()
        .filter(|(_, packet)| is_message(packet))
        .map(|(at, packet)| (at, read(&packet)))
        .collect();
    let end = Message::Adjustment { kind: Adjustment::Terminate, id: ID, speed: Rate::ZERO };
    assert_eq!(ends.iter().map(|end| end.1).collect::<Vec<_>>(), [end; 2]);
    assert!(ends[1].0 - ends[0].0 >= RTT * 2);
    assert_eq!(talk.sender.deadline(), Nanos::MAX);
}

/// After a long idle time the requester requests before it sends.
#[test]
fn long_idle_sender_requests_before_sending() {
    let app = AppConfig::OnOff { on: ms(200), off: Nanos::from_secs(8), random: false };
    let mut talk = Talk::begin(Settings::default(), app);
    talk.grant(1_500_000);
    talk.pass(ms(400), true);
    assert!(talk.data() > 100);
    talk.sent();
    talk.pass(ms(7_760), true);
    // The sender resumes after 8.2 s with a request for the maximum; the previous request was for less, because there
    // was no data.
    let sent = talk.sent();
    let (at, last) = sent.last().expect("it resumes");
    assert_eq!(*at, ms(8_200));
    let Message::Negotiation { max, rtt_us, .. } = read(last) else { panic!("a request") };
    assert_eq!((max, talk.data()), (MOST, 0));
    talk.answer(Negotiation::Success, 1_500_000, rtt_us);
    assert_eq!(talk.data(), 1);
}

/// A sender short of data requests its usage, and its maximum once data waits.
#[test]
fn short_of_data_requests_only_usage() {
    // The application writes 1448 B every 10 ms: 150 kB/s on the wire of the 1.5 MB/s granted.
    let app = AppConfig::Cbr { rate: rate(144_800), write: Bytes::new(1_448) };
    let mut talk = Talk::begin(Settings::default(), app);
    talk.grant(1_500_000);
    talk.sent();
    talk.pass(ms(330), true);
    let (max, token, _) = talk.request();
    // The usage over eight round trips, 320 ms, is 32 or 33 packets plus the initial backlog; the request adds a
    // twentieth.
    let packets = max.as_bytes_per_sec() as f64 / 1.05 * 0.32 / 1500.0;
    assert!((31.0..=38.0).contains(&packets), "{packets}");
    talk.answer(Negotiation::Success, max.as_bytes_per_sec(), token);
    // Reduced to half of its usage, the sender requests its maximum once the backlog exceeds four segments.
    talk.adjust(Adjustment::Reduce, 75_000);
    talk.pass(ms(100), true);
    let (max, _, _) = talk.request();
    assert_eq!(max, MOST);
}

/// Messages that do not belong to the negotiation are counted and ignored.
#[test]
fn foreign_messages_are_counted_and_ignored() {
    let mut talk = Talk::begin(Settings::default(), AppConfig::Bulk);
    let (_, token, _) = talk.request();
    let foreign = Id { content: 8, ..ID };
    let mut refused = 0;
    let mut check = |talk: &mut Talk, message: &Message| {
        talk.deliver(message);
        refused += 1;
        assert_eq!(talk.sender.stats().messages_refused, refused, "{message:?}");
        assert!(talk.sent().is_empty(), "{message:?}");
    };
    let answer = |kind, max, id, rtt_us| Message::Negotiation { kind, max: rate(max), min: Rate::ZERO, id, rtt_us };
    check(&mut talk, &answer(Negotiation::Success, 5_000, foreign, token));
    check(&mut talk, &answer(Negotiation::Success, 5_000, ID, token + 1));
    check(&mut talk, &answer(Negotiation::Request, 5_000, ID, token));
    check(&mut talk, &answer(Negotiation::Failure, 0, ID, token ^ 4));
    check(&mut talk, &Message::Adjustment { kind: Adjustment::Reduce, id: foreign, speed: rate(1) });
    check(&mut talk, &Message::Adjustment { kind: Adjustment::Terminate, id: ID, speed: Rate::ZERO });
    talk.sender.on_packet(talk.now, &Packet::control(0, Flags::REVERSE, &[1, 2, 3]));
    assert_eq!(talk.sender.stats().messages_refused, refused + 1);
    talk.answer(Negotiation::Success, 1_500_000, token);
    talk.assert_rate(1_500_000);
    // A repeated answer and an unsolicited answer.
    talk.answer(Negotiation::Success, 1_500_000, token);
    talk.answer(Negotiation::Failure, 1, token);
    talk.assert_rate(1_500_000);
    // A grant above the request.
    talk.sent();
    talk.adjust(Adjustment::Increase, 2_000_000);
    talk.grant(2_000_001);
    talk.assert_rate(1_500_000);
}

fn messages() -> impl Strategy<Value = Vec<u8>> {
    let kinds = prop::sample::select(vec![0x11u8, 0x12, 0x13, 0x21, 0x22, 0x23]);
    let amount = prop_oneof![1u64..1_000_000_000, Just(0), Just(MOST.as_bytes_per_sec()), any::<u64>()];
    let sound = (kinds, amount, 0u64..1_000, any::<bool>(), 0u32..8).prop_map(|(kind, amount, min, own, serial)| {
        let id = if own { ID } else { Id { content: 1, ..ID } };
        let (max, min) = (rate(amount), rate(min));
        let negotiation =
            |kind| Message::Negotiation { kind, max, min, id, rtt_us: 40_000 | serial | (ATTENDED * (serial & 1)) };
        let adjustment = |kind| Message::Adjustment { kind, id, speed: max };
        let message = match kind {
            0x11 => negotiation(Negotiation::Request),
            0x12 => negotiation(Negotiation::Success),
            0x13 => negotiation(Negotiation::Failure),
            0x21 => adjustment(Adjustment::Reduce),
            0x22 => adjustment(Adjustment::Increase),
            _ => adjustment(Adjustment::Terminate),
        };
        message.encode().as_bytes().to_vec()
    });
    prop_oneof![4 => sound, 1 => prop::collection::vec(any::<u8>(), 0..=40)]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 128, ..ProptestConfig::default() })]

    /// Every flow completes under any messages.
    #[test]
    fn any_messages_let_flows_complete(
        input in prop::collection::vec((messages(), any::<bool>(), 1usize..30), 1..40),
    ) {
        let segments = 60;
        let settings = with_id(Settings { paths: 2, min: rate(1_000), ..Settings::default() });
        let sender = made(&settings, AppConfig::File(Bytes::new(segments * 1_448)));
        let mut pipe = Pipe::new(sender, &TcpConfig::default(), delay(ms(20)), delay(ms(20)));
        endpoint::attach_receiver(&mut pipe.receiver, &settings);
        for (bytes, back, steps) in &input {
            for _ in 0..*steps {
                if !pipe.step() {
                    break;
                }
            }
            if *back {
                pipe.sender.on_packet(pipe.now, &Packet::control(0, Flags::REVERSE, bytes));
            } else {
                pipe.receiver.on_packet(pipe.now, &Packet::control(0, Flags::NONE, bytes));
            }
        }
        // Any grant allows at least one packet per second, so the flow completes.
        while pipe.sender.completed_at().is_none() {
            prop_assert!(pipe.now < Nanos::from_secs(300), "it stalls");
            prop_assert!(pipe.step(), "no next event before completion");
        }
        prop_assert_eq!(pipe.delivered, segments * 1_448);
    }
}
