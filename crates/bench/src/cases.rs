//! Benchmark cases: whole scenarios, each with the features that it must exercise.

use std::time::Instant;

use narrows_scenario::result::Counters;
use narrows_scenario::{NoFiles, Plan, ScenarioError, Source, expand, resolve};
use narrows_sim::Engine;
use serde_json::{Value, json};

use crate::{median, unknown};

/// A feature that a case must exercise: name and counter.
type Need = (&'static str, fn(&Counters) -> u64);

/// A benchmark case.
#[derive(Clone, Copy, Debug)]
pub struct Case {
    /// Name.
    pub name: &'static str,
    /// One-line description.
    pub description: &'static str,
    /// Scenario text.
    pub scenario: &'static str,
    needs: &'static [Need],
}

const SACK: Need = ("SACK", |c| c.sack_blocks);
const RECOVERY: Need = ("recovery", |c| c.recoveries);
const PACING: Need = ("pacing", |c| c.paced_waits);
const RATE: Need = ("rate samples", |c| c.rate_samples);
const RTT: Need = ("RTT samples", |c| c.rtt_samples);

/// Builds cases by name; the scenario is read from the file with this name.
macro_rules! cases {
    ($($name:literal, $description:literal, $needs:expr;)+) => {
        &[$(Case {
            name: $name,
            description: $description,
            scenario: include_str!(concat!("cases/", $name, ".toml")),
            needs: &$needs,
        }),+]
    };
}

/// All cases.
pub const CASES: &[Case] = cases! {
    "cubic-10", "10 CUBIC flows, 100 Mbit/s, 40 ms, 60 s", [SACK, RECOVERY, RATE, RTT];
    "bbr-10", "10 BBR flows, 1 Gbit/s, 20 ms, 10 s", [PACING, RATE, RTT];
    "cubic-100", "100 CUBIC flows, 10 Gbit/s, 20 ms, 10 s", [SACK, RECOVERY, RATE, RTT];
    "cubic-1000", "1 000 CUBIC flows, 10 Gbit/s, 20 ms, 1 BDP, starts spread over 2 s, 5 s", [SACK, RECOVERY, RATE, RTT];
    "cubic-10000", "10 000 CUBIC flows, 10 Gbit/s, 20 ms, 1 BDP, starts spread over 2 s, 5 s", [SACK, RECOVERY, RATE, RTT];
};

/// The case with this name.
///
/// # Errors
/// If there is none; the message lists the names.
pub fn find(name: &str) -> Result<&'static Case, String> {
    let found = CASES.iter().find(|case| case.name == name);
    found.ok_or_else(|| unknown("case", name, CASES.iter().map(|case| case.name)))
}

impl Case {
    /// Plans the run of the case.
    ///
    /// # Errors
    /// If the scenario is invalid.
    #[allow(clippy::result_large_err)] // once per case, and its fields are what callers print
    pub fn plan(&self) -> Result<Plan, ScenarioError> {
        let planned = expand(&Source { name: self.name, text: self.scenario, files: &NoFiles }, &[])?;
        resolve(&planned[0].scenario, planned[0].seed, &NoFiles)
    }

    /// Runs the case `repeats` times; the returned row has the median wall time of the event loop alone.
    ///
    /// # Errors
    /// If the scenario is invalid.
    #[allow(clippy::result_large_err)] // once per case, and its fields are what callers print
    pub fn measure(&self, repeats: usize) -> Result<Value, ScenarioError> {
        let plan = self.plan()?;
        let mut walls = Vec::new();
        let result = loop {
            let mut engine = Engine::new(plan.clone());
            let started = Instant::now();
            engine.run_until(plan.duration);
            walls.push(started.elapsed().as_secs_f64());
            let result = engine.finish();
            if walls.len() >= repeats {
                break result;
            }
        };
        let wall_s = median(walls.iter().copied());
        Ok(json!({
            "case": self.name,
            "flows": result.flows.len(),
            "data_packets": result.data_packets,
            "events": result.events,
            "wall_s": wall_s,
            "wall_all_s": walls,
            "packets_per_s": result.data_packets as f64 / wall_s,
            "peak_flow_bytes": result.peak_flow_bytes,
            "counters": result.counters,
            "event_hash": result.event_hash,
            "failed": self.unmet(result.counters()),
        }))
    }

    /// Required features that were not exercised.
    pub fn unmet(&self, counters: &Counters) -> Vec<String> {
        let idle = self.needs.iter().filter(|(_, count)| count(counters) == 0);
        idle.map(|(name, _)| format!("{name} never acted")).collect()
    }
}
