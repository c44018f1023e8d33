//! Where routers stand, and what the keys that name them accept.

mod texts;

use narrows_scenario::{NoFiles, Plan, Source, expand};
use texts::spec;

fn dumbbell(network: &str, schemes: &[&str]) -> Result<Plan, String> {
    let flows = schemes.iter().map(|scheme| format!("[[flows]]\nscheme = \"{scheme}\"\nrtt = \"40ms\"\n"));
    spec(&format!("[network]\nrate = \"10mbit\"\n{network}\n{}", flows.collect::<String>()))
}

/// The routers at the links, with the values of the named parameter.
fn routers(spec: &Plan, param: &str) -> Vec<(String, Option<(&'static str, f64)>)> {
    let of = |link: &narrows_scenario::LinkPlan| {
        let router = link.router.as_ref();
        (link.name.clone(), router.map(|a| (a.entry.info.name, a.params.number(param))))
    };
    spec.links.iter().map(of).collect()
}

/// What a person is told: line and message.
fn notes(text: &str) -> Vec<(Option<usize>, String)> {
    let planned = expand(&Source { name: "test", text, files: &NoFiles }, &[]).expect("it is accepted");
    planned.into_iter().flat_map(|run| run.notes).map(|note| (note.line, note.message)).collect()
}

#[test]
fn a_scheme_that_finds_no_router_of_its_kind_is_told_of_once_for_each_point() {
    let flow = |scheme: &str| format!("[[flows]]\nscheme = \"{scheme}\"\nrtt = \"40ms\"\n");
    let text = |network: &str, more: &str| {
        let flows = flow("rcp") + &flow("brf");
        format!("repeat = 3\n[network]\nrate = \"10mbit\"\n{network}\n{flows}{more}")
    };
    let brf = "brf finds no router `brf` on its way and sends as CUBIC does".to_owned();
    // The first flow brings its router, the second comes too late.
    assert_eq!(notes(&text("", "")), [(Some(9), brf.clone())]);
    let rcp = "rcp finds no router `rcp` on its way and keeps its initial window, or sends at its line rate where one \
               is stated";
    assert_eq!(notes(&text("router = \"none\"", "")), [(Some(6), rcp.to_owned()), (Some(9), brf.clone())]);
    assert_eq!(notes(&text("router = \"brf\"", "")), [(Some(6), rcp.to_owned())]);
    let swept = "[sweep]\n\"network.loss\" = [\"0%\", \"1%\"]\n";
    assert_eq!(notes(&text("", swept)), [(Some(9), brf.clone()), (Some(9), brf)]);
    // Every scheme with its own, and schemes that ask for nothing.
    for scheme in ["rcp", "xcp", "brf", "nodectl", "cubic"] {
        assert_eq!(notes(&format!("[network]\nrate = \"10mbit\"\n{}", flow(scheme))), []);
    }
}

/// ```text
///   a --- b --- c, and a --- c
/// ```
#[test]
fn a_router_counts_where_data_passes_on_any_of_the_ways_of_a_flow() {
    let graph = |at: usize, flow: &str| {
        let own = |n| if n == at { "router = \"nodectl\"\n" } else { "" };
        let links = [("a", "b"), ("b", "c"), ("a", "c")].iter().enumerate();
        let links: String = links
            .map(|(n, (from, to))| format!("[[links]]\nfrom = \"{from}\"\nto = \"{to}\"\n{}", own(n)))
            .collect();
        format!(
            "[network]\nrate = \"10mbit\"\ndelay = \"5ms\"\n{links}[[flows]]\nscheme = \"nodectl\"\n{flow}\n"
        )
    };
    let long = "route = [\"a\", \"b\", \"c\"]";
    let told = |at, flow: &str| notes(&graph(at, flow)).len();
    assert_eq!([0, 1, 2, 3].map(|at| told(at, long)), [0, 0, 1, 1]);
    assert_eq!(told(2, &format!("{long}\nalternatives = [[\"a\", \"c\"]]")), 0);
}

#[test]
fn limits_and_ways_of_a_scheme_that_does_not_negotiate_are_told_of() {
    let text = |scheme: &str| {
        format!(
            "[network]\nrate = \"10mbit\"\n[[flows]]\nscheme = \"{scheme}\"\nrtt = \"40ms\"\nmin_rate = \"1mbit\"\n\
             max_rate = \"2mbit\"\nreceive_rate = \"3mbit\"\n"
        )
    };
    let told = |key| format!("cubic negotiates no rate, so `{key}` changes nothing");
    let expected =
        [(6, "min_rate"), (7, "max_rate"), (8, "receive_rate")].map(|(line, key)| (Some(line), told(key)));
    assert_eq!(notes(&text("cubic")), expected);
    assert_eq!(notes(&text("nodectl")), []);
}

#[test]
fn a_scheme_brings_its_router_to_the_bottleneck_of_a_dumbbell() {
    let place = |network: &str, schemes: &[&str]| {
        let found = routers(&dumbbell(network, schemes).unwrap(), "alpha");
        assert_eq!(found[1], ("reverse".to_owned(), None));
        found[0].1
    };
    assert_eq!(place("", &["cubic", "bbr"]), None);
    assert_eq!(place("", &["cubic", "rcp"]), Some(("rcp", 0.4)));
    assert_eq!(place("", &["xcp", "rcp"]), Some(("xcp", 0.4)));
    assert_eq!(place("router = \"rcp\"", &["xcp"]), Some(("rcp", 0.4)));
    assert_eq!(place("router = \"none\"", &["xcp"]), None);
    assert_eq!(place("router = { kind = \"xcp\", alpha = 0.3 }", &["cubic"]), Some(("xcp", 0.3)));
}

#[test]
fn in_a_graph_links_have_the_routers_that_are_stated() {
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
router = {{ kind = "rcp", beta = 1 }}
[[links]]
from = "b"
to = "c"
[[flows]]
scheme = "rcp"
from = "a"
to = "c"
"#
        );
        let mut found = routers(&spec(&text).unwrap(), "beta");
        found.sort_by(|a, b| a.0.cmp(&b.0));
        found.into_iter().map(|(_, router)| router).collect::<Vec<_>>()
    };
    let own = Some(("rcp", 1.0));
    assert_eq!(graph(""), [own, own, None, None]);
    let common = Some(("xcp", 0.226));
    assert_eq!(graph("router = \"xcp\""), [own, own, common, common]);
}

#[test]
fn refusals_name_what_there_is() {
    for (router, parts) in [
        ("\"rpc\"", ["there is no router `rpc`", "rcp"]),
        ("{ kind = \"rcp\", gain = 1 }", ["`rcp` has no parameter `gain`", "alpha"]),
        ("{ kind = \"rcp\", alpha = 9 }", ["out of range", "0.01 to 2"]),
        (
            "{ kind = \"nodectl\", predictor = 2 }",
            ["`2` is no value of `predictor`", "present or ewma or holt"],
        ),
        ("{ kind = \"none\", alpha = 0.4 }", ["`none` has no such parameter", "no parameter"]),
        ("{ alpha = 0.4 }", ["kind", "network.router"]),
    ] {
        let refusal = dumbbell(&format!("router = {router}"), &["rcp"]).unwrap_err();
        for part in parts {
            assert!(refusal.contains(part), "{router}: {refusal}");
        }
    }
}
