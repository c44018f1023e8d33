//! Tests of the steps of RFC 5348 sections 4.2 to 4.4 with numbers computed by hand.

extern crate std;

use std::vec::Vec;

use super::*;
use crate::CongestionCause;
use crate::testing::{ack, entered, ms, setup, timeout};

const S: u64 = 1460;
const R: Nanos = Nanos::from_millis(100);
/// Initial rate W_init / R in B/s: min(4 x 1460, max(2 x 1460, 4380)) = 4380 bytes in 100 ms.
const INITIAL: u64 = 43_800;

fn ccid3() -> Ccid3 {
    Ccid3::new(&setup(&Ccid3::INFO, S, &[]))
}

fn rate(scheme: &Ccid3) -> u64 {
    scheme.control().pacing_rate.expect("it is paced").as_bytes_per_sec()
}

/// A report at `now` ms with a receive rate of `received` B/s and a loss event rate of `p`.
fn report(now: u64, received: u64, p: f64) -> ReceiverFeedback {
    let receive_rate = Some(Rate::from_bytes_per_sec(received));
    ReceiverFeedback {
        now: ms(now),
        rtt: Some(R),
        receive_rate,
        loss_event_rate: Some(p),
        ..ReceiverFeedback::default()
    }
}

fn reported(reports: &[ReceiverFeedback]) -> Ccid3 {
    let mut scheme = ccid3();
    for report in reports {
        send(&mut scheme);
        scheme.on_receiver_feedback(report);
    }
    scheme
}

fn send(scheme: &mut Ccid3) {
    let bytes = Bytes::new(S);
    scheme.on_sent(&Sent { now: Nanos::ZERO, bytes, inflight: bytes, retransmission: false });
}

fn expire(scheme: &mut Ccid3, now: u64) -> u64 {
    scheme.on_timeout(&Timeout { now: ms(now), ..timeout(S, 1) });
    rate(scheme)
}

/// The equation as section 3.1 prints it, with t_RTO = 4R and b = 1.
fn equation(p: f64) -> u64 {
    let (s, r, t_rto) = (S as f64, R.as_secs_f64(), 4.0 * R.as_secs_f64());
    let slow = t_rto * (3.0 * libm::sqrt(3.0 * p / 8.0) * p * (1.0 + 32.0 * p * p));
    (s / (r * libm::sqrt(2.0 * p / 3.0) + slow)) as u64
}

fn close(a: u64, b: u64) -> bool {
    a.abs_diff(b) <= 1 // a rate is a whole number
}

/// The rate starts at one packet per second, then at the initial window per round trip.
#[test]
fn ccid3_starts_at_packet_per_second_then_initial_window() {
    assert_eq!(rate(&ccid3()), S);
    for (size, window) in [(500, 2000), (1460, 4380), (2190, 4380), (3000, 6000)] {
        let mut scheme = Ccid3::new(&setup(&Ccid3::INFO, size, &[]));
        scheme.on_receiver_feedback(&report(100, size, 0.0));
        assert_eq!(rate(&scheme), window * 10, "segments of {size}");
        assert!(scheme.control().cwnd >= Bytes::new(4 * window), "at least the data that the timer allows");
    }
}

/// The first feedback replaces the round-trip sample of the handshake.
#[test]
fn ccid3_first_report_replaces_handshake_sample() {
    // The handshake took 400 ms, so X starts at a quarter of `INITIAL`. At the first report R = R_sample (RFC 5348
    // section 4.3 step 2) and X = W_init / R (section 4.2); step 4 does not apply.
    let mut scheme = ccid3();
    scheme.on_ack(&Ack::of_handshake(ms(400), R * 4, Some(R * 4), Some(R * 4)));
    assert_eq!(rate(&scheme), INITIAL / 4);
    send(&mut scheme);
    scheme.on_receiver_feedback(&report(2_000, 0, 0.0));
    assert_eq!(rate(&scheme), INITIAL);
    scheme.on_receiver_feedback(&report(2_100, 43_800, 0.0));
    assert_eq!(rate(&scheme), 2 * INITIAL);
}

