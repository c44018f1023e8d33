//! BBR-CWS, our reconstruction: the control law of the scale at its limits.

use narrows_cc::bbr_v1::{PHASE_DOWN, Policy, State};
use narrows_cc::schemes::BbrCws;
use narrows_cc::{Ack, Bytes, CongestionControl, Nanos, record};

use crate::bbr_v1::path::{Core, Flow, MSS, Path, V1};
use crate::bbr_v1::script::{Script, TICK, near, quantised};

type Scaling = <BbrCws as Core>::Policy;

const BDP: f64 = 500_000.0;
/// cwnd of BBRv1 in bytes, which corresponds to scale 1.
const STANDARD: f64 = 2.0 * BDP;
/// Factor by which a cut reduces the bound.
const CUT: f64 = 0.75;
/// Inflight so large that a cut starts from the bound, not from inflight.
const PLENTY: Bytes = Bytes::new(40_000_000);

fn scale(script: &Script<Scaling>) -> f64 {
    script.cc.policy().probe_cwnd_gain(script.cc.model()) / 2.0
}

#[track_caller]
fn assert_scale(script: &Script<Scaling>, expected: f64) {
    let got = scale(script);
    assert!((got - expected).abs() < 1e-6 * expected, "{got} is not {expected}");
}

/// A flow in PROBE_BW at the start of a round; the previous round had no congestion and no queue.
fn cruising(values: &[(&str, f64)]) -> Script<Scaling> {
    let values: Vec<_> = values.iter().copied().chain([("extra_acked", 0.0)]).collect();
    let mut script = Script::<Scaling>::in_phase(2, &values);
    script.inflight = PLENTY;
    end_round(&mut script);
    assert_scale(&script, 1.0);
    script
}

/// Feeds `acks` acknowledgements of 100 segments with a round-trip time of `rtt_ms`; the last acknowledgement reports
/// `lost` losses.
fn within(script: &mut Script<Scaling>, rtt_ms: u64, acks: u32, lost: u64) {
    for i in 1..=acks {
        let lost = if i == acks { lost } else { 0 };
        script.change_within_round(TICK, 100, lost, |ack| ack.rtt = Some(Nanos::from_millis(rtt_ms)));
    }
}

/// Ends the round; the acknowledgement that begins the next round carries no RTT sample.
fn end_round(script: &mut Script<Scaling>) {
    let ack = script.next_ack(script.rtt, 100, 0);
    script.cc.on_ack(&record!(Ack { rtt: None, ..ack }));
}

/// Runs a round of ten acknowledgements.
fn round(script: &mut Script<Scaling>, rtt_ms: u64, lost: u64) {
    within(script, rtt_ms, 10, lost);
    end_round(script);
}

/// Runs a flow and returns the time, acknowledged data and inflight of each acknowledgement.
fn acknowledged<P: Policy>() -> (Vec<(Nanos, Bytes, Bytes)>, f64) {
    let mut flow = Flow::<P>::new(Path::new(20.0, 40), 1, &[]);
    let mut seen = Vec::new();
    flow.run(Nanos::from_secs(12), |_, ack| seen.push((ack.now, ack.acked, ack.inflight)));
    (seen, flow.cc.policy().probe_cwnd_gain(flow.cc.model()))
}

/// Without loss and without queued data of other flows, BBR-CWS behaves as BBRv1.
#[test]
fn bbr_cws_without_loss_or_foreign_queue_is_bbr_v1() {
    let (ours, gain) = acknowledged::<Scaling>();
    assert!(ours.len() > 10_000);
    let (theirs, _) = acknowledged::<V1>();
    let first = ours.iter().zip(&theirs).position(|(a, b)| a != b);
    assert_eq!(first.map(|i| (ours[i], theirs[i])), None);
    assert_eq!(ours.len(), theirs.len());
    assert_eq!(gain, 2.0);
}

