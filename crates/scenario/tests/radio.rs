//! The generated 5G path: its averages and its files.

use crate::texts::planned;
use narrows_cc::{Bytes, Nanos, Rate};
use narrows_net::timeline::{DelayTrace, LossTrace};
use narrows_net::trace::CapacityTrace;
use narrows_scenario::radio::{self, Settings};
use narrows_scenario::{NoFiles, Run, radio_path, resolve};

const MINUTES_10: u64 = 600_000;

fn defaults() -> Settings {
    Settings {
        mean: Rate::from_mbit_per_sec(150.0),
        peak: Rate::from_mbit_per_sec(1_000.0),
        loss: 0.005,
        handovers: Nanos::from_secs(12),
        delay: Nanos::from_millis(10),
    }
}

/// Mean rate, maximum rate over 20 ms, and lost fraction of transmission opportunities, over ten minutes for
/// each of several seeds.
fn measured(settings: &Settings, seeds: std::ops::Range<u64>) -> (f64, f64, f64) {
    let (mut packets, mut most, mut lost, mut ms) = (0u64, 0u64, 0.0, 0u64);
    for seed in seeds {
        let path = radio::generate(seed, MINUTES_10, settings);
        let mut per_ms = vec![0u64; MINUTES_10 as usize + 1];
        for &at in &path.capacity.opportunities_ms {
            per_ms[at as usize] += 1;
        }
        packets += path.capacity.opportunities_ms.len() as u64;
        most = most.max(per_ms.chunks(20).map(|chunk| chunk.iter().sum()).max().unwrap_or(0));
        for (at, &count) in per_ms.iter().enumerate().filter(|&(_, &count)| count > 0) {
            lost += path.loss.at(Nanos::from_millis(at as u64)) * count as f64;
        }
        ms += MINUTES_10;
    }
    let mbit = |packets: u64, ms: u64| packets as f64 * 12_000.0 / ms as f64 / 1e3;
    (mbit(packets, ms), mbit(most, 20), lost / packets as f64)
}

/// The averages over twenty seeds equal the requested averages.
#[test]
fn radio_averages_over_seeds_are_those_requested() {
    let (mean, peak, loss) = measured(&defaults(), 1..21);
    assert!((mean / 150.0 - 1.0).abs() < 0.05, "{mean} Mbit/s");
    assert!((990.0..=1_001.0).contains(&peak), "{peak} Mbit/s");
    assert!((loss - 0.005).abs() < 0.001, "{loss}");
}

/// Requested averages other than the defaults are also met.
#[test]
fn radio_other_averages_are_met_too() {
    // The path has a low peak rate and many handovers. The test uses a quarter of the seeds of the test above,
    // so the tolerance for the mean is twice as large.
    let settings = Settings {
        mean: Rate::from_mbit_per_sec(30.0),
        peak: Rate::from_mbit_per_sec(90.0),
        loss: 0.02,
        handovers: Nanos::from_secs(2),
        delay: Nanos::ZERO,
    };
    let (mean, peak, loss) = measured(&settings, 1..6);
    assert!((mean / 30.0 - 1.0).abs() < 0.1, "{mean} Mbit/s");
    assert!((88.0..=91.0).contains(&peak), "{peak} Mbit/s");
    assert!((loss / 0.02 - 1.0).abs() < 0.2, "{loss}");
    let none = Settings { loss: 0.0, ..settings };
    assert_eq!(measured(&none, 1..2).2, 0.0);
}

/// Handovers interrupt the transmission for 30 to 80 ms and change the delay.
#[test]
fn radio_handovers_interrupt_and_change_the_delay() {
    let path = radio::generate(3, MINUTES_10, &defaults());
    let mut delays = path.delay.steps().to_vec();
    assert!(delays.iter().all(|&(_, delay)| delay <= Nanos::from_millis(10)));
    // One handover per 12.1 s makes 50 handovers in ten minutes; the bounds are four standard deviations away.
    // One handover in a hundred draws the previous delay again.
    assert!((20..=80).contains(&delays.len()), "{}", delays.len());
    for (at, _) in delays.split_off(1) {
        let at = at.as_nanos() / 1_000_000;
        let after = path.capacity.opportunities_ms.partition_point(|&ms| ms < at);
        let before = path.capacity.opportunities_ms[after - 1];
        // No packet leaves from `at - outage` to `at - 1`; in a slow cell, the last packet may have left earlier.
        assert!(at - before > 30, "silent from {before} to {at}");
        assert!(path.loss.at(Nanos::from_millis(at)) > 0.4, "the burst begins at {at}");
        assert!(path.loss.at(Nanos::from_millis(at + 19)) > 0.4, "and lasts 20 ms at least");
    }
}

