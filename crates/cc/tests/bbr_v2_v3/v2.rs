//! Differences of BBRv2.

use narrows_cc::bbr_v2_v3::State;
use narrows_cc::{Ack, Bytes, CongestionCause, CongestionControl, Nanos, Rate, Value, record};

use crate::bbr_v2_v3::script::{BDP, MOMENT, MSS, RTT, Script, V2, segments};

/// The gains of v2 per state.
#[test]
fn v2_gains_follow_the_state() {
    let mut script = Script::<V2>::new(&[]);
    script.round(10);
    script.assert_gains(State::Startup, 2.885, 2.885);
    script.reach_drain();
    script.assert_gains(State::Drain, 1.0 / 2.885, 2.885);
    script.within_at(BDP);
    script.assert_gains(State::Down, 0.75, 2.0);
}

/// A flow in PROBE_CRUISE. v2 compares the inflight before the acknowledgement with the BDP, so this inflight must be
/// below the BDP.
fn cruising(values: &[(&str, f64)]) -> Script<V2> {
    let mut script = Script::<V2>::new(values);
    script.reach_drain();
    script.within_at(segments(400));
    script.within(MOMENT, 1);
    assert_eq!(script.state(), State::Cruise);
    script
}

/// A probe ends once a round trip has passed and a quarter of a BDP is queued; probes of v2 have no plateau test.
#[test]
fn v2_probe_ends_at_1_25_bdp_without_plateau_test() {
    let mut script = cruising(&[("extra_acked", 0.0)]);
    script.inflight = BDP;
    script.refill_from_cruise();
    script.round(1);
    assert_eq!(script.state(), State::Up);
    let began = script.now;
    // The target is 1.25 BDP plus two segments for probing. v2 compares the inflight before the acknowledgement with
    // it.
    let full = segments(627);
    let ack = script.next(RTT, 1, false);
    script.cc.on_ack(&record!(Ack { inflight_before: full, ..ack }));
    assert_eq!(script.state(), State::Up, "a round trip sharp");
    let ack = script.next(MOMENT, 1, false);
    script.cc.on_ack(&record!(Ack { inflight_before: full - Bytes::new(1), ..ack }));
    assert_eq!(script.state(), State::Up);
    for _ in 0..10 {
        script.round(1);
        assert_eq!(script.state(), State::Up, "no plateau ends it");
    }
    let ack = script.next(MOMENT, 1, false);
    script.cc.on_ack(&record!(Ack { inflight_before: full, ..ack }));
    assert_eq!(script.state(), State::Down);
    assert!(script.now > began + RTT);
}

/// STARTUP ends after eight acknowledgements with losses, with the BDP as the long-term bound.
#[test]
fn v2_startup_ends_after_eight_lossy_acks() {
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

/// v2 does not limit the number of rounds in DRAIN.
#[test]
fn v2_drain_has_no_round_limit() {
    let mut script = Script::<V2>::new(&[]);
    script.drain_for(50);
    assert_eq!(script.state(), State::Drain);
}

/// PROBE_CRUISE lowers inflight_shortterm, if set, to the long-term bound.
#[test]
fn v2_cruise_caps_short_term_by_long_term_bound() {
    let mut script = cruising(&[("extra_acked", 0.0)]);
    script.refill_from_cruise();
    script.round(500);
    assert_eq!(script.state(), State::Up);
    script.lose_too_much(segments(450));
    script.tx_in_flight = segments(300);
    script.within_at(segments(440));
    assert_eq!(script.state(), State::Down);
    let long = script.cc.model().inflight_long().unwrap();
    script.lose(100, BDP, 1);
    script.within(MOMENT, 1);
    script.round(1);
    script.round(1);
    assert_eq!(script.state(), State::Down);
    assert!(script.cc.model().inflight_short().unwrap() > long, "delivered: a BDP");
    script.within_at(segments(300));
    assert_eq!(script.state(), State::Cruise);
    assert_eq!(script.cc.model().inflight_short(), Some(long));
}

/// A spurious loss restores the bounds but not the state.
#[test]
fn v2_spurious_loss_restores_bounds_not_state() {
    let mut script = cruising(&[]);
    script.refill_from_cruise();
    script.round(500);
    script.lose_too_much(segments(600));
    script.enter_recovery(CongestionCause::Loss);
    assert!(script.cc.model().inflight_long().is_some());
    script.prove_spurious();
    assert_eq!((script.state(), script.cc.model().inflight_long()), (State::Down, None));
}

/// A timeout outside probes bounds inflight by the cwnd from before the timeout.
#[test]
fn v2_timeout_outside_probes_bounds_by_prior_window() {
    let mut script = cruising(&[("extra_acked", 0.0)]);
    let window = script.cwnd();
    script.inflight = Bytes::ZERO;
    script.report_timeout(1);
    assert_eq!(script.cwnd(), MSS);
    assert_eq!(script.cc.model().inflight_short(), Some(window));
}

/// The plateau test of STARTUP uses the filtered bandwidth, not the latest rate sample.
#[test]
fn v2_startup_plateau_uses_the_filtered_rate() {
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
    script.rounds(3, 500);
    assert_eq!(script.state(), State::Drain);
    assert_eq!(script.telemetry("full_bw"), Some(Value::Rate(rate.mul_f64(1.3))));
    assert!(script.now > Nanos::ZERO);
}
