//! Scenarios: text → checked → [`Plan`].
//!
//! A scenario is TOML, or JSON with the same keys. [`expand`] reads the scenario, applies overrides, expands
//! `[sweep]` and `repeat` into runs, and checks the runs; [`resolve`] converts one run into a [`Plan`]. A
//! diagnostic names the file, the line, the key, the problem and the accepted values.
#![allow(clippy::result_large_err, reason = "errors occur once per command, and callers print their fields")]

use std::collections::BTreeSet;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer};

mod app;
mod datagrams;
mod diagnostic;
mod explain;
pub mod files;
mod flow_entry;
mod flows;
mod htb;
mod identity;
mod keys;
mod link;
mod loss;
mod params;
mod plan;
pub mod profile;
pub mod quantity;
mod queue;
pub mod radio;
mod reader;
mod resolve;
pub mod result;
pub mod schema;
mod subflows;
mod sweep;
mod tcp;
pub mod telemetry;
mod topology;
mod transport;
mod tree;
mod unused;

use datagrams::DatagramFlow;
pub use datagrams::DatagramPlan;
pub use diagnostic::{ScenarioError, Warning};
pub use explain::{Explanation, FlowOptions, LinkOptions, Row};
pub use files::{FileError, Files, NoFiles};
pub use params::{router_settings, settings};
pub use plan::{ConnectionPlan, FlowPlan, Hop, LinkPlan, Path, Plan, TracePlan};
pub use schema::{
    Arrivals, Flow, Link, LossAt, Network, NetworkKind, ParamValue, Policer, Reorder, Scenario, Tcp, Trace,
};

use diagnostic::{Diagnostic, Location, refuse};
use explain::Origins;
use link::Traces;
use reader::Reader;
use schema::short::TextOr;
use sweep::{Grid, MAX_RUNS};
use tree::Tree;

/// The text of a scenario and its files.
#[derive(Clone, Copy)]
pub struct Source<'a> {
    /// The name of the source in messages: a file name, or "command line".
    pub name: &'a str,
    /// The text, TOML or JSON.
    pub text: &'a str,
    /// Reader of the files that the text names.
    pub files: &'a dyn Files,
}

/// The name of the key for the first seed.
const SEED: &str = "seed";

/// One run of a scenario.
#[derive(Clone, Debug)]
pub struct Run {
    /// The swept keys with their values as written, in the order of the axes.
    pub point: Vec<(String, String)>,
    /// The seed.
    pub seed: u64,
    /// The scenario of this run, with the run's seed and without sweep or repetition.
    pub scenario: Scenario,
    /// The run's name of 16 hexadecimal digits: a hash of scenario, seed, capacity traces and version.
    pub id: String,
    /// Warnings about the point; only the point's run with the first seed has them.
    pub warnings: Vec<Warning>,
}

/// Expands a scenario to all runs: the points of its sweep (the last axis varies fastest), each with all its
/// seeds. Overrides are dotted keys with values; a list such as `0.1bdp,1bdp` adds an axis to the sweep.
///
/// # Errors
/// If any run is invalid.
pub fn expand(source: &Source<'_>, overrides: &[(String, String)]) -> Result<Vec<Run>, ScenarioError> {
    let mut all = Vec::new();
    let mut swept_seeds = BTreeSet::new();
    points(source, overrides, |point, tree, points, traces| {
        let runs = runs_of(source, points, point, tree, traces)?;
        if point.iter().any(|(key, _)| key == SEED) {
            check_seeds(&runs, &mut swept_seeds)?;
        }
        all.extend(runs);
        Ok(())
    })?;
    Ok(all)
}

/// Rejects a seed that two points of a sweep over seeds have in common, because its run would count twice.
fn check_seeds(runs: &[Run], seen: &mut BTreeSet<(Vec<(String, String)>, u64)>) -> Result<(), Diagnostic> {
    for run in runs {
        let rest = run.point.iter().filter(|(key, _)| key != SEED).cloned().collect();
        if !seen.insert((rest, run.seed)) {
            let message = format!("`{}` is a seed of two swept values, of {} seeds each", run.seed, runs.len());
            return refuse(SEED, message, "seeds at least `repeat` apart, or one of both");
        }
    }
    Ok(())
}

/// The swept keys of a point with their values.
type Point<'a> = &'a [(String, String)];

