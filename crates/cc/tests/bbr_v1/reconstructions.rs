//! Modest BBR, RFBBR and Adaptive-BBR: the control laws of our reconstructions at their limits.

use narrows_cc::schemes::{AdaptiveBbr, ModestBbr, RfBbr};
use narrows_cc::{Bytes, CongestionControl, Nanos, Sent, record};

use crate::bbr_v1::path::{Core, MSS};
use crate::bbr_v1::script::{Script, TICK, near, quantised};

type Modest = <ModestBbr as Core>::Policy;
type ByQueue = <RfBbr as Core>::Policy;
type Adaptive = <AdaptiveBbr as Core>::Policy;

const BDP: f64 = 500_000.0;

/// Sends `fresh` new segments and `repeated` retransmissions.
fn send(script: &mut Script<Modest>, fresh: u64, repeated: u64) {
    for n in 0..fresh + repeated {
        let (now, inflight) = (script.now, script.inflight);
        script.cc.on_sent(&record!(Sent { now, bytes: MSS, inflight, retransmission: n >= fresh }));
    }
}

/// Asserts the ratio of the pacing rate to BBRv1's pacing rate in a phase of gain 1.
#[track_caller]
fn assert_share(script: &Script<Modest>, expected: f64) {
    assert!(near(script.paced_gain(), expected), "{} is not {expected}", script.paced_gain());
}

/// Modest BBR uses less bandwidth after a round with retransmissions.
#[test]
fn modest_bbr_round_with_retransmissions_lowers_bandwidth() {
    let mut script = Script::<Modest>::in_phase(2, &[]);
    assert_share(&script, 1.0);
    send(&mut script, 90, 10);
    // Within the round the share of the bandwidth stays unchanged.
    script.within_round(TICK, 1, 0);
    assert_share(&script, 1.0);
    // At the end of the round, which has 10 % retransmissions, the factor becomes 1 − 0.1 / 2.
    script.now -= script.rtt - TICK;
    script.round(1, 0);
    assert_share(&script, 0.95);
    script.acks(10, 100);
    let quantum = script.quantum();
    assert_eq!(script.cwnd(), quantised(0.95 * 2.0 * BDP, quantum, false));
    assert_eq!(
        script.cc.model().inflight_at(script.cc.policy(), 1.0),
        quantised(0.95 * BDP, quantum, false),
        "so do the tests of inflight"
    );
    assert_eq!(script.cc.model().max_bw(), script.rate, "the filter is left alone");
    // Rounds without retransmissions keep the factor; the next round with retransmissions cuts it again.
    send(&mut script, 50, 0);
    script.round(1, 0);
    assert_share(&script, 0.95);
    send(&mut script, 80, 20);
    script.round(1, 0);
    assert_share(&script, 0.95 * 0.9);
    script.round(1, 0); // a round in which nothing was sent
    assert_share(&script, 0.95 * 0.9);
}

/// Modest BBR keeps at least three quarters of the bandwidth and uses all of it again when it probes.
#[test]
fn modest_bbr_keeps_three_quarters_until_next_probe() {
    let mut script = Script::<Modest>::in_phase(2, &[]);
    send(&mut script, 0, 10); // all packets are retransmissions (r = 1): without the floor, the factor would be 0.5
    script.round(1, 0);
    assert_share(&script, 0.75);
    send(&mut script, 90, 10);
    script.round(1, 0);
    assert_share(&script, 0.75);
    script.reach_phase(7);
    assert_share(&script, 0.75);
    script.reach_phase(0);
    assert_share(&script, 1.25);
    // A cut in the probing phase remains in force after the phase.
    send(&mut script, 80, 20);
    script.inflight = Bytes::ZERO;
    script.round(1, 0);
    assert_eq!(script.phase_of_cycle(), 0);
    assert_share(&script, 1.25 * 0.9);
    script.reach_phase(2);
    assert_share(&script, 0.9);
}

/// The response and the floor of Modest BBR are parameters.
#[test]
fn modest_bbr_response_and_floor_are_parameters() {
    let mut script = Script::<Modest>::in_phase(2, &[("response", 1.0), ("floor", 0.3)]);
    send(&mut script, 60, 40);
    script.round(1, 0);
    assert_share(&script, 0.6);
    send(&mut script, 60, 40);
    script.round(1, 0);
    assert_share(&script, 0.36);
    send(&mut script, 60, 40);
    script.round(1, 0);
    assert_share(&script, 0.3);
}

