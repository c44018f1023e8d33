//! BBR-GC: gain curves and the ends of the probing phases.

use narrows_cc::bbr_v1::State;
use narrows_cc::gamma::Gamma;
use narrows_cc::schemes::BbrGc;
use narrows_cc::{Bytes, Nanos};

use crate::bbr_v1::path::{Core, Flow, MSS, Path, setup};
use crate::bbr_v1::script::{Script, TICK, ms, quantised, same};

type Gc = <BbrGc as Core>::Policy;

const BDP: u64 = 500_000;
/// Values of the parameter `between`.
const UP: f64 = 1.0;
const CRUISE: f64 = 2.0;
const DRAIN: f64 = 3.0;
const PROBE: f64 = 4.0;

fn gamma(values: &[(&str, f64)]) -> Gamma {
    Gamma::new(&setup::<Gc>(1, values).params)
}

/// The gains follow equations 12 and 13 of the paper.
#[test]
fn bbr_gc_gains_follow_equations_12_and_13() {
    let mut gamma = gamma(&[]);
    gamma.observe(ms(0.0), ms(100.0));
    // For ω = 0.0001, 0.0016, 0.0081, 0.0256, 0.0625 and 0.4096, ω^0.25 is 0.1, 0.2, 0.3, 0.4, 0.5 and 0.8.
    for (omega, root) in
        [(0.0001, 0.1), (0.0016, 0.2), (0.0081, 0.3), (0.0256, 0.4), (0.0625, 0.5), (0.4096, 0.8), (1.0, 1.0)]
    {
        let rtt = ms(100.0 * omega);
        assert!(same(gamma.omega(rtt), omega), "{omega}");
        assert!(same(gamma.up(rtt), 1.5 - 0.5 * root), "{omega}: {}", gamma.up(rtt));
        assert!(same(gamma.down(rtt), 1.0 - 0.5 * omega * omega * omega * omega), "{omega}");
    }
    // The gains reach the limits of the paper's ranges: [1, 1.5] for P_up and [0.5, 1] for P_down.
    assert!(same(gamma.up(ms(100.0)), 1.0) && same(gamma.down(ms(100.0)), 0.5));
    let tiny = TICK;
    // ω = 1e-8; its fourth root is 0.01.
    assert!(same(gamma.up(tiny), 1.5 - 0.5 * 0.01) && same(gamma.down(tiny), 1.0));
}

/// Every supported exponent matches the power function.
#[test]
fn gamma_exponents_match_the_power_function() {
    // Exponents with a fast path, and other exponents without a fast path.
    for exponent in [0.0, 0.25, 0.5, 1.0, 2.0, 4.0, 3.0, 0.3, 16.0] {
        let mut gamma = gamma(&[("up_gamma", exponent), ("down_gamma", exponent), ("down_amplitude", 0.9)]);
        gamma.observe(ms(0.0), ms(80.0));
        for rtt in [8.0, 40.0, 72.0] {
            let power = (rtt / 80.0_f64).powf(exponent);
            assert!(same(gamma.up(ms(rtt)), 1.5 - 0.5 * power), "{exponent}: {rtt}");
            assert!(same(gamma.down(ms(rtt)), 1.0 - 0.9 * power), "{exponent}: {rtt}");
        }
    }
}

/// RTT_max never falls, unless its filter has a window.
#[test]
fn bbr_gc_max_rtt_only_grows_without_a_filter_window() {
    let feed = |gamma: &mut Gamma| {
        for (at, rtt) in [(0.0, 40.0), (100.0, 80.0), (200.0, 60.0), (5_000.0, 50.0), (20_000.0, 40.0)] {
            gamma.observe(ms(at), ms(rtt));
        }
    };
    let mut ever = gamma(&[]);
    assert!(same(ever.omega(ms(40.0)), 1.0), "before any sample");
    assert!(same(ever.up(ms(40.0)), 1.0) && same(ever.down(ms(40.0)), 0.5));
    feed(&mut ever);
    assert_eq!(ever.rtt_max(), Some(ms(80.0)));
    assert!(same(ever.omega(ms(40.0)), 0.5));
    let mut aging = gamma(&[("rtt_max_window", 10.0)]);
    feed(&mut aging);
    assert_eq!(aging.rtt_max(), Some(ms(40.0)));
    assert!(same(aging.up(ms(40.0)), 1.0));
}

/// A script in PROBE_BW after samples of 40 and 80 ms (RTT_max), with an empty queue (ω = 1/2).
fn probing(values: &[(&str, f64)]) -> Script<Gc> {
    let mut script = Script::<Gc>::in_probe_bw(values);
    script.rtt = ms(80.0);
    script.round(100, 0);
    script.rtt = ms(40.0);
    script.reach_phase(7);
    script.reach_phase(0);
    script
}

const UP_AT_HALF: f64 = 1.5 - 0.5 * 0.840_896_415_253_714_5; // 0.5^0.25

