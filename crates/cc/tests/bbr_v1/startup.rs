//! STARTUP, full pipe, DRAIN, pacing rate and send quantum.

use narrows_cc::bbr_v1::State;
use narrows_cc::{Bytes, CongestionControl, Nanos, Rate, Scheme};

use crate::bbr_v1::path::{Flow, INITIAL_WINDOW, MSS, Path, V1};
use crate::bbr_v1::script::{Script, TICK, quantised};

const MARGIN: f64 = 0.99;

/// The handshake sets the pacing rate to the STARTUP gain times cwnd / RTT.
#[test]
fn startup_initial_pacing_rate_is_gain_times_window_per_rtt() {
    let script = Script::<V1>::new(1, &[]);
    // 14 480 B in 40 ms are 362 000 B/s.
    let expected = Rate::from_bytes_per_sec(362_000).mul_f64(2.885 * MARGIN);
    assert_eq!(script.cc.control().pacing_rate, Some(expected));
    assert_eq!(script.cwnd(), INITIAL_WINDOW);
    assert_eq!(script.cc.model().delivered_at(), script.now, "time counts from here");
    // Without an RTT sample from the handshake, an RTT of 1 ms is assumed.
    let cc = <narrows_cc::schemes::Bbr as Scheme>::new(&crate::bbr_v1::path::setup::<V1>(1, &[]));
    assert_eq!(cc.control().pacing_rate, Some(Rate::from_bytes_per_sec(14_480_000).mul_f64(2.885 * MARGIN)));
}

/// STARTUP doubles the pacing rate every round trip until the pipe is full.
#[test]
fn startup_doubles_pacing_rate_per_round_trip() {
    // The BDP of 1 Gbit/s x 40 ms is 5 MB: more than eight doublings from the initial window of 10 segments.
    let path = Path::new(1000.0, 40);
    let full = path.rate.mul_f64(2.885 * MARGIN);
    let mut flow = Flow::<V1>::new(path, 1, &[]);
    let mut rates = Vec::new();
    flow.run(Nanos::from_millis(600), |flow, _| {
        let model = flow.cc.model();
        if model.round_start() && model.state() == State::Startup {
            rates.push(model.pacing_rate());
        }
    });
    // Each round delivers twice as many packets as the previous round. The delivery rate is measured with the first
    // packets of a round.
    let growing: Vec<_> = rates.iter().copied().take_while(|rate| *rate < full.mul_f64(0.9)).collect();
    assert!(growing.len() >= 7, "{rates:?}");
    let ratio = |pair: &[Rate]| pair[1].as_bytes_per_sec() as f64 / pair[0].as_bytes_per_sec() as f64;
    // A round of few packets measures the rate coarsely: the tolerance is 15 % for one round and 5 % for the mean of
    // all rounds.
    for pair in growing.windows(2).skip(1) {
        assert!((1.7..=2.3).contains(&ratio(pair)), "{} in {growing:?}", ratio(pair));
    }
    let rounds = (growing.len() - 2) as f64;
    let mean = ratio(&[growing[1], growing[growing.len() - 1]]).powf(1.0 / rounds);
    assert!((mean / 2.0 - 1.0).abs() < 0.05, "{mean}");
    // The pacing rate stays at gain x bottleneck rate, less the margin. Tolerance: rounding of the samples.
    let last = rates.last().unwrap().as_bytes_per_sec() as f64;
    assert!((last / full.as_bytes_per_sec() as f64 - 1.0).abs() < 1e-3, "{rates:?}");
}

/// STARTUP paces at 2.885 times the bandwidth.
#[test]
fn startup_paces_at_2_885_times_the_bandwidth() {
    let mut script = Script::<V1>::new(1, &[]);
    script.round(100, 0);
    assert_eq!(script.state(), State::Startup);
    assert_eq!(script.cc.model().pacing_rate(), script.rate.mul_f64(2.885 * MARGIN));
    // Before the pipe is full a lower sample does not lower the rate, even if the filter has dropped the higher sample.
    let high = script.cc.model().pacing_rate();
    script.app_limited = true; // application-limited rounds do not count for the full pipe
    script.rate = Rate::from_mbit_per_sec(50.0);
    script.rounds(3, 100);
    assert_eq!(script.cc.model().pacing_rate(), high);
}

/// The pipe is full after three rounds in which the bandwidth grows by less than a quarter.
#[test]
fn startup_ends_after_three_rounds_without_25_percent_growth() {
    let mut script = Script::<V1>::new(1, &[]);
    script.inflight = Bytes::new(1 << 30);
    script.round(100, 0);
    assert_eq!(script.cc.model().full_bw(), Rate::from_mbit_per_sec(100.0));
    script.rate = Rate::from_mbit_per_sec(124.9);
    script.round(100, 0);
    script.round(100, 0);
    assert!(!script.cc.model().full_bw_reached());
    // Growth by exactly a quarter restarts the count.
    script.rate = Rate::from_mbit_per_sec(125.0);
    script.round(100, 0);
    assert_eq!(script.cc.model().full_bw(), Rate::from_mbit_per_sec(125.0));
    for _ in 0..2 {
        script.round(100, 0);
        assert_eq!(script.state(), State::Startup);
    }
    // Neither acknowledgements within a round nor application-limited rounds count.
    script.within_round(Nanos::from_millis(1), 10, 0);
    script.app_limited = true;
    script.round(100, 0);
    assert_eq!(script.state(), State::Startup);
    script.app_limited = false;
    script.round(100, 0);
    assert_eq!(script.state(), State::Drain);
}

