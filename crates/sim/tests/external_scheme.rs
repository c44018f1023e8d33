//! The simulator runs schemes that are not in the registry.

use crate::external::HALVING;
use crate::law::spec;
use narrows_cc::Params;

const SCENARIO: &str = "duration = \"10s\"\nseed = 7\n[network]\nrate = \"20mbit\"\nloss = \"0.1%\"\n\
    [[flows]]\nscheme = \"newreno\"\nrtt = \"40ms\"\n[[flows]]\nscheme = \"cubic\"\nrtt = \"40ms\"\n";

/// An unregistered copy of NewReno beside CUBIC causes the same events as the registered NewReno.
#[test]
fn external_newreno_copy_makes_same_events() {
    let registered = narrows_sim::run(spec(SCENARIO));
    let mut spec = spec(SCENARIO);
    (spec.flows[0].scheme, spec.flows[0].params) = (&HALVING, Params::defaults(HALVING.info.params));
    let external = narrows_sim::run(spec);
    assert_eq!(external.flows[0].scheme, "halving");
    assert_eq!((external.event_hash, external.events), (registered.event_hash, registered.events));
    assert_eq!(external.flows[0].goodput_mbit_s, registered.flows[0].goodput_mbit_s);
}