/// Feeds an acknowledgement 1 ms later, with `bdps` BDPs in flight both before and after the acknowledgement.
fn ack_at(script: &mut Script<Gc>, bdps: f64, lost: u64) {
    script.change_within_round(ms(1.0), 1, lost, |ack| {
        ack.inflight = Bytes::new((BDP as f64 * bdps) as u64);
        ack.inflight_before = ack.inflight;
    });
}

/// Whether a flow is paced at `gain` times the bandwidth, less the margin of 1 %.
fn paced(script: &Script<Gc>, gain: f64) -> bool {
    let (is, expected) = (script.cc.model().pacing_rate(), script.rate.mul_f64(gain * 0.99));
    is.as_bytes_per_sec().abs_diff(expected.as_bytes_per_sec()) <= 1
}

/// Algorithm 1 assigns `P_up` only below 1 BDP: a probe that begins above 1 BDP keeps the gain of 1 until inflight
/// falls below 1 BDP.
#[test]
fn bbr_gc_assigns_p_up_only_below_one_bdp() {
    let mut script = probing(&[]);
    ack_at(&mut script, 1.2, 0);
    assert!(paced(&script, 1.0), "the gain of the six phases");
    ack_at(&mut script, 0.99, 0);
    assert!(paced(&script, UP_AT_HALF));
    // ω = 0.6561 would give a gain of 1.05.
    script.rtt = ms(80.0 * 0.6561);
    ack_at(&mut script, 1.01, 0);
    assert!(paced(&script, UP_AT_HALF), "the gain of the last ACK below");
    ack_at(&mut script, 0.99, 0);
    assert!(paced(&script, 1.05));
    assert_eq!(script.phase_of_cycle(), 0);
    // After one min_rtt the probe ends when inflight reaches gain x BDP: 1.05 BDP here, or 1 BDP if inflight never was
    // below 1 BDP.
    script.now += ms(40.0);
    ack_at(&mut script, 1.04, 0);
    assert_eq!(script.phase_of_cycle(), 0);
    ack_at(&mut script, 1.06, 0);
    assert_eq!(script.phase_of_cycle(), 1);
    let mut above = probing(&[]);
    above.now += ms(40.0);
    ack_at(&mut above, 1.01, 0);
    assert_eq!(above.phase_of_cycle(), 1);
}

/// The pacing gain follows every acknowledgement of a probe.
#[test]
fn bbr_gc_pacing_gain_follows_every_ack_of_a_probe() {
    let mut script = probing(&[("between", UP)]);
    assert!(paced(&script, UP_AT_HALF));
    // ω = 0.6561, whose fourth root is 0.9.
    script.rtt = ms(80.0 * 0.6561);
    ack_at(&mut script, 0.9, 0);
    assert!(paced(&script, 1.05));
    // A greater RTT_max lowers ω: an RTT of 40 ms at an RTT_max of 128 ms gives ω = 5/16.
    script.rtt = ms(128.0);
    ack_at(&mut script, 0.9, 0);
    assert!(paced(&script, 1.0), "at RTT_max the flow does not probe");
    script.rtt = ms(40.0);
    ack_at(&mut script, 0.9, 0);
    assert!(paced(&script, 1.5 - 0.5 * 0.3125_f64.powf(0.25)));
    assert_eq!(script.phase_of_cycle(), 0);
    // The gain is P_down in the draining phase and 1 in the six phases after it.
    script.rtt = ms(64.0);
    ack_at(&mut script, 1.3, 0);
    assert_eq!(script.phase_of_cycle(), 1);
    assert!(paced(&script, 1.0 - 0.5 / 16.0));
    ack_at(&mut script, 0.99, 0);
    assert_eq!(script.phase_of_cycle(), 2);
    assert!(paced(&script, 1.0));
}

/// A probe ends immediately above 1.25 BDP in flight, or with a loss.
#[test]
fn bbr_gc_probe_ends_above_1_25_bdp_or_on_loss() {
    for (before, lost, ends) in [(1.249, 0, false), (1.251, 0, true), (0.5, 1, true)] {
        let mut script = probing(&[]);
        ack_at(&mut script, before, lost);
        assert_eq!(script.phase_of_cycle(), u8::from(ends), "{before} BDP, {lost} lost");
        // BBR's rule also waits until min_rtt has passed.
        let mut patient = probing(&[("early_down", 0.0)]);
        ack_at(&mut patient, before, lost);
        assert_eq!(patient.phase_of_cycle(), 0);
        patient.now += ms(40.0);
        ack_at(&mut patient, before, lost);
        assert_eq!(patient.phase_of_cycle(), 1, "{before} BDP, {lost} lost");
    }
}

