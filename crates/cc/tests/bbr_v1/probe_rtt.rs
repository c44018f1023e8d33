//! The round-trip filter and PROBE_RTT.

use narrows_cc::bbr_v1::{ProbeRtt, State};
use narrows_cc::{Bytes, CongestionCause, CongestionControl, Nanos, Rate};

use crate::bbr_v1::path::{Flow, MSS, Path, V1};
use crate::bbr_v1::script::Script;

/// After ten seconds without a new minimum RTT, PROBE_RTT keeps inflight at four segments for 200 ms and a round.
#[test]
fn probe_rtt_after_ten_seconds_holds_four_segments() {
    let path = Path::new(20.0, 40);
    let gap = path.rate.time_for(MSS);
    let mut flow = Flow::<V1>::new(path, 1, &[]);
    let (mut last, mut before) = (State::Startup, Bytes::ZERO);
    let (mut entered, mut held, mut round, mut left) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    // The time of the last confirmation of min_rtt: by the handshake, by an equal or lower sample, or by the end of
    // PROBE_RTT.
    let (mut confirmed, mut due) = (Nanos::from_millis(40), Vec::new());
    flow.run(Nanos::from_secs(22), |flow, ack| {
        let model = flow.cc.model();
        let (state, now) = (model.state(), ack.now);
        if state != last {
            match (last, state) {
                (_, State::ProbeRtt(ProbeRtt { until: None, .. })) => {
                    entered.push(now);
                    due.push(confirmed + Nanos::from_secs(10));
                    assert_eq!(model.cwnd(), MSS * 4);
                }
                (State::ProbeRtt { .. }, State::ProbeRtt(ProbeRtt { round_done: false, .. })) => {
                    held.push(now);
                    assert!(ack.inflight <= MSS * 4);
                }
                (_, State::ProbeRtt { .. }) => round.push(now),
                (State::ProbeRtt { .. }, _) => {
                    left.push(now);
                    // cwnd returns to its prior value immediately, plus the data of this acknowledgement.
                    assert!(model.cwnd() >= before && model.cwnd() <= before + MSS, "{before:?}");
                    assert!(model.in_probe_bw());
                }
                _ => {}
            }
            last = state;
        }
        if left.last() == Some(&now) || ack.rtt == model.min_rtt() {
            confirmed = now;
        }
        if !matches!(state, State::ProbeRtt { .. }) {
            before = model.cwnd();
        } else {
            assert!(flow.cc.control().cwnd <= MSS * 4);
        }
    });
    assert_eq!((entered.len(), held.len(), round.len(), left.len()), (2, 2, 2, 2));
    for i in 0..2 {
        assert!(entered[i] > due[i] && entered[i] <= due[i] + gap * 2, "{:?} for {:?}", entered[i], due[i]);
        // The queue drains within the current round trip: 40 ms, plus the delay of a queue of up to a quarter of a BDP.
        assert!(held[i] > entered[i] && held[i] - entered[i] <= Nanos::from_millis(50), "{entered:?} {held:?}");
        // A round trip with four packets and at least 200 ms must follow.
        assert!(round[i] - held[i] >= Nanos::from_millis(40), "{held:?} {round:?}");
        let stay = left[i] - held[i];
        assert!(stay > Nanos::from_millis(200) && stay <= Nanos::from_millis(242), "{stay:?}");
    }
}

/// With a round-trip time above 200 ms PROBE_RTT lasts a whole round.
#[test]
fn probe_rtt_on_long_path_lasts_a_whole_round() {
    let mut flow = Flow::<V1>::new(Path::new(20.0, 400), 1, &[]);
    let (mut held, mut left, mut last) = (None, None, State::Startup);
    flow.run(Nanos::from_secs(13), |flow, ack| {
        let state = flow.cc.model().state();
        match (last, state) {
            (State::ProbeRtt(ProbeRtt { until: None, .. }), State::ProbeRtt(ProbeRtt { until: Some(_), .. })) => {
                held = Some(ack.now)
            }
            (State::ProbeRtt { .. }, State::ProbeBw { .. }) => left = Some(ack.now),
            _ => {}
        }
        last = state;
    });
    let stay = left.unwrap() - held.unwrap();
    assert!(stay >= Nanos::from_millis(400) && stay <= Nanos::from_millis(450), "{stay:?}");
}

