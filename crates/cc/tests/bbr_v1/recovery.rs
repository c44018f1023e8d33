//! Loss, recovery, timeouts and undo.

use narrows_cc::{Bytes, CongestionCause, Nanos, Phase, Rate};

use crate::bbr_v1::path::{Flow, MSS, Path, V1};
use crate::bbr_v1::script::{Script, TICK, quantised};

/// A flow in PROBE_BW's first cruise phase, with cwnd at its target.
fn cruising() -> Script<V1> {
    let mut script = Script::<V1>::in_phase(2, &[("extra_acked", 0.0)]);
    script.acks(10, 100);
    assert_eq!(script.cc.model().cwnd(), quantised(1_000_000.0, 8, false));
    script
}

/// Recovery conserves packets for one round; leaving recovery restores cwnd.
#[test]
fn recovery_conserves_packets_for_a_round_then_restores() {
    let mut script = cruising();
    let window = script.cc.model().cwnd();
    script.enter_recovery_at(MSS * 300, 2, 50);
    assert!(script.cc.model().conserving());
    assert_eq!(script.cc.model().cwnd(), MSS * 302);
    // Two more segments are acknowledged and two segments are sent: cwnd stays constant.
    script.within_round(TICK, 2, 0);
    assert_eq!(script.cc.model().cwnd(), MSS * 302);
    // More losses reduce inflight; cwnd is at least inflight plus the delivered data.
    script.inflight = MSS * 280;
    script.within_round(TICK, 2, 20);
    assert_eq!(script.cc.model().cwnd(), MSS * 282);
    // If cwnd less the losses stays above this minimum, the minimum has no effect.
    script.inflight = MSS * 250;
    script.within_round(TICK, 2, 1);
    assert_eq!(script.cc.model().cwnd(), MSS * 281);
    // In the next round cwnd may grow by the delivered data: at most two packets are sent per packet delivered.
    script.round(10, 0);
    assert!(!script.cc.model().conserving());
    assert_eq!(script.cc.model().cwnd(), MSS * 291);
    script.within_round(TICK, 10, 4);
    assert_eq!(script.cc.model().cwnd(), MSS * 297);
    // Leaving recovery restores the prior cwnd immediately, here up to its target.
    script.leave_recovery(10);
    assert_eq!(script.cc.model().cwnd(), window);
    assert_eq!(script.cc.model().phase(), Phase::Open);
}

/// Loss changes neither the bandwidth estimate nor the pacing rate.
#[test]
fn recovery_loss_leaves_bandwidth_and_pacing_unchanged() {
    let mut script = cruising();
    let pacing = script.cc.model().pacing_rate();
    script.enter_recovery_at(MSS * 300, 2, 50);
    assert_eq!(script.cc.model().pacing_rate(), pacing);
}

/// Recovery starts a round, so conservation lasts a whole round trip.
#[test]
fn recovery_starts_a_round_for_full_conservation() {
    let mut script = cruising();
    script.enter_recovery_at(MSS * 300, 2, 50);
    let (entry, rounds) = (script.delivered, script.cc.model().round());
    // A packet sent before recovery ends no round.
    for (before, conserving) in [(1, true), (0, false)] {
        script.change_within_round(TICK, 2, 0, |ack| {
            ack.rate.as_mut().unwrap().prior_delivered = entry - Bytes::new(before);
        });
        assert_eq!(script.cc.model().conserving(), conserving);
    }
    assert_eq!(script.cc.model().round(), rounds + 1);
}

/// On a lossy path cwnd is at least inflight plus delivered data during the first round of recovery, and the prior cwnd
/// is restored when recovery ends.
#[test]
fn recovery_on_lossy_path_holds_and_restores_window() {
    let mut path = Path::new(20.0, 40);
    path.drop_every = Some(1000); // about one loss per 0.6 s, so recoveries do not overlap
    let mut flow = Flow::<V1>::new(path, 1, &[("lt_bw", 0.0)]);
    flow.run_for(Nanos::from_secs(2));
    let (mut last, mut before, mut entered, mut left) = (Phase::Open, Bytes::ZERO, 0, 0);
    flow.run(Nanos::from_secs(9), |flow, ack| {
        let window = flow.cc.model().cwnd();
        match (last, ack.phase) {
            (Phase::Open, Phase::Recovery) => {
                assert_eq!(window, ack.inflight + ack.acked);
                entered += 1;
            }
            (Phase::Recovery, Phase::Open) => {
                // cwnd is restored up to the target of the current phase, which is two segments lower after probing.
                assert!(window + MSS * 2 >= before, "{window:?} after {before:?}");
                left += 1;
            }
            (Phase::Recovery, Phase::Recovery) if flow.cc.model().conserving() => {
                assert!(window >= ack.inflight + ack.acked);
            }
            _ => {}
        }
        if ack.phase == Phase::Open {
            before = window;
        }
        last = ack.phase;
    });
    assert!(entered >= 10 && entered - left <= 1, "{entered} {left}");
}

