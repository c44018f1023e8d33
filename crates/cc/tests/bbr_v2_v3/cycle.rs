//! PROBE_BW: schedule, extent and results of probes.

use narrows_cc::bbr_v2_v3::State;
use narrows_cc::{Bytes, Nanos, Rate, Value};

use crate::bbr_v2_v3::script::{BDP, MOMENT, MSS, RTT, Script, V3, segments, setup};

/// The wait before a probe is drawn at random from two to three seconds, and the count of rounds since the last probe
/// starts at zero or one.
#[test]
fn probe_wait_is_random_from_two_to_three_seconds() {
    let (mut least, mut most, mut rounds) = (Nanos::MAX, Nanos::ZERO, [0, 0]);
    for seed in 0..200 {
        let mut script = Script::<V3>::with(&setup::<V3>(seed, &[]));
        script.reach_cruise();
        let Some(Value::Time(wait)) = script.telemetry("probe_wait") else { panic!("no wait") };
        (least, most) = (least.min(wait), most.max(wait));
        let Some(Value::Number(n)) = script.telemetry("rounds_since_probe_up") else { panic!("no rounds") };
        rounds[n as usize] += 1;
    }
    assert!(least >= Nanos::from_secs(2) && least < Nanos::from_millis(2_050), "{least:?}");
    assert!(most <= Nanos::from_secs(3) && most > Nanos::from_millis(2_950), "{most:?}");
    // Of 200 fair draws, the count of one outcome is within four standard deviations (7 each) of 100.
    assert!((72..=128).contains(&rounds[0]), "{rounds:?}");
}

/// A probe starts after the wait, or after as many rounds as the BDP has packets, but at most 63 rounds.
#[test]
fn probe_is_due_after_wait_or_one_round_per_bdp_packet() {
    // The BDP of the first case has 500 packets, so the limit of 63 rounds (of 10 ms) applies.
    for (wait, rtt, rate, rounds) in
        [(1e4, 10, 400.0, Some(63)), (1e4, 10, 4.0, Some(5)), (1e4, 10, 0.4, Some(1)), (2.0, 100, 100.0, None)]
    {
        let mut script =
            Script::<V3>::new(&[("probe_wait", wait), ("probe_wait_random", 0.0), ("probe_rounds_random", 0.0)]);
        script.rtt = Nanos::from_millis(rtt);
        script.rate = Rate::from_mbit_per_sec(rate);
        script.reach_cruise();
        let began = script.now;
        let n = script.rounds_until(10, |script| script.state() == State::Refill);
        match rounds {
            Some(rounds) => assert_eq!(n, rounds, "{rate} Mbit/s"),
            None => {
                let waited = script.now - began;
                let latest = Nanos::from_secs(2) + script.rtt;
                assert!(waited > Nanos::from_secs(2) && waited <= latest, "{waited:?}");
            }
        }
    }
}

/// PROBE_DOWN ends in PROBE_CRUISE when inflight leaves headroom and the queue is drained.
#[test]
fn probe_down_with_headroom_and_no_queue_becomes_cruise() {
    let mut script = Script::<V3>::in_up(&[]);
    script.lose_too_much(segments(501));
    script.tx_in_flight = segments(400);
    script.within_at(segments(500));
    assert_eq!(script.state(), State::Down);
    // The bound is about 500 segments; less the headroom it is 425 segments, below the BDP.
    let headroom = script.cc.model().inflight_with_headroom();
    assert!(headroom > segments(424) && headroom < segments(427), "{headroom:?}");
    script.within_at(headroom + Bytes::new(1));
    assert_eq!(script.state(), State::Down);
    script.within_at(headroom);
    assert_eq!(script.state(), State::Cruise);
}

/// PROBE_DOWN ends in PROBE_REFILL if the next probe is scheduled before inflight leaves headroom.
#[test]
fn probe_down_with_probe_due_becomes_refill() {
    let mut script = Script::<V3>::new(&[]);
    script.reach_drain();
    script.inflight = BDP * 2;
    script.rounds_until(10, |script| script.state() != State::Drain);
    assert_eq!(script.state(), State::Down);
    let began = script.now;
    script.rounds_until(10, |script| script.state() != State::Down);
    assert_eq!(script.state(), State::Refill);
    assert!(script.now - began > Nanos::from_secs(2));
}

/// PROBE_UP ends on a plateau of three rounds and continues while the rate grows.
#[test]
fn probe_up_ends_after_three_rounds_without_growth() {
    let mut script = Script::<V3>::in_up(&[]);
    script.round(500);
    script.rate = script.rate.mul_f64(1.25);
    script.round(500); // growth
    script.round(500);
    script.round(500);
    assert_eq!(script.state(), State::Up);
    script.round(500);
    assert_eq!(script.state(), State::Down);
    assert_eq!(script.telemetry("probe_too_high"), Some(Value::Number(0.0)));
}

/// While cwnd is full at the long-term bound, a constant rate does not count as a plateau.
#[test]
fn probe_up_at_long_term_bound_is_no_plateau() {
    let mut script = bounded_up(600);
    script.cwnd_full = true;
    script.tx_in_flight = Bytes::ZERO;
    for _ in 0..8 {
        script.round(1);
        script.within(MOMENT, 1);
        script.within(MOMENT, 1);
        assert_eq!(script.state(), State::Up);
    }
    script.cwnd_full = false;
    script.rounds(3, 1);
    assert_eq!(script.state(), State::Down);
}

