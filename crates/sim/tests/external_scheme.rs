//! The simulator runs schemes from outside the registry.

#[path = "../../tcp/tests/external/mod.rs"]
mod external;

use external::HALVING;
use narrows_cc::Params;
use narrows_scenario::{NoFiles, Plan, Source, expand, resolve};

const SCENARIO: &str = "name = \"external\"\nduration = \"10s\"\nseed = 7\n[network]\nrate = \"20mbit\"\nloss = \"0.1%\"\n\
    [[flows]]\nscheme = \"newreno\"\nrtt = \"40ms\"\n[[flows]]\nscheme = \"cubic\"\nrtt = \"40ms\"\n";

fn spec() -> Plan {
    let planned = expand(&Source { name: "external", text: SCENARIO, files: &NoFiles }, &[]).unwrap();
    resolve(&planned[0].scenario, planned[0].seed, &NoFiles).unwrap()
}

/// A copy of NewReno outside the registry, beside CUBIC, makes the very events that the registered one makes.
#[test]
fn copy_of_newreno_makes_the_same_events() {
    let registered = narrows_sim::run(spec());
    let mut spec = spec();
    (spec.flows[0].scheme, spec.flows[0].params) = (&HALVING, Params::defaults(HALVING.info.params));
    let external = narrows_sim::run(spec);
    assert_eq!(external.flows[0].scheme, "halving");
    assert_eq!((external.event_hash, external.events), (registered.event_hash, registered.events));
    assert_eq!(external.flows[0].goodput_mbit_s, registered.flows[0].goodput_mbit_s);
}
