//! Scenarios as texts, for laws.

use narrows_sim::RunResult;
use narrows_sim::scenario::{Source, plan, resolve};
use narrows_sim::spec::Spec;

/// One scenario text as a run.
pub fn spec(text: &str) -> Spec {
    let planned = plan(&Source { name: "law", text, dir: None }, &[]).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(planned.len(), 1, "one run per law");
    resolve(&planned[0].scenario, planned[0].seed, None).unwrap_or_else(|e| panic!("{e}"))
}

/// Runs one scenario text.
pub fn run(text: &str) -> RunResult {
    narrows_sim::run(spec(text))
}