/// PROBE_RTT measures the path without its queue.
#[test]
fn probe_rtt_measures_the_path_without_queue() {
    // The handshake measured 40 ms. From 5 s on the path takes 60 ms, which only PROBE_RTT can detect.
    let mut flow = Flow::<V1>::new(Path::new(20.0, 40), 1, &[]);
    flow.run_for(Nanos::from_secs(5));
    flow.path.rtt = Nanos::from_millis(60);
    flow.run(Nanos::from_secs(10), |_, _| {});
    assert_eq!(flow.cc.model().min_rtt(), Some(Nanos::from_millis(40)));
    flow.run(Nanos::from_secs(11), |_, _| {});
    assert_eq!(flow.cc.model().min_rtt(), Some(flow.path.min_rtt()));
}

/// Rate samples in PROBE_RTT do not lower the bandwidth estimate.
#[test]
fn probe_rtt_samples_do_not_lower_the_bandwidth() {
    // PROBE_RTT lasts 200 ms or 20 round trips of 10 ms, twice the length of the bandwidth filter. Its four segments
    // per round trip are only 4.6 Mbit/s.
    let path = Path::new(50.0, 10);
    let rate = path.rate.as_bytes_per_sec() as f64;
    let mut flow = Flow::<V1>::new(path, 1, &[]);
    let mut rounds = 0;
    flow.run(Nanos::from_secs(12), |flow, ack| {
        let model = flow.cc.model();
        let bw = model.bw().as_bytes_per_sec() as f64;
        if ack.now > Nanos::from_secs(1) {
            // Tolerance 1 %: after PROBE_RTT the pacing rate that refreshes the filter is 1 % below the bandwidth.
            assert!(bw >= 0.99 * rate && bw <= rate * 1.0001, "{:?} at {:?}", model.bw(), ack.now);
        }
        rounds += u64::from(matches!(model.state(), State::ProbeRtt { .. }) && model.round_start());
    });
    assert!(rounds > 10, "{rounds}");
}

/// A sample equal to min_rtt renews min_rtt.
#[test]
fn probe_rtt_equal_sample_renews_min_rtt() {
    let mut script = Script::<V1>::in_probe_bw(&[]);
    let run = |script: &mut Script<V1>| {
        script.rounds(250, 10);
    };
    run(&mut script); // 250 samples of 40 ms, each equal to min_rtt
    assert!(script.cc.model().in_probe_bw());
    script.rtt = Nanos::from_nanos(40_000_001);
    run(&mut script); // ends 10 s and 250 ns after the last equal sample
    assert!(matches!(script.state(), State::ProbeRtt { .. }));
    assert_eq!(script.cc.model().min_rtt(), Some(script.rtt));
}

/// A delayed acknowledgement of a single short packet does not replace an expired min_rtt.
#[test]
fn probe_rtt_delayed_ack_does_not_replace_expired_min_rtt() {
    let after_silence = |acked: u64, inflight_when_sent: u64| {
        let mut script = Script::<V1>::in_probe_bw(&[]);
        script.round(10, 0);
        let mut ack = script.next_ack(Nanos::from_secs(11), 0, 0);
        (ack.acked, ack.acked_cumulative) = (Bytes::new(acked), Some(Bytes::new(acked)));
        ack.rate.as_mut().unwrap().delivered = ack.acked + Bytes::new(inflight_when_sent);
        (ack.rtt, ack.delivered) = (Some(Nanos::from_millis(80)), ack.delivered + ack.acked);
        script.cc.on_ack(&ack);
        script.cc.model().min_rtt().unwrap()
    };
    let (old, new) = (Nanos::from_millis(40), Nanos::from_millis(80));
    assert_eq!(after_silence(100, 0), old, "one short packet, alone in its round trip");
    assert_eq!(after_silence(100, 1448), new, "others were delivered in its round trip");
    assert_eq!(after_silence(1448, 0), new, "a full packet");
}

