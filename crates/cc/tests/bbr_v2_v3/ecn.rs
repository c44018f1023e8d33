//! ECN marks.

use narrows_cc::bbr_v2_v3::{AckPhase, Marks, State};
use narrows_cc::{Bytes, Nanos, Rate};

use crate::bbr_v2_v3::script::{MOMENT, MSS, Script, V2, V3, segments};

/// A flow over a path of the same rate, with an RTT short enough for marks to count: the BDP is 50 segments.
fn short<P: narrows_cc::bbr_v2_v3::Policy>(values: &[(&str, f64)]) -> Script<P> {
    let mut all = vec![("ecn", 1.0), ("extra_acked", 0.0)];
    all.extend(values);
    let mut script = Script::<P>::new(&all);
    script.rtt = Nanos::from_millis(4);
    script
}

/// A flow in ProbeBW_UP on the short path.
fn probing(values: &[(&str, f64)]) -> Script<V3> {
    let mut script = short::<V3>(values);
    script.reach_cruise();
    script.refill_from_cruise();
    script.up_from_refill();
    script
}

/// ecn_alpha is the moving mean of the share of marks per round.
#[test]
fn ecn_alpha_is_moving_mean_of_marks_per_round() {
    let script = Script::<V3>::new(&[]);
    let settings = script.cc.model().settings();
    let mut marks = Marks::default();
    let rtt = Some(Nanos::from_millis(5));
    assert_eq!(marks.alpha(), 1.0);
    let mut alpha = 1.0;
    for (acked, marked) in [(100, 0), (100, 0), (100, 50), (100, 100)] {
        assert!(!marks.on_ack((Bytes::new(acked / 2), Bytes::new(marked / 2)), false, rtt, settings));
        assert_eq!(marks.alpha(), alpha, "not within a round");
        let high = marks.on_ack((Bytes::new(acked / 2), Bytes::new(marked / 2)), true, rtt, settings);
        let share = marked as f64 / acked as f64;
        alpha = alpha * 15.0 / 16.0 + share / 16.0;
        assert!((marks.alpha() - alpha).abs() < 1e-12);
        assert_eq!(high, share >= 0.5);
    }
    assert!((marks.kept(1.0 / 3.0) - (1.0 - alpha / 3.0)).abs() < 1e-12);
    assert!(!marks.on_ack((Bytes::ZERO, Bytes::ZERO), true, rtt, settings), "nothing delivered, nothing learnt");
    let mut far = Marks::default();
    let beyond = Some(Nanos::from_nanos(5_000_001));
    assert!(!far.on_ack((MSS, MSS), true, beyond, settings), "beyond 5 ms marks do not count");
}

/// Marks lower inflight_shortterm by a third of alpha, once per round.
#[test]
fn ecn_marks_lower_inflight_shortterm_once_per_round() {
    let mut script = short::<V3>(&[("ecn_reprobe_gain", 0.0)]);
    script.reach_cruise();
    script.round(500);
    let window = script.cwnd();
    assert_eq!(script.cc.model().inflight_short(), None);
    script.marked = true;
    script.within(MOMENT, 1);
    script.marked = false;
    script.round(500);
    let alpha = script.cc.model().ecn_alpha();
    let expected = window.mul_f64(1.0 - alpha / 3.0);
    assert_eq!(script.cc.model().inflight_short(), Some(expected));
    assert_eq!(script.cc.model().bw_short(), None, "v3 leaves the rate");
    assert_eq!(script.cwnd(), expected);
}

/// Marks have no effect if the parameter `ecn` is off, or if the RTT is above 5 ms.
#[test]
fn ecn_disabled_or_rtt_above_5_ms_ignores_marks() {
    for (values, rtt) in [(&[("ecn", 0.0)], 4), (&[("ecn", 1.0)], 6)] {
        let mut script = Script::<V3>::new(values);
        script.rtt = Nanos::from_millis(rtt);
        script.reach_cruise();
        script.marked = true;
        script.rounds(5, 50);
        let short_path = rtt == 4;
        let on = values[0].1 == 1.0;
        assert_eq!(script.cc.model().inflight_short().is_some(), on && short_path, "{values:?} {rtt}");
    }
}

/// Two rounds with half of the deliveries marked end STARTUP.
#[test]
fn ecn_two_rounds_half_marked_end_startup() {
    let mut script = short::<V3>(&[]);
    script.inflight = segments(200);
    script.round(50);
    script.marked = true;
    script.rate = Rate::from_mbit_per_sec(200.0);
    script.round(50);
    assert_eq!(script.state(), State::Startup);
    script.rate = Rate::from_mbit_per_sec(400.0);
    script.round(50);
    assert_eq!(script.state(), State::Drain);
    assert!(script.cc.model().inflight_long().is_some());
}