/// A probe at or below 1.25 BDP and without a loss ends as in BBR: after one min_rtt, once inflight has reached gain x
/// BDP.
#[test]
fn bbr_gc_probe_ends_as_bbr_when_inflight_shows_gain() {
    // P_up is 1.0796 at ω = 1/2.
    for (between, before, ends) in [
        (UP, 0.9_f64, false),
        (UP, 1.07, false),
        (UP, 1.09, true),
        (CRUISE, 0.99, false),
        (CRUISE, 1.01, true),
        (PROBE, 1.09, false),
        (PROBE, 1.24, false),
        (PROBE, 1.26, true),
    ] {
        let mut script = probing(&[("between", between)]);
        ack_at(&mut script, before.min(1.24), 0);
        assert_eq!(script.phase_of_cycle(), 0, "within min_rtt: {between}, {before}");
        script.now += ms(40.0);
        ack_at(&mut script, before, 0);
        assert_eq!(script.phase_of_cycle(), u8::from(ends), "{between}, {before}");
    }
    // With `DRAIN` the probe ends at 1 BDP without waiting for min_rtt; with `CRUISE` the gain of 1 applies immediately
    // at 1 BDP.
    let mut draining = probing(&[("between", DRAIN)]);
    ack_at(&mut draining, 0.99, 0);
    assert_eq!(draining.phase_of_cycle(), 0);
    ack_at(&mut draining, 1.01, 0);
    assert_eq!(draining.phase_of_cycle(), 1);
    let mut flat = probing(&[("between", CRUISE)]);
    ack_at(&mut flat, 1.01, 0);
    assert_eq!(flat.cc.model().pacing_rate(), flat.rate.mul_f64(0.99));
    ack_at(&mut flat, 0.99, 0);
    assert_eq!(flat.cc.model().pacing_rate(), flat.rate.mul_f64(UP_AT_HALF * 0.99));
}

/// Send quanta count towards the inflight target only if enabled.
#[test]
fn bbr_gc_counts_send_quanta_only_if_enabled() {
    // BBR's target: 1.25 BDP are 432 segments; three quanta of nine segments each (1.07 x 100 Mbit/s for 2^-10 s) are
    // added; the sum is rounded up to an even number, and probing adds two segments.
    let threshold = quantised(BDP as f64 * 1.25, 9, true);
    assert_eq!(threshold, MSS * 462);
    for (before, ends) in [(threshold - Bytes::new(1), 0), (threshold, 1)] {
        let mut script = probing(&[("quanta", 1.0), ("between", UP)]);
        ack_at(&mut script, before.as_f64() / BDP as f64 + 1e-9, 0);
        assert_eq!(script.phase_of_cycle(), ends, "{before:?}");
    }
}

/// An application-limited sender keeps probing, as with BBR.
#[test]
fn bbr_gc_app_limited_sender_keeps_probing() {
    let mut script = probing(&[]);
    script.app_limited = true;
    for _ in 0..500 {
        ack_at(&mut script, 0.3, 0);
    }
    assert_eq!(script.phase_of_cycle(), 0);
    assert!(script.cc.model().pacing_rate() > script.rate);
}

/// The parameter `rtt` can select the smoothed or the minimum RTT instead of the latest sample.
#[test]
fn bbr_gc_rtt_may_be_smoothed_or_minimum() {
    // One delayed sample of 160 ms in a round of 40 ms samples becomes RTT_max only if the latest sample is used.
    for (kind, greatest) in [(0.0, 160.0), (1.0, 80.0), (2.0, 80.0)] {
        let mut script = probing(&[("rtt", kind)]);
        script.change_within_round(ms(1.0), 1, 0, |ack| ack.rtt = Some(ms(160.0)));
        script.round(100, 0);
        assert_eq!(script.telemetry("rtt_max"), Some(narrows_cc::Value::Time(ms(greatest))), "{kind}");
    }
}

/// A single flow probes according to the queue that its STARTUP built.
#[test]
fn bbr_gc_alone_probes_by_queue_left_from_startup() {
    // STARTUP fills this buffer of 1 BDP: RTT_max is twice the propagation delay, and P_up is 1.08 with an
    // empty queue, less as the probe queues. Pacing at 0.99 P_up gains at most 0.07 BDP per min_rtt, so every
    // probe ends between P_up (measured at its end) and 1.25 BDP, without loss.
    let mut path = Path::new(50.0, 20);
    path.buffer = Bytes::new(125_000);
    let bdp = 125_000.0;
    let mut flow = Flow::<Gc>::new(path, 3, &[("between", UP)]);
    flow.run_for(Nanos::from_secs(2));
    let lost = flow.lost;
    assert!(lost > 0, "startup overshoots");
    let (mut last, mut probes) = (flow.cc.model().state(), 0);
    flow.run(Nanos::from_secs(9), |flow, ack| {
        let state = flow.cc.model().state();
        if let (State::ProbeBw { phase: 0, since }, State::ProbeBw { phase: 1, .. }) = (last, state) {
            let inflight = ack.inflight_before.as_f64() / bdp;
            assert!((1.0..1.25).contains(&inflight), "{inflight}");
            assert!(flow.now - since > flow.path.rtt && flow.now - since < flow.path.rtt * 3);
            probes += 1;
        }
        last = state;
    });
    assert_eq!(flow.lost, lost);
    // A cycle lasts 8 to 9 min_rtt.
    assert!((35..=45).contains(&probes), "{probes}");
}
