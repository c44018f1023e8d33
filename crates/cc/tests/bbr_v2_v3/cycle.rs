//! ProbeBW: when it probes, how far, and what it learns.

use narrows_cc::bbr_v2_v3::State;
use narrows_cc::{Bytes, Nanos, Rate, Value};

use crate::script::{BDP, MOMENT, MSS, RTT, Script, V3, segments, setup};

#[test]
fn the_wait_for_a_probe_is_drawn_from_two_to_three_seconds_and_its_rounds_begin_at_none_or_one() {
    let (mut least, mut most, mut rounds) = (Nanos::MAX, Nanos::ZERO, [0, 0]);
    for seed in 0..200 {
        let mut script = Script::<V3>::with(setup::<V3>(seed, &[]));
        script.reach_cruise();
        let Some(Value::Time(wait)) = script.told("probe_wait") else { panic!("no wait") };
        (least, most) = (least.min(wait), most.max(wait));
        let Some(Value::Number(n)) = script.told("rounds_since_probe_up") else { panic!("no rounds") };
        rounds[n as usize] += 1;
    }
    assert!(least >= Nanos::from_secs(2) && least < Nanos::from_millis(2_050), "{least:?}");
    assert!(most <= Nanos::from_secs(3) && most > Nanos::from_millis(2_950), "{most:?}");
    // 200 fair draws: within four standard deviations (7) of 100.
    assert!((72..=128).contains(&rounds[0]), "{rounds:?}");
}

