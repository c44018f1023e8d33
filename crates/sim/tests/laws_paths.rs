//! Laws of flows that negotiate an alternate path: rates on the wire are compared with shares computed by hand.

use crate::law::{PAYLOAD, assert_lossless, assert_within, link, run, scenario};
use narrows_sim::RunResult;

/// ```text
///             20 x 20
///   s -- 50 -- a      b       t -- 100 -- x
///             30 y 30
/// ```
/// Rates are in Mbit/s. The delay of each link behind `a` is 4 ms, that of the others 1 ms.
fn network(duration_s: f64, warmup_s: f64, flows: &str) -> String {
    let links = [
        ("s", "a", "50mbit", "1ms"),
        ("t", "x", "100mbit", "1ms"),
        ("a", "x", "20mbit", "4ms"),
        ("x", "b", "20mbit", "4ms"),
        ("a", "y", "30mbit", "4ms"),
        ("y", "b", "30mbit", "4ms"),
    ]
    .map(|(from, to, rate, delay)| link(from, to, rate, delay, ""))
    .concat();
    let network = format!("router = \"nodectl\"\nbuffer = \"100pkt\"\n{links}");
    scenario(duration_s, warmup_s, &network, flows)
}

/// A flow from `s` to `b` through `x`, with the alternate path through `y`.
fn movable(more: &str) -> String {
    format!(
        "[[flows]]\nscheme = \"nodectl\"\nroute = [\"s\", \"a\", \"x\", \"b\"]\nalternatives = [[\"s\", \"a\", \"y\", \"b\"]]\n{more}\n"
    )
}

fn flow(route: &str, more: &str) -> String {
    format!("[[flows]]\nscheme = \"nodectl\"\nroute = {route}\n{more}\n")
}

#[track_caller]
fn assert_rates(result: &RunResult, expected: &[f64]) {
    // Tolerance: two packets in 1.8 s at 20 Mbit/s or more.
    crate::law::assert_rates(result, expected, 0.001);
    assert_lossless(result);
}

/// A flow takes the alternate path if its first path refuses its minimum rate.
#[test]
fn nodectl_refused_flow_takes_alternate_path() {
    assert_rates(&run(&network(8.0, 1.0, &movable("min_rate = \"25mbit\""))), &[30.0]);
}

/// A flow that enters the network behind the first link of the other flows.
fn hot() -> String {
    flow("[\"t\", \"x\", \"b\"]", "start = \"2s\"")
}

/// A flow reduced below its minimum uses its alternate path after a few round trips.
#[test]
fn nodectl_flow_below_minimum_moves_in_few_round_trips() {
    // At 2.01 s the second flow requests a rate that would leave the first flow 10 of 20 Mbit/s. A round trip on either
    // path takes 18 ms: one passes until data leaves through y, one until the second flow learns of the free rate, and
    // one for the negotiation.
    let result = run(&network(4.0, 2.2, &(movable("min_rate = \"15mbit\"") + &hot())));
    assert_rates(&result, &[30.0, 20.0]);
}

/// A flow that moved keeps its reservation on the link that both paths share.
#[test]
fn nodectl_moved_flow_keeps_share_on_common_link() {
    // The first flow has 30 of the first link's 50 Mbit/s until another flow joins there: then both have 25 Mbit/s.
    let beside = flow("[\"s\", \"a\"]", "start = \"4s\"");
    let result = run(&network(12.0, 6.0, &(movable("min_rate = \"15mbit\"") + &hot() + &beside)));
    assert_rates(&result, &[25.0, 20.0, 25.0]);
}

/// Simultaneous requests get fair shares although the answers take another path.
///
/// Answers return through x, and the second flow sends its request before the first flow gets its answer. The message
/// that reduces the first flow's rate arrives before the success that it corrects, and no port on the path of this
/// success can lower its rate.
///
/// ```text
/// a ---> b      data
///  ^--- x <--'  answers
/// ```
#[test]
fn nodectl_simultaneous_requests_share_with_answers_elsewhere() {
    let text = "duration = \"20s\"\n[network]\nkind = \"graph\"\nrate = \"10mbit\"\n\
        delay = \"10ms\"\nrouter = \"nodectl\"\n\
        [[links]]\nfrom = \"a\"\nto = \"b\"\n[[links]]\nfrom = \"b\"\nto = \"x\"\n[[links]]\nfrom = \"x\"\nto = \"a\"\n\
        [[flows]]\nscheme = \"nodectl\"\nfrom = \"a\"\nto = \"b\"\ncount = 2\nreverse_route = [\"b\", \"x\", \"a\"]\n";
    let result = run(text);
    let half = 5.0 * PAYLOAD;
    for flow in &result.flows {
        assert_within("half of the link", flow.goodput_mbit_s, half, 0.03);
    }
    assert_eq!(result.links[0].drops, 0);
}
