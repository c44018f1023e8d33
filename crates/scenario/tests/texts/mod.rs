//! Runs and plans of scenarios that tests state as strings.
#![allow(dead_code)] // each test file uses some of these items

use std::path::Path;

use narrows_scenario::{FileError, Files, NoFiles, Plan, Run, Source, expand, resolve};

/// The files of the folder with this path.
pub struct Folder<'a>(pub &'a str);

impl Files for Folder<'_> {
    fn read(&self, name: &str) -> Result<String, FileError> {
        let path = Path::new(self.0).join(name);
        std::fs::read_to_string(&path).map_err(|error| FileError { place: path.display().to_string(), error })
    }
}

/// Tables of `flows`, each with scheme, RTT and further keys.
pub fn flows(tables: &[(&str, &str, &str)]) -> String {
    let table = |(scheme, rtt, more): &(&str, &str, &str)| {
        format!("[[flows]]\nscheme = \"{scheme}\"\nrtt = \"{rtt}\"\n{more}\n")
    };
    tables.iter().map(table).collect()
}

/// The runs of a scenario with overrides.
pub fn planned(text: &str, overrides: &[(&str, &str)]) -> Vec<Run> {
    let overrides: Vec<_> = overrides.iter().map(|&(key, value)| (key.to_owned(), value.to_owned())).collect();
    expand(&Source { name: "test.toml", text, files: &NoFiles }, &overrides).unwrap_or_else(|error| panic!("{error}"))
}

/// The plan of the scenario's first run, or the error message.
pub fn spec(text: &str) -> Result<Plan, String> {
    let planned = expand(&Source { name: "test", text, files: &NoFiles }, &[]).map_err(|error| error.to_string())?;
    resolve(&planned[0].scenario, planned[0].seed, &NoFiles).map_err(|error| error.to_string())
}

/// The plan of a scenario with exactly one run.
pub fn plan(text: &str) -> Plan {
    plan_with(text, &[])
}

/// The plan of a scenario that has exactly one run with these overrides.
pub fn plan_with(text: &str, overrides: &[(&str, &str)]) -> Plan {
    let runs = planned(text, overrides);
    assert_eq!(runs.len(), 1);
    resolve(&runs[0].scenario, runs[0].seed, &NoFiles).unwrap_or_else(|error| panic!("{error}"))
}

/// The warnings about a scenario: line and message.
pub fn warnings(text: &str) -> Vec<(Option<usize>, String)> {
    planned(text, &[]).into_iter().flat_map(|run| run.warnings).map(|found| (found.line, found.message)).collect()
}

/// Links of a graph, each with the names of its two nodes and further keys.
pub fn links(tables: &[(&str, &str, &str)]) -> String {
    let table =
        |(from, to, more): &(&str, &str, &str)| format!("[[links]]\nfrom = \"{from}\"\nto = \"{to}\"\n{more}\n");
    tables.iter().map(table).collect()
}
