//! BBQ: the cap on probes and the data that a capped probe injects.

use narrows_cc::bbr_v1::State;
use narrows_cc::schemes::Bbq;
use narrows_cc::{Bytes, CongestionControl, Nanos};

use crate::bbr_v1::path::{Core, Flow, MSS, Path, V1};
use crate::bbr_v1::script::{Script, ms};

type Capped = <Bbq as Core>::Policy;

/// A script at the start of a probe on a path with a min_rtt of 40 ms; in the preceding cycle every RTT was `rtt`.
fn probing(rtt: f64, values: &[(&str, f64)]) -> Script<Capped> {
    let mut script = Script::<Capped>::in_probe_bw(values);
    script.rtt = ms(rtt);
    script.reach_phase(7);
    script.reach_phase(0);
    script
}

/// Feeds acknowledgements 0.1 ms apart until the probe ends, and returns its length; inflight stays below 1.25 BDP.
fn length(script: &mut Script<Capped>) -> Nanos {
    let began = script.now;
    while script.phase_of_cycle() == 0 && script.now - began < ms(100.0) {
        script.change_within_round(ms(0.1), 1, 0, |ack| ack.inflight_before = Bytes::new(500_000));
    }
    script.now - began
}

/// A probe ends after 3 ms if there is a queue, and only then.
#[test]
fn bbq_with_queue_ends_probe_after_3_ms() {
    // A queue means an RTT more than 10 % above min_rtt. Without a queue the probe waits for 1.25 BDP, which inflight
    // never reaches.
    for (rtt, capped) in [(40.0, false), (43.9, false), (44.1, true), (80.0, true)] {
        let length = length(&mut probing(rtt, &[]));
        let expected = if capped { ms(3.1) } else { ms(100.0) };
        assert_eq!(length, expected, "{rtt}");
    }
    assert_eq!(length(&mut probing(46.0, &[("theta", 0.2)])), ms(100.0));
    assert_eq!(length(&mut probing(60.0, &[("alpha", 10.0)])), ms(10.1));
}

/// The minimum round-trip time of the last round indicates the queue.
#[test]
fn bbq_queue_is_judged_by_last_rounds_minimum_rtt() {
    // In phase 7 a round begins with an RTT sample of 41 or 80 ms and continues with samples of 80 ms. The first
    // acknowledgement of the next round ends the phase.
    for (least, capped) in [(41.0, false), (80.0, true)] {
        let mut script = probing(80.0, &[]);
        script.reach_phase(7);
        script.rtt = ms(least);
        let ack = script.next_ack(ms(1.0), 1, 0);
        script.cc.on_ack(&ack);
        script.rtt = ms(80.0);
        script.within_round(ms(1.0), 1, 0);
        assert_eq!(script.phase_of_cycle(), 7);
        script.round(100, 0);
        assert_eq!(script.phase_of_cycle(), 0);
        assert_eq!(length(&mut script) == ms(3.1), capped, "{least}");
    }
}

/// Runs a flow and returns the time and inflight of each acknowledgement.
fn run<P: narrows_cc::bbr_v1::Policy>(path: &Path) -> Vec<(Nanos, Bytes)> {
    let mut flow = Flow::<P>::new(path.clone(), 5, &[]);
    let mut seen = Vec::new();
    flow.run(Nanos::from_secs(4), |_, ack| seen.push((ack.now, ack.inflight)));
    seen
}

/// Flows with round-trip times up to 3 ms behave as BBR, whatever the queue.
#[test]
fn bbq_rtt_up_to_3_ms_behaves_as_bbr() {
    for rtt in [1, 2] {
        let mut path = Path::new(50.0, rtt);
        path.drop_every = Some(97);
        assert!(run::<Capped>(&path) == run::<V1>(&path), "{rtt} ms");
    }
}

/// A capped probe sends at 1.25 times the bandwidth, less the pacing margin, for 3 ms.
#[test]
fn bbq_probe_injects_quarter_of_bandwidth_for_3_ms() {
    // The data in excess of the bandwidth is (0.99 x 1.25 - 1) x bw x L, L = 3 ms, plus or minus a segment at either
    // end. The threshold `theta` = 0 makes every round trip count as queued.
    let path = Path::new(100.0, 40);
    let mut flow = Flow::<Capped>::new(path.clone(), 5, &[("theta", 0.0)]);
    flow.run_for(Nanos::from_secs(2));
    let (mut last, mut at_start, mut probes) = (flow.cc.model().state(), None, 0);
    flow.run(Nanos::from_secs(8), |flow, ack| {
        let state = flow.cc.model().state();
        match (last, state) {
            (State::ProbeBw { phase: 7, .. }, State::ProbeBw { phase: 0, .. }) => {
                at_start = Some((ack.now, flow.sent));
            }
            (State::ProbeBw { phase: 0, .. }, State::ProbeBw { phase: 1, .. }) => {
                if let Some((began, sent)) = at_start.take() {
                    let length = flow.now - began;
                    let sent = (MSS * (flow.sent - sent)).as_f64();
                    let fair = path.rate.over(length).as_f64();
                    if length < ms(10.0) {
                        let excess = path.rate.mul_f64(0.99 * 1.25 - 1.0).over(ms(3.0)).as_f64();
                        assert!(length > ms(3.0) && length < ms(3.5), "{length:?}");
                        assert!((sent - fair - excess).abs() <= 2.0 * MSS.as_f64(), "{sent} {fair} {excess}");
                        probes += 1;
                    }
                }
            }
            _ => {}
        }
        last = state;
    });
    assert!(probes >= 5, "{probes}");
}

/// Whether a probe is capped is decided when the probe begins; the draining phase is that of BBR.
#[test]
fn bbq_cap_is_decided_at_probe_start() {
    let mut script = probing(80.0, &[]);
    assert_eq!(length(&mut script), ms(3.1));
    assert_eq!(script.phase_of_cycle(), 1);
    // The draining phase lasts until inflight falls to the BDP, but at most one min_rtt of 40 ms.
    let began = script.now;
    script.repeat_until(
        |script| script.phase_of_cycle() != 1,
        |script| {
            script.change_within_round(ms(0.5), 1, 0, |ack| ack.inflight_before = Bytes::new(800_000));
        },
    );
    assert_eq!(script.now - began, ms(40.5));
    assert_eq!(script.cc.model().min_rtt(), Some(ms(40.0)));
}

/// The cap applies to application-limited senders that see a queue.
#[test]
fn bbq_app_limited_sender_is_capped_too() {
    let mut script = probing(80.0, &[]);
    script.app_limited = true;
    script.inflight = MSS * 10;
    assert_eq!(length(&mut script), ms(3.1));
}
