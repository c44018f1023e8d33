//! Tests of the curve and its regions against points computed by hand.

use super::*;
use crate::testing::{self, Build, MSS, ack, entered, state, timeout};

/// CUBIC with the growth of RFC 9438 and HyStart++.
fn cubic(overrides: &[(&str, f64)]) -> Cubic {
    Cubic::with(&[&[("growth", 1.0), ("hystart", 1.0)], overrides].concat())
}

/// A scheme that has just reduced cwnd after a loss at a cwnd and flight of `segments`; no acknowledgement has
/// followed.
fn reduced(segments: f64, overrides: &[(&str, f64)]) -> Cubic {
    let mut scheme = cubic(overrides);
    scheme.curve.cwnd = segments;
    scheme.on_recovery_entered(&entered(CongestionCause::Loss, (segments * MSS as f64) as u64));
    scheme
}

/// Acknowledges one window plus a segment in one ACK, which moves cwnd all the way to its target. Returns cwnd
/// in segments.
fn ack_window(scheme: &mut Cubic, now_s: f64, srtt_s: f64) -> f64 {
    let now = Nanos::from_secs_f64(now_s);
    let acked = scheme.cwnd.as_u64() + MSS;
    scheme.on_ack(&Ack { now, srtt: Some(Nanos::from_secs_f64(srtt_s)), ..ack(acked) });
    scheme.curve.cwnd
}

#[track_caller]
fn near(value: f64, expected: f64) {
    assert!((value - expected).abs() < 1e-6, "{value} is not {expected}");
}

/// The window follows the cubic curve at points computed by hand.
#[test]
fn cubic_window_follows_curve_computed_by_hand() {
    // W_max = 100, W_epoch = 70: K = cbrt(30 / 0.4) = cbrt(75) = 4.217163326508746 s, W(t) = 0.4 (t - K)^3 +
    // 100.
    let mut scheme = reduced(100.0, &[]);
    near(scheme.curve.cwnd, 70.0);
    ack_window(&mut scheme, 0.0, 0.0);
    near(scheme.curve.epoch.unwrap().k, 4.217163326508746);
    near(ack_window(&mut scheme, 1.0, 0.0), 86.680763835130);
    assert_eq!(state(&scheme), "concave");
    near(ack_window(&mut scheme, 2.0, 0.0), 95.640335686639);
    near(ack_window(&mut scheme, 4.217163326508746, 0.0), 100.0);
    near(ack_window(&mut scheme, 6.0, 0.0), 102.266703256464);
    assert_eq!(state(&scheme), "convex");
    // The target is the value of the curve one round trip ahead.
    near(ack_window(&mut scheme, 6.5, 0.5), 108.620315189868);
}

/// The window approaches the target in proportion to the acknowledged data.
#[test]
fn cubic_window_approaches_target_proportionally() {
    let mut scheme = reduced(100.0, &[]);
    ack_window(&mut scheme, 0.0, 0.0);
    let before = scheme.curve.cwnd;
    scheme.on_ack(&Ack { now: Nanos::from_secs(1), ..ack(2 * MSS) });
    near(scheme.curve.cwnd, before + 2.0 * (86.680763835130 - before) / before);
}

/// The target is at most 1.5 times the window.
#[test]
fn cubic_target_is_at_most_1_5_windows() {
    let mut scheme = reduced(100.0, &[]);
    let before = ack_window(&mut scheme, 0.0, 0.0);
    near(ack_window(&mut scheme, 1000.0, 0.1), 1.5 * before);
}

/// If the window at a loss is below the old W_max, fast convergence sets W_max to 0.85 of that window.
#[test]
fn cubic_fast_convergence_lowers_maximum_to_0_85() {
    for (overrides, expected) in [(&[][..], 68.0), (&[("fast_convergence", 0.0)][..], 80.0)] {
        let mut scheme = reduced(100.0, overrides);
        scheme.curve.cwnd = 80.0;
        scheme.on_recovery_entered(&entered(CongestionCause::Loss, 80 * MSS));
        near(scheme.curve.w_max, expected);
        near(scheme.curve.cwnd, 56.0);
    }
    let mut grown = reduced(100.0, &[]);
    grown.curve.cwnd = 100.0;
    grown.on_recovery_entered(&entered(CongestionCause::Loss, 100 * MSS));
    near(grown.curve.w_max, 100.0);
}

