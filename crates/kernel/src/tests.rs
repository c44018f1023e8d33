//! Tests of the kernel backend in virtual time, and on this machine's kernel where allowed.

#[cfg(feature = "bpf")]
mod loaded;
#[cfg(feature = "bpf")]
mod negotiated;
#[cfg(feature = "bpf")]
mod over_shim;
mod rates;
mod real;
mod virtual_time;

#[cfg(not(feature = "bpf"))]
use narrows_host::testing::skipped;
use narrows_scenario::{NoFiles, Plan, Source, expand, resolve};

#[cfg(not(feature = "bpf"))]
#[test]
fn schemes_of_ours_need_bpf() {
    assert!(crate::shim::missing().is_some());
    skipped("a build with BPF (clang, libelf-dev and zlib1g-dev)");
}

/// The first run of a scenario.
fn plan(text: &str) -> Plan {
    let planned = expand(&Source { name: "test", text, files: &NoFiles }, &[]).expect("valid");
    resolve(&planned[0].scenario, planned[0].seed, &NoFiles).expect("resolves")
}

/// Bursts of programs are at most as large as Linux's at the link's rate; bursts of the kernel's own schemes are not
/// bounded.
#[test]
fn bursts_of_programs_fit_the_link() {
    use crate::scheme::Scheme;
    use crate::support::largest_burst;
    let kernel = |name: &str| Scheme::Kernel(name.to_owned());
    let link = |rate: &str, rtt: &str| {
        plan(&format!(
            "duration = '1s'\n[network]\nrate = '{rate}'\nbuffer = '200pkt'\n[[flows]]\nscheme = 'cubic'\nrtt = '{rtt}'\n"
        ))
    };
    let slow = link("40mbit", "20ms");
    assert_eq!(largest_burst(&slow, &[kernel("cubic"), kernel("bbr")]), None);
    // 5 MB/s are 6.1 kB in 1/1024 s with the gain 1.25, and 14.6 kB with the gain 3.
    assert_eq!(largest_burst(&slow, &[kernel("cubic"), Scheme::Advised]), Some(5));
    assert_eq!(largest_burst(&slow, &[Scheme::Advised, Scheme::Ours]), Some(11));
    assert_eq!(largest_burst(&slow, &[kernel("bbr_gc")]), Some(11));
    // At a high rate or a short round trip, the burst is Linux's maximum of 64 kB.
    assert_eq!(largest_burst(&link("1gbit", "20ms"), &[Scheme::Ours]), Some(46));
    assert_eq!(largest_burst(&link("40mbit", "200us"), &[Scheme::Ours]), Some(46));
    assert_eq!(largest_burst(&link("100kbit", "20ms"), &[Scheme::Negotiated]), Some(2));
}
