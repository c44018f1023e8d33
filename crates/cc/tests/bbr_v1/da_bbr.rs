//! DA-BBR: delay-dependent cwnd, recovery, PROBE_RTT.

use narrows_cc::bbr_v1::{ProbeRtt, State};
use narrows_cc::schemes::DaBbr;
use narrows_cc::{Bytes, CongestionCause, Nanos};

use crate::bbr_v1::path::{Core, MSS, V1};
use crate::bbr_v1::script::{Script, TICK, quantised};

type Da = <DaBbr as Core>::Policy;

/// BDP of the scripted path.
const BDP: f64 = 500_000.0;

/// A flow in PROBE_BW's first cruise phase.
fn cruising() -> Script<Da> {
    Script::<Da>::in_phase(2, &[])
}

/// cwnd after acknowledgements with RTT samples of `rtt` within the current phase.
fn window_at(script: &mut Script<Da>, rtt: Nanos) -> Bytes {
    let before = std::mem::replace(&mut script.rtt, rtt);
    script.acks(10, 100);
    script.rtt = before;
    script.cwnd()
}

/// cwnd is one BDP without a queue and approaches two BDPs as the queue grows.
#[test]
fn da_bbr_window_grows_from_one_to_two_bdp_with_queue() {
    let mut script = cruising();
    let ms = Nanos::from_millis;
    // 2 BDP · rtt / (rtt + min_rtt), with min_rtt = 40 ms.
    for (rtt, bdps) in [(40, 1.0), (60, 1.2), (120, 1.5), (360, 1.8), (39_960, 1.998), (40, 1.0)] {
        assert_eq!(window_at(&mut script, ms(rtt)), quantised(bdps * BDP, 8, false), "{rtt} ms");
    }
    assert!(window_at(&mut script, Nanos::from_secs(100_000)) <= quantised(2.0 * BDP, 8, false));
}

/// cwnd and the inflight targets are scaled only in PROBE_BW.
#[test]
fn da_bbr_scales_window_and_targets_only_in_probe_bw() {
    let wanted = |script: &Script<Da>| {
        let model = script.cc.model();
        (model.inflight_at(script.cc.policy(), 1.0), script.quantum())
    };
    let mut script = Script::<Da>::new(1, &[]);
    for _ in 0..3 {
        script.round(100, 0);
        let (inflight, quantum) = wanted(&script);
        assert_eq!((script.state(), inflight), (State::Startup, quantised(BDP, quantum, false)));
    }
    script.round(100, 0);
    let (inflight, quantum) = wanted(&script);
    assert_eq!((script.state(), inflight), (State::Drain, quantised(BDP, quantum, false)));

    let mut script = cruising();
    assert_eq!(wanted(&script).0, quantised(BDP / 2.0, 8, false));
    // Without a queue, the probing phase ends once it has lasted longer than min_rtt and 1.25 · BDP / 2 is in flight.
    script.reach_phase(0);
    let reached = quantised(1.25 * BDP / 2.0, 10, true);
    script.inflight = reached - MSS * 2;
    script.within_round(Nanos::from_millis(40), 1, 0);
    assert_eq!(script.phase_of_cycle(), 0, "not yet longer than min_rtt");
    script.within_round(TICK, 1, 0);
    assert_eq!(script.phase_of_cycle(), 0, "one segment is wanting");
    script.inflight += MSS;
    script.within_round(TICK, 1, 0);
    assert_eq!(script.phase_of_cycle(), 1);
    // The draining phase continues with one BDP in flight and ends with half a BDP in flight. The segment being
    // acknowledged counts as in flight.
    script.within_round_at(Bytes::new(500_000), 1);
    assert_eq!(script.phase_of_cycle(), 1);
    let drained = quantised(BDP / 2.0, 6, false);
    script.within_round_at(drained, 1);
    assert_eq!(script.phase_of_cycle(), 1);
    script.within_round_at(drained - MSS, 1);
    assert_eq!(script.phase_of_cycle(), 2);
}

/// Lets min_rtt expire, measures a min_rtt of `rtt`, then runs to the first cruise phase of PROBE_BW.
fn probe_rtt(script: &mut Script<Da>, rtt: Nanos) {
    script.expire_min_rtt(rtt, MSS * 10, 10);
    assert!(matches!(script.state(), State::ProbeRtt { .. }));
    script.return_to_probe_bw(10);
    assert_eq!(script.cc.model().min_rtt(), Some(rtt));
    script.inflight = Bytes::new(700_000);
    script.reach_phase(2);
}