/// Random loss of 1 % costs little more than 1 % of the throughput.
#[test]
fn recovery_random_loss_of_1_percent_costs_little_more() {
    let mut path = Path::new(20.0, 40);
    path.drop_every = Some(100);
    let mut flow = Flow::<V1>::new(path, 1, &[]);
    flow.run(Nanos::from_secs(10), |_, _| {});
    // The path loses 1 %, the pacing margin costs 1 %, and STARTUP costs 0.4 s of 10 s; probes regain some of it.
    let share = flow.delivered.as_f64() / flow.path.rate.over(Nanos::from_secs(10)).as_f64();
    assert!(share > 0.93, "{share}");
}

/// A response to ECN marks does not count as recovery.
#[test]
fn recovery_does_not_start_on_ecn_marks() {
    let mut script = cruising();
    let window = script.cc.model().cwnd();
    script.inflight = MSS * 300;
    script.enter_recovery(CongestionCause::Ecn, 2, 0);
    assert_eq!((script.cc.model().cwnd(), script.cc.model().conserving()), (window, false));
    // A loss during this response starts recovery.
    script.within_round(TICK, 2, 1);
    assert_eq!((script.cc.model().cwnd(), script.cc.model().conserving()), (MSS * 302, true));
}

fn time_out(script: &mut Script<V1>, inflight: Bytes, consecutive: u32) {
    script.now += Nanos::from_millis(240);
    script.inflight = inflight;
    script.report_timeout(consecutive);
}

/// A timeout sets cwnd to one segment plus inflight; during loss repair, cwnd grows from four segments; the end of loss
/// repair restores the prior cwnd.
#[test]
fn timeout_leaves_one_segment_then_regrows_from_four() {
    let mut script = cruising();
    let window = script.cc.model().cwnd();
    time_out(&mut script, Bytes::ZERO, 1);
    assert_eq!(script.cwnd(), MSS);
    time_out(&mut script, Bytes::ZERO, 2);
    script.inflight = MSS * 2;
    script.round(1, 0);
    assert_eq!(script.cwnd(), MSS * 4);
    script.round(4, 0);
    assert_eq!(script.cwnd(), MSS * 8);
    script.leave_recovery(8);
    // The end of loss repair restores the cwnd saved at the first timeout, not the single segment that was cwnd at the
    // second timeout.
    assert_eq!(script.cwnd(), window);
    // After a timeout cwnd still covers packets in flight.
    time_out(&mut script, MSS * 7, 1);
    assert_eq!(script.cwnd(), MSS * 8);
    assert_eq!(script.cc.model().inflight(), MSS * 7);
}

/// A timeout in recovery does not replace the cwnd saved before recovery.
#[test]
fn timeout_in_recovery_keeps_the_prior_window() {
    let mut script = Script::<V1>::new(1, &[]);
    script.round(10, 0); // cwnd is 20 segments
    script.enter_recovery_at(MSS * 15, 1, 3);
    script.round(30, 0);
    assert_eq!(script.cwnd(), MSS * 46);
    time_out(&mut script, Bytes::ZERO, 1);
    script.leave_recovery(2);
    // cwnd is the 20 segments from before recovery plus the two segments delivered; STARTUP continues.
    assert_eq!(script.cwnd(), MSS * 22);
}

/// A timeout in STARTUP restarts the detection of bandwidth growth.
#[test]
fn timeout_in_startup_restarts_growth_detection() {
    let mut script = Script::<V1>::new(1, &[]);
    script.rounds(3, 100);
    time_out(&mut script, Bytes::ZERO, 1);
    assert_eq!(script.cc.model().full_bw(), Rate::ZERO);
    script.inflight = Bytes::new(700_000);
    script.round(100, 0); // without the timeout, this would be the third round without growth
    assert!(!script.cc.model().full_bw_reached());
    assert_eq!(script.cc.model().full_bw(), script.rate);
}

/// A spurious loss restores cwnd and restarts the search for the full pipe.
#[test]
fn spurious_loss_restores_window_and_full_pipe_search() {
    let mut script = Script::<V1>::new(1, &[]);
    script.rounds(2, 100);
    let window = script.cc.model().cwnd();
    script.enter_recovery_at(MSS * 50, 1, 3);
    assert_eq!(script.cc.model().cwnd(), MSS * 51);
    script.report_spurious_loss();
    assert_eq!(script.cc.model().full_bw(), Rate::ZERO);
    script.leave_recovery(1);
    assert!(script.cc.model().cwnd() >= window);
    // Without the undo, the round that left recovery would be the third without growth. With the undo, that round sets
    // the reference rate, and the pipe counts as full only after three further rounds without growth.
    for _ in 0..2 {
        script.round(10, 0);
        assert!(!script.cc.model().full_bw_reached());
    }
    script.round(10, 0);
    assert!(script.cc.model().full_bw_reached());
}
