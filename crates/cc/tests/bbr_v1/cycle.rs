//! The gain cycle of PROBE_BW.

use narrows_cc::bbr_v1::{CYCLE_PHASES, State};
use narrows_cc::{Ack, Bytes, CongestionControl, Nanos, Rate, record};

use crate::bbr_v1::path::{Flow, MSS, Path, V1};
use crate::bbr_v1::script::{Script, TICK, quantised};

/// A completed phase: its number, its length, and inflight before the acknowledgement that ended the phase.
#[derive(Clone, Copy, Debug)]
struct Ran {
    phase: u8,
    length: Nanos,
    inflight: Bytes,
    lost: Bytes,
}

fn phases(path: Path, from: Nanos, until: Nanos) -> Vec<Ran> {
    let mut flow = Flow::<V1>::new(path, 7, &[]);
    flow.run(from, |_, _| {});
    let (mut ran, mut last) = (Vec::new(), flow.cc.model().state());
    flow.run(until, |flow, ack| {
        let state = flow.cc.model().state();
        if let (State::ProbeBw { phase, since }, State::ProbeBw { since: now, .. }) = (last, state)
            && since != now
        {
            ran.push(Ran { phase, length: now - since, inflight: ack.inflight_before, lost: ack.lost });
        }
        last = state;
    });
    ran.split_off(1)
}

/// The gain cycle has eight phases of one min_rtt each.
#[test]
fn probe_bw_cycle_has_eight_phases_of_one_min_rtt() {
    let path = Path::new(20.0, 40);
    // The handshake measured 40 ms with an empty queue. Acknowledgements arrive every 0.58 ms; a phase ends with the
    // first acknowledgement after more than 40 ms.
    let (min_rtt, gap) = (path.rtt, path.rate.time_for(MSS));
    let ran = phases(path, Nanos::from_secs(2), Nanos::from_secs(9));
    assert!(ran.len() > 150, "{}", ran.len());
    for pair in ran.windows(2) {
        assert_eq!(pair[1].phase, (pair[0].phase + 1) % CYCLE_PHASES);
    }
    for phase in ran.iter().filter(|ran| ran.phase >= 2) {
        assert!(phase.length > min_rtt && phase.length <= min_rtt + gap * 2, "{phase:?}");
    }
    // 125 000 B are 87 segments; 24.5 Mbit/s x 2^-10 s give a quantum of two segments. 87 + 3 x 2 = 93 is rounded up to
    // the even number 94; probing adds two segments: 96.
    let probed = quantised(125_000.0, 2, true);
    assert_eq!(probed, MSS * 96);
    for phase in ran.iter().filter(|ran| ran.phase == 0) {
        assert!(phase.length > min_rtt && phase.inflight >= probed, "{phase:?}");
        // From about 1.05 BDP on, the probe raises inflight by 0.24 BDP per min_rtt. The probe ends at 96 segments in
        // flight, 1.39 BDP, which it reaches within 1.5 min_rtt.
        assert!(phase.length <= min_rtt.mul_f64(1.5), "{phase:?}");
    }
    // Pacing at 0.75 of the bandwidth removes the surplus of the probe in about one min_rtt, so either condition may
    // end the draining phase: the drained queue or the elapsed min_rtt.
    for phase in ran.iter().filter(|ran| ran.phase == 1) {
        let drained = phase.inflight <= quantised(100_000.0, 2, false);
        assert!(drained || phase.length > min_rtt && phase.length <= min_rtt + gap * 2, "{phase:?}");
    }
}

/// Traffic arrives at the bottleneck with the gains of the cycle.
#[test]
fn probe_bw_gains_are_visible_at_the_bottleneck() {
    let path = Path::new(20.0, 40);
    let rate = path.rate;
    let mut flow = Flow::<V1>::new(path, 7, &[]);
    flow.run(Nanos::from_secs(2), |_, _| {});
    // Packets sent per phase, compared with gain x rate x length.
    let (mut last, mut sent, mut checked) = (flow.cc.model().state(), flow.sent, 0);
    let mut whole = false;
    flow.run(Nanos::from_secs(6), |flow, _| {
        let state = flow.cc.model().state();
        if let (State::ProbeBw { phase, since }, State::ProbeBw { since: now, .. }) = (last, state)
            && since != now
        {
            let gain = [1.25, 0.75, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0][usize::from(phase)];
            let expected = rate.mul_f64(0.99 * gain).over(now - since).in_segments(MSS);
            let measured = (flow.sent - sent) as f64;
            // Tolerance: one packet at each end of the phase, and one packet paced at the gain of the preceding phase.
            assert!(!whole || (measured - expected).abs() <= 3.0, "phase {phase}: {measured} for {expected}");
            checked += u64::from(whole);
            (sent, whole) = (flow.sent, true);
        }
        last = state;
    });
    assert!(checked > 80, "{checked}");
}

/// Loss ends the probing phase after one min_rtt if the buffer cannot hold the probe.
#[test]
fn probe_bw_loss_ends_probe_after_one_min_rtt() {
    let mut path = Path::new(20.0, 40);
    path.buffer = Bytes::new(10_000); // a tenth of a BDP: 1.25 BDP never fit
    let min_rtt = path.rtt;
    let ran = phases(path, Nanos::from_secs(2), Nanos::from_secs(9));
    let probes: Vec<_> = ran.iter().filter(|ran| ran.phase == 0).collect();
    assert!(probes.len() > 10);
    for probe in probes {
        assert!(probe.inflight < quantised(125_000.0, 2, true), "{probe:?}");
        assert!(!probe.lost.is_zero() && probe.length > min_rtt, "{probe:?}");
    }
}