/// A probe with half of its deliveries marked counts as too high: it ends, and its inflight becomes the long-term
/// bound.
#[test]
fn ecn_half_marked_probe_is_too_high() {
    let mut script = probing(&[]);
    script.marked = true;
    script.inflight = segments(100);
    script.tx_in_flight = segments(60);
    script.round(50);
    assert_eq!(script.state(), State::Down);
    assert_eq!(script.cc.model().inflight_long(), Some(segments(60)));
    // The new round still carries acknowledgements of the probe.
    assert_eq!(script.cc.model().ack_phase(), AckPhase::Stopping);
    script.within(MOMENT, 1);
    assert_eq!(script.cc.model().ack_phase(), AckPhase::Stopping);
    script.round(50);
    assert_eq!(script.cc.model().ack_phase(), AckPhase::Init);
}

/// Marks of a finished probe count until its last acknowledgement.
#[test]
fn ecn_marks_count_until_last_ack_of_the_probe() {
    let mut script = probing(&[]);
    script.inflight = segments(100);
    script.rounds(3, 50);
    assert_eq!(script.state(), State::Down, "a plateau");
    assert_eq!(script.cc.model().ack_phase(), AckPhase::Stopping);
    script.marked = true;
    script.within(MOMENT, 100);
    script.tx_in_flight = segments(70);
    script.round(1);
    assert_eq!(script.cc.model().inflight_long(), Some(segments(70)));
    assert_eq!(script.cc.model().ack_phase(), AckPhase::Init);
}

/// When marks cease, the next probe starts immediately, and the long-term bound may grow by half of its value per
/// round.
#[test]
fn ecn_after_marks_cease_next_probe_starts_at_once() {
    let mut script = probing(&[("precaution", 0.0)]);
    script.marked = true;
    script.inflight = segments(100);
    script.tx_in_flight = segments(64);
    script.round(50);
    assert_eq!(script.state(), State::Down);
    script.within(MOMENT, 1); // a mark in the new cycle
    script.marked = false;
    let now = script.now;
    script.within(MOMENT, 1);
    assert_eq!(script.state(), State::Refill, "no wait of seconds");
    assert_eq!(script.now, now + MOMENT);
    // Half of the bound of 64 segments is 2^5, so a round with a full cwnd would add 32 segments.
    script.up_from_refill();
    let long = script.cc.model().inflight_long().unwrap();
    script.cwnd_full = true;
    script.tx_in_flight = Bytes::ZERO;
    script.inflight = Bytes::ZERO;
    script.repeat_until(|script| script.cwnd() >= long, |script| script.within(MOMENT, 1));
    let before = script.cc.model().inflight_long().unwrap();
    script.within(MOMENT, 32);
    let grown = (script.cc.model().inflight_long().unwrap() - before).as_u64() / 1_000;
    // A cwnd of 64 segments divided by 32 gives two acknowledged segments per segment of growth, so 32 acknowledged
    // segments add 16.
    assert!(grown.abs_diff(16) <= 1, "{grown}");
}

/// In v2 marks also lower bw_shortterm.
#[test]
fn ecn_marks_lower_bw_shortterm_in_v2() {
    let mut script = short::<V2>(&[]);
    script.reach_cruise();
    script.round(500);
    script.marked = true;
    script.within(MOMENT, 1);
    script.marked = false;
    script.round(500);
    let kept = 1.0 - script.cc.model().ecn_alpha() / 3.0;
    assert_eq!(script.cc.model().bw_short(), Some(script.rate.mul_f64(kept)));
}

/// A v2 flow in PROBE_DOWN after a probe, and the bandwidth that remains if marks bound it. In the first round of the
/// probe, the first `clean` of the ten acknowledgements were unmarked, all others marked.
fn marked_probe(clean: u32) -> (Script<V2>, Rate) {
    let mut script = short::<V2>(&[]);
    script.reach_cruise();
    script.refill_from_cruise();
    script.up_from_refill();
    script.inflight = segments(60);
    script.tx_in_flight = segments(60);
    for n in 0..9 {
        script.marked = n >= clean;
        script.within(MOMENT, 5);
    }
    script.round(5);
    assert_eq!(script.state(), State::Down);
    assert_eq!(script.cc.model().inflight_long(), Some(segments(60)));
    let kept = 1.0 - script.cc.model().ecn_alpha() / 3.0;
    let bound = script.rate.mul_f64(kept);
    (script, bound)
}

/// In v2 a probe marked from its start bounds the rate until a sample exceeds the bound.
#[test]
fn ecn_in_v2_marked_probe_bounds_rate_until_exceeded() {
    let (mut script, bound) = marked_probe(0);
    assert_eq!(script.cc.model().bw(), bound);
    script.within(MOMENT, 1);
    assert_eq!(script.cc.model().bw(), script.rate);
    let (script, _) = marked_probe(2);
    assert_eq!(script.cc.model().bw(), script.rate, "the probe's first samples had no marks");
}
