//! Where allocators stand, and what the keys that name them accept.

mod texts;

use narrows_sim::spec::Spec;
use texts::spec;

fn dumbbell(network: &str, schemes: &[&str]) -> Result<Spec, String> {
    let flows = schemes.iter().map(|scheme| format!("[[flows]]\nscheme = \"{scheme}\"\nrtt = \"40ms\"\n"));
    spec(&format!("[network]\nrate = \"10mbit\"\n{network}\n{}", flows.collect::<String>()))
}

/// The allocators at the links, with the values of the named parameter.
fn allocators(spec: &Spec, param: &str) -> Vec<(String, Option<(&'static str, f64)>)> {
    let of = |link: &narrows_sim::spec::LinkSpec| {
        let allocator = link.config.allocator.as_ref();
        (link.name.clone(), allocator.map(|a| (a.entry.info.name, a.params.number(param))))
    };
    spec.links.iter().map(of).collect()
}

#[test]
fn a_scheme_brings_its_allocator_to_the_bottleneck_of_a_dumbbell() {
    let place = |network: &str, schemes: &[&str]| {
        let found = allocators(&dumbbell(network, schemes).unwrap(), "alpha");
        assert_eq!(found[1], ("reverse".to_owned(), None));
        found[0].1
    };
    assert_eq!(place("", &["cubic", "bbr"]), None);
    assert_eq!(place("", &["cubic", "rcp"]), Some(("rcp", 0.4)));
    assert_eq!(place("", &["xcp", "rcp"]), Some(("xcp", 0.4)));
    assert_eq!(place("allocator = \"rcp\"", &["xcp"]), Some(("rcp", 0.4)));
    assert_eq!(place("allocator = \"none\"", &["xcp"]), None);
    assert_eq!(place("allocator = { kind = \"xcp\", alpha = 0.3 }", &["cubic"]), Some(("xcp", 0.3)));
}

#[test]
fn in_a_graph_links_have_the_allocators_that_are_stated() {
    let graph = |network: &str| {
        let text = format!(
            r#"
[network]
rate = "10mbit"
delay = "5ms"
{network}
[[links]]
from = "a"
to = "b"
allocator = {{ kind = "rcp", beta = 1 }}
[[links]]
from = "b"
to = "c"
[[flows]]
scheme = "rcp"
from = "a"
to = "c"
"#
        );
        let mut found = allocators(&spec(&text).unwrap(), "beta");
        found.sort_by(|a, b| a.0.cmp(&b.0));
        found.into_iter().map(|(_, allocator)| allocator).collect::<Vec<_>>()
    };
    let own = Some(("rcp", 1.0));
    assert_eq!(graph(""), [own, own, None, None]);
    let common = Some(("xcp", 0.226));
    assert_eq!(graph("allocator = \"xcp\""), [own, own, common, common]);
}

#[test]
fn refusals_name_what_there_is() {
    for (allocator, parts) in [
        ("\"rpc\"", ["there is no allocator `rpc`", "rcp"]),
        ("{ kind = \"rcp\", gain = 1 }", ["`rcp` has no parameter `gain`", "alpha"]),
        ("{ kind = \"rcp\", alpha = 9 }", ["out of range", "0.01 to 2"]),
        ("{ kind = \"none\", alpha = 0.4 }", ["`none` has no such parameter", "no parameter"]),
        ("{ alpha = 0.4 }", ["kind", "network.allocator"]),
    ] {
        let refusal = dumbbell(&format!("allocator = {allocator}"), &["rcp"]).unwrap_err();
        for part in parts {
            assert!(refusal.contains(part), "{allocator}: {refusal}");
        }
    }
}
