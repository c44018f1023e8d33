//! BBR-ACD and BBR-A: recovery from signs of congestion.

use narrows_cc::bbr_v1::{Policy, State};
use narrows_cc::schemes::{BbrA, BbrAcd};
use narrows_cc::{CongestionCause, CongestionControl, Nanos};

use crate::bbr_v1::path::{Core, MSS};
use crate::bbr_v1::script::{Script, TICK, quantised};

type Acd = <BbrAcd as Core>::Policy;
type Advanced = <BbrA as Core>::Policy;

const MS: Nanos = Nanos::from_millis(1);

/// A flow in PROBE_BW's first cruise phase. cwnd is at its target of 2 BDP, 716 segments.
fn cruising<P: Policy>() -> Script<P> {
    let mut script = Script::<P>::in_phase(2, &[]);
    script.acks(10, 100);
    assert_eq!(script.cwnd(), quantised(1_000_000.0, 8, false));
    script
}

/// Feeds an acknowledgement with the RTT sample `rtt` that begins no round.
fn sample<P: Policy>(script: &mut Script<P>, rtt: Option<Nanos>, acked: u64) {
    script.change_within_round(TICK, acked, 0, |ack| ack.rtt = rtt);
}

/// Whether congestion is detected if recovery begins with an acknowledgement that carries the last of these RTT
/// samples.
fn congested<P: Policy>(samples: &[Option<Nanos>]) -> bool {
    let mut script = cruising::<P>();
    let (last, before) = samples.split_last().unwrap();
    for rtt in before {
        sample(&mut script, *rtt, 1);
    }
    script.rtt = last.unwrap();
    script.enter_recovery(CongestionCause::Loss, 2, 3);
    script.cc.model().conserving()
}

fn of_ms<const N: usize>(values: [f64; N]) -> [Option<Nanos>; N] {
    values.map(|ms| Some(Nanos::from_nanos((ms * 1e6) as u64)))
}

/// Three similar RTT samples above min_rtt, or one sample above twice min_rtt, indicate congestion.
#[test]
fn bbr_acd_detects_congestion_by_three_samples_or_one_high() {
    // min_rtt is 40 ms; each sample is compared with the previous one.
    assert!(congested::<Acd>(&of_ms([45.0, 46.0, 45.0])));
    assert!(congested::<Acd>(&of_ms([60.0, 45.0, 45.9, 46.8])), "a slow rise");
    assert!(congested::<Acd>(&of_ms([40.1, 40.1, 40.1])), "however short the queue");
    assert!(!congested::<Acd>(&of_ms([45.0, 45.0])), "two are not enough: the 40 ms before differ");
    assert!(!congested::<Acd>(&of_ms([45.0, 46.000_001, 45.9])), "more than 1 ms apart");
    assert!(!congested::<Acd>(&of_ms([45.0, 45.0, 45.0, 47.0])), "the last one is unlike");
    assert!(!congested::<Acd>(&of_ms([40.0, 40.0, 40.0, 40.0])), "not above min_rtt");
    assert!(!congested::<Acd>(&of_ms([40.5, 40.0, 40.5])), "a new row after one at min_rtt");
    assert!(congested::<Acd>(&of_ms([40.0, 40.5, 40.6])), "which may be its first");
    assert!(congested::<Acd>(&of_ms([80.000_001])));
    assert!(!congested::<Acd>(&of_ms([80.0])));
}

/// The congestion test runs in and outside recovery, on acknowledgements that deliver data.
#[test]
fn bbr_acd_tests_every_ack_that_delivers_data() {
    let mut script = cruising::<Acd>();
    for _ in 0..2 {
        sample(&mut script, Some(MS * 45), 1);
    }
    sample(&mut script, Some(MS * 60), 0); // would end the series if it counted
    script.rtt = MS * 45;
    script.enter_recovery(CongestionCause::Loss, 2, 3);
    assert!(script.cc.model().conserving());

    let mut script = cruising::<Acd>();
    sample(&mut script, Some(MS * 45), 1);
    sample(&mut script, Some(MS * 45), 0); // would continue the series if it counted
    script.rtt = MS * 45;
    script.enter_recovery(CongestionCause::Loss, 2, 3);
    assert!(!script.cc.model().conserving());
}

/// An acknowledgement without an RTT sample resets the count of similar samples; only BBR-A then compares the next
/// sample with the sample before the gap.
#[test]
fn bbr_acd_missing_sample_resets_the_row() {
    let mut samples = of_ms([45.0, 0.0, 45.2, 45.4]);
    samples[1] = None;
    assert!(!congested::<Acd>(&samples));
    assert!(congested::<Advanced>(&samples));
    let mut samples = of_ms([45.0, 45.2, 0.0, 45.4]);
    samples[2] = None;
    assert!(!congested::<Advanced>(&samples), "the row begins again");
}

/// Whether a series of similar RTT samples counts as congestion if its last sample replaces an expired min_rtt.
fn congested_at_expiry<P: Policy>() -> bool {
    let mut script = cruising::<P>();
    for _ in 0..3 {
        sample(&mut script, Some(MS * 45), 1);
    }
    script.now += Nanos::from_secs(11);
    script.rtt = MS * 45;
    script.enter_recovery(CongestionCause::Loss, 2, 3);
    assert!(matches!(script.state(), State::ProbeRtt { .. }));
    script.cc.model().conserving()
}

/// A sample that replaces an expired min_rtt does not count as above min_rtt.
#[test]
fn bbr_acd_sample_replacing_min_rtt_is_not_above_it() {
    assert!(!congested_at_expiry::<Acd>());
    assert!(!congested_at_expiry::<Advanced>());
}

