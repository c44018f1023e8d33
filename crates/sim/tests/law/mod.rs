//! Helpers of the laws: runs of scenario texts, TOML tables for these texts, comparison with a stated tolerance.
#![allow(dead_code)] // every file of laws uses a part of it

use std::collections::BTreeMap;

use narrows_cc::Nanos;
use narrows_routers::{AnyRouter, Reading};
use narrows_scenario::{Plan, Source, expand, resolve};
use narrows_sim::{Engine, RunResult};

/// Fixture files of the laws.
fn files() -> BTreeMap<String, String> {
    let fixtures = [
        ("burst.loss", include_str!("../fixtures/burst.loss")),
        ("even.trace", include_str!("../fixtures/even.trace")),
        ("step.delay", include_str!("../fixtures/step.delay")),
    ];
    fixtures.map(|(name, text)| (name.to_owned(), text.to_owned())).into()
}

/// Resolves a scenario text, which must expand to exactly one run.
pub fn spec(text: &str) -> Plan {
    let files = &files();
    let planned = expand(&Source { name: "law", text, files }, &[]).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(planned.len(), 1, "one run per law");
    resolve(&planned[0].scenario, planned[0].seed, files).unwrap_or_else(|e| panic!("{e}"))
}

/// Payload of a full packet as a fraction of its size.
pub const PAYLOAD: f64 = 1448.0 / 1500.0;

/// Goodput of each flow in Mbit/s.
pub fn goodputs(result: &RunResult) -> Vec<f64> {
    result.flows.iter().map(|flow| flow.goodput_mbit_s).collect()
}

/// Runs a scenario text.
pub fn run(text: &str) -> RunResult {
    narrows_sim::run(spec(text))
}

/// Runs a scenario text and returns the mean window after the warm-up in segments.
pub fn run_with_mean_window(text: &str) -> (RunResult, f64) {
    let spec = spec(text);
    let (warmup, duration, segment) = (spec.warmup, spec.duration, f64::from(spec.flows[0].tcp.segment));
    let mut engine = Engine::new(spec);
    engine.run_until(warmup);
    let step = Nanos::from_millis(5);
    let (mut now, mut sum, mut samples) = (warmup, 0.0, 0.0);
    while now < duration {
        now += step;
        engine.run_until(now);
        sum += cwnd(&engine, 0) / segment;
        samples += 1.0;
    }
    (engine.finish(), sum / samples)
}

/// Congestion window of a flow in bytes; zero without a connection.
pub fn cwnd(engine: &Engine, flow: usize) -> f64 {
    engine.flow(flow).sender().cwnd.map_or(0.0, |cwnd| cwnd.as_f64())
}

/// Pacing rate of a flow in Mbit/s of payload; zero without one.
pub fn pacing_mbit_s(engine: &Engine, flow: usize) -> f64 {
    engine.flow(flow).sender().pacing_rate.map_or(0.0, |rate| rate.as_mbit_per_sec())
}

/// A named value that a router reports, in bytes, seconds or bytes per second.
pub fn reading(router: Option<&AnyRouter>, name: &str) -> f64 {
    let found = router.expect("the scheme brings its router").reading(name);
    found.and_then(Reading::number).unwrap_or_else(|| panic!("no number `{name}`"))
}

#[track_caller]
pub fn assert_within(what: &str, measured: f64, expected: f64, tolerance: f64) {
    let off = measured / expected - 1.0;
    println!("{what}: measured {measured:.4}, expected {expected:.4}, off by {:.1} %", off * 100.0);
    assert!(off.abs() <= tolerance, "{what}: measured {measured}, expected {expected} within {} %", tolerance * 100.0);
}

/// One flow on a link so fast that no queue builds up: only the stated loss limits the flow's window.
pub fn lossy(scheme: &str, rtt: &str, loss: &str, warmup_s: f64, duration_s: f64) -> (RunResult, f64) {
    let rest = format!("loss = {loss}\n[[flows]]\nscheme = \"{scheme}\"\nrtt = \"{rtt}\"\n");
    run_with_mean_window(&dumbbell((duration_s, Some(warmup_s)), ("10gbit", "1bdp"), &rest))
}

/// A scenario text. `network` holds keys of the network and further tables; `flows` holds tables.
pub fn scenario(duration_s: f64, warmup_s: f64, network: &str, flows: &str) -> String {
    format!("duration = \"{duration_s}s\"\nwarmup = \"{warmup_s}s\"\n[network]\n{network}\n{flows}")
}

/// A scenario text of one bottleneck with a rate and a buffer; `rest` holds further keys of the network, then
/// tables. Without a stated warm-up, the default of scenarios applies.
pub fn dumbbell((duration_s, warmup_s): (f64, Option<f64>), (rate, buffer): (&str, &str), rest: &str) -> String {
    let warmup = warmup_s.map_or_else(String::new, |seconds| format!("warmup = \"{seconds}s\"\n"));
    format!("duration = \"{duration_s}s\"\n{warmup}[network]\nrate = \"{rate}\"\nbuffer = \"{buffer}\"\n{rest}")
}

/// A `[[flows]]` table; `more` holds further keys.
pub fn flows(scheme: &str, rtt_ms: u64, more: &str) -> String {
    format!("[[flows]]\nscheme = \"{scheme}\"\nrtt = \"{rtt_ms}ms\"\n{more}\n")
}

/// A `[[links]]` table of a duplex link; `more` holds further keys.
pub fn link(from: &str, to: &str, rate: &str, delay: &str, more: &str) -> String {
    format!("[[links]]\nfrom = \"{from}\"\nto = \"{to}\"\nrate = \"{rate}\"\ndelay = \"{delay}\"\n{more}\n")
}

/// Asserts the rate of each flow: `expected` holds rates on the wire in Mbit/s.
#[track_caller]
pub fn assert_rates(result: &RunResult, expected: &[f64], tolerance: f64) {
    for (flow, wire) in result.flows.iter().zip(expected) {
        assert_within(&flow.flow, flow.goodput_mbit_s, wire * PAYLOAD, tolerance);
    }
}

/// Asserts that a run had no drops, retransmissions or timeouts.
#[track_caller]
pub fn assert_lossless(result: &RunResult) {
    for link in &result.links {
        assert_eq!(link.drops, 0, "{}", link.link);
    }
    assert_eq!((result.counters().retransmits, result.counters().timeouts), (0, 0));
}
