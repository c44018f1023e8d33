//! The kernel backend in virtual time, and on this machine's kernel where it may.

#[cfg(feature = "bpf")]
mod loaded;
#[cfg(feature = "bpf")]
mod negotiated;
#[cfg(feature = "bpf")]
mod over_shim;
mod rates;
mod real;
mod virtual_time;

use std::io::Write as _;

use narrows_scenario::{NoFiles, Plan, Source, expand, resolve};

/// Says what a test was skipped for, past the runner, which captures `eprintln!`.
pub(crate) fn skipped(needs: &str) {
    let _ = writeln!(std::io::stderr(), "skipped: needs {needs}");
}

#[cfg(not(feature = "bpf"))]
#[test]
fn schemes_of_ours_need_bpf() {
    assert!(super::shim::missing().is_some());
    skipped("a build with BPF (clang, libelf-dev and zlib1g-dev)");
}

/// The first run of a scenario.
pub(crate) use real::alone;

fn plan(text: &str) -> Plan {
    let planned = expand(&Source { name: "test", text, files: &NoFiles }, &[]).expect("valid");
    resolve(&planned[0].scenario, planned[0].seed, &NoFiles).expect("resolves")
}