/// DRAIN paces at the inverse gain and ends when inflight has fallen to the BDP.
#[test]
fn drain_paces_at_inverse_gain_until_inflight_is_bdp() {
    let mut script = Script::<V1>::new(1, &[]);
    script.rounds(4, 100);
    assert_eq!(script.state(), State::Drain);
    assert_eq!(script.cc.model().pacing_rate(), script.rate.mul_f64(1.0 / 2.885 * MARGIN));
    // The BDP of 500 000 B is 346 segments. A pacing rate of 4.29 MB/s sends 4189 B in 2^-10 s: a quantum of two
    // segments.
    assert_eq!(script.cc.model().send_quantum(), MSS * 2);
    let bdp = quantised(500_000.0, 2, false);
    assert_eq!(bdp, MSS * 352);
    assert_eq!(script.cc.model().bdp(), Some(Bytes::new(500_000)));
    script.inflight = bdp + Bytes::new(1);
    script.within_round(Nanos::from_millis(1), 10, 0);
    assert_eq!(script.state(), State::Drain);
    script.inflight = bdp;
    script.within_round(Nanos::from_millis(1), 10, 0);
    assert!(script.cc.model().in_probe_bw());
    let gain = script.cc.model().settings().probe_gain(script.phase_of_cycle());
    assert_eq!(script.cc.model().pacing_rate(), script.rate.mul_f64(gain * MARGIN));
}

/// STARTUP and DRAIN use the high cwnd gain; PROBE_BW uses a cwnd gain of 2.
#[test]
fn window_gain_is_high_in_startup_and_two_in_probe_bw() {
    let mut script = Script::<V1>::new(3, &[("extra_acked", 0.0)]);
    script.rounds(4, 100);
    assert_eq!(script.state(), State::Drain);
    script.acks(20, 100);
    assert_eq!(script.cc.model().cwnd(), quantised(500_000.0 * 2.885, 2, false));
    script.inflight = Bytes::ZERO;
    script.within_round(Nanos::from_millis(1), 1, 0);
    script.inflight = Bytes::new(700_000);
    script.reach_phase(2);
    script.within_round(TICK, 100, 0);
    // The quantum of 12.375 MB/s x 2^-10 s = 12 085 B is eight segments.
    assert_eq!(script.cc.model().send_quantum(), MSS * 8);
    assert_eq!(script.cc.model().cwnd(), quantised(1_000_000.0, 8, false));
    script.reach_phase(0);
    // The pacing rate rises to 15.5 MB/s, which makes the quantum ten segments; cwnd grows immediately.
    script.within_round(TICK, 100, 0);
    assert_eq!(script.cc.model().send_quantum(), MSS * 10);
    assert_eq!(script.cc.model().cwnd(), quantised(1_000_000.0, 10, true));
}

/// The send quantum follows the pacing rate.
#[test]
fn send_quantum_follows_the_pacing_rate() {
    let quantum = |mbit: f64, values: &[(&str, f64)]| {
        let mut script = Script::<V1>::new(1, values);
        script.rate = Rate::from_mbit_per_sec(mbit);
        script.inflight = Bytes::new(1 << 40);
        script.rounds(4, 100);
        assert_eq!(script.state(), State::Drain);
        let quantum = script.cc.model().send_quantum();
        // A fixed quantum or a quantum of one segment limits the burst; otherwise the transport's rule decides.
        let bound = quantum == MSS || !values.is_empty();
        assert_eq!(script.cc.control().burst, if bound { quantum } else { Bytes::MAX });
        quantum.as_u64() / MSS.as_u64()
    };
    // DRAIN paces at bw / 2.885. A pacing rate of 1.2 Mbit/s is the threshold between a quantum of one and of two
    // segments.
    assert_eq!(quantum(1.19 / MARGIN * 2.885, &[]), 1);
    assert_eq!(quantum(1.21 / MARGIN * 2.885, &[]), 2);
    // 100 Mbit/s in 2^-10 s are 12 207 B: eight segments. At 10 Gbit/s the limit of 64 kB applies: 45 segments.
    assert_eq!(quantum(100.1 / MARGIN * 2.885, &[]), 8);
    assert_eq!(quantum(10_000.0 / MARGIN * 2.885, &[]), 45);
    assert_eq!(quantum(10_000.0, &[("quantum", 1.0)]), 1);
}

/// Before the pipe is full cwnd grows by the delivered data and never shrinks.
#[test]
fn window_before_full_pipe_grows_by_delivered_data() {
    let mut script = Script::<V1>::new(1, &[]);
    script.rate = Rate::from_mbit_per_sec(10.0); // BDP 50 000 B
    script.round(10, 0);
    assert_eq!(script.cc.model().cwnd(), MSS * 20);
    // 2.885 BDP are 144 250 B = 100 segments; pacing at 28.6 Mbit/s gives a quantum of two segments.
    assert_eq!(quantised(50_000.0 * 2.885, 2, false), MSS * 106);
    for segments in [100, 50] {
        script.within_round(Nanos::from_millis(1), segments, 0);
    }
    // A cwnd of 120 segments is above the target: the second acknowledgement neither raises nor lowers cwnd.
    assert_eq!(script.cc.model().cwnd(), MSS * 120);
}

/// The first ten delivered segments raise cwnd, whatever the bandwidth estimate.
#[test]
fn window_grows_for_first_ten_segments_at_any_bandwidth() {
    let mut script = Script::<V1>::new(1, &[]);
    script.rate = Rate::from_mbit_per_sec(0.1); // 2.885 BDP are one segment, and the target is four segments
    script.round(5, 0);
    assert_eq!(script.cc.model().cwnd(), MSS * 15);
    script.round(4, 0);
    assert_eq!(script.cc.model().cwnd(), MSS * 19);
    script.round(4, 0);
    assert_eq!(script.cc.model().cwnd(), MSS * 19);
}
