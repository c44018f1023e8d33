//! Scenario texts as plans and runs.
#![allow(dead_code)] // every file uses a part of it

use narrows_sim::scenario::{Planned, Source, plan, resolve};
use narrows_sim::spec::Spec;

/// The runs of a text, with keys set from outside.
pub fn planned(text: &str, overrides: &[(&str, &str)]) -> Vec<Planned> {
    let overrides: Vec<_> =
        overrides.iter().map(|&(key, value)| (key.to_owned(), value.to_owned())).collect();
    plan(&Source { name: "test.toml", text, dir: None }, &overrides).unwrap_or_else(|error| panic!("{error}"))
}

/// The first run of a text, or what is wrong with it.
pub fn spec(text: &str) -> Result<Spec, String> {
    let planned = plan(&Source { name: "test", text, dir: None }, &[]).map_err(|error| error.to_string())?;
    resolve(&planned[0].scenario, planned[0].seed, None).map_err(|error| error.to_string())
}