/// Calls `each` for every point with its swept keys, its tree, the number of points, and the files read so far.
fn points(
    source: &Source<'_>,
    overrides: &[(String, String)],
    mut each: impl FnMut(Point<'_>, &Tree, u64, &mut Traces) -> Result<(), Diagnostic>,
) -> Result<(), ScenarioError> {
    let report = |diagnostic: Diagnostic, tree: Option<&Tree>| report(diagnostic, source.name, source.text, tree);
    let tree = Tree::parse(source.text).map_err(|diagnostic| report(diagnostic, None))?;
    let grid = Grid::new(tree, overrides).map_err(|diagnostic| report(diagnostic, None))?;
    let points = grid.len().filter(|&points| points <= MAX_RUNS).ok_or_else(|| {
        let message = match grid.len() {
            Some(points) => format!("{points} points"),
            None => "more points than can be counted".to_owned(),
        };
        report(Diagnostic::new("sweep", message).accepted(format!("at most {MAX_RUNS} runs")), Some(grid.base()))
    })?;
    let mut traces = Traces::default();
    for index in 0..points {
        let (point, tree) = grid.point(index).map_err(|diagnostic| grid.prefix(report(diagnostic, None)))?;
        each(&point, &tree, points, &mut traces).map_err(|diagnostic| grid.prefix(report(diagnostic, Some(&tree))))?;
    }
    Ok(())
}

/// The scenario of a point; if it has no name, it gets the name of the source.
fn named(source: &Source<'_>, tree: &Tree) -> Result<Scenario, Diagnostic> {
    let mut scenario = Scenario::deserialize(Reader(tree))?;
    if scenario.name.is_empty() {
        let stem = std::path::Path::new(source.name).file_stem();
        scenario.name = stem.map_or_else(|| source.name.to_owned(), |stem| stem.to_string_lossy().into_owned());
    }
    Ok(scenario)
}

/// Explains every point of a scenario: each effective option and its origin. Overrides have the form that
/// [`expand`] accepts.
///
/// # Errors
/// If any point is invalid.
pub fn explain(source: &Source<'_>, overrides: &[(String, String)]) -> Result<Vec<Explanation>, ScenarioError> {
    let mut all = Vec::new();
    points(source, overrides, |point, tree, _, traces| {
        let scenario = named(source, tree)?;
        let plan = resolve::resolve(&scenario, scenario.seed, source.files, traces)?.plan;
        let origins = Origins { tree, text: source.text, point };
        all.push(explain::explain(&scenario, &plan, &origins)?);
        Ok(())
    })?;
    Ok(all)
}

/// The runs of one point, one per seed.
fn runs_of(
    source: &Source<'_>,
    points: u64,
    point: &[(String, String)],
    tree: &Tree,
    traces: &mut Traces,
) -> Result<Vec<Run>, Diagnostic> {
    let mut scenario = named(source, tree)?;
    let (first, repeat) = (scenario.seed, scenario.repeat);
    if repeat == 0 {
        return refuse("repeat", "`0` is out of range", "a whole number from 1");
    }
    let total = points * u64::from(repeat);
    if total > MAX_RUNS {
        let message = format!("{points} points × {repeat} seeds make {total} runs");
        return refuse("repeat", message, format!("at most {MAX_RUNS} runs"));
    }
    let last = first.checked_add(u64::from(repeat) - 1).ok_or_else(|| {
        Diagnostic::new("seed", format!("{repeat} seeds from {first} go beyond the largest"))
            .accepted(format!("a whole number up to {}", u64::MAX - u64::from(repeat) + 1))
    })?;
    scenario.repeat = 1;
    // The checks depend on the seed only if arrivals are random.
    let random = scenario.flows.iter().any(|flow| flow.arrivals.is_some());
    let mut runs = Vec::new();
    for seed in first..=last {
        scenario.seed = seed;
        let mut warnings = Vec::new();
        if seed == first || random {
            let resolved = resolve::resolve(&scenario, seed, source.files, traces)?;
            if seed == first {
                let warning = |found| Warning::from(report(found, source.name, source.text, Some(tree)));
                warnings.extend(resolved.warnings.into_iter().map(warning));
            }
        }
        let id = id_of(env!("CARGO_PKG_VERSION"), &scenario, traces);
        runs.push(Run { point: point.to_vec(), seed, scenario: scenario.clone(), id, warnings });
    }
    Ok(runs)
}

/// Converts a diagnostic about `text` to the public error; `tree` is the parsed text, if it could be parsed.
fn report(diagnostic: Diagnostic, name: &str, text: &str, tree: Option<&Tree>) -> ScenarioError {
    diagnostic.report(name, text, |key| tree.map_or(Location::Unknown, |tree| tree.location(key)))
}

/// Deserializes a scenario from any format; the `Deserialize` implementation of [`Scenario`] accepts only
/// values with locations.
///
/// # Errors
/// If a key or value is invalid.
pub fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Scenario, D::Error> {
    let tree = Tree::deserialize(deserializer)?;
    Scenario::deserialize(Reader(&tree)).map_err(D::Error::custom)
}

/// Resolves one run. Error messages state no line, because a [`Scenario`] contains no lines.
///
/// # Errors
/// If the scenario is invalid.
pub fn resolve(scenario: &Scenario, seed: u64, files: &dyn Files) -> Result<Plan, ScenarioError> {
    resolve::resolve(scenario, seed, files, &mut Traces::default())
        .map(|resolved| resolved.plan)
        .map_err(|diagnostic| report(diagnostic.at(Location::Unknown), &scenario.name, "", None))
}

/// The JSON Schema of scenario files.
pub fn schema_json() -> String {
    let mut schema = schemars::schema_for!(Scenario);
    let sweep = serde_json::json!({
        "description": "Keys with lists of values: every combination is run. `cases` is one axis whose points set several \
            keys at once.",
        "type": "object",
        "properties": {
            "cases": {
                "type": "array",
                "items": { "type": "object", "properties": { "label": { "type": "string" } } }
            }
        },
        "additionalProperties": { "anyOf": [{ "type": "array", "minItems": 1 }, { "type": "object" }] }
    });
    let properties = schema.ensure_object().get_mut("properties").and_then(serde_json::Value::as_object_mut);
    match properties {
        Some(properties) => properties.insert("sweep".into(), sweep),
        None => unreachable!("a scenario has keys"),
    };
    match serde_json::to_string_pretty(&schema) {
        Ok(text) => text,
        Err(error) => unreachable!("a schema is plain JSON: {error}"),
    }
}

/// Names of the files that the network and its links state under one key.
fn files<'a>(common: &'a Option<String>, own: impl Iterator<Item = &'a Option<String>>) -> Vec<&'a str> {
    std::iter::once(common).chain(own).flatten().map(String::as_str).collect()
}

/// Parses a text as a table and reads it with `read`.
fn read_table<T>(
    name: &str,
    text: &str,
    read: impl FnOnce(&Tree) -> Result<T, Diagnostic>,
) -> Result<T, ScenarioError> {
    let tree = Tree::parse(text).map_err(|diagnostic| report(diagnostic, name, text, None))?;
    read(&tree).map_err(|diagnostic| report(diagnostic, name, text, Some(&tree)))
}

/// Resolves a DCCP flow from the keys of a `flows` table, without a network.
///
/// # Errors
/// If a key or value is invalid.
pub fn datagram_flow(name: &str, text: &str) -> Result<DatagramPlan, ScenarioError> {
    read_table(name, text, |tree| DatagramFlow::deserialize(Reader(tree))?.plan())
}

/// Generates the radio path of a `radio` table; the default seed is 1.
///
/// # Errors
/// If a key or value is invalid.
pub fn radio_path(name: &str, text: &str) -> Result<radio::RadioPath, ScenarioError> {
    read_table(name, text, |tree| {
        let stated = TextOr::<schema::choice::Radio>::deserialize(Reader(tree))?;
        let (seed, length_ms, settings) = link::recipe("", &stated.0, 1)?;
        Ok(radio::generate(seed, length_ms, &settings))
    })
}

/// The stable name of a run. It depends on the engine's version, because another version may give another result.
fn id_of(version: &str, scenario: &Scenario, traces: &Traces) -> String {
    let json = match serde_json::to_string(scenario) {
        Ok(json) => json,
        Err(error) => unreachable!("a scenario is plain JSON: {error}"),
    };
    // FNV-1a, followed by the finalizer of SplitMix64 (Steele, Lea and Flood 2014), which mixes FNV's weak low bits.
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    let mut eat = |bytes: &[u8]| {
        for &byte in bytes {
            hash = (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
    };
    eat(version.as_bytes());
    eat(&scenario.seed.to_le_bytes());
    eat(json.as_bytes());
    // Generated radio paths are not hashed, because the scenario contains their settings.
    let (network, links) = (&scenario.network, &scenario.links);
    let capacity = files(&network.capacity_trace, links.iter().map(|link| &link.capacity_trace));
    let loss = files(&network.loss_trace, links.iter().map(|link| &link.loss_trace));
    let delay = files(&network.delay_trace, links.iter().map(|link| &link.delay_trace));
    traces.contents([&capacity, &loss, &delay], |word| eat(&word.to_le_bytes()));
    for (link, text) in &traces.learned {
        eat(link.as_bytes());
        eat(text.as_bytes());
    }
    hash = (hash ^ (hash >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    hash = (hash ^ (hash >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    format!("{:016x}", hash ^ (hash >> 31))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The run's id depends on the engine's version, so that results of another version are never taken for
    /// results of this version.
    #[test]
    fn run_id_depends_on_engine_version() {
        let text = "[network]\nrate = \"10mbit\"\n[[flows]]\nscheme = \"bbr\"\nrtt = \"40ms\"\n";
        let run = expand(&Source { name: "test", text, files: &NoFiles }, &[]).expect("a scenario").remove(0);
        let of = |version| id_of(version, &run.scenario, &Traces::default());
        assert_eq!(run.id, of(env!("CARGO_PKG_VERSION")));
        for other in ["", "0.0.0", concat!(env!("CARGO_PKG_VERSION"), "1")] {
            assert_ne!(run.id, of(other), "version `{other}`");
        }
    }
}
