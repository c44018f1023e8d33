//! Responses to loss and timeouts, and their undo.

use narrows_cc::bbr_v2_v3::State;
use narrows_cc::{Bytes, CongestionCause, Rate, Value};

use crate::bbr_v2_v3::script::{BDP, MOMENT, MSS, Script, V3, segments};

/// Too much loss in a probe sets inflight_longterm once and ends the probe.
#[test]
fn loss_in_probe_up_sets_inflight_longterm_and_ends_it() {
    let mut script = Script::<V3>::in_up(&[]);
    // Of 600 segments in flight, 12 losses are 2 %, and the 13th exceeds the threshold. Before the 13th lost segment,
    // 599 segments were in flight and 12 were lost.
    for n in 1..=12 {
        script.lose(n, segments(600), n);
        assert_eq!(script.state(), State::Up);
    }
    script.lose(13, segments(600), 13);
    assert_eq!(script.state(), State::Down);
    let expected = 599_000.0 + (0.02 * 599_000.0 - 12_000.0) / 0.98;
    let long = script.cc.model().inflight_long().unwrap();
    assert!((long.as_f64() - expected).abs() < 1.0, "{long:?} {expected}");
    assert_eq!(script.telemetry("probe_too_high"), Some(Value::Number(1.0)));
    for n in 14..40 {
        script.lose(n, segments(100), n);
    }
    assert_eq!(script.cc.model().inflight_long(), Some(long), "only once per probe");
}

/// The long-term bound is at least beta times the target inflight.
#[test]
fn loss_bound_is_at_least_beta_of_target_inflight() {
    let mut script = Script::<V3>::in_up(&[]);
    script.lose(1, segments(10), 1);
    assert_eq!(script.cc.model().inflight_long(), Some(segments(350)), "0.7 of the BDP");
    // If congestion has cut cwnd below the BDP, the bound is 0.7 of cwnd.
    let mut script = Script::<V3>::in_up(&[]);
    script.inflight = segments(99);
    script.report_timeout(1);
    script.lose(1, segments(10), 1);
    assert_eq!(script.cc.model().inflight_long(), Some(segments(70)));
}

/// Too much loss in an application-limited probe ends the probe but sets no bound.
#[test]
fn loss_in_app_limited_probe_ends_it_without_bound() {
    let mut script = Script::<V3>::in_up(&[]);
    script.app_limited = true;
    script.lose_too_much(segments(600));
    assert_eq!(script.state(), State::Down);
    assert_eq!(script.cc.model().inflight_long(), None);
}

/// Losses of packets sent outside the probe set no long-term bound.
#[test]
fn loss_of_non_probing_packets_sets_no_long_term_bound() {
    let mut script = Script::<V3>::in_cruise(&[]);
    script.lose_too_much(segments(500));
    script.refill_from_cruise();
    script.lose_too_much(segments(500));
    assert_eq!(script.cc.model().inflight_long(), None);
    assert_eq!(script.state(), State::Refill);
}

/// Outside probes, a round with loss lowers each short-term bound to the larger of two values: the rate or volume last
/// delivered, and beta times the bound.
#[test]
fn loss_outside_probes_lowers_short_term_bounds() {
    for (share, expected) in [(0.9, 0.9), (0.5, 0.7)] {
        let mut script = Script::<V3>::in_cruise(&[("extra_acked", 0.0)]);
        script.round(500);
        assert_eq!((script.cc.model().bw_short(), script.cc.model().inflight_short()), (None, None));
        let (rate, window) = (script.rate, script.cwnd());
        script.rate = rate.mul_f64(share);
        script.round(500); // begins a new round: deliveries at the earlier, higher rate do not count
        script.lose(1, BDP, 1);
        script.within(MOMENT, 500);
        assert_eq!(script.cc.model().bw_short(), None, "not before the round is over");
        script.round(500);
        let model = script.cc.model();
        assert_eq!(model.bw_short(), Some(rate.mul_f64(expected)));
        // A round trip delivers `share` of the BDP, less than 0.7 of a cwnd of two BDPs.
        assert_eq!(model.inflight_short(), Some(window.mul_f64(0.7)));
        assert_eq!(model.bw(), rate.mul_f64(expected));
        script.round(500);
        assert_eq!(script.cc.model().bw_short(), Some(rate.mul_f64(expected)), "no loss, no change");
        script.lose(9, BDP, 1);
        script.lose(19, BDP, 1);
        script.within(MOMENT, 500);
        script.round(500);
        let second = (window.mul_f64(0.7)).mul_f64(0.7).max(rate.mul_f64(share).over(script.rtt));
        assert_eq!(script.cc.model().inflight_short(), Some(second), "once per round for any number of losses");
        assert_eq!(script.cwnd(), second.max(MSS * 4).min(script.cwnd()));
        script.refill_from_cruise();
        assert_eq!((script.cc.model().bw_short(), script.cc.model().inflight_short()), (None, None));
    }
}

