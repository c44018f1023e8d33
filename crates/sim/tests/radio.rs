//! Paths that change with time, generated or from files: their effect on a run.

use std::collections::BTreeMap;

use narrows_cc::{Nanos, Rate};
use narrows_scenario::radio::{self, Settings};
use narrows_scenario::result::RunResult;
use narrows_scenario::{Source, expand, resolve};

fn run(text: &str) -> RunResult {
    let fixtures = [
        ("burst.loss", include_str!("fixtures/burst.loss")),
        ("step.delay", include_str!("fixtures/step.delay")),
    ];
    let files: &BTreeMap<_, _> = &fixtures.map(|(name, text)| (name.to_owned(), text.to_owned())).into();
    let runs = expand(&Source { name: "t", text, files }, &[]).unwrap_or_else(|e| panic!("{e}"));
    narrows_sim::run(resolve(&runs[0].scenario, runs[0].seed, files).unwrap())
}

/// A flow of 1.5 Mbit/s, 125 packets a second, over a link that has room for it.
fn thin(network: &str, warmup: &str) -> RunResult {
    run(&format!(
        "duration = '4s'\nwarmup = '{warmup}'\n[network]\nrate = '100mbit'\n{network}\n[[flows]]\nscheme = 'fixed'\n\
         params = {{ window = 1000, rate = '1.5mbit' }}\nrtt = '40ms'\n"
    ))
}

#[test]
fn a_step_of_the_delay_moves_the_round_trip_time_by_itself() {
    // 12.5 ms more from 2 s on; 0.12 ms of transmission each way and the acknowledgement's delay are the same before and
    // after, so minimum and minimum differ by the step.
    let plain = thin("", "2.5s").flows[0].rtt_min_ms.unwrap();
    let before = thin("delay_trace = 'step.delay'", "1s").flows[0].rtt_min_ms.unwrap();
    let after = thin("delay_trace = 'step.delay'", "2.5s").flows[0].rtt_min_ms.unwrap();
    assert!((before - plain).abs() < 0.05, "{before} {plain}");
    assert!((after - before - 12.5).abs() < 0.05, "{after} {before}");
}

#[test]
fn a_burst_of_share_one_loses_what_leaves_in_it() {
    // From 1 s to before 1.2 s: 25 packets at one every 8 ms, and at most the one that is repeated as they are found missing.
    let lost = |network: &str| {
        let result = thin(network, "0s");
        (result.flows[0].loss_percent / 100.0 * result.counters.data_packets_sent as f64).round()
    };
    assert_eq!(lost(""), 0.0);
    let burst = lost("loss_trace = 'burst.loss'");
    assert!((24.0..=27.0).contains(&burst), "{burst}");
}

#[test]
fn a_path_in_files_is_the_path_inside_a_scenario() {
    let settings = Settings {
        mean: Rate::from_mbit_per_sec(150.0),
        peak: Rate::from_mbit_per_sec(1_000.0),
        loss: 0.005,
        handovers: Nanos::from_secs(12),
        delay: Nanos::from_millis(10),
    };
    let path = radio::generate(5, 20_000, &settings);
    let files = [("c", path.capacity.to_text()), ("l", path.loss.to_text()), ("d", path.delay.to_text())];
    let files: &BTreeMap<_, _> = &files.map(|(name, text)| (name.to_owned(), text)).into();
    // Longer than the path, so that it repeats.
    let hash = |network: &str| {
        let text = format!(
            "name = 'x'\nduration = '25s'\n[network]\n{network}\n[[flows]]\nscheme = 'newreno'\nrtt = '20ms'\n"
        );
        let runs = expand(&Source { name: "t", text: &text, files }, &[]).unwrap();
        narrows_sim::run(resolve(&runs[0].scenario, 1, files).unwrap()).event_hash
    };
    let inside = hash("radio = { kind = '5g', seed = 5, period = '20s' }");
    let outside = hash("capacity_trace = 'c'\nloss_trace = 'l'\ndelay_trace = 'd'");
    let without_loss = hash("capacity_trace = 'c'\ndelay_trace = 'd'");
    assert_eq!(inside, outside);
    assert_ne!(inside, without_loss);
}