/// Reno-friendly growth is 0.529 segments per round trip up to the window before the reduction, and 1 segment beyond.
#[test]
fn cubic_reno_friendly_growth_is_0_529_then_1_per_rtt() {
    // C = 0.001: K = cbrt(30 / 0.001) = 31 s, so in 10 ms the curve rises by at most 3 C K^2 / 100 = 0.03
    // segments.
    let mut scheme = reduced(100.0, &[("c", 0.001)]);
    let alpha = 3.0 * 0.3 / 1.7;
    let rounds_to_prior = 57; // 70 + 57 alpha = 100.18: after 57 rounds the window first reaches 100
    for round in 1..=rounds_to_prior {
        let window = ack_window(&mut scheme, f64::from(round) * 0.01, 0.01);
        near(window, 70.0 + f64::from(round) * alpha);
        assert_eq!(state(&scheme), "reno_friendly");
    }
    let reached = scheme.curve.cwnd;
    near(ack_window(&mut scheme, 0.58, 0.01), reached + 1.0);
    near(ack_window(&mut scheme, 0.59, 0.01), reached + 2.0);
}

/// Application-limited time does not advance the curve.
#[test]
fn cubic_app_limited_time_does_not_count() {
    let mut scheme = reduced(100.0, &[]);
    ack_window(&mut scheme, 10.0, 0.0);
    for ms in [10_500, 11_000, 25_000] {
        scheme.on_ack(&Ack { now: Nanos::from_millis(ms), cwnd_limited: false, ..ack(MSS) });
    }
    scheme.on_idle_restart(&IdleRestart { now: Nanos::from_secs(28), ..testing::idle(3_000, 5_000) });
    near(ack_window(&mut scheme, 29.0, 0.0), 86.680763835130); // W(1)
}

/// After a timeout the curve starts flat at ssthresh.
#[test]
fn cubic_after_timeout_curve_starts_flat_at_ssthresh() {
    let mut scheme = reduced(100.0, &[]);
    scheme.on_timeout(&timeout(60 * MSS, 1));
    scheme.on_timeout(&timeout(MSS, 2));
    assert_eq!((scheme.cwnd, scheme.curve.ssthresh), (Bytes::new(MSS), 42.0));
    scheme.on_ack(&Ack { phase: Phase::Loss, ..ack(41 * MSS) });
    near(scheme.curve.cwnd, 42.0);
    ack_window(&mut scheme, 5.0, 0.0);
    let epoch = scheme.curve.epoch.unwrap();
    near(epoch.k, 0.0);
    near(scheme.curve.w_max, 42.0);
    // W(3) = 42 + 0.4 * 27 = 52.8 is below the limit of 1.5 windows; W(10) = 42 + 0.4 * 1000 would exceed it.
    near(ack_window(&mut scheme, 8.0, 0.0), 52.8);
}

/// With ABE a mark keeps 0.85 of the window, down to one segment.
#[test]
fn cubic_ecn_mark_with_abe_keeps_0_85_of_window() {
    let mut scheme = cubic(&[("abe", 1.0)]);
    scheme.curve.cwnd = 100.0;
    scheme.on_recovery_entered(&entered(CongestionCause::Ecn, 100 * MSS));
    near(scheme.curve.cwnd, 85.0);
    let mut small = cubic(&[]);
    small.curve.cwnd = 2.0;
    small.on_recovery_entered(&entered(CongestionCause::Ecn, 2 * MSS));
    near(small.curve.cwnd, 1.4);
    small.on_recovery_entered(&entered(CongestionCause::Ecn, MSS));
    near(small.curve.cwnd, 1.0);
    near(small.curve.ssthresh, 2.0);
}

/// After the undo of a spurious reduction, cwnd grows as if there had been none.
#[test]
fn cubic_spurious_reduction_is_undone() {
    let mut disturbed = reduced(100.0, &[]);
    ack_window(&mut disturbed, 0.0, 0.1);
    let mut calm = disturbed.clone();
    disturbed.on_recovery_entered(&entered(CongestionCause::Loss, 70 * MSS));
    assert!(disturbed.cwnd < calm.cwnd);
    disturbed.on_spurious_loss(&testing::spurious(Phase::Recovery));
    for now in [1.0, 2.0, 5.0, 9.0] {
        assert_eq!(ack_window(&mut disturbed, now, 0.1), ack_window(&mut calm, now, 0.1));
    }
}

