//! Scenario texts as plans.

use narrows_scenario::{NoFiles, Plan, Source, expand, resolve};

/// Plan of a text with one run.
pub fn plan(text: &str) -> Plan {
    let runs =
        expand(&Source { name: "trace", text, files: &NoFiles }, &[]).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(runs.len(), 1, "one run per text");
    resolve(&runs[0].scenario, runs[0].seed, &NoFiles).unwrap_or_else(|e| panic!("{e}"))
}
