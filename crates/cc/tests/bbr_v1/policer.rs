//! The long-term bandwidth estimator.

use narrows_cc::bbr_v1::State;
use narrows_cc::{Bytes, Nanos, Rate};

use crate::bbr_v1::path::{Flow, MSS, Path, V1};
use crate::bbr_v1::script::{Script, TICK};

/// Runs a sampling interval of `rounds` round trips of 40 ms with 100 segments delivered per round; the last
/// round loses `lost` segments.
fn interval(script: &mut Script<V1>, rounds: usize, lost: u64) {
    script.rounds(rounds - 1, 100);
    script.round(100, lost);
}

/// A flow in PROBE_BW after a loss that has begun a sampling interval.
fn sampling() -> Script<V1> {
    let mut script = Script::<V1>::in_probe_bw(&[]);
    script.round(100, 1);
    script
}

/// Two intervals with a fifth of the packets lost and equal rates indicate a policer, whose rate is used for 48 rounds.
#[test]
fn policer_two_lossy_intervals_of_equal_rate_hold_48_rounds() {
    let mut script = sampling();
    // The loss that begins sampling also begins a round: the first interval consists of this round and three more
    // rounds.
    interval(&mut script, 3, 60);
    assert_eq!(script.cc.model().policed(), None);
    interval(&mut script, 4, 79);
    // 300 segments in 3 x 40 ms, then 400 segments in 4 x 40 ms: both rates, and so their mean, are 3.62 MB/s.
    let rate = (MSS * 400).per(Nanos::from_millis(160));
    assert_eq!(script.cc.model().policed(), Some(rate));
    assert_eq!(script.cc.model().bw(), rate);
    assert_eq!(script.cc.model().max_bw(), script.rate);
    for _ in 0..47 {
        assert!(script.cc.model().in_probe_bw());
        assert_eq!(script.cc.model().pacing_rate(), rate.mul_f64(0.99), "no probing behind a policer");
        script.round(100, 0);
    }
    assert_eq!(script.cc.model().policed(), Some(rate));
    script.round(100, 0);
    assert_eq!(script.cc.model().policed(), None);
    // The cycle restarts as after DRAIN, and the pacing rate follows the gain of the state.
    assert!(matches!(script.state(), State::ProbeBw { since, .. } if since == script.now));
    let gain = script.cc.model().settings().probe_gain(script.phase_of_cycle());
    assert_eq!(script.cc.model().pacing_rate(), script.rate.mul_f64(gain * 0.99));
}

/// The loss threshold is 50/256 of the delivered packets.
#[test]
fn policer_loss_threshold_is_50_of_256() {
    let two = |first, second| {
        let mut script = sampling();
        interval(&mut script, 3, first);
        interval(&mut script, 4, second);
        script.cc.model().policed().is_some()
    };
    // With 300 segments delivered, 58 lost segments are 19.3 %, below 50/256 = 19.53 %. With 400 segments delivered, 79
    // lost segments exceed the threshold.
    assert!(!two(58, 58));
    assert!(!two(59, 78));
    assert!(two(59, 79));
}

/// The rates of both intervals must agree within an eighth.
#[test]
fn policer_rates_must_agree_within_an_eighth() {
    let second_at = |per_mille: u64| {
        let mut script = sampling();
        script.rtt = Nanos::from_millis(40);
        interval(&mut script, 3, 100);
        // Delivering the same data in a different time gives rates in the ratio `per_mille` / 1000.
        script.rtt = Nanos::from_nanos(40_000_000 * 1000 / per_mille);
        interval(&mut script, 4, 100);
        script.cc.model().policed().is_some()
    };
    assert!(second_at(1000));
    assert!(second_at(1124) && second_at(876));
    assert!(!second_at(1126) && !second_at(874));
}

/// Very low rates agree within 4 kbit/s.
#[test]
fn policer_low_rates_agree_within_4_kbit_s() {
    let second_after = |rtt_ms: u64| {
        let mut script = Script::<V1>::in_probe_bw(&[]);
        script.rtt = Nanos::from_millis(1000);
        script.round(1, 1);
        // One segment per second is 11.6 kbit/s.
        for _ in 0..3 {
            script.round(1, 1);
        }
        script.rtt = Nanos::from_millis(rtt_ms);
        for _ in 0..4 {
            script.round(1, 1);
        }
        script.cc.model().policed().is_some()
    };
    assert!(second_after(1500), "7.7 kbit/s: 3.9 less");
    assert!(!second_after(1550), "7.5 kbit/s: 4.1 less");
}

