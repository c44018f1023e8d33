//! Flows that negotiate another way through the network: rates on the wire against shares computed by hand.

mod law;

use law::{PAYLOAD, assert_within, run};
use narrows_sim::RunResult;

/// ```text
///             20 x 20
///   s -- 50 -- a      b       t -- 100 -- x
///             30 y 30
/// ```
/// Megabits per second; 4 ms for each link behind `a`, 1 ms for the others.
fn network(duration_s: u32, warmup_s: f64, flows: &str) -> String {
    let link = |from: &str, to: &str, rate: u32, delay: u32| {
        format!("[[links]]\nfrom = \"{from}\"\nto = \"{to}\"\nrate = \"{rate}mbit\"\ndelay = \"{delay}ms\"\n")
    };
    let links = [
        ("s", "a", 50, 1),
        ("t", "x", 100, 1),
        ("a", "x", 20, 4),
        ("x", "b", 20, 4),
        ("a", "y", 30, 4),
        ("y", "b", 30, 4),
    ]
    .map(|(from, to, rate, delay)| link(from, to, rate, delay))
    .concat();
    format!(
        "name = \"ways\"\nduration = \"{duration_s}s\"\nwarmup = \"{warmup_s}s\"\n[network]\nrouter = \"nodectl\"\nbuffer = \"100pkt\"\n{links}{flows}"
    )
}

/// A flow from `s` to `b` by way of `x`, or of `y` if need be.
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
    for (flow, wire) in result.flows.iter().zip(expected) {
        // Two packets more or less in 1.8 s at 20 Mbit/s and more.
        assert_within(&flow.flow, flow.goodput_mbit_s, wire * PAYLOAD, 0.001);
    }
    let drops: u64 = result.links.iter().map(|link| link.drops).sum();
    assert_eq!((drops, result.counters.retransmits), (0, 0));
}

#[test]
fn a_flow_that_is_refused_on_one_way_takes_the_other() {
    assert_rates(&run(&network(8, 1.0, &movable("min_rate = \"25mbit\""))), &[30.0]);
}

/// One that enters behind the first link of the others.
fn hot() -> String {
    flow("[\"t\", \"x\", \"b\"]", "start = \"2s\"")
}

#[test]
fn a_flow_that_is_reduced_below_its_minimum_has_another_way_after_a_few_round_trips() {
    // At 2.01 s the second flow asks, which would leave the first 10 of 20. A round trip on that way or the other takes 18 ms:
    // one until data leaves by y, one until the second flow hears of it, and one to negotiate.
    let result = run(&network(4, 2.2, &(movable("min_rate = \"15mbit\"") + &hot())));
    assert_rates(&result, &[30.0, 20.0]);
}

#[test]
fn a_flow_that_took_another_way_keeps_its_place_on_what_both_ways_share() {
    // Of the first link's 50 the first flow has 30, until one joins that goes no further: then both have 25.
    let beside = flow("[\"s\", \"a\"]", "start = \"4s\"");
    let result = run(&network(12, 6.0, &(movable("min_rate = \"15mbit\"") + &hot() + &beside)));
    assert_rates(&result, &[25.0, 20.0, 25.0]);
}

/// Answers return by x, and the second flow asks before the first has its answer: the reduction that this costs the first
/// arrives before the success that it corrects, and no port can lower that on its way.
///
/// ```text
/// a ---> b      data
///  ^--- x <--'  answers
/// ```
#[test]
fn flows_that_ask_at_once_share_although_answers_return_another_way() {
    let text = "name = \"answers by another way\"\nduration = \"20s\"\n[network]\nkind = \"graph\"\nrate = \"10mbit\"\n\
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
