//! BBR-ACW: the cwnd gain at its limits.

use narrows_cc::schemes::BbrAcw;
use narrows_cc::{Bytes, Rate, Value};

use crate::bbr_v1::path::{Core, MSS};
use crate::bbr_v1::script::{Script, TICK, ms, near, quantised};

type Acw = <BbrAcw as Core>::Policy;

const BDP: f64 = 500_000.0;

/// A flow in PROBE_BW at 100 Mbit/s and 40 ms. All rate samples so far were equal.
fn cruising(values: &[(&str, f64)]) -> Script<Acw> {
    Script::<Acw>::in_phase(3, values)
}

/// Feeds one more acknowledgement with a rate sample in Mbit/s and a round-trip sample in ms.
fn ack(script: &mut Script<Acw>, mbit: f64, rtt: f64) {
    script.rate = Rate::from_mbit_per_sec(mbit);
    script.rtt = ms(rtt);
    script.within_round(TICK, 1, 0);
}

fn gain(script: &Script<Acw>) -> f64 {
    script.number("cwnd_gain")
}

/// If the rate extrema are equal and the queue is empty, the cwnd gain equals BBR's.
#[test]
fn bbr_acw_equal_extrema_without_queue_use_bbr_gain() {
    let script = cruising(&[("extra_acked", 0.0)]);
    assert!(near(gain(&script), 2.0));
    let mut script = script;
    for _ in 0..20 {
        ack(&mut script, 100.0, 40.0);
        script.within_round(TICK, 100, 0);
    }
    assert_eq!(script.cc.model().cwnd(), quantised(2.0 * BDP, 8, false));
}

/// If the rate extrema are equal, the cwnd gain falls as the queue grows.
#[test]
fn bbr_acw_equal_extrema_lower_gain_with_queue() {
    // alpha = 1: h = 1 + 2 (1 - RTT / (RTT + 40)) = 1 + 80 / (RTT + 40).
    for rtt in [40.0, 60.0, 80.0, 120.0, 360.0] {
        let mut script = cruising(&[]);
        ack(&mut script, 100.0, rtt);
        assert!(near(gain(&script), 1.0 + 80.0 / (rtt + 40.0)), "{rtt}: {}", gain(&script));
    }
    // From 2 without a queue, the gain falls to 1 as the queue grows without limit.
    let mut script = cruising(&[]);
    ack(&mut script, 100.0, 1e6);
    assert!(gain(&script) < 1.001);
}

/// The gain follows the position of the rate between its extrema.
#[test]
fn bbr_acw_gain_follows_rate_between_extrema() {
    // The rate extrema are 100 and 60 Mbit/s, and the queue is empty (beta = 1/2): h = 1 + alpha.
    for (rate, alpha) in [(60.0, 1.0), (70.0, 0.75), (80.0, 0.5), (90.0, 0.25), (100.0, 0.0)] {
        let mut script = cruising(&[]);
        ack(&mut script, 60.0, 40.0);
        ack(&mut script, rate, 40.0);
        assert!(near(gain(&script), 1.0 + alpha), "{rate}: {}", gain(&script));
        // At an RTT of twice min_rtt beta is 2/3: h = 1 + 2/3 alpha.
        ack(&mut script, rate, 80.0);
        assert!(near(gain(&script), 1.0 + alpha * 2.0 / 3.0), "{rate}: {}", gain(&script));
    }
}

/// At its maximum rate a flow has a cwnd of one BDP.
#[test]
fn bbr_acw_at_maximum_rate_holds_one_bdp() {
    let mut script = cruising(&[("extra_acked", 0.0)]);
    ack(&mut script, 60.0, 80.0);
    for _ in 0..20 {
        ack(&mut script, 100.0, 80.0);
        script.within_round(TICK, 100, 0);
    }
    assert_eq!(script.cc.model().cwnd(), quantised(BDP, 8, false));
}

/// The minimum rate expires with the bandwidth filter.
#[test]
fn bbr_acw_minimum_rate_expires_with_bandwidth_filter() {
    let mut script = cruising(&[]);
    ack(&mut script, 60.0, 40.0);
    script.rate = Rate::from_mbit_per_sec(90.0);
    for rounds in 1..=12 {
        script.round(1, 0);
        // After ten rounds the samples of 60 and 100 Mbit/s have expired, so the extrema coincide.
        let expected = if rounds <= 10 { 1.0 + 10.0 / 40.0 } else { 2.0 };
        assert!(near(gain(&script), expected), "{rounds}: {}", gain(&script));
    }
}

/// Application-limited samples do not count.
#[test]
fn bbr_acw_ignores_app_limited_samples() {
    let mut script = cruising(&[]);
    script.app_limited = true;
    ack(&mut script, 10.0, 40.0);
    assert!(near(gain(&script), 2.0), "the extrema still coincide");
    script.app_limited = false;
    ack(&mut script, 80.0, 40.0);
    ack(&mut script, 90.0, 40.0);
    assert!(near(gain(&script), 1.5), "90 lies between 80 and 100, not between 10 and 100");
}

/// The weight and the upper limit of the gain are parameters.
#[test]
fn bbr_acw_weight_and_upper_gain_are_parameters() {
    let mut wide = cruising(&[("span", 8.0)]);
    ack(&mut wide, 100.0, 40.0);
    assert!(near(gain(&wide), 2.0), "clamped");
    let mut wide = cruising(&[("span", 8.0), ("cwnd_gain", 10.0)]);
    ack(&mut wide, 100.0, 40.0);
    assert!(near(gain(&wide), 5.0));
    let mut none = cruising(&[("span", 0.0)]);
    ack(&mut none, 60.0, 40.0);
    assert!(near(gain(&none), 1.0));
}

/// STARTUP, DRAIN and PROBE_RTT keep BBR's gains.
#[test]
fn bbr_acw_keeps_gains_outside_probe_bw() {
    let mut script = Script::<Acw>::new(1, &[]);
    script.round(100, 0);
    assert!(near(gain(&script), 2.885));
    script.reach_probe_bw();
    script.expire_min_rtt(ms(41.0), MSS * 4, 1);
    assert!(near(gain(&script), 1.0));
    // The delivery rate in PROBE_RTT does not measure the path.
    ack(&mut script, 1.0, 40.0);
    script.inflight = Bytes::new(500_000);
    assert_eq!(script.telemetry("least_rate"), Some(Value::Rate(Rate::from_mbit_per_sec(100.0))));
}
