//! Golden results of every scheme (event hashes and rounded results), and determinism. A golden result only shows that
//! something changed; a law or a test has to justify the change. Record the results again with
//! `INSTA_UPDATE=always cargo test -p narrows-sim --test golden`.
//!
//! Every registered scheme runs alone and against NewReno on the same dumbbell with a little random loss:
//!
//!     flows ──[ 1 BDP │ 20 Mbit/s, 0.1 % loss ]── 20 ms ── receivers

use std::fmt::Write as _;

use narrows_cc::Nanos;
use narrows_cc::schemes::ALL;
use narrows_scenario::{NoFiles, Plan, Source, expand, resolve};
use narrows_sim::{Engine, RunResult};

const SEED: u64 = 7;

/// Column widths of the tables: for a case (`SCHEME vs newreno`) and for a scheme.
const CASE: usize = 32;
const SCHEME: usize = 20;

fn spec(flows: &[&str], extra: &str) -> Plan {
    let mut text = format!(
        "name = \"golden\"\nduration = \"10s\"\nseed = {SEED}\n{extra}\n[network]\nrate = \"20mbit\"\nloss = \"0.1%\"\n"
    );
    for scheme in flows {
        write!(text, "[[flows]]\nscheme = \"{scheme}\"\nrtt = \"40ms\"\n").unwrap();
    }
    let planned =
        expand(&Source { name: "golden", text: &text, files: &NoFiles }, &[]).unwrap_or_else(|e| panic!("{e}"));
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

/// Event hashes and rounded results of every scheme match the snapshots.
#[test]
fn golden_results_of_every_scheme_are_unchanged() {
    let (mut hashes, mut table) = (String::new(), String::new());
    for entry in ALL {
        let name = entry.info.name;
        for (case, flows) in
            [(format!("{name} alone"), vec![name]), (format!("{name} vs newreno"), vec![name, "newreno"])]
        {
            assert!(case.len() < CASE && name.len() < SCHEME, "{case}: wider columns needed");
            let result = narrows_sim::run(spec(&flows, ""));
            writeln!(hashes, "{case:<CASE$} defaults seed {SEED}  {}  {} events", result.event_hash(), result.events)
                .unwrap();
            rows(&case, &result, &mut table);
        }
    }
    insta::with_settings!({ prepend_module_to_snapshot => false }, {
        insta::assert_snapshot!("golden__table", table);
        insta::assert_snapshot!("golden__hashes", hashes);
    });
}

/// A different seed gives different events.
#[test]
fn other_seed_gives_other_events() {
    let hash = |seed: u64| {
        let mut spec = spec(&["cubic"], "");
        spec.seed = seed;
        narrows_sim::run(spec).event_hash
    };
    assert_ne!(hash(1), hash(2));
}

/// A run in slices, which end at a time or at an event limit, processes the same events as a whole run.
#[test]
fn run_in_slices_gives_same_events() {
    let flows = ["bbr", "cubic", "vegas"];
    let whole = narrows_sim::run(spec(&flows, ""));
    let spec = spec(&flows, "");
    let mut engine = Engine::new(spec.clone());
    let (mut until, mut cut_short) = (Nanos::ZERO, 0);
    while engine.now() < spec.duration {
        if engine.run_slice(until, 20) {
            assert_eq!(engine.now(), until.min(spec.duration));
            until += Nanos::from_millis(7);
        } else {
            cut_short += 1;
        }
    }
    // 20 Mbit/s carry 11 packets in a slice of 7 ms, with at least two events each, so the event limit ends slices too.
    assert!(cut_short > 100, "only {cut_short} slices ended at the event limit");
    let sliced = engine.finish();
    assert_eq!((sliced.event_hash, sliced.events), (whole.event_hash, whole.events));
}