/// A congested round cuts the bound once; losses in the next round do not cut it again.
#[test]
fn bbr_cws_cuts_bound_once_per_congested_round() {
    let mut script = cruising(&[]);
    for _ in 0..5 {
        within(&mut script, 40, 2, 3);
        assert_scale(&script, 1.0);
    }
    end_round(&mut script);
    assert_scale(&script, CUT);
    // cwnd grows to its bound.
    script.acks(20, 100);
    assert_eq!(script.cwnd(), quantised(CUT * STANDARD, script.quantum(), false));
    // Losses from before the cut appear in the next round, in which the bound only grows.
    round(&mut script, 40, 3);
    assert!(scale(&script) > CUT && scale(&script) < 1.02 * CUT, "{}", scale(&script));
    let before = scale(&script);
    round(&mut script, 40, 3);
    assert_scale(&script, CUT * before);
}

/// A cut starts from inflight if inflight is below the bound.
#[test]
fn bbr_cws_cut_starts_from_inflight_below_bound() {
    let mut script = cruising(&[]);
    script.inflight = Bytes::new(600_000) - MSS * 103;
    end_round(&mut script);
    round(&mut script, 40, 3);
    assert_scale(&script, CUT * 0.6);
}

/// The bound on cwnd grows by CUBIC's law, and at least as fast as Reno's cwnd.
#[test]
fn bbr_cws_bound_grows_as_cubic_at_least_as_reno() {
    let segment = MSS.as_f64();
    for (speed, friendly) in [(0.32, 0.0), (50.0, 0.0), (0.001, 10.0)] {
        // Fast convergence is off (`converge` = 0), because it would lower the second peak.
        let values = [("speed", speed), ("friendly", friendly), ("converge", 0.0)];
        let mut script = cruising(&values);
        round(&mut script, 40, 3);
        let (mut bound, since) = (CUT * STANDARD, script.now);
        let back = ((1.0 - CUT) * STANDARD / segment / speed).cbrt();
        for n in 1..=10 {
            round(&mut script, 40, 0);
            let t = (script.now - since).as_secs_f64() + 0.04 - back;
            let cubic = (STANDARD + speed * t * t * t * segment).min(1.5 * bound);
            let reno = CUT * STANDARD + friendly * 3.0 * (1.0 - CUT) / (1.0 + CUT) * f64::from(n) * segment;
            bound = bound.max(cubic).max(reno).min(STANDARD);
            assert_scale(&script, bound / STANDARD);
        }
        assert!(bound > CUT * STANDARD);
    }
}

/// A peak below the previous peak counts as too high and is reduced further.
#[test]
fn bbr_cws_lower_peak_is_reduced_further() {
    let after = |converge: f64| {
        let mut script = cruising(&[("converge", converge), ("friendly", 0.0)]);
        for _ in 0..2 {
            round(&mut script, 40, 3);
            round(&mut script, 40, 0);
        }
        for _ in 0..150 {
            round(&mut script, 40, 0);
        }
        scale(&script)
    };
    assert!(after(1.0) < 0.97 * after(0.0), "{} {}", after(1.0), after(0.0));
}

/// The scale stays within its bounds.
#[test]
fn bbr_cws_scale_stays_within_bounds() {
    let mut script = cruising(&[("cut", 0.1)]);
    for _ in 0..4 {
        round(&mut script, 40, 3);
    }
    assert_eq!(scale(&script), 0.25);
    // If no other flow has data queued, the scale never exceeds 1, even without loss.
    for _ in 0..1000 {
        round(&mut script, 40, 0);
    }
    assert_eq!(scale(&script), 1.0);
    let mut script = cruising(&[]);
    for _ in 0..100 {
        round(&mut script, 100, 0);
    }
    assert_eq!(scale(&script), 8.0);
}

