//! Goldens at two grains, and determinism. A golden only says 'changed': when one moves, a law or a test has to say why that
//! is right. Record anew with `INSTA_UPDATE=always cargo test -p narrows-sim --test golden`.
//!
//! Every registered scheme runs alone and against CUBIC's ancestor NewReno on the same dumbbell with a little random loss:
//!
//!     flows ──[ 1 BDP │ 20 Mbit/s, 0.1 % loss ]── 20 ms ── receivers

use std::fmt::Write as _;
use std::fs;
use std::path::PathBuf;

use narrows_cc::Nanos;
use narrows_cc::schemes::ALL;
use narrows_scenario::{NoFiles, Plan, Source, expand, resolve};
use narrows_sim::{Engine, Recorder, RunResult};

const SEED: u64 = 7;

/// Columns of the tables, wide enough for the longest name of a scheme: those of a case, `SCHEME vs newreno`, and of a scheme.
const CASE: usize = 32;
const SCHEME: usize = 20;

fn spec(flows: &[&str], extra: &str) -> Plan {
    let mut text = format!(
        "name = \"golden\"\nduration = \"10s\"\nseed = {SEED}\n{extra}\n[network]\nrate = \"20mbit\"\nloss = \"0.1%\"\n"
    );
    for scheme in flows {
        write!(text, "[[flows]]\nscheme = \"{scheme}\"\nrtt = \"40ms\"\n").unwrap();
    }
    let planned = expand(&Source { name: "golden", text: &text, files: &NoFiles }, &[])
        .unwrap_or_else(|e| panic!("{e}"));
    resolve(&planned[0].scenario, planned[0].seed, &NoFiles).unwrap_or_else(|e| panic!("{e}"))
}

/// One line per flow: scheme, parameters, seed, rounded results.
fn rows(case: &str, result: &RunResult, table: &mut String) {
    for flow in &result.flows {
        writeln!(
            table,
            "{case:<CASE$} {:<SCHEME$} defaults seed {SEED}  {:>6.2} Mbit/s  rtt {:>5.1} ms  retransmitted {:>5.2} %",
            flow.scheme,
            flow.goodput_mbit_s,
            flow.rtt_mean_ms.unwrap_or(f64::NAN),
            flow.retransmit_percent
        )
        .unwrap();
    }
}

#[test]
fn results_of_every_scheme_are_unchanged() {
    let (mut hashes, mut table) = (String::new(), String::new());
    for entry in ALL {
        let name = entry.info.name;
        for (case, flows) in
            [(format!("{name} alone"), vec![name]), (format!("{name} vs newreno"), vec![name, "newreno"])]
        {
            assert!(case.len() < CASE && name.len() < SCHEME, "{case} needs wider columns");
            let result = narrows_sim::run(spec(&flows, ""));
            writeln!(
                hashes,
                "{case:<CASE$} defaults seed {SEED}  {}  {} events",
                result.event_hash, result.events
            )
            .unwrap();
            rows(&case, &result, &mut table);
        }
    }
    insta::assert_snapshot!("table", table);
    insta::assert_snapshot!("hashes", hashes);
}

/// Runs with full traces into a fresh folder and returns the bytes of both files.
fn traced(label: &str, flows: &[&str]) -> (String, Vec<u8>, Vec<u8>) {
    let spec = spec(flows, "[trace]\nsamples = \"10ms\"\npackets = true");
    let dir: PathBuf = [env!("CARGO_TARGET_TMPDIR"), &format!("golden-{label}")].iter().collect();
    fs::create_dir_all(&dir).unwrap();
    let recorder = Recorder::new(&spec.trace, &dir).unwrap();
    let result = Engine::new(spec, recorder).finish().unwrap();
    let file = |name| fs::read(dir.join(name)).unwrap();
    let out = (serde_json::to_string(&result).unwrap(), file("samples.arrow"), file("packets.arrow"));
    fs::remove_dir_all(&dir).unwrap();
    out
}

#[test]
fn the_same_scenario_and_seed_give_identical_traces_on_one_thread_and_on_many() {
    let flows = ["bbr", "cubic", "vegas"];
    let alone = traced("alone", &flows);
    assert!(alone.1.len() > 10_000 && alone.2.len() > 100_000, "the traces are not empty");
    let together: Vec<_> = std::thread::scope(|scope| {
        let spawned: Vec<_> =
            (0..4).map(|i| scope.spawn(move || traced(&format!("thread{i}"), &flows))).collect();
        spawned.into_iter().map(|t| t.join().unwrap()).collect()
    });
    for other in together {
        assert!(other == alone, "a run differs between threads");
    }
}

#[test]
fn a_trace_does_not_change_the_run() {
    let plain = narrows_sim::run(spec(&["bbr", "cubic", "vegas"], ""));
    let (traced, ..) = traced("trace", &["bbr", "cubic", "vegas"]);
    let traced: serde_json::Value = serde_json::from_str(&traced).unwrap();
    assert_eq!(traced["data_packets"], plain.data_packets);
    assert_eq!(traced["flows"][0]["goodput_mbit_s"], plain.flows[0].goodput_mbit_s);
}

#[test]
fn another_seed_gives_another_run() {
    let hash = |seed: u64| {
        let mut spec = spec(&["cubic"], "");
        spec.seed = seed;
        narrows_sim::run(spec).event_hash
    };
    assert_ne!(hash(1), hash(2));
}

#[test]
fn a_run_in_slices_of_time_and_events_is_the_same_run() {
    let flows = ["bbr", "cubic", "vegas"];
    let whole = narrows_sim::run(spec(&flows, ""));
    let spec = spec(&flows, "");
    let mut engine = Engine::new(spec.clone(), Recorder::off());
    let (mut until, mut cut_short) = (Nanos::ZERO, 0);
    while engine.now() < spec.duration {
        if engine.run_slice(until, 20).unwrap() {
            assert_eq!(engine.now(), until.min(spec.duration));
            until += Nanos::from_millis(7);
        } else {
            cut_short += 1;
        }
    }
    // 20 Mbit/s carry 11 packets in 7 ms, each with two events at least, so the events end slices, too.
    assert!(cut_short > 100, "only {cut_short} slices ended by their events");
    let sliced = engine.finish().unwrap();
    assert_eq!((sliced.event_hash, sliced.events), (whole.event_hash, whole.events));
}
