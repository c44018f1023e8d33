//! What BBR v2 does otherwise.

use narrows_cc::bbr_v2_v3::State;
use narrows_cc::{Ack, Bytes, CongestionCause, CongestionControl, Nanos, Rate, Value};

use crate::script::{BDP, MOMENT, MSS, RTT, Script, V2, assert_rate, paced, segments};

#[test]
fn its_gains() {
    let mut script = Script::<V2>::new(&[]);
    let check = |script: &Script<V2>, state, pacing: f64, window: f64| {
        assert_eq!(script.state(), state);
        assert_rate(script.cc.control().pacing_rate.unwrap(), paced(pacing));
        assert_eq!(script.cc.model().cwnd_gain(), window);
    };
    script.round(10);
    check(&script, State::Startup, 2.885, 2.885);
    script.reach_drain();
    check(&script, State::Drain, 1.0 / 2.885, 2.885);
    script.inflight = BDP;
    script.within(MOMENT, 1);
    check(&script, State::Down, 0.75, 2.0);
}

/// In ProbeBW_CRUISE: inflight before the acknowledgement counts, so it has to be less than the BDP.
fn cruising(values: &[(&str, f64)]) -> Script<V2> {
    let mut script = Script::<V2>::new(values);
    script.reach_drain();
    script.inflight = segments(400);
    script.within(MOMENT, 1);
    script.within(MOMENT, 1);
    assert_eq!(script.state(), State::Cruise);
    script
}

#[test]
fn a_probe_ends_when_a_quarter_bdp_is_queued_after_a_round_trip_and_knows_no_plateau() {
    let mut script = cruising(&[("extra_acked", 0.0)]);
    script.inflight = BDP;
    script.refill_from_cruise();
    script.round(1);
    assert_eq!(script.state(), State::Up);
    let began = script.now;
    // 1.25 BDP and two segments for probing; inflight before the acknowledgement counts.
    let full = segments(627);
    let ack = script.next(RTT, 1, false);
    script.cc.on_ack(&Ack { inflight_before: full, ..ack });
    assert_eq!(script.state(), State::Up, "a round trip sharp");
    let ack = script.next(MOMENT, 1, false);
    script.cc.on_ack(&Ack { inflight_before: full - Bytes::new(1), ..ack });
    assert_eq!(script.state(), State::Up);
    for _ in 0..10 {
        script.round(1);
        assert_eq!(script.state(), State::Up, "no plateau ends it");
    }
    let ack = script.next(MOMENT, 1, false);
    script.cc.on_ack(&Ack { inflight_before: full, ..ack });
    assert_eq!(script.state(), State::Down);
    assert!(script.now > began + RTT);
}

#[test]
fn startup_ends_by_eight_acknowledgements_that_tell_of_loss_with_a_bound_of_the_bdp() {
    for (events, ends) in [(8, true), (7, false)] {
        let mut script = Script::<V2>::new(&[]);
        script.round(500);
        for n in 0..events {
            script.lose(10 * n, BDP, 1);
            if n == 0 {
                script.enter_recovery(CongestionCause::Loss);
            }
            script.within(MOMENT, 1);
        }
        script.lost_since = segments(20);
        script.inflight = BDP * 3;
        script.round(500);
        assert_eq!(script.state(), if ends { State::Drain } else { State::Startup }, "{events}");
        assert_eq!(script.cc.model().inflight_long(), ends.then_some(BDP));
    }
}

#[test]
fn drain_has_no_limit_of_rounds() {
    let mut script = Script::<V2>::new(&[]);
    script.reach_drain();
    script.inflight = BDP * 2;
    for _ in 0..50 {
        script.round(10);
    }
    assert_eq!(script.state(), State::Drain);
}

#[test]
fn cruising_takes_the_long_term_bound_for_the_short_term_one_if_that_is_set() {
    let mut script = cruising(&[("extra_acked", 0.0)]);
    script.refill_from_cruise();
    script.round(500);
    assert_eq!(script.state(), State::Up);
    script.lose_too_much(segments(450));
    script.tx_in_flight = segments(300);
    script.inflight = segments(440);
    script.within(MOMENT, 1);
    assert_eq!(script.state(), State::Down);
    let long = script.cc.model().inflight_long().unwrap();
    script.lose(100, BDP, 1);
    script.within(MOMENT, 1);
    script.round(1);
    script.round(1);
    assert_eq!(script.state(), State::Down);
    assert!(script.cc.model().inflight_short().unwrap() > long, "delivered: a BDP");
    script.inflight = segments(300);
    script.within(MOMENT, 1);
    assert_eq!(script.state(), State::Cruise);
    assert_eq!(script.cc.model().inflight_short(), Some(long));
}

#[test]
fn a_spurious_loss_restores_the_bounds_but_not_the_state() {
    let mut script = cruising(&[]);
    script.refill_from_cruise();
    script.round(500);
    script.lose_too_much(segments(600));
    script.enter_recovery(CongestionCause::Loss);
    assert!(script.cc.model().inflight_long().is_some());
    script.prove_spurious();
    assert_eq!((script.state(), script.cc.model().inflight_long()), (State::Down, None));
}

#[test]
fn a_timeout_outside_of_probes_bounds_inflight_by_the_window_before_it() {
    let mut script = cruising(&[("extra_acked", 0.0)]);
    let window = script.window();
    script.inflight = Bytes::ZERO;
    script.time_out();
    assert_eq!(script.window(), MSS);
    assert_eq!(script.cc.model().inflight_short(), Some(window));
}

#[test]
fn the_plateau_of_startup_is_that_of_the_filtered_rate() {
    let mut script = Script::<V2>::new(&[]);
    script.round(500);
    let rate = script.rate;
    for factor in [1.2, 1.24, 1.3] {
        script.rate = rate.mul_f64(factor);
        script.round(500);
    }
    assert_eq!(script.state(), State::Startup);
    script.rate = Rate::from_mbit_per_sec(1.0);
    script.inflight = BDP * 3;
    for _ in 0..3 {
        script.round(500);
    }
    assert_eq!(script.state(), State::Drain);
    assert_eq!(script.told("full_bw"), Some(Value::Rate(rate.mul_f64(1.3))));
    assert!(script.now > Nanos::ZERO);
}
