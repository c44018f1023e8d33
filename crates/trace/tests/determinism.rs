//! Repeated runs write identical traces, and recording does not change the run.

use std::fmt::Write as _;
use std::fs;

use crate::texts::{plan, recorded};

const SEED: u64 = 7;

fn text(flows: &[&str], extra: &str) -> String {
    let mut text = format!(
        "name = \"golden\"\nduration = \"10s\"\nseed = {SEED}\n{extra}\n[network]\nrate = \"20mbit\"\nloss = \"0.1%\"\n"
    );
    for scheme in flows {
        write!(text, "[[flows]]\nscheme = \"{scheme}\"\nrtt = \"40ms\"\n").unwrap();
    }
    text
}

/// Runs with full traces into a fresh folder. Returns the result and the bytes of both files.
fn traced(label: &str, flows: &[&str]) -> (String, Vec<u8>, Vec<u8>) {
    let text = text(flows, "[trace]\nsamples = \"10ms\"\npackets = true");
    let (result, [samples, packets]) = recorded(&format!("golden-{label}"), &text, |dir| {
        ["samples.arrow", "packets.arrow"].map(|name| fs::read(dir.join(name)).unwrap())
    });
    (serde_json::to_string(&result).unwrap(), samples, packets)
}

/// The same scenario and seed give identical traces on one thread and on several.
#[test]
fn same_seed_on_any_thread_gives_identical_traces() {
    let flows = ["bbr", "cubic", "vegas"];
    let alone = traced("alone", &flows);
    assert!(alone.1.len() > 10_000 && alone.2.len() > 100_000, "the traces are not empty");
    let together: Vec<_> = std::thread::scope(|scope| {
        let spawned: Vec<_> = (0..4).map(|i| scope.spawn(move || traced(&format!("thread{i}"), &flows))).collect();
        spawned.into_iter().map(|t| t.join().unwrap()).collect()
    });
    for other in together {
        assert!(other == alone, "a run differs between threads");
    }
}

#[test]
fn a_trace_does_not_change_the_run() {
    let plain = narrows_sim::run(plan(&text(&["bbr", "cubic", "vegas"], "")));
    // Compare both results as read from JSON, because reading may round the last digit.
    let plain = serde_json::to_string(&plain).unwrap();
    let plain: serde_json::Value = serde_json::from_str(&plain).unwrap();
    let (traced, ..) = traced("trace", &["bbr", "cubic", "vegas"]);
    let traced: serde_json::Value = serde_json::from_str(&traced).unwrap();
    assert_eq!(traced["data_packets"], plain["data_packets"]);
    assert_eq!(traced["flows"][0]["goodput_mbit_s"], plain["flows"][0]["goodput_mbit_s"]);
}
