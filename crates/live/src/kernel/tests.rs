//! The kernel backend in virtual time, and on this machine's kernel where it may.

#[cfg(feature = "bpf")]
mod over_shim;
mod real;
mod virtual_time;

use narrows_scenario::{NoFiles, Plan, Source, expand, resolve};

/// The first run of a scenario.
fn plan(text: &str) -> Plan {
    let planned = expand(&Source { name: "test", text, files: &NoFiles }, &[]).expect("valid");
    resolve(&planned[0].scenario, planned[0].seed, &NoFiles).expect("resolves")
}