/// Scaling is off while min_rtt is more than a fifth above its value before PROBE_RTT.
#[test]
fn da_bbr_scaling_is_off_while_min_rtt_rose_by_a_fifth() {
    let (old, limit) = (Nanos::from_millis(40), Nanos::from_millis(48));
    let bdp_at = |rtt: Nanos| 12_500_000.0 * rtt.as_secs_f64();
    // Scaling stays on at a min_rtt of 48 ms, which does not exceed 1.2 · 40 ms.
    let mut script = cruising();
    probe_rtt(&mut script, limit);
    assert_eq!(window_at(&mut script, limit), quantised(bdp_at(limit), 8, false));
    // One microsecond more turns scaling off: cwnd is two BDPs.
    let mut script = cruising();
    let risen = limit + Nanos::from_micros(1);
    probe_rtt(&mut script, risen);
    assert_eq!(window_at(&mut script, risen), quantised(2.0 * bdp_at(risen), 8, false));
    // The next PROBE_RTT compares with the risen min_rtt: scaling is on again.
    probe_rtt(&mut script, risen);
    assert_eq!(window_at(&mut script, risen), quantised(bdp_at(risen), 8, false));
    // A lower min_rtt takes effect immediately.
    probe_rtt(&mut script, old);
    assert_eq!(window_at(&mut script, old), quantised(BDP, 8, false));
}

/// PROBE_RTT keeps a third of cwnd, at least four segments.
#[test]
fn da_bbr_probe_rtt_keeps_third_of_window_min_four() {
    let mut script = cruising();
    let window = window_at(&mut script, Nanos::from_millis(40));
    let third = window.as_u64() / 3;
    script.expire_min_rtt(Nanos::from_millis(41), Bytes::new(third + 2), 1);
    assert!(matches!(script.state(), State::ProbeRtt(ProbeRtt { until: None, .. })), "{:?}", script.state());
    // cwnd is a third of the previous cwnd, within one byte of floating-point rounding.
    let kept = script.cwnd().as_u64();
    assert!((third - 1..=third + 1).contains(&kept), "{kept}, a third is {third}");
    script.inflight = Bytes::new(kept);
    script.round(1, 0);
    assert!(matches!(script.state(), State::ProbeRtt(ProbeRtt { until: Some(_), .. })), "the clock starts at a third");
    // After 200 ms and a round cwnd returns to its prior value, up to the target of the new phase.
    script.return_to_probe_bw(1);
    assert!(script.cwnd() + MSS * 4 >= window);

    let mut script = Script::<Da>::new(1, &[]);
    script.rate = narrows_cc::Rate::from_mbit_per_sec(1.0); // BDP 3.5 segments
    script.reach_probe_bw();
    script.expire_min_rtt(Nanos::from_millis(41), MSS * 8, 1);
    assert!(script.cc.model().cwnd() < MSS * 12);
    assert_eq!(script.cwnd(), MSS * 4);
}

/// Recovery starts with cwnd at inflight; leaving recovery does not restore cwnd.
#[test]
fn da_bbr_recovery_starts_at_inflight_without_restore() {
    let mut script = cruising();
    let window = window_at(&mut script, Nanos::from_millis(40));
    script.enter_recovery_at(MSS * 300, 2, 50);
    assert_eq!(script.cwnd(), MSS * 300, "without the two acknowledged");
    // In the first round of recovery only losses change cwnd; inflight and acknowledged data do not.
    script.within_round_at(MSS * 320, 40);
    assert_eq!(script.cwnd(), MSS * 300);
    script.within_round(TICK, 40, 7);
    assert_eq!(script.cwnd(), MSS * 293);
    script.round(2, 0);
    assert_eq!(script.cwnd(), MSS * 295, "the next round: growth");
    script.leave_recovery(3);
    assert_eq!(script.cwnd(), MSS * 298);
    assert!(window > MSS * 298 && !script.cc.model().conserving());
    // With nothing in flight cwnd is one segment.
    script.enter_recovery_at(Bytes::ZERO, 1, 3);
    assert_eq!(script.cwnd(), MSS);
}