/// A flow in PROBE_UP with a long-term bound of about `bound` segments, cwnd at that bound, and `precaution` off.
fn bounded_up(bound: u64) -> Script<V3> {
    let mut script = Script::<V3>::in_up(&[("extra_acked", 0.0), ("precaution", 0.0), ("probe_rtt_duration", 0.0)]);
    script.lose_too_much(segments(bound));
    script.tx_in_flight = segments(400);
    script.within_at(segments(400));
    script.within(MOMENT, 1);
    script.refill_from_cruise();
    script.within(MOMENT, 500);
    script.up_from_refill();
    let model = script.cc.model();
    assert_eq!(Some(model.cwnd()), model.inflight_long());
    script
}

/// While cwnd is full, inflight_longterm grows by 1, 2, 4, 8, ... segments per round.
#[test]
fn inflight_longterm_grows_by_doubling_steps_per_round() {
    let mut script = bounded_up(600);
    script.cwnd_full = true;
    let mut last = script.cc.model().inflight_long().unwrap();
    for growth in [1, 2, 4, 8, 16] {
        // Each round acknowledges a full cwnd in twenty parts; the first part begins the round.
        let parts = 20;
        for part in 0..parts {
            let acked = script.cwnd().as_u64() / 1_000 / parts;
            if part == 0 && growth > 1 {
                script.round(acked);
            } else {
                script.within(RTT / (2 * parts), acked + 1);
            }
        }
        let now = script.cc.model().inflight_long().unwrap();
        let grown = (now - last).as_u64() / 1_000;
        assert!(grown.abs_diff(growth) <= 1, "round of {growth}: {grown}");
        last = now;
    }
    // Over all rounds the rounding errors cancel, and the growth is 1 + 2 + 4 + 8 + 16.
    let total = (last - bounded_up(600).cc.model().inflight_long().unwrap()).as_u64() / 1_000;
    assert!(total.abs_diff(31) <= 2, "{total}");
}

/// While cwnd is not full, inflight_longterm rises only to the size of a larger flight without too much loss.
#[test]
fn inflight_longterm_with_unused_window_follows_safe_flight() {
    let mut script = bounded_up(600);
    let long = script.cc.model().inflight_long().unwrap();
    script.round(600);
    assert_eq!(script.cc.model().inflight_long(), Some(long));
    script.tx_in_flight = long + MSS * 50;
    script.within(MOMENT, 1);
    assert_eq!(script.cc.model().inflight_long(), Some(long + MSS * 50));
    script.lost_since = segments(20);
    script.tx_in_flight = long + MSS * 90;
    script.within(MOMENT, 1);
    assert_eq!(script.cc.model().inflight_long(), Some(long + MSS * 50), "that flight was not safe");
}

/// After a probe with too much loss, the next probe stops at the bound; if this next probe causes no loss, another
/// probe follows immediately.
#[test]
fn probe_after_excess_loss_stops_at_bound_then_continues() {
    let mut script = Script::<V3>::in_up(&[("probe_rtt_duration", 0.0)]);
    script.lose_too_much(segments(600));
    assert_eq!(script.state(), State::Down);
    script.tx_in_flight = segments(400);
    script.within_at(segments(400));
    script.within(MOMENT, 1);
    script.refill_from_cruise();
    let long = script.cc.model().inflight_long().unwrap();
    script.up_from_refill();
    script.within_at(long - Bytes::new(1));
    assert_eq!(script.state(), State::Up);
    script.within_at(long);
    assert_eq!(script.state(), State::Down);
    assert_eq!(script.telemetry("probe_precautionary"), Some(Value::Number(1.0)));
    assert_eq!(script.telemetry("probe_too_high"), Some(Value::Number(0.0)));
    // The acknowledgements of that probe show no loss, so a probe without precaution follows.
    script.round(500);
    assert_eq!(script.state(), State::Refill);
    assert_eq!(script.telemetry("probe_precautionary"), Some(Value::Number(0.0)));
    script.round(500);
    assert_eq!(script.state(), State::Up);
    script.within(MOMENT, 1);
    assert_eq!(script.state(), State::Up, "inflight stays at the bound");
}

/// The bandwidth filter advances one round after the probe, unless that round was application-limited.
#[test]
fn max_bw_filter_advances_one_round_after_the_probe() {
    for (app_limited, advances) in [(false, true), (true, false)] {
        let mut script = Script::<V3>::in_up(&[]);
        let old = script.rate;
        script.rate = old.mul_f64(0.5);
        for _ in 0..2 {
            // The plateau ends the probe; the next round ends its cycle.
            script.rounds_until(500, |script| script.state() != State::Up);
            script.app_limited = app_limited;
            script.inflight = segments(100);
            script.round(500);
            script.app_limited = false;
            script.rounds_until(500, |script| script.state() == State::Up);
        }
        let expected = if advances { old.mul_f64(0.5) } else { old };
        assert_eq!(script.cc.model().max_bw(), expected, "application-limited: {app_limited}");
    }
}

/// Application-limited samples enter the bandwidth filter only if they raise the estimate.
#[test]
fn max_bw_app_limited_sample_counts_only_if_higher() {
    let mut script = Script::<V3>::new(&[]);
    script.round(10);
    let rate = script.rate;
    script.app_limited = true;
    script.rate = rate.mul_f64(0.9);
    script.round(10);
    assert_eq!(script.cc.model().max_bw(), rate);
    script.rate = rate.mul_f64(1.1);
    script.round(10);
    assert_eq!(script.cc.model().max_bw(), rate.mul_f64(1.1));
}