/// The undo of a reduction keeps a window that has grown beyond the window before the reduction.
#[test]
fn cubic_undo_keeps_window_grown_beyond_prior() {
    let mut scheme = reduced(10.0, &[]);
    scheme.curve.cwnd = 20.0;
    scheme.on_spurious_loss(&testing::spurious(Phase::Recovery));
    near(scheme.curve.cwnd, 20.0);
}

/// Growing delay ends the first slow start, and the curve starts flat at the cwnd reached.
#[test]
fn cubic_hystart_ends_slow_start_with_flat_curve() {
    let mut scheme = cubic(&[]);
    let mut now = Nanos::ZERO;
    let mut feed = |scheme: &mut Cubic, rounds: u64, ms: u64| {
        for i in 0..rounds * 8 {
            now += Nanos::from_millis(1);
            let rtt = Some(Nanos::from_millis(ms));
            scheme.on_ack(&Ack { now, rtt, round_start: i % 8 == 0, ..ack(MSS) });
        }
    };
    feed(&mut scheme, 1, 40);
    near(scheme.curve.cwnd, 18.0);
    feed(&mut scheme, 1, 50); // the eighth sample finds the delay grown by more than 5 ms
    near(scheme.curve.cwnd, 26.0);
    feed(&mut scheme, 4, 50); // conservative slow start: a quarter of the growth
    near(scheme.curve.cwnd, 34.0);
    assert_eq!((state(&scheme), scheme.curve.ssthresh), ("conservative_slow_start", f64::INFINITY));
    scheme.on_ack(&Ack { now: Nanos::from_millis(49), round_start: true, ..ack(MSS) });
    near(scheme.curve.ssthresh, 34.25);
    ack_window(&mut scheme, 1.0, 0.0);
    near(scheme.curve.epoch.unwrap().k, 0.0);
    near(ack_window(&mut scheme, 3.0, 0.0), 34.25 + 0.4 * 8.0);
}

/// The first cwnd equals the initial window to the byte, although cwnd is kept in segments.
#[test]
fn cubic_first_window_is_initial_window_to_the_byte() {
    for mss in [1, 536, 1448, 8948] {
        let setup = testing::setup(&Cubic::INFO, mss, &[]);
        assert_eq!(Cubic::new(&setup).control().cwnd, Bytes::new(10 * mss));
    }
}

/// With Linux's growth, W_max and the distance of the curve from W_max are truncated to whole segments.
#[test]
fn cubic_linux_distance_from_maximum_is_whole_segments() {
    // W_max = 100, W_epoch = 70: K = 4.217 s. At 3 s the curve is 0.4 * 1.217^3 = 0.72 segments below W_max, truncated
    // to 0, so Linux's target is 100, not 99. At 6 s the curve is 2.27 segments above W_max, so the target is 102.
    let mut scheme = Cubic::with(&[]);
    scheme.curve.cwnd = 100.0;
    scheme.on_recovery_entered(&entered(CongestionCause::Loss, 100 * MSS));
    let epoch = scheme.curve.begin_epoch(Nanos::ZERO, 0.4);
    for (t, target) in [(0.0, 70.0), (1.0, 87.0), (3.0, 100.0), (5.0, 100.0), (6.0, 102.0)] {
        near(scheme.curve.w_cubic_whole(0.4, epoch.k, t), target);
    }
    // cwnd follows the target of 100: 3 s into the curve, a cwnd of 81 segments grows by one segment per 81 / (100 -
    // 81) = 4 acknowledged segments.
    scheme.curve.epoch = Some(epoch);
    scheme.curve.cwnd = 81.0;
    scheme.growth.reset();
    scheme.on_ack(&Ack { now: Nanos::from_secs(3), min_rtt: Some(Nanos::ZERO), ..ack(24 * MSS) });
    near(scheme.curve.cwnd, 87.0);

    // Fast convergence: W_max = 77 * 0.85 = 65.45, truncated to 65.
    scheme.curve.cwnd = 77.0;
    scheme.on_recovery_entered(&entered(CongestionCause::Loss, 77 * MSS));
    near(scheme.curve.w_max, 65.0);
    near(scheme.curve.cwnd, 53.0);
}
