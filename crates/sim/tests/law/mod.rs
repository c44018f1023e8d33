//! What the laws share: scenario texts as runs, and comparison with a stated tolerance.
#![allow(dead_code)] // every file of laws uses a part of it

use std::collections::BTreeMap;

use narrows_cc::Nanos;
use narrows_routers::{AnyRouter, Reading};
use narrows_scenario::{Plan, Source, expand, resolve};
use narrows_sim::{Engine, Recorder, RunResult};

/// The files that laws name.
fn files() -> BTreeMap<String, String> {
    BTreeMap::from([("even.trace".to_owned(), include_str!("../fixtures/even.trace").to_owned())])
}

/// One scenario text as a run.
pub fn spec(text: &str) -> Plan {
    let files = &files();
    let planned = expand(&Source { name: "law", text, files }, &[]).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(planned.len(), 1, "one run per law");
    resolve(&planned[0].scenario, planned[0].seed, files).unwrap_or_else(|e| panic!("{e}"))
}

/// The share of payload in a full packet.
pub const PAYLOAD: f64 = 1448.0 / 1500.0;

/// What each flow delivered, in Mbit/s of payload.
pub fn goodputs(result: &RunResult) -> Vec<f64> {
    result.flows.iter().map(|flow| flow.goodput_mbit_s).collect()
}

/// Runs one scenario text.
pub fn run(text: &str) -> RunResult {
    narrows_sim::run(spec(text))
}

/// Runs one scenario text, and takes the mean of the window over time after the warm-up, in segments.
pub fn run_with_mean_window(text: &str) -> (RunResult, f64) {
    let spec = spec(text);
    let (warmup, duration, segment) = (spec.warmup, spec.duration, f64::from(spec.flows[0].tcp.segment));
    let mut engine = Engine::new(spec, Recorder::off());
    engine.run_until(warmup).unwrap();
    let step = Nanos::from_millis(5);
    let (mut now, mut sum, mut samples) = (warmup, 0.0, 0.0);
    while now < duration {
        now += step;
        engine.run_until(now).unwrap();
        sum += engine.window(0).as_f64() / segment;
        samples += 1.0;
    }
    (engine.finish().unwrap(), sum / samples)
}

/// A named internal of a router, in bytes, seconds or bytes per second.
pub fn reading(router: Option<&AnyRouter>, name: &str) -> f64 {
    let told = router.expect("the scheme brings its router").reading(name);
    told.and_then(Reading::number).expect("it tells this number")
}

#[track_caller]
pub fn assert_within(what: &str, measured: f64, expected: f64, tolerance: f64) {
    let off = measured / expected - 1.0;
    println!("{what}: measured {measured:.4}, expected {expected:.4}, off by {:.1} %", off * 100.0);
    assert!(
        off.abs() <= tolerance,
        "{what}: measured {measured}, expected {expected} within {} %",
        tolerance * 100.0
    );
}

/// One flow on a link so fast that it never queues, so that only the stated loss shapes its window.
pub fn lossy(scheme: &str, rtt: &str, loss: &str, warmup_s: f64, duration_s: f64) -> (RunResult, f64) {
    run_with_mean_window(&format!(
        r#"
name = "loss law"
duration = "{duration_s}s"
warmup = "{warmup_s}s"
[network]
rate = "10gbit"
buffer = "1bdp"
loss = {loss}
[[flows]]
scheme = "{scheme}"
rtt = "{rtt}"
"#
    ))
}