/// In recovery the pacing rate is three quarters of the bandwidth until the phase ends; the phase ends when inflight
/// has drained.
#[test]
fn da_bbr_recovery_paces_at_three_quarters_until_drained() {
    let mut script = cruising();
    script.enter_recovery_after(TICK, CongestionCause::Loss, 2, 3);
    let (cruise, slow) = (script.rate.mul_f64(0.99), script.rate.mul_f64(0.75 * 0.99));
    // The first acknowledgement of recovery leaves the pacing rate unchanged: it was set before recovery started, as in
    // Linux.
    assert_eq!(script.cc.model().pacing_rate(), cruise);
    let phase = script.phase_of_cycle();
    script.within_round(TICK, 2, 0);
    assert_eq!((script.cc.model().pacing_rate(), script.phase_of_cycle()), (slow, phase));
    // The slow pacing belongs to the phase and outlasts the round and recovery.
    script.leave_recovery(2);
    script.reach_phase((phase + 1) % 8);
    assert_eq!(script.cc.model().pacing_rate(), cruise);
    // A phase paced at 0.75 of the bandwidth ends when inflight falls to W, here half a BDP.
    script.enter_recovery_after(TICK, CongestionCause::Loss, 2, 3);
    let phase = script.phase_of_cycle();
    script.within_round_at(MSS * 150, 2);
    assert_eq!((script.cc.model().pacing_rate(), script.phase_of_cycle()), (cruise, phase + 1));
}

/// Pacing rates in Mbit/s before a loss in STARTUP and after it, when the bandwidth has doubled in the meantime.
fn startup_with_loss<P: narrows_cc::bbr_v1::Policy>() -> (f64, f64) {
    let mut script = Script::<P>::new(1, &[]);
    script.rate = script.rate / 4;
    script.round(20, 0);
    let before = script.cc.model().pacing_rate();
    script.enter_recovery(CongestionCause::Loss, 1, 1);
    script.rate = script.rate * 2;
    script.round(20, 0);
    assert_eq!(script.state(), State::Startup);
    (before.as_mbit_per_sec(), script.cc.model().pacing_rate().as_mbit_per_sec())
}

/// A loss in STARTUP freezes the pacing rate.
#[test]
fn da_bbr_loss_in_startup_freezes_the_pacing_rate() {
    let (before, after) = startup_with_loss::<Da>();
    assert_eq!(before, after);
    let (before, after) = startup_with_loss::<V1>();
    assert!((after / before - 2.0).abs() < 1e-6, "BBR's doubles: {before} {after}");
}

/// The start of PROBE_RTT ends the slow pacing; the start of the clock within PROBE_RTT does not.
#[test]
fn da_bbr_probe_rtt_start_ends_slow_pacing() {
    let mut script = Script::<Da>::new(1, &[]);
    script.rounds(4, 100);
    let (cruise, slow) = (script.rate.mul_f64(0.99), script.rate.mul_f64(0.75 * 0.99));
    script.enter_recovery_after(TICK, CongestionCause::Loss, 2, 3);
    script.within_round(TICK, 2, 0);
    assert_eq!((script.state(), script.cc.model().pacing_rate()), (State::Drain, slow));
    script.now += Nanos::from_secs(11);
    script.rtt = Nanos::from_millis(41);
    script.within_round(TICK, 2, 0);
    assert!(matches!(script.state(), State::ProbeRtt(ProbeRtt { until: None, .. })));
    assert_eq!(script.cc.model().pacing_rate(), cruise);
    script.leave_recovery(2);
    script.enter_recovery(CongestionCause::Loss, 2, 3);
    script.inflight = MSS;
    for _ in 0..2 {
        script.within_round(TICK, 2, 0);
        assert_eq!(script.cc.model().pacing_rate(), slow);
    }
    assert!(matches!(script.state(), State::ProbeRtt(ProbeRtt { until: Some(_), .. })));
}

/// A min_rtt that expires outside PROBE_BW is not compared with the next min_rtt.
#[test]
fn da_bbr_min_rtt_expired_outside_probe_bw_is_ignored() {
    let mut script = Script::<Da>::new(1, &[]);
    script.round(20, 0);
    let risen = Nanos::from_millis(60);
    script.expire_min_rtt(risen, MSS, 1);
    assert!(matches!(script.state(), State::ProbeRtt { .. }), "from Startup");
    script.return_to_probe_bw(100);
    script.inflight = Bytes::new(700_000);
    script.reach_phase(2);
    assert_eq!(script.cc.model().min_rtt(), Some(risen));
    assert_eq!(window_at(&mut script, risen), quantised(1.5 * BDP, 8, false), "one BDP of 60 ms");
}

/// For an acknowledgement without an RTT sample, the last RTT sample is used.
#[test]
fn da_bbr_ack_without_rtt_uses_last_sample() {
    let mut script = cruising();
    let window = window_at(&mut script, Nanos::from_millis(120));
    script.change_within_round(TICK, 100, 0, |ack| ack.rtt = None);
    assert_eq!(script.cwnd(), window);
}