/// cwnd grows beyond BBR's cwnd only while other flows have data queued.
#[test]
fn bbr_cws_exceeds_bbr_window_only_with_foreign_queue() {
    let mut script = cruising(&[]);
    // BBR flows alone may raise the RTT to 2.25 times its minimum.
    round(&mut script, 90, 0);
    assert_eq!(scale(&script), 1.0);
    for n in 1..=8 {
        round(&mut script, 91, 0);
        assert!(scale(&script) > 1.125_f64.powi(n) * 0.999, "an eighth per round before the first cut");
    }
    // A loss without congestion leaves the scale unchanged.
    round(&mut script, 400, 0);
    let before = scale(&script);
    round(&mut script, 91, 3);
    assert_scale(&script, before);
    // One round without queued data of other flows ends the growth.
    round(&mut script, 90, 0);
    assert_eq!(scale(&script), 1.0);
    // After a cut the scale grows slowly.
    round(&mut script, 400, 3);
    let before = scale(&script);
    round(&mut script, 400, 0);
    assert!(scale(&script) < 1.1 * before);
}

/// Loss indicates congestion if the queue is near its maximum so far, or if the loss is heavy.
#[test]
fn bbr_cws_loss_is_congestion_if_queue_full_or_loss_heavy() {
    // The longest queue so far added 40 ms to the RTT of 40 ms, so the RTT threshold is 40 + 0.8 · 40 = 72 ms.
    for (rtt, lost, expected) in [(71, 3, 1.0), (73, 3, CUT), (41, 66, 1.0), (41, 80, CUT)] {
        let mut script = cruising(&[]);
        round(&mut script, 80, 0);
        round(&mut script, rtt, lost);
        assert_scale(&script, expected);
    }
    // A round with few RTT samples does not update the longest queue.
    let mut script = cruising(&[]);
    round(&mut script, 50, 0);
    within(&mut script, 80, 7, 0);
    end_round(&mut script);
    round(&mut script, 50, 3);
    assert_scale(&script, CUT);
}

/// Recovery restores at most the scaled cwnd.
#[test]
fn bbr_cws_recovery_restores_at_most_scaled_window() {
    let mut script = cruising(&[]);
    script.acks(20, 100);
    let full = script.cwnd();
    script.enter_recovery_at(Bytes::new(900_000), 1, 3);
    // Packet conservation sets cwnd, as in BBRv1.
    assert_eq!(script.cwnd(), Bytes::new(900_000) + MSS);
    end_round(&mut script);
    let scaled = scale(&script);
    assert!(scaled < 0.75, "{scaled}: cut from what was in flight");
    script.leave_recovery(1);
    let window = script.cwnd();
    assert!(window < full && window <= quantised(scaled * STANDARD, 24, true), "{window:?}");
}

/// While other flows have data queued, no phase paces with a gain below 1.25.
#[test]
fn bbr_cws_with_foreign_queue_no_phase_paces_below_push() {
    let mut script = cruising(&[]);
    assert!(near(script.paced_gain(), 1.0));
    round(&mut script, 100, 0);
    assert!(near(script.paced_gain(), 1.25));
    // If losses indicate congestion, the cycle continues as in BBRv1.
    round(&mut script, 100, 3);
    assert!(matches!(script.state(), State::ProbeBw { phase, .. } if phase > PHASE_DOWN));
    assert!(near(script.paced_gain(), 1.0));
}

/// DRAIN ends after four rounds even if other flows keep the queue filled.
#[test]
fn bbr_cws_drain_ends_after_four_rounds_despite_queue() {
    for (limit, drains) in [(4.0, 4), (1.0, 1), (0.0, 100)] {
        let mut script = Script::<Scaling>::new(1, &[("drain_rounds", limit)]);
        script.rounds(4, 100);
        let mut rounds = 0;
        while script.state() == State::Drain && rounds < 100 {
            script.round(100, 0);
            rounds += 1;
        }
        assert_eq!(rounds, drains, "limit {limit}");
    }
}
