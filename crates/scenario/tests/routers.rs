//! Placement of router algorithms on links, and the keys that select them.

use crate::texts::{links, spec, warnings};
use narrows_scenario::Plan;

fn dumbbell(network: &str, schemes: &[&str]) -> Result<Plan, String> {
    let flows = schemes.iter().map(|scheme| format!("[[flows]]\nscheme = \"{scheme}\"\nrtt = \"40ms\"\n"));
    spec(&format!("[network]\nrate = \"10mbit\"\n{network}\n{}", flows.collect::<String>()))
}

/// The router at each link, with the value of the named parameter.
fn routers(spec: &Plan, param: &str) -> Vec<(String, Option<(&'static str, f64)>)> {
    let of = |link: &narrows_scenario::LinkPlan| {
        let router = link.router.as_ref();
        (link.name.clone(), router.map(|a| (a.entry.info.name, a.params.number(param))))
    };
    spec.links.iter().map(of).collect()
}

/// A scheme whose router algorithm is missing on the path causes one warning per point of a sweep.
#[test]
fn scheme_without_its_router_gives_one_warning_per_point() {
    let flow = |scheme: &str| format!("[[flows]]\nscheme = \"{scheme}\"\nrtt = \"40ms\"\n");
    let text = |network: &str, more: &str| {
        let flows = flow("rcp") + &flow("brf");
        format!("repeat = 3\n[network]\nrate = \"10mbit\"\n{network}\n{flows}{more}")
    };
    let brf = "brf finds no router `brf` on its path and sends as CUBIC does".to_owned();
    // The first flow's scheme adds the router `rcp` to the bottleneck, so the second flow finds no `brf` there.
    assert_eq!(warnings(&text("", "")), [(Some(9), brf.clone())]);
    let rcp = "rcp finds no router `rcp` on its path and keeps its initial window, or sends at its line rate where one \
               is stated";
    assert_eq!(warnings(&text("router = \"none\"", "")), [(Some(6), rcp.to_owned()), (Some(9), brf.clone())]);
    assert_eq!(warnings(&text("router = \"brf\"", "")), [(Some(6), rcp.to_owned())]);
    let swept = "[sweep]\n\"network.loss\" = [\"0%\", \"1%\"]\n";
    assert_eq!(warnings(&text("", swept)), [(Some(9), brf.clone()), (Some(9), brf)]);
    // A scheme whose router is on the path causes no warning, and neither does a scheme that needs no router.
    for scheme in ["rcp", "xcp", "brf", "nodectl", "cubic"] {
        assert_eq!(warnings(&format!("[network]\nrate = \"10mbit\"\n{}", flow(scheme))), []);
    }
}

/// ```text
///   a --- b --- c, and a --- c
/// ```
///
/// A router algorithm counts as present if data passes it on any path of the flow.
#[test]
fn router_on_any_path_of_a_flow_prevents_the_warning() {
    let graph = |at: usize, flow: &str| {
        let own = |n| if n == at { "router = \"nodectl\"\n" } else { "" };
        let links = links(&[("a", "b", own(0)), ("b", "c", own(1)), ("a", "c", own(2))]);
        format!("[network]\nrate = \"10mbit\"\ndelay = \"5ms\"\n{links}[[flows]]\nscheme = \"nodectl\"\n{flow}\n")
    };
    let long = "route = [\"a\", \"b\", \"c\"]";
    let found = |at, flow: &str| warnings(&graph(at, flow)).len();
    assert_eq!([0, 1, 2, 3].map(|at| found(at, long)), [0, 0, 1, 1]);
    assert_eq!(found(2, &format!("{long}\nalternatives = [[\"a\", \"c\"]]")), 0);
}

/// Rate limits and alternate paths cause warnings if the flow's scheme does not negotiate rates.
#[test]
fn negotiation_keys_without_negotiation_give_warnings() {
    let text = |scheme: &str| {
        format!(
            "[network]\nrate = \"10mbit\"\n[[flows]]\nscheme = \"{scheme}\"\nrtt = \"40ms\"\nmin_rate = \"1mbit\"\n\
             max_rate = \"2mbit\"\nreceive_rate = \"3mbit\"\n"
        )
    };
    let unused = |key| format!("unused setting `{key}`: cubic does not negotiate rates");
    let expected = [(6, "min_rate"), (7, "max_rate"), (8, "receive_rate")].map(|(line, key)| (Some(line), unused(key)));
    assert_eq!(warnings(&text("cubic")), expected);
    assert_eq!(warnings(&text("nodectl")), []);
}

/// A scheme adds its router algorithm to the bottleneck of a dumbbell.
#[test]
fn scheme_brings_its_router_to_dumbbell_bottleneck() {
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

/// The links of a graph have the stated router algorithms.
#[test]
fn graph_links_have_the_stated_routers() {
    let graph = |network: &str| {
        let links = links(&[("a", "b", "router = { kind = \"rcp\", beta = 1 }"), ("b", "c", "")]);
        let flow = "[[flows]]\nscheme = \"rcp\"\nfrom = \"a\"\nto = \"c\"\n";
        let text = format!("[network]\nrate = \"10mbit\"\ndelay = \"5ms\"\n{network}\n{links}{flow}");
        let mut found = routers(&spec(&text).unwrap(), "beta");
        found.sort_by(|a, b| a.0.cmp(&b.0));
        found.into_iter().map(|(_, router)| router).collect::<Vec<_>>()
    };
    let own = Some(("rcp", 1.0));
    assert_eq!(graph(""), [own, own, None, None]);
    let common = Some(("xcp", 0.226));
    assert_eq!(graph("router = \"xcp\""), [own, own, common, common]);
}

/// Errors about router algorithms and their parameters list the known names.
#[test]
fn router_refusals_list_the_known_names() {
    for (router, parts) in [
        ("\"rpc\"", ["there is no router `rpc`", "rcp"]),
        ("{ kind = \"rcp\", gain = 1 }", ["`rcp` has no parameter `gain`", "alpha"]),
        ("{ kind = \"rcp\", alpha = 9 }", ["out of range", "0.01 to 2"]),
        ("{ kind = \"nodectl\", predictor = 2 }", ["`2` is not a value of `predictor`", "present or ewma or holt"]),
        ("{ kind = \"none\", alpha = 0.4 }", ["`none` has no such parameter", "no parameter"]),
        ("{ alpha = 0.4 }", ["kind", "network.router"]),
    ] {
        let refusal = dumbbell(&format!("router = {router}"), &["rcp"]).unwrap_err();
        for part in parts {
            assert!(refusal.contains(part), "{router}: {refusal}");
        }
    }
}

/// `literal` selects the printed forms of schemes, routers and their controller.
#[test]
fn literal_selects_the_printed_forms() {
    let forms = |top: &str| {
        let text = "[network]\nrate = \"10mbit\"\nrouter = \"brf\"\n[[flows]]\nscheme = \"bbr-gc\"\nrtt = \"40ms\"\n";
        let plan = spec(&format!("{top}{text}")).unwrap();
        let router = plan.links[0].router.as_ref().unwrap().is_literal();
        (plan.flows[0].params.flag("literal"), router, plan.controller.printed)
    };
    assert_eq!(forms("literal = true\n"), (true, true, true));
    assert_eq!(forms(""), (false, false, false));
}