#[test]
fn a_probe_is_due_after_the_wait_or_after_as_many_rounds_as_the_bdp_has_packets_at_most_63() {
    // 500 packets in the BDP, so 63 rounds of 10 ms come first.
    for (wait, rtt, rate, rounds) in [
        (1e4, 10, 400.0, Some(63)),
        (1e4, 10, 4.0, Some(5)),
        (1e4, 10, 0.4, Some(1)),
        (2.0, 100, 100.0, None),
    ] {
        let mut script = Script::<V3>::new(&[
            ("probe_wait", wait),
            ("probe_wait_random", 0.0),
            ("probe_rounds_random", 0.0),
        ]);
        script.rtt = Nanos::from_millis(rtt);
        script.rate = Rate::from_mbit_per_sec(rate);
        script.reach_cruise();
        let began = script.now;
        let mut n = 0;
        while script.state() != State::Refill {
            script.round(10);
            n += 1;
        }
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

#[test]
fn down_gives_way_to_cruise_when_there_is_headroom_and_no_queue() {
    let mut script = Script::<V3>::new(&[]);
    script.reach_up();
    script.lose_too_much(segments(501));
    script.tx_in_flight = segments(400);
    script.inflight = segments(500);
    script.within(MOMENT, 1);
    assert_eq!(script.state(), State::Down);
    // The bound is about 500 segments: 425 with headroom, less than the BDP.
    let headroom = script.cc.model().inflight_with_headroom();
    assert!(headroom > segments(424) && headroom < segments(427), "{headroom:?}");
    script.inflight = headroom + Bytes::new(1);
    script.within(MOMENT, 1);
    assert_eq!(script.state(), State::Down);
    script.inflight = headroom;
    script.within(MOMENT, 1);
    assert_eq!(script.state(), State::Cruise);
}

#[test]
fn down_gives_way_to_refill_when_a_probe_is_due_before_there_is_headroom() {
    let mut script = Script::<V3>::new(&[]);
    script.reach_drain();
    script.inflight = BDP * 2;
    while script.state() == State::Drain {
        script.round(10);
    }
    assert_eq!(script.state(), State::Down);
    let began = script.now;
    while script.state() == State::Down {
        script.round(10);
    }
    assert_eq!(script.state(), State::Refill);
    assert!(script.now - began > Nanos::from_secs(2));
}

#[test]
fn a_probe_ends_on_a_plateau_of_three_rounds_and_goes_on_while_the_rate_grows() {
    let mut script = Script::<V3>::new(&[]);
    script.reach_up();
    script.round(500);
    script.rate = script.rate.mul_f64(1.25);
    script.round(500); // growth
    script.round(500);
    script.round(500);
    assert_eq!(script.state(), State::Up);
    script.round(500);
    assert_eq!(script.state(), State::Down);
    assert_eq!(script.told("probe_too_high"), Some(Value::Number(0.0)));
}

#[test]
fn a_window_at_its_long_term_bound_is_no_plateau() {
    let mut script = bounded_up(600);
    script.window_full = true;
    script.tx_in_flight = Bytes::ZERO;
    for _ in 0..8 {
        script.round(1);
        script.within(MOMENT, 1);
        script.within(MOMENT, 1);
        assert_eq!(script.state(), State::Up);
    }
    script.window_full = false;
    for _ in 0..3 {
        script.round(1);
    }
    assert_eq!(script.state(), State::Down);
}

/// In ProbeBW_UP with a long-term bound of about so many segments, the window at it, and no reason for caution.
fn bounded_up(bound: u64) -> Script<V3> {
    let mut script =
        Script::<V3>::new(&[("extra_acked", 0.0), ("precaution", 0.0), ("probe_rtt_duration", 0.0)]);
    script.reach_up();
    script.lose_too_much(segments(bound));
    script.tx_in_flight = segments(400);
    script.inflight = segments(400);
    script.within(MOMENT, 1);
    script.within(MOMENT, 1);
    script.refill_from_cruise();
    script.within(MOMENT, 500);
    script.up_from_refill();
    let model = script.cc.model();
    assert_eq!(Some(model.window()), model.inflight_long());
    script
}

#[test]
fn the_long_term_bound_grows_by_1_2_4_8_segments_per_round_while_the_window_is_full() {
    let mut script = bounded_up(600);
    script.window_full = true;
    let mut last = script.cc.model().inflight_long().unwrap();
    for growth in [1, 2, 4, 8, 16] {
        // A window's worth is acknowledged in each round, in twenty parts; the first of them begins the round.
        let parts = 20;
        for part in 0..parts {
            let acked = script.window().as_u64() / 1_000 / parts;
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
    // Over all rounds the roundings cancel: 1 + 2 + 4 + 8 + 16.
    let total = (last - bounded_up(600).cc.model().inflight_long().unwrap()).as_u64() / 1_000;
    assert!(total.abs_diff(31) <= 2, "{total}");
}

#[test]
fn the_long_term_bound_does_not_grow_while_the_window_is_not_full_but_follows_a_larger_safe_flight() {
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

#[test]
fn after_a_probe_that_lost_too_much_the_next_stops_at_its_bound_and_one_without_harm_probes_on_at_once() {
    let mut script = Script::<V3>::new(&[("probe_rtt_duration", 0.0)]);
    script.reach_up();
    script.lose_too_much(segments(600));
    assert_eq!(script.state(), State::Down);
    script.tx_in_flight = segments(400);
    script.inflight = segments(400);
    script.within(MOMENT, 1);
    script.within(MOMENT, 1);
    script.refill_from_cruise();
    let long = script.cc.model().inflight_long().unwrap();
    script.up_from_refill();
    script.inflight = long - Bytes::new(1);
    script.within(MOMENT, 1);
    assert_eq!(script.state(), State::Up);
    script.inflight = long;
    script.within(MOMENT, 1);
    assert_eq!(script.state(), State::Down);
    assert_eq!(script.told("probe_precautionary"), Some(Value::Number(1.0)));
    assert_eq!(script.told("probe_too_high"), Some(Value::Number(0.0)));
    // The acknowledgements of that probe show no harm: a probe without caution follows.
    script.round(500);
    assert_eq!(script.state(), State::Refill);
    assert_eq!(script.told("probe_precautionary"), Some(Value::Number(0.0)));
    script.round(500);
    assert_eq!(script.state(), State::Up);
    script.within(MOMENT, 1);
    assert_eq!(script.state(), State::Up, "inflight is at the bound and stays there");
}

#[test]
fn the_filter_forgets_a_cycle_one_round_after_the_probe_unless_that_round_was_short_of_data() {
    for (app_limited, forgets) in [(false, true), (true, false)] {
        let mut script = Script::<V3>::new(&[]);
        script.reach_up();
        let old = script.rate;
        script.rate = old.mul_f64(0.5);
        for _ in 0..2 {
            // The plateau ends the probe; the next round ends its cycle.
            while script.state() == State::Up {
                script.round(500);
            }
            script.app_limited = app_limited;
            script.inflight = segments(100);
            script.round(500);
            script.app_limited = false;
            while script.state() != State::Up {
                script.round(500);
            }
        }
        let expected = if forgets { old.mul_f64(0.5) } else { old };
        assert_eq!(script.cc.model().max_bw(), expected, "short of data: {app_limited}");
    }
}

#[test]
fn samples_short_of_data_count_only_if_they_raise_the_estimate() {
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