/// The probing phase lasts at least one min_rtt, and until inflight reaches its target or a packet is lost.
#[test]
fn probe_bw_probe_lasts_until_inflight_target_or_loss() {
    let up = || {
        let mut script = Script::<V1>::in_phase(0, &[]);
        script.within_round(TICK, 1, 0);
        script
    };
    // 1.25 BDP, 625 000 B, are 432 segments; three quanta of ten segments each (at 15.5 MB/s) add 30 segments, and
    // probing adds two segments.
    let target = quantised(625_000.0, 10, true);
    assert_eq!(target, MSS * 464);
    let end = |script: &mut Script<V1>, after: Nanos, inflight_before: Bytes, lost: u64| {
        let ack = script.next_ack(after, 1, lost);
        script.cc.on_ack(&record!(Ack { inflight_before, ..ack }));
        script.phase_of_cycle()
    };
    let (short, long) = (Nanos::from_millis(39), Nanos::from_millis(40));
    assert_eq!(end(&mut up(), short, target, 0), 0, "not before min_rtt has passed");
    assert_eq!(end(&mut up(), long, target - Bytes::new(1), 0), 0, "not before inflight has reached it");
    assert_eq!(end(&mut up(), long, target, 0), 1);
    assert_eq!(end(&mut up(), long, MSS, 1), 1, "a loss shows that the probe does not fit");
    assert_eq!(end(&mut up(), short, MSS, 1), 0, "a loss does not shorten the phase");
}

/// The draining phase ends when the queue is drained, or after one min_rtt.
#[test]
fn probe_bw_drain_phase_ends_with_queue_or_min_rtt() {
    let down = || Script::<V1>::in_phase(1, &[]);
    // At 9.28 MB/s the quantum is six segments.
    let bdp = quantised(500_000.0, 6, false);
    let end = |script: &mut Script<V1>, after: Nanos, inflight_before: Bytes| {
        let ack = script.next_ack(after, 1, 0);
        script.cc.on_ack(&record!(Ack { inflight_before, ..ack }));
        script.phase_of_cycle()
    };
    let short = Nanos::from_millis(5);
    assert_eq!(end(&mut down(), short, bdp + Bytes::new(1)), 1);
    assert_eq!(end(&mut down(), short, bdp), 2);
    assert_eq!(end(&mut down(), Nanos::from_nanos(40_000_001), Bytes::new(1 << 30)), 2);
}

/// PROBE_BW starts in a random phase, but never in the draining phase.
#[test]
fn probe_bw_starts_in_any_phase_but_the_draining_one() {
    let mut seen = [0_u32; CYCLE_PHASES as usize];
    let runs = 700;
    for seed in 0..runs {
        let mut script = Script::<V1>::new(seed, &[]);
        script.reach_probe_bw();
        seen[usize::from(script.phase_of_cycle())] += 1;
    }
    assert_eq!(seen[1], 0, "{seen:?}");
    // The mean count per phase is 100; its standard deviation is 9.3, so 46 is five standard deviations.
    for (phase, count) in seen.iter().enumerate().filter(|(phase, _)| *phase != 1) {
        assert!(count.abs_diff(100) < 46, "phase {phase}: {seen:?}");
    }
}

/// Application-limited samples raise the bandwidth estimate but never lower it.
#[test]
fn probe_bw_app_limited_samples_never_lower_bandwidth() {
    let mut script = Script::<V1>::in_probe_bw(&[]);
    script.app_limited = true;
    script.rate = Rate::from_mbit_per_sec(30.0);
    script.rounds(30, 100);
    assert_eq!(script.cc.model().bw(), Rate::from_mbit_per_sec(100.0));
    script.rate = Rate::from_mbit_per_sec(110.0);
    script.round(100, 0);
    assert_eq!(script.cc.model().bw(), Rate::from_mbit_per_sec(110.0));
    // Samples that are not application-limited lower the estimate when the maximum is more than ten rounds old.
    script.app_limited = false;
    script.rate = Rate::from_mbit_per_sec(60.0);
    for _ in 0..10 {
        script.round(100, 0);
        assert_eq!(script.cc.model().bw(), Rate::from_mbit_per_sec(110.0));
    }
    script.round(100, 0);
    assert_eq!(script.cc.model().bw(), Rate::from_mbit_per_sec(60.0));
}

/// After a restart from idle PROBE_BW paces at the bandwidth without gain.
#[test]
fn probe_bw_restart_from_idle_paces_without_gain() {
    let restart = |app_limited| {
        let mut script = Script::<V1>::in_phase(0, &[]);
        script.within_round(TICK, 1, 0);
        assert_eq!(script.cc.model().pacing_rate(), script.rate.mul_f64(1.25 * 0.99));
        script.restart_from_idle(Nanos::from_secs(11), app_limited);
        script
    };
    let mut script = restart(true);
    assert_eq!(script.cc.control().pacing_rate, Some(script.rate.mul_f64(0.99)));
    // min_rtt is 11 s old, but PROBE_RTT does not start, because the idle time emptied the pipe.
    script.within_round(script.rtt, 10, 0);
    assert!(script.cc.model().in_probe_bw());
    // The exception holds only once per idle time.
    script.rtt += Nanos::from_millis(1);
    script.within_round(Nanos::from_secs(11), 10, 0);
    assert!(matches!(script.state(), State::ProbeRtt { .. }));
    // If the sender was not application-limited, the pacing rate stays, and the expired filter starts PROBE_RTT.
    let mut script = restart(false);
    assert_eq!(script.cc.control().pacing_rate, Some(script.rate.mul_f64(1.25 * 0.99)));
    script.rtt += Nanos::from_millis(1);
    script.within_round(script.rtt, 10, 0);
    assert!(matches!(script.state(), State::ProbeRtt { .. }));
}