/// With short round trips, burst and cwnd allow for timer granularity.
#[test]
fn ccid3_short_round_trips_do_not_outrun_timers() {
    // At R = 50 us, X = 87.6 MB/s. The burst is limited to the data of one round trip (section 4.6), less than the data
    // of 1 ms. cwnd is the data sent until the timer expires after 100 ms, more than the data of four round trips.
    let mut scheme = ccid3();
    let sample = Some(Nanos::from_micros(50));
    scheme.on_receiver_feedback(&ReceiverFeedback { rtt: sample, ..report(100, 0, 0.0) });
    assert_eq!(rate(&scheme), 87_600_000);
    assert_eq!(scheme.control().burst, Bytes::new(4_380));
    assert_eq!(scheme.control().cwnd, Bytes::new(8_760_000));
    // At R = 100 ms the burst is one segment, and cwnd is the data of four round trips at rate X.
    let scheme = reported(&[report(100, 0, 0.0)]);
    assert_eq!((scheme.control().burst, scheme.control().cwnd), (Bytes::new(S), Bytes::new(4 * 4_380)));
}

/// In slow start X doubles once per round trip, up to twice the receive rate.
#[test]
fn ccid3_slow_start_doubles_up_to_twice_receive_rate() {
    let mut scheme = reported(&[report(100, 40_000, 0.0)]);
    scheme.on_receiver_feedback(&report(199, 43_800, 0.0)); // less than a round trip later
    assert_eq!(rate(&scheme), INITIAL);
    scheme.on_receiver_feedback(&report(200, 43_800, 0.0));
    assert_eq!(rate(&scheme), 2 * INITIAL);
    scheme.on_receiver_feedback(&report(299, 80_000, 0.0));
    assert_eq!(rate(&scheme), 2 * INITIAL);
    // Doubling X would give 4 x 43 800 = 175 200 B/s, more than twice the maximum receive rate of the last two round
    // trips, 80 000 B/s.
    scheme.on_receiver_feedback(&report(301, 70_000, 0.0));
    assert_eq!(rate(&scheme), 160_000);
    // Two round trips later the receive rate of 80 000 B/s has expired. X is never below the initial rate.
    scheme.on_receiver_feedback(&report(500, 30_000, 0.0));
    assert_eq!(rate(&scheme), 140_000);
    scheme.on_receiver_feedback(&report(710, 1_000, 0.0));
    assert_eq!(rate(&scheme), INITIAL);
}

/// With losses the rate follows the throughput equation.
#[test]
fn ccid3_with_losses_follows_throughput_equation() {
    for p in [0.0001, 0.001, 0.01, 0.1, 0.5, 1.0] {
        let scheme = reported(&[report(100, 10_000_000, 0.0), report(200, 10_000_000, p)]);
        // At p = 1 the equation yields 60 B/s, still above the minimum of s / 64 = 22 B/s.
        assert!(close(rate(&scheme), equation(p)), "p {p}: {} for {}", rate(&scheme), equation(p));
        let window = equation(p) / 10 * 4;
        assert!(scheme.control().cwnd.as_u64().abs_diff(window.max(4 * S)) < 20, "p {p}");
    }
    // The maximum is twice the receive rate, the minimum one packet per 64 seconds.
    assert_eq!(rate(&reported(&[report(100, 1, 0.0), report(400, 3_000, 0.01)])), 6_000);
    assert_eq!(rate(&reported(&[report(100, 1, 0.0), report(400, 0, 0.01)])), S / 64);
}

/// The round-trip time is smoothed.
#[test]
fn ccid3_round_trip_time_is_smoothed() {
    let mut scheme = reported(&[report(100, 10_000_000, 0.01)]);
    let first = rate(&scheme);
    scheme.on_receiver_feedback(&ReceiverFeedback { rtt: Some(ms(200)), ..report(300, 10_000_000, 0.01) });
    // R = 0.9 x 100 + 0.1 x 200 = 110 ms, and the rate is inversely proportional to R.
    assert!(rate(&scheme).abs_diff((first as f64 / 1.1) as u64) <= 2, "{} after {first}", rate(&scheme));
}

/// A data-limited interval keeps the earlier receive rates.
#[test]
fn ccid3_data_limited_interval_keeps_receive_rates() {
    let limited = |report: ReceiverFeedback| ReceiverFeedback { data_limited: true, ..report };
    let before = [report(100, 1, 0.0), report(200, 90_000, 0.0001)];
    // The application offers only a fifth of the earlier rate. The limit stays at twice 90 000 B/s, although far more
    // than two round trips pass.
    let mut scheme = reported(&before);
    for now in [300, 600, 900] {
        scheme.on_receiver_feedback(&limited(report(now, 18_000, 0.0001)));
        assert_eq!(rate(&scheme), 180_000, "{now} ms");
    }
    // After a loss event in a data-limited interval the limit is half of 90 000 B/s, or 0.85 of the receive rate if
    // that is more.
    let loss = |received| ReceiverFeedback { new_loss_event: true, ..limited(report(1_000, received, 0.0001)) };
    let mut lost = scheme.clone();
    lost.on_receiver_feedback(&loss(18_000));
    assert_eq!(rate(&lost), 45_000);
    scheme.on_receiver_feedback(&loss(80_000));
    assert_eq!(rate(&scheme), 68_000);
    // A higher p counts as a loss event too. The first data-limited report removes infinity from X_recv_set, so the
    // limit is 0.85 of 20 000 B/s.
    let mut higher = reported(&[report(100, 1, 0.0)]);
    higher.on_receiver_feedback(&limited(report(150, 20_000, 0.0001)));
    assert_eq!(rate(&higher), 17_000);
}