/// A flow in PROBE_RTT, entered 11 s after the last confirmation of min_rtt. The clock of PROBE_RTT is set.
fn in_probe_rtt() -> Script<V1> {
    let mut script = Script::<V1>::in_probe_bw(&[]);
    script.rtt += Nanos::from_millis(1);
    script.round(100, 0);
    script.now += Nanos::from_secs(11);
    script.round(10, 0);
    script.inflight = MSS * 4;
    script.within_round(Nanos::from_millis(30), 10, 0);
    assert!(matches!(script.state(), State::ProbeRtt(ProbeRtt { until: Some(_), .. })), "{:?}", script.state());
    script
}

/// The round trip that PROBE_RTT must last starts when inflight has fallen.
#[test]
fn probe_rtt_round_starts_when_inflight_has_fallen() {
    let mut script = in_probe_rtt();
    let fallen_at = script.delivered;
    for (before, done) in [(1, false), (0, true)] {
        script.change_within_round(Nanos::from_millis(1), 1, 0, |ack| {
            ack.rate.as_mut().unwrap().prior_delivered = fallen_at - Bytes::new(before);
        });
        assert!(matches!(script.state(), State::ProbeRtt(ProbeRtt { round_done, .. }) if round_done == done));
    }
}

/// The next PROBE_RTT starts ten seconds after the last PROBE_RTT ended.
#[test]
fn probe_rtt_repeats_ten_seconds_after_its_end() {
    let mut script = in_probe_rtt();
    script.rtt += Nanos::from_millis(1); // from here on, no sample confirms min_rtt
    script.return_to_probe_bw(4);
    let left = script.now;
    script.now = left + Nanos::from_millis(9_990) - script.rtt;
    script.round(10, 0);
    assert!(script.cc.model().in_probe_bw());
    script.round(10, 0);
    assert!(matches!(script.state(), State::ProbeRtt { .. }));
}

/// Recovery in PROBE_RTT does not replace the cwnd saved before PROBE_RTT.
#[test]
fn probe_rtt_recovery_keeps_the_prior_window() {
    let mut script = in_probe_rtt();
    let window = script.cc.model().prior_cwnd();
    assert!(window > MSS * 100);
    script.enter_recovery(CongestionCause::Loss, 1, 1);
    assert_eq!(script.cc.model().prior_cwnd(), window);
    script.leave_recovery(1);
    script.return_to_probe_bw(4);
    // cwnd also includes the data of the last acknowledgement.
    assert_eq!(script.cc.model().cwnd(), window + MSS * 4);
}

/// A restart from idle ends PROBE_RTT if the minimum duration of PROBE_RTT has passed.
#[test]
fn probe_rtt_idle_restart_ends_it_after_its_time() {
    for (idle_ms, over) in [(199, false), (201, true)] {
        let mut script = in_probe_rtt();
        // PROBE_RTT itself counts as application-limited.
        script.restart_from_idle(Nanos::from_millis(idle_ms), false);
        assert_eq!(script.cc.model().in_probe_bw(), over, "{idle_ms} ms");
    }
}

/// PROBE_RTT before the pipe is full returns to STARTUP.
#[test]
fn probe_rtt_before_full_pipe_returns_to_startup() {
    let mut script = Script::<V1>::new(1, &[]);
    script.app_limited = true; // Startup cannot finish
    script.round(10, 0);
    script.expire_min_rtt(Nanos::from_millis(41), MSS * 4, 10);
    assert!(matches!(script.state(), State::ProbeRtt { .. }));
    script.rounds(6, 4);
    assert_eq!(script.state(), State::Startup);
    assert_eq!(script.cc.model().bw(), Rate::from_mbit_per_sec(100.0));
}

/// A duration of zero disables PROBE_RTT.
#[test]
fn probe_rtt_duration_of_zero_disables_it() {
    let mut flow = Flow::<V1>::new(Path::new(20.0, 40), 1, &[("probe_rtt_duration", 0.0)]);
    flow.run(Nanos::from_secs(25), |flow, _| {
        assert!(!matches!(flow.cc.model().state(), State::ProbeRtt { .. }));
    });
    // min_rtt still expires and rises.
    assert!(flow.cc.model().min_rtt().unwrap() > flow.path.rtt);
}
