//! Conditions that end STARTUP and DRAIN.

use narrows_cc::bbr_v2_v3::State;
use narrows_cc::{CongestionCause, Setup, Value, record};

use crate::bbr_v2_v3::script::{BDP, MOMENT, MSS, Script, V3, segments, setup};

/// Brings a flow in STARTUP into recovery, with `ranges` separate losses of `length` segments each in the current
/// round.
fn losing(script: &mut Script<V3>, ranges: u64, length: u64) {
    script.round(500);
    for range in 0..ranges {
        for n in 0..length {
            script.lose(range * 100 + n, BDP, 1);
        }
    }
    script.enter_recovery(CongestionCause::Loss);
    script.within(MOMENT, 1);
    assert_eq!(script.state(), State::Startup, "not before a round in recovery is over");
}

/// STARTUP ends after a round in recovery with six lost ranges and more than 2 % loss.
#[test]
fn startup_ends_after_lossy_recovery_round() {
    for (ranges, length, lost, ends) in [(6, 1, 11, true), (5, 3, 15, false), (6, 1, 10, false), (1, 20, 20, false)] {
        let mut script = Script::<V3>::new(&[]);
        losing(&mut script, ranges, length);
        script.lost_since = segments(lost);
        script.inflight = BDP * 2;
        script.round(500);
        let expected = if ends { State::Drain } else { State::Startup };
        assert_eq!(script.state(), expected, "{ranges} ranges of {length}, {lost} of 500 lost");
        if ends {
            assert_eq!(script.cc.model().inflight_long(), Some(BDP));
            assert_eq!(script.telemetry("full_bw_reached"), Some(Value::Number(1.0)));
            assert_eq!(script.telemetry("full_bw_now"), Some(Value::Number(1.0)));
            assert_eq!(script.telemetry("undo_state"), Some(Value::State("startup")));
        }
    }
}

/// Losses outside recovery, or of an earlier round, do not end STARTUP.
#[test]
fn startup_continues_on_loss_outside_recovery_round() {
    let mut script = Script::<V3>::new(&[]);
    losing(&mut script, 6, 1);
    script.report_recovery_left();
    script.lost_since = segments(20);
    script.round(500);
    assert_eq!(script.state(), State::Startup);
    // Three ranges are lost in each of two rounds.
    let mut script = Script::<V3>::new(&[]);
    losing(&mut script, 3, 1);
    script.lost_since = segments(20);
    script.round(500);
    for n in 0..3 {
        script.lose(1_000 + 100 * n, BDP, 1);
    }
    script.round(500);
    assert_eq!(script.state(), State::Startup);
}

/// At the end of STARTUP, the long-term bound is the data delivered in a round trip if this exceeds the BDP.
#[test]
fn startup_end_bound_is_delivered_data_above_bdp() {
    let mut script = Script::<V3>::new(&[]);
    script.round(500);
    script.rtt = script.rtt * 2; // with a queue, a round trip takes twice as long and delivers twice as much data
    script.drain_by_loss();
    assert_eq!(script.cc.model().inflight_long(), Some(BDP * 2));
}

/// Without SACK a single loss in recovery ends STARTUP.
#[test]
fn startup_without_sack_ends_on_one_loss_in_recovery() {
    let mut script = Script::<V3>::with(&record!(Setup { sack: false, ..setup::<V3>(1, &[]) }));
    script.round(500);
    script.inflight = BDP * 2;
    script.lose(1, BDP, 1);
    script.enter_recovery(CongestionCause::Loss);
    script.within(MOMENT, 1);
    assert_eq!(script.state(), State::Drain);
}

/// Application-limited rounds never fill the pipe.
#[test]
fn startup_app_limited_rounds_never_fill_the_pipe() {
    let mut script = Script::<V3>::new(&[]);
    script.round(500);
    script.app_limited = true;
    script.rounds(50, 500);
    assert_eq!(script.state(), State::Startup);
    script.app_limited = false;
    script.inflight = BDP * 2;
    script.rounds(3, 500);
    assert_eq!(script.state(), State::Drain);
}

/// DRAIN ends when inflight has fallen to the BDP.
#[test]
fn drain_ends_when_inflight_is_the_bdp() {
    let mut script = Script::<V3>::new(&[]);
    script.reach_drain();
    script.within_at(BDP + MSS);
    assert_eq!(script.state(), State::Drain);
    script.within_at(BDP);
    assert_eq!(script.state(), State::Cruise, "ProbeBW_DOWN ends with the same acknowledgement");
}

/// DRAIN ends in its fourth round at the latest, even if inflight stays above the BDP.
#[test]
fn drain_ends_in_its_fourth_round_at_the_latest() {
    let mut script = Script::<V3>::new(&[]);
    script.reach_drain();
    script.inflight = BDP * 2;
    for _ in 0..3 {
        script.round(10);
        assert_eq!(script.state(), State::Drain);
    }
    script.round(10);
    assert_eq!(script.state(), State::Down);
    let mut script = Script::<V3>::new(&[("drain_rounds", 0.0)]);
    script.drain_for(50);
    assert_eq!(script.state(), State::Drain, "0: no limit");
}