/// Receive Buffer drops and Slow Receiver limit the rate.
#[test]
fn ccid3_receive_drops_and_slow_receiver_limit_rate() {
    // RFC 4342 section 5.2: X_recv = 40 000 B/s; one packet per round trip is 14 600 B/s.
    let before = [report(100, 40_000, 0.0), report(200, 43_800, 0.0), report(300, 80_000, 0.0001)];
    let restricted = |dropped, slow| ReceiverFeedback { dropped, slow, ..report(400, 40_000, 0.0001) };
    let cases = [(1, false, 25_400), (2, false, 14_600), (50, false, 14_600), (0, true, 40_000), (1, true, 25_400)];
    for (dropped, slow, expected) in cases {
        let mut scheme = reported(&before);
        scheme.on_receiver_feedback(&restricted(dropped, slow));
        assert_eq!(rate(&scheme), expected, "{dropped} dropped, slow {slow}");
        // One round trip later the restriction has ended.
        scheme.on_receiver_feedback(&report(500, 30_000, 0.0001));
        assert_eq!(rate(&scheme), 60_000);
    }
    // In slow start such reports keep the rate from doubling, but the rate stays at least one packet per round trip.
    let mut starting = reported(&[report(100, 40_000, 0.0)]);
    starting.on_receiver_feedback(&ReceiverFeedback { slow: true, ..report(200, 43_800, 0.0) });
    assert_eq!(rate(&starting), INITIAL);
    starting.on_receiver_feedback(&ReceiverFeedback { dropped: 9, ..report(300, 43_800, 0.0) });
    assert_eq!(rate(&starting), S * 10);
}

/// The no-feedback timer halves the rate.
#[test]
fn ccid3_no_feedback_timer_halves_the_rate() {
    // Before any RTT sample the minimum is one packet per 64 seconds.
    let mut silent = ccid3();
    for halvings in 1..10 {
        send(&mut silent);
        let expected = (S >> halvings).max(S / 64);
        assert_eq!(expire(&mut silent, 2_000 * halvings), expected);
    }
    // With p = 0 an expiry halves X.
    let mut starting = reported(&[report(100, 40_000, 0.0), report(200, 80_000, 0.0)]);
    send(&mut starting);
    assert_eq!(expire(&mut starting, 600), INITIAL);
    // With p > 0 and X limited by the equation, X becomes half of the equation's rate.
    let mut equal = reported(&[report(100, 1, 0.0), report(400, 400_000, 0.01)]);
    let x = rate(&equal);
    assert!(close(x, equation(0.01)));
    send(&mut equal);
    assert!(close(expire(&mut equal, 800), x / 2));
    // At the second expiry the limit is X_recv, now a quarter of the original X.
    send(&mut equal);
    assert!(close(expire(&mut equal, 1_200), x / 4));
    // With p > 0 and X limited to twice the receive rate, X becomes the receive rate.
    let mut limited = reported(&[report(100, 1, 0.0), report(400, 30_000, 0.01)]);
    assert_eq!(rate(&limited), 60_000);
    send(&mut limited);
    assert_eq!(expire(&mut limited, 800), 30_000);
    send(&mut limited);
    assert_eq!(expire(&mut limited, 1_200), 15_000);
    // The next report raises the rate to at most twice the receive rate.
    limited.on_receiver_feedback(&report(1_300, 10_000, 0.01));
    assert_eq!(rate(&limited), 20_000);
}