/// RFBBR's cwnd after a round trip with these RTT samples in ms; min_rtt is 40 ms, and the maximum RTT is 80 ms.
fn rf_window(samples: &[f64]) -> Bytes {
    let mut script = Script::<ByQueue>::in_phase(2, &[("extra_acked", 0.0)]);
    let to_rtt = |ms: f64| Nanos::from_nanos((ms * 1e6) as u64);
    script.rtt = Nanos::from_millis(80);
    script.within_round(TICK, 1, 0);
    // The first sample begins a round.
    let (first, others) = samples.split_first().unwrap();
    script.rtt = to_rtt(*first);
    let ack = script.next_ack(TICK, 1, 0);
    script.cc.on_ack(&ack);
    for rtt in others {
        script.rtt = to_rtt(*rtt);
        script.within_round(TICK, 1, 0);
    }
    // The previous round is evaluated when the next round begins; the RTT sample that begins the next round does not
    // count yet.
    script.rtt = Nanos::from_millis(40);
    let ack = script.next_ack(TICK, 1, 0);
    script.cc.on_ack(&ack);
    script.acks(10, 100);
    assert_eq!(script.phase_of_cycle(), 2);
    script.cwnd()
}

/// RFBBR's cwnd gain follows the queue that has persisted for a whole round.
#[test]
fn rfbbr_window_gain_follows_standing_queue() {
    let window = |gain: f64| quantised(gain * BDP, 8, false);
    // f = (s − 40) / 40 is 0.1 at 44 ms and 0.9 at 76 ms.
    for (s, gain) in [(40.0, 2.0), (44.0, 2.0), (44.001, 1.5), (75.999, 1.5), (76.0, 1.0), (80.0, 1.0)] {
        assert_eq!(rf_window(&[s]), window(gain), "{s} ms");
    }
    assert_eq!(rf_window(&[80.0, 79.0, 60.0, 80.0]), window(1.5), "the least sample counts");
    assert_eq!(rf_window(&[80.0, 40.0]), window(2.0), "a queue that drained within the round does not count");
    assert_eq!(rf_window(&[160.0, 90.0]), window(1.5), "the maximum may grow: (90 − 40) / 120");
}

/// RFBBR keeps a cwnd of two BDPs until it observes a queue.
#[test]
fn rfbbr_without_queue_keeps_two_bdp() {
    let mut script = Script::<ByQueue>::in_phase(2, &[("extra_acked", 0.0)]);
    script.rounds(20, 100);
    script.reach_phase(2);
    script.within_round(TICK, 100, 0);
    assert_eq!(script.cwnd(), quantised(2.0 * BDP, 8, false));
}

/// Adaptive-BBR's gains of the probing and the draining phase if the RTT is `up_ms` and `down_ms` when these phases
/// start; min_rtt is 40 ms, and the maximum RTT is 80 ms.
fn adaptive_gains(up_ms: u64, down_ms: u64, values: &[(&str, f64)]) -> (f64, f64) {
    let mut script = Script::<Adaptive>::in_phase(2, values);
    script.rtt = Nanos::from_millis(80);
    script.within_round(TICK, 1, 0);
    script.rtt = Nanos::from_millis(40);
    script.reach_phase(7);
    script.rtt = Nanos::from_millis(up_ms);
    script.reach_phase(0);
    let up = script.paced_gain();
    // Samples within the phase do not change its gain.
    script.rtt = Nanos::from_millis(50);
    script.within_round(TICK, 1, 0);
    assert_eq!(script.paced_gain(), up);
    script.rtt = Nanos::from_millis(down_ms);
    script.reach_phase(1);
    let down = script.paced_gain();
    script.rtt = Nanos::from_millis(80);
    script.reach_phase(2);
    assert!(near(script.paced_gain(), 1.0), "cruise is at 1");
    (up, down)
}

/// Adaptive BBR's gains fall with the share of the buffer in use.
#[test]
fn adaptive_bbr_gains_fall_with_buffer_occupancy() {
    let near = |(a, b), (c, d)| near(a, c) && near(b, d);
    for (up, down, expected) in [
        (40, 40, (1.25, 0.75)),
        (60, 60, (1.125, 0.625)),
        (80, 80, (1.0, 0.5)),
        (40, 80, (1.25, 0.5)),
        (80, 40, (1.0, 0.75)),
        (160, 100, (1.0, 0.625)), // the maximum RTT is now 160 ms
    ] {
        let gains = adaptive_gains(up, down, &[]);
        assert!(near(gains, expected), "{up} and {down} ms: {gains:?}");
    }
    // The probing gain is at least 1, and the draining gain is at least 0.1.
    assert!(near(adaptive_gains(80, 80, &[("sensitivity", 1.0)]), (1.0, 0.1)));
    assert!(near(adaptive_gains(80, 80, &[("sensitivity", 0.0)]), (1.25, 0.75)));
}

/// Adaptive BBR has BBR's gains until it observes a queue.
#[test]
fn adaptive_bbr_without_queue_has_bbr_gains() {
    let mut script = Script::<Adaptive>::in_phase(2, &[]);
    script.reach_phase(0);
    assert_eq!(script.cc.control().pacing_rate, Some(script.rate.mul_f64(1.25 * 0.99)));
}