/// Probes do not lower the short-term bounds.
#[test]
fn loss_in_probes_keeps_short_term_bounds() {
    let mut script = Script::<V3>::in_up(&[]);
    script.rate = Rate::from_mbit_per_sec(10.0);
    script.lose(1, BDP, 1);
    script.round(10);
    script.round(10);
    assert_eq!(script.state(), State::Up);
    assert_eq!((script.cc.model().bw_short(), script.cc.model().inflight_short()), (None, None));
}

/// A timeout sets cwnd to inflight plus one segment; the end of loss repair restores cwnd.
#[test]
fn timeout_leaves_one_segment_until_repair_ends() {
    let mut script = Script::<V3>::new(&[("extra_acked", 0.0)]);
    script.reach_refill();
    script.within(MOMENT, 500);
    let window = script.cwnd();
    script.inflight = MSS * 3;
    script.report_timeout(1);
    assert_eq!(script.cwnd(), MSS * 4);
    script.inflight = Bytes::ZERO;
    script.report_timeout(1);
    assert_eq!(script.cwnd(), MSS, "the larger cwnd stays saved");
    script.within(MOMENT, 1);
    assert_eq!(script.cwnd(), MSS * 4);
    script.report_recovery_left();
    script.within(MOMENT, 1);
    assert_eq!(script.cwnd(), window);
}

/// A spurious loss undoes the end of STARTUP.
#[test]
fn spurious_loss_undoes_end_of_startup() {
    let mut script = Script::<V3>::new(&[]);
    script.round(500);
    script.drain_by_loss();
    script.prove_spurious();
    assert_eq!(script.state(), State::Startup);
    assert_eq!(script.telemetry("full_bw_reached"), Some(Value::Number(0.0)));
    assert_eq!(script.cc.model().inflight_long(), None);
    assert_eq!(script.telemetry("undo_state"), None);
}

/// A spurious loss restarts an ended probe from PROBE_REFILL.
#[test]
fn spurious_loss_restarts_ended_probe_from_refill() {
    let mut script = Script::<V3>::in_up(&[]);
    let window = script.cwnd();
    script.inflight = BDP * 2;
    script.lose_too_much(segments(600));
    script.enter_recovery(CongestionCause::Loss);
    script.within(MOMENT, 1);
    assert_eq!(script.state(), State::Down);
    assert!(script.cwnd() < window);
    assert_eq!(script.telemetry("undo_state"), Some(Value::State("probe_bw_up")));
    script.prove_spurious();
    assert_eq!(script.state(), State::Refill);
    assert_eq!(script.cc.model().inflight_long(), None, "as before the loss");
    assert_eq!(script.cwnd(), window);
    // The acknowledgement that proves the loss spurious covers old data, so it does not end the PROBE_REFILL
    // round.
    script.within(MOMENT, 1);
    assert_eq!(script.state(), State::Refill);
    script.round(500);
    assert_eq!(script.state(), State::Up);
}

/// A spurious loss restores the bounds and keeps a state that the loss did not change.
#[test]
fn spurious_loss_restores_bounds_and_unchanged_state() {
    let mut script = Script::<V3>::in_cruise(&[]);
    script.round(500);
    script.lose(1, BDP, 1);
    script.enter_recovery(CongestionCause::Loss);
    script.rate = script.rate.mul_f64(0.5);
    script.within(MOMENT, 1);
    script.round(500);
    script.round(500);
    assert!(script.cc.model().bw_short().is_some());
    script.prove_spurious();
    assert_eq!((script.cc.model().bw_short(), script.cc.model().inflight_short()), (None, None));
    assert_eq!(script.state(), State::Cruise);
    let mut script = Script::<V3>::in_up(&[("undo", 0.0)]);
    script.lose_too_much(segments(600));
    script.enter_recovery(CongestionCause::Loss);
    let long = script.cc.model().inflight_long();
    script.prove_spurious();
    assert_eq!((script.state(), script.cc.model().inflight_long()), (State::Down, long), "switched off");
}

/// A response to marks does not count as recovery; a loss during this response starts recovery.
#[test]
fn recovery_starts_on_loss_but_not_on_ecn_marks() {
    let mut script = Script::<V3>::new(&[]);
    script.round(500);
    script.enter_recovery(CongestionCause::Ecn);
    script.lost_since = segments(20);
    script.inflight = BDP * 2;
    script.round(500);
    assert_eq!(script.state(), State::Startup);
    for n in 0..6 {
        script.lose(10 * n, BDP, 1);
    }
    script.within(MOMENT, 1);
    script.round(500);
    assert_eq!(script.state(), State::Drain);
    assert!(script.cwnd() >= MSS * 4);
}