/// The same seed gives the same files, and reading the files gives the same path.
#[test]
fn radio_same_seed_gives_same_files_that_read_back() {
    let path = radio::generate(7, 20_000, &defaults());
    assert_eq!(radio::generate(7, 20_000, &defaults()), path);
    assert_ne!(radio::generate(8, 20_000, &defaults()).capacity, path.capacity);
    let period = Nanos::from_millis(20_000);
    assert_eq!(path.capacity.period_duration(), period);
    assert_eq!(CapacityTrace::parse(&path.capacity.to_text()), Ok(path.capacity.clone()));
    assert_eq!(DelayTrace::parse(&path.delay.to_text()).map(|trace| trace.repeating(period)), Ok(path.delay));
    let loss = LossTrace::parse(&path.loss.to_text()).unwrap().repeating(period);
    assert!((0..20_000).all(|ms| loss.at(Nanos::from_millis(ms)) == path.loss.at(Nanos::from_millis(ms))));
}

/// A table of keys defines a path, and an error names the refused key.
#[test]
fn radio_table_makes_a_path_or_names_the_wrong_key() {
    let path = |text| radio_path("t", text).map_err(|error| error.to_string());
    assert_eq!(path(r#"{"kind": "5g", "seed": 4, "period": "2s"}"#).unwrap(), radio::generate(4, 2_000, &defaults()));
    let refused = |text| path(text).unwrap_err();
    assert_eq!(
        refused("kind = '5g'\npeak = '400mbit'\n"),
        "t:2: peak: the peak is too close to the mean\n  accepted: a peak of at least 450mbit, three times the mean"
    );
    assert_eq!(
        refused("kind = '5g'\nloss = '2%'\n"),
        "t:2: loss: `2%` is more than such rare handovers can lose\n  accepted: up to 0.99%, or more frequent handovers"
    );
    assert!(refused("kind = '6g'\n").contains("`6g`"));
    assert!(refused("kind = '5g'\nperiod = '2h'\n").starts_with("t:2: period"));
    assert!(refused("kind = '5g'\nperiod = '0.5s'\n").starts_with("t:2: period"));
    assert!(refused("kind = '5g'\nhandovers = '1ms'\n").starts_with("t:2: handovers"));
    assert!(refused("kind = '5g'\ndelay = '2s'\n").starts_with("t:2: delay"));
}

/// A generated path uses the seed of the run, unless the path's table states a seed.
#[test]
fn radio_path_follows_run_seed_unless_it_has_its_own() {
    let text = |radio: &str| {
        format!(
            "duration = '2s'\nrepeat = 2\n[network]\nradio = {radio}\n[[flows]]\nscheme = 'newreno'\nrtt = '40ms'\n"
        )
    };
    let capacities = |radio: &str| -> Vec<Bytes> {
        let capacity = |run: Run| {
            let spec = resolve(&run.scenario, run.seed, &NoFiles).unwrap();
            let link = &spec.links[0];
            assert!(link.config.loss_trace.is_some() && link.delay_trace.is_some());
            let narrows_net::config::Capacity::Trace(trace) = &link.config.capacity else { panic!() };
            trace.bytes_between(Nanos::ZERO, Nanos::from_secs(60))
        };
        planned(&text(radio), &[]).into_iter().map(capacity).collect()
    };
    let own = capacities("{ kind = '5g', seed = 9 }");
    assert_eq!(own[0], own[1]);
    let the_runs = capacities("'5g'");
    assert_ne!(the_runs[0], the_runs[1]);
    assert_eq!(capacities("{ kind = '5g', seed = 2 }")[0], the_runs[1]);
}