/// An interval lasts at least a millisecond.
#[test]
fn policer_interval_lasts_at_least_a_millisecond() {
    let mut script = Script::<V1>::in_probe_bw(&[]);
    script.rtt = Nanos::from_micros(100);
    script.round(100, 1);
    // 13 rounds of 0.1 ms: the first interval ends after ten rounds; the second interval is incomplete.
    for _ in 0..13 {
        script.round(100, 50);
    }
    assert_eq!(script.cc.model().policed(), None);
    for _ in 0..7 {
        script.round(100, 50);
    }
    assert!(script.cc.model().policed().is_some());
}

/// Intervals that are too short, too long or application-limited do not count.
#[test]
fn policer_short_long_or_app_limited_interval_is_ignored() {
    // Heavy loss in the first three rounds does not end the interval.
    let mut script = sampling();
    for _ in 0..2 {
        interval(&mut script, 1, 100);
    }
    assert_eq!(script.cc.model().policed(), None);
    // An interval of more than 16 rounds restarts the detection: two more intervals are needed.
    let mut script = sampling();
    interval(&mut script, 3, 100);
    script.rounds(17, 100);
    script.round(100, 1);
    interval(&mut script, 3, 100);
    assert_eq!(script.cc.model().policed(), None);
    interval(&mut script, 4, 100);
    assert!(script.cc.model().policed().is_some());
    // An application-limited sample also restarts the detection.
    let mut script = sampling();
    interval(&mut script, 3, 100);
    script.app_limited = true;
    script.round(100, 0);
    script.app_limited = false;
    interval(&mut script, 4, 100);
    assert_eq!(script.cc.model().policed(), None);
}

/// A timeout counts as a loss at the end of a round.
#[test]
fn policer_timeout_counts_as_loss_at_round_end() {
    let mut script = sampling();
    interval(&mut script, 3, 100);
    interval(&mut script, 3, 100);
    script.within_round(TICK, 1, 0);
    assert_eq!(script.cc.model().policed(), None, "only three rounds");
    script.inflight = Bytes::ZERO;
    script.report_timeout(1);
    assert!(script.cc.model().policed().is_some());
    // Spurious losses reset the detection.
    script.report_spurious_loss();
    assert_eq!(script.cc.model().policed(), None);
}

/// The parameter `lt_bw` disables the detection.
#[test]
fn policer_detection_can_be_disabled() {
    let mut script = Script::<V1>::in_probe_bw(&[("lt_bw", 0.0)]);
    script.round(100, 1);
    interval(&mut script, 3, 100);
    interval(&mut script, 4, 100);
    assert_eq!(script.cc.model().policed(), None);
}

/// Behind a policer, the detection finds the policer's rate and ends the losses.
#[test]
fn policer_detection_finds_rate_and_ends_losses() {
    // A burst of 200 kB passes at 100 Mbit/s; then all packets above 10 Mbit/s are dropped. The bandwidth
    // filter keeps the burst for ten rounds, enough for two intervals of four.
    let mut path = Path::new(100.0, 40);
    path.policer = Some((Rate::from_mbit_per_sec(10.0), Bytes::new(200_000)));
    let mut flow = Flow::<V1>::new(path, 1, &[]);
    let (mut rounds, mut since, mut lost) = (0, None, Vec::new());
    flow.run(Nanos::from_secs(20), |flow, ack| {
        let model = flow.cc.model();
        if let Some(rate) = model.policed() {
            // Two intervals may differ by an eighth.
            assert!((rate.as_mbit_per_sec() / 10.0 - 1.0).abs() < 0.125, "{rate:?}");
            let since = *since.get_or_insert(ack.now);
            rounds += u64::from(model.round_start() && ack.now > since);
            if ack.now > since + Nanos::from_millis(200) && !ack.lost.is_zero() {
                lost.push(ack.now);
            }
        }
    });
    assert_eq!(rounds, 47, "the 48th ends it");
    // Packets sent before the detection are lost for some round trips; later packets are not lost.
    assert!(lost.is_empty(), "{lost:?}");
}