/// A flow in recovery with congestion, after the first halving of cwnd.
fn congested_recovery<P: Policy>() -> Script<P> {
    let mut script = cruising::<P>();
    script.rtt = MS * 81;
    script.enter_recovery_at(MSS * 690, 2, 16);
    script
}

/// Every acknowledgement of the congested round halves cwnd, down to four segments.
#[test]
fn bbr_acd_halves_window_per_ack_to_four_segments() {
    let mut script = congested_recovery::<Acd>();
    // 716 segments less 16 lost segments, halved, are 350 segments: below BDP₁ = 346 + 24 segments.
    assert_eq!(script.cwnd(), MSS * 350);
    // Losses are subtracted before cwnd is halved again.
    script.within_round(TICK, 2, 10);
    assert_eq!(script.cwnd(), MSS * 170);
    for halves in 1..=5_u32 {
        script.within_round(TICK, 2, 0);
        assert_eq!(script.cwnd(), MSS * 170 / 2_u64.pow(halves));
    }
    for _ in 0..3 {
        script.within_round(TICK, 2, 0);
        assert_eq!(script.cwnd(), MSS * 4);
    }
    assert!(script.cc.model().conserving());
    // The congestion flag is cleared at the end of the round. Then cwnd grows even in recovery, whatever the RTT.
    script.round(2, 0);
    assert!(!script.cc.model().conserving());
    assert_eq!(script.cwnd(), MSS * 6);
    script.within_round(TICK, 3, 0);
    assert_eq!(script.cwnd(), MSS * 9);
    // Leaving recovery restores cwnd from before recovery.
    script.leave_recovery(1);
    assert_eq!(script.cwnd(), quantised(1_000_000.0, 8, false));
}

/// Leaving recovery ends the halving even before the round ends.
#[test]
fn bbr_acd_leaving_recovery_ends_the_halving() {
    let mut script = congested_recovery::<Acd>();
    script.within_round(TICK, 2, 0);
    script.phase = narrows_cc::Phase::Open;
    script.within_round(TICK, 2, 0);
    assert_eq!(script.cwnd(), quantised(1_000_000.0, 8, false));
}

/// cwnd is cut to one BDP if half of cwnd is more than one BDP.
#[test]
fn bbr_acd_cut_is_at_most_one_bdp() {
    let mut script = Script::<Acd>::new(1, &[]);
    script.round(1000, 0); // Startup: cwnd is 10 + 1000 segments
    script.rtt = MS * 81;
    script.enter_recovery(CongestionCause::Loss, 2, 10);
    assert_eq!(script.cwnd(), quantised(500_000.0, script.quantum(), false));
    assert!(script.cwnd() < MSS * 500);
}

/// Random loss reduces cwnd only by the lost bytes.
#[test]
fn bbr_acd_random_loss_reduces_window_by_lost_bytes() {
    let mut script = cruising::<Acd>();
    let window = script.cwnd();
    script.enter_recovery_at(MSS * 300, 2, 5);
    // Neither inflight nor packet conservation sets cwnd: losses are subtracted, and acknowledged data is added.
    assert_eq!(script.cwnd(), window - MSS * 3);
    // Congestion later in this recovery changes nothing.
    script.rtt = MS * 100;
    script.within_round(TICK, 2, 0);
    assert_eq!(script.cwnd(), window - MSS);
    assert!(!script.cc.model().conserving());
}

/// BBR-A paces at three quarters of the bandwidth while it halves cwnd; its gain cycle continues.
#[test]
fn bbr_a_paces_at_three_quarters_while_halving() {
    let mut script = congested_recovery::<Advanced>();
    let (cruise, slow) = (script.rate.mul_f64(0.99), script.rate.mul_f64(0.75 * 0.99));
    // Slow pacing begins with the acknowledgement that entered recovery.
    assert_eq!(script.cc.control().pacing_rate, Some(slow));
    assert_eq!(script.cwnd(), MSS * 350);
    let phase = script.phase_of_cycle();
    // Inflight below the BDP would end a draining phase. This phase is not a draining phase, so it lasts one min_rtt.
    script.within_round_at(MSS * 300, 2);
    assert_eq!((script.cc.control().pacing_rate, script.phase_of_cycle()), (Some(slow), phase));
    // For an acknowledgement that delivers no data, the pacing rate is not lowered.
    script.within_round(TICK, 0, 0);
    assert_eq!(script.cc.control().pacing_rate, Some(cruise));
    script.within_round(TICK, 2, 0);
    assert_eq!(script.cc.control().pacing_rate, Some(slow));
    script.reach_phase((phase + 1) % 8); // each step begins a new round
    assert_eq!(script.cc.control().pacing_rate, Some(cruise));

    let acd = congested_recovery::<Acd>();
    assert_eq!(acd.cc.control().pacing_rate, Some(cruise), "BBR-ACD leaves the pacing alone");
}

/// BBR-A does not lower the pacing rate in STARTUP.
#[test]
fn bbr_a_in_startup_keeps_the_pacing_rate() {
    let mut script = Script::<Advanced>::new(1, &[]);
    script.round(100, 0);
    let pacing = script.cc.control().pacing_rate;
    script.rtt = MS * 81;
    script.enter_recovery(CongestionCause::Loss, 2, 3);
    assert!(script.cc.model().conserving());
    assert_eq!(script.cc.control().pacing_rate, pacing);
}