/// An idle sender keeps a moderate rate.
#[test]
fn ccid3_idle_sender_keeps_a_moderate_rate() {
    // Nothing was sent since the last report. With p = 0 the rate stays unchanged if X < 2 X_init; otherwise it is
    // halved.
    let mut idle = reported(&[report(100, 40_000, 0.0)]);
    assert_eq!(expire(&mut idle, 500), INITIAL);
    let mut fast = reported(&[report(100, 40_000, 0.0), report(200, 80_000, 0.0)]);
    assert_eq!([expire(&mut fast, 600), expire(&mut fast, 1_000)], [INITIAL, INITIAL]);
    // With p > 0 the rate stays unchanged if the receive rate is below the initial rate.
    let mut slow = reported(&[report(100, 1, 0.0), report(400, 43_000, 0.01)]);
    assert_eq!(expire(&mut slow, 800), 86_000);
    let mut more = reported(&[report(100, 1, 0.0), report(400, 44_000, 0.01)]);
    assert_eq!([expire(&mut more, 800), expire(&mut more, 1_200)], [44_000, 44_000]);
    // Without an RTT sample an idle sender keeps its rate of one packet per second.
    assert_eq!(expire(&mut ccid3(), 2_000), S);
}

/// Without feedback the sender keeps the initial rate, and recovers from losses.
#[test]
fn ccid3_without_feedback_keeps_initial_rate_and_recovers() {
    let mut scheme = ccid3();
    let round = |now| Ack { now: ms(now), rtt: Some(R), round_start: true, ..ack(S) };
    for now in [100, 200, 300] {
        scheme.on_ack(&round(now));
        assert_eq!(rate(&scheme), INITIAL);
    }
    scheme.on_recovery_entered(&entered(CongestionCause::Loss, 4 * S));
    send(&mut scheme);
    assert_eq!(expire(&mut scheme, 700), INITIAL / 4);
    scheme.on_ack(&round(800)); // this round trip contained the loss
    assert_eq!(rate(&scheme), INITIAL / 4);
    scheme.on_ack(&Ack { phase: Phase::Recovery, ..round(850) });
    assert_eq!(rate(&scheme), INITIAL / 4);
    for expected in [INITIAL / 2, INITIAL, INITIAL] {
        scheme.on_ack(&round(900));
        assert_eq!(rate(&scheme), expected);
    }
    // Once a receiver reports, losses that the sender detects do not count.
    scheme.on_receiver_feedback(&report(1_000, 90_000, 0.01));
    let reported_rate = rate(&scheme);
    scheme.on_recovery_entered(&entered(CongestionCause::Loss, 4 * S));
    scheme.on_ack(&round(1_100));
    assert_eq!(rate(&scheme), reported_rate);
}

/// Impossible feedback keeps X within its bounds.
#[test]
fn ccid3_impossible_feedback_is_bounded() {
    let most = Rate::from_mbit_per_sec(100_000.0);
    for p in [0.0, f64::NAN, f64::INFINITY, -1.0, 2.0] {
        let mut scheme = ccid3();
        for now in 1..200 {
            scheme.on_receiver_feedback(&ReceiverFeedback { rtt: Some(Nanos::ZERO), ..report(now, u64::MAX, p) });
            assert!(scheme.control().pacing_rate <= Some(most));
        }
        scheme.on_receiver_feedback(&ReceiverFeedback { rtt: Some(Nanos::MAX), ..report(300, 0, 1.0) });
        assert!(rate(&scheme) >= S / 64);
    }
}

/// The receive rates keep the maximum of two round trips.
#[test]
fn ccid3_receive_rates_keep_maximum_of_two_rtts() {
    let mut rates = ReceiveRates::of(ms(0), Rate::MAX);
    let mut plain: Vec<(u64, u64)> = Vec::new();
    for (now, value) in [(250, 50), (300, 40), (350, 45), (400, 30), (460, 20), (520, 10), (700, 5), (710, 8)] {
        rates.update(ms(now), Rate::from_bytes_per_sec(value), ms(now - 200));
        plain.push((now, value));
        plain.retain(|(at, _)| at + 200 >= now);
        let greatest = plain.iter().map(|(_, value)| *value).max().unwrap();
        assert_eq!(rates.max().as_bytes_per_sec(), greatest, "{now} ms");
    }
    // When more falling values arrive than the set can hold, each new value replaces the previous newest value, and the
    // set keeps the maximum.
    let mut rates = ReceiveRates::of(ms(0), Rate::from_bytes_per_sec(100));
    for n in 1..20 {
        rates.update(ms(n), Rate::from_bytes_per_sec(100 - n), ms(0));
    }
    assert_eq!((rates.count, rates.max().as_bytes_per_sec()), (SET_SIZE, 100));
    assert_eq!(rates.all().last().unwrap().1.as_bytes_per_sec(), 81);
}
