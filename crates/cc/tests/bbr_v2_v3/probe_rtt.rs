//! Round-trip filters, PROBE_RTT and restart from idle.

use narrows_cc::bbr_v2_v3::State;
use narrows_cc::{Bytes, CongestionControl, Nanos, Value};

use crate::bbr_v2_v3::script::{BDP, MOMENT, MSS, RTT, Script, V3, assert_rate, paced, segments};

fn in_probe_rtt(script: &Script<V3>) -> bool {
    matches!(script.state(), State::ProbeRtt { .. })
}

/// A flow in PROBE_BW, exactly five seconds after its first RTT sample; no later sample was lower.
fn aged() -> Script<V3> {
    let mut script = Script::<V3>::in_cruise(&[("probe_wait", 1e4), ("probe_rounds", 1e6), ("extra_acked", 0.0)]);
    script.rtt = Nanos::from_millis(45);
    while script.now <= RTT + Nanos::from_secs(5) - RTT * 2 {
        script.round(500);
    }
    let left = RTT + Nanos::from_secs(5) - script.now;
    script.within(left, 1);
    assert!(!in_probe_rtt(&script), "at exactly five seconds it has not expired");
    script
}

/// PROBE_RTT starts when the minimum round-trip time is five seconds old.
#[test]
fn probe_rtt_starts_when_minimum_is_five_seconds_old() {
    let mut script = aged();
    script.within(Nanos::from_nanos(1), 1);
    assert!(in_probe_rtt(&script));
    assert_rate(script.cc.control().pacing_rate.unwrap(), paced(1.0));
    assert_eq!(script.cc.model().min_rtt(), Some(RTT), "the longer filter keeps the BDP");
    assert_eq!(script.cc.model().probe_rtt_cwnd(), BDP / 2);
    assert_eq!(script.cwnd(), BDP / 2);
}

/// A lower sample delays PROBE_RTT; an equal sample does not.
#[test]
fn probe_rtt_is_delayed_by_lower_but_not_equal_sample() {
    for (rtt, probes) in [(Nanos::from_micros(39_999), false), (RTT, true)] {
        let mut script = aged();
        script.rtt = rtt;
        script.within(Nanos::ZERO, 1);
        script.rtt = Nanos::from_millis(45);
        script.within(MOMENT, 1);
        assert_eq!(in_probe_rtt(&script), probes, "{rtt:?}");
    }
}

/// PROBE_RTT lasts until 200 ms and a round have passed since inflight fell to half the BDP; PROBE_CRUISE follows.
#[test]
fn probe_rtt_lasts_200_ms_and_a_round_at_half_the_bdp() {
    let mut script = aged();
    let window = script.cwnd();
    script.within_at(BDP);
    assert!(in_probe_rtt(&script));
    script.lose(1, BDP, 1);
    for _ in 0..20 {
        script.round(10); // inflight does not fall, so the clock of PROBE_RTT does not start
    }
    assert!(in_probe_rtt(&script));
    assert!(script.cc.model().bw_short().is_some());
    script.within_at(BDP / 2);
    let began = script.now;
    script.within(Nanos::from_millis(200), 1);
    script.within(MOMENT, 1);
    assert!(in_probe_rtt(&script), "no round has passed");
    script.round(10);
    assert_eq!(script.state(), State::Cruise);
    assert!(script.now - began > Nanos::from_millis(200));
    assert_eq!(script.cc.model().bw_short(), None, "the short-term model is reset");
    assert_eq!(script.cwnd(), window, "the window is back");
    assert!(!in_probe_rtt(&script));
    let left = script.now + Nanos::from_secs(5);
    while script.now < left - RTT * 2 {
        script.round(500);
        assert!(!in_probe_rtt(&script), "five seconds from its end");
    }
}

/// PROBE_RTT returns to STARTUP if the pipe was never full.
#[test]
fn probe_rtt_before_full_pipe_returns_to_startup() {
    let mut script = Script::<V3>::new(&[]);
    script.app_limited = true;
    script.rtt = Nanos::from_millis(45);
    script.rounds_until(10, in_probe_rtt);
    script.within_at(Bytes::ZERO);
    script.within(Nanos::from_millis(201), 1);
    script.round(10);
    assert_eq!(script.state(), State::Startup);
}

/// Samples in PROBE_RTT leave the bandwidth estimate unchanged.
#[test]
fn probe_rtt_samples_leave_the_bandwidth_unchanged() {
    let mut script = aged();
    script.within(MOMENT, 1);
    script.inflight = BDP / 2;
    script.rate = script.rate.mul_f64(0.5);
    script.rounds(3, 100);
    assert_eq!(script.cc.model().max_bw(), script.rate * 2);
}

/// After ten seconds without a lower sample, min_rtt becomes the minimum of the last five seconds.
#[test]
fn min_rtt_after_ten_seconds_becomes_probe_rtt_min() {
    let mut script =
        Script::<V3>::in_cruise(&[("probe_rtt_duration", 0.0), ("probe_wait", 1e4), ("probe_rounds", 1e6)]);
    script.rtt = Nanos::from_millis(60);
    let seen = RTT;
    while script.now + script.rtt < seen + Nanos::from_secs(10) {
        script.round(100);
        assert_eq!(script.cc.model().min_rtt(), Some(RTT));
    }
    script.round(100);
    script.round(100);
    assert_eq!(script.cc.model().min_rtt(), Some(Nanos::from_millis(60)));
}

/// After a restart from idle the pacing rate is the bandwidth, and PROBE_RTT is skipped once.
#[test]
fn idle_restart_paces_at_bandwidth_and_skips_probe_rtt() {
    let mut script = Script::<V3>::in_up(&[]);
    assert_rate(script.cc.control().pacing_rate.unwrap(), paced(1.25));
    script.inflight = Bytes::ZERO;
    script.restart_from_idle(Nanos::from_secs(6), true);
    assert_rate(script.cc.control().pacing_rate.unwrap(), paced(1.0));
    assert_eq!(script.telemetry("idle_restart"), Some(Value::Number(1.0)));
    script.rtt = Nanos::from_millis(45);
    script.within(RTT, 10);
    assert!(!in_probe_rtt(&script), "nothing was in flight: no need to drain");
    assert_eq!(script.telemetry("idle_restart"), Some(Value::Number(0.0)));
    assert_eq!(script.cc.model().min_rtt(), Some(RTT), "the ten-second filter has not expired");
}

/// A pause in sending because cwnd is full does not count as idle time.
#[test]
fn idle_restart_requires_an_app_limited_sender() {
    let mut script = Script::<V3>::in_up(&[]);
    script.restart_from_idle(Nanos::from_secs(1), false);
    assert_eq!(script.telemetry("idle_restart"), Some(Value::Number(0.0)));
}

/// A restart from idle ends PROBE_RTT if the clock of PROBE_RTT has ended.
#[test]
fn idle_restart_in_probe_rtt_may_end_it() {
    let mut script = aged();
    script.within_at(BDP / 2);
    script.within_at(Bytes::ZERO);
    assert!(in_probe_rtt(&script));
    script.restart_from_idle(Nanos::from_secs(1), true);
    assert_eq!(script.state(), State::Cruise);
    assert!(script.cwnd() >= segments(900), "{:?}", script.cwnd());
    assert!(script.cwnd() <= BDP * 2 + MSS);
}
