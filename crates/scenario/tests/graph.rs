//! Networks of several links: shortest paths, stated routes, parking lots, and the choice of the bottleneck.

use crate::texts::plan as spec;
use narrows_cc::{Bytes, Nanos};
use narrows_net::config::{Limit, Loss};
use narrows_scenario::{FlowPlan, Plan};

/// The names of the links on the data path and on the acknowledgement path.
fn paths(spec: &Plan, flow: &FlowPlan) -> (Vec<String>, Vec<String>) {
    let names = |hops: &[narrows_scenario::Hop]| hops.iter().map(|hop| spec.links[hop.link].name.clone()).collect();
    (names(&flow.path.forward), names(&flow.path.reverse))
}

fn link(from: &str, to: &str, rate: &str, delay: &str, extra: &str) -> String {
    format!("[[links]]\nfrom = \"{from}\"\nto = \"{to}\"\nrate = \"{rate}\"\ndelay = \"{delay}\"\n{extra}\n")
}

fn flow(extra: &str) -> String {
    format!("[[flows]]\nscheme = \"newreno\"\n{extra}\n")
}

//        ┌──10ms── b ──10ms──┐
//   a ───┤                   ├─── d
//        └───5ms── c ──14ms──┘
fn diamond() -> String {
    link("a", "b", "10mbit", "10ms", "")
        + &link("b", "d", "10mbit", "10ms", "")
        + &link("a", "c", "10mbit", "5ms", "")
        + &link("c", "d", "8mbit", "14ms", "")
}

/// Data takes the path with the smallest delay, and acknowledgements return on the same path.
#[test]
fn shortest_path_has_least_delay_and_acks_return_on_it() {
    let spec = spec(&(diamond() + &flow("from = \"a\"\nto = \"d\"")));
    let (forward, reverse) = paths(&spec, &spec.flows[0]);
    assert_eq!(forward, ["a-c", "c-d"]);
    assert_eq!(reverse, ["d-c", "c-a"]);
    assert_eq!(spec.flows[0].base_rtt, Nanos::from_millis(2 * 19));
    let delays: Vec<_> = spec.flows[0].path.forward.iter().map(|hop| hop.delay).collect();
    assert_eq!(delays, [Nanos::from_millis(5), Nanos::from_millis(14)]);
}

/// Among paths of equal delay, the path with fewer links is chosen, then the first by node names.
#[test]
fn shortest_path_ties_go_to_fewer_links_then_names() {
    // The direct link a-d takes 20 ms, as does the path through b.
    let direct = link("a", "d", "10mbit", "20ms", "");
    let over_b = link("a", "b", "10mbit", "10ms", "") + &link("b", "d", "10mbit", "10ms", "");
    let over_c = link("a", "c", "10mbit", "10ms", "") + &link("c", "d", "10mbit", "10ms", "");
    let ends = flow("from = \"a\"\nto = \"d\"");
    let forward = |links: &str| {
        let spec = spec(&(links.to_owned() + &ends));
        paths(&spec, &spec.flows[0]).0
    };
    assert_eq!(forward(&(over_b.clone() + &direct)), ["a-d"]);
    assert_eq!(forward(&(over_c.clone() + &over_b)), ["a-b", "b-d"]);
    assert_eq!(forward(&(over_b + &over_c)), ["a-b", "b-d"]);
}

/// Flows take the routes that they state.
#[test]
fn stated_routes_are_taken() {
    let text = diamond() + &flow("route = [\"a\", \"b\", \"d\"]\nreverse_route = [\"d\", \"c\", \"a\"]");
    let spec = spec(&text);
    let (forward, reverse) = paths(&spec, &spec.flows[0]);
    assert_eq!(forward, ["a-b", "b-d"]);
    assert_eq!(reverse, ["d-c", "c-a"]);
    assert_eq!(spec.flows[0].base_rtt, Nanos::from_millis(20 + 19));
}

/// Acknowledgements take another path if a link of the data path is one-way.
#[test]
fn acks_find_another_path_around_one_way_links() {
    let text = link("a", "b", "10mbit", "1ms", "duplex = false")
        + &link("b", "c", "10mbit", "2ms", "")
        + &link("c", "a", "10mbit", "3ms", "duplex = false")
        + &flow("from = \"a\"\nto = \"b\"");
    let spec = spec(&text);
    let (forward, reverse) = paths(&spec, &spec.flows[0]);
    assert_eq!(forward, ["a-b"]);
    assert_eq!(reverse, ["b-c", "c-a"]);
    assert_eq!(spec.flows[0].base_rtt, Nanos::from_millis(6));
}

/// The first link of the plan is the slowest link that data crosses; among equally slow links, it is the link
/// that most flows use.
#[test]
fn first_link_is_slowest_with_data_then_most_used() {
    let first = |text: String| spec(&text).links[0].name.clone();
    // Of all links, only c-d has the lower rate of 8 Mbit/s.
    assert_eq!(first(diamond() + &flow("from = \"a\"\nto = \"d\"")), "c-d");
    // No data crosses c-d. Of the remaining links, which have equal rates, the first in the file is chosen.
    assert_eq!(first(diamond() + &flow("route = [\"a\", \"b\", \"d\"]")), "a-b");
    // Two flows cross b-d, and one flow crosses a-b.
    let two = flow("route = [\"a\", \"b\", \"d\"]") + &flow("route = [\"b\", \"d\"]\nlabel = \"short\"");
    assert_eq!(first(diamond() + &two), "b-d");
    // The other links stay in the order of the file.
    let spec = spec(&(diamond() + &two));
    let listed: Vec<_> = spec.links.iter().filter(|link| link.reported).map(|link| link.name.as_str()).collect();
    assert_eq!(listed, ["b-d", "a-b", "a-c", "c-d"]);
}

/// The result includes the reverse direction of a link if data uses it.
#[test]
fn reverse_link_is_reported_where_data_takes_it() {
    let text = diamond() + &flow("from = \"a\"\nto = \"d\"") + &flow("from = \"c\"\nto = \"a\"\nlabel = \"back\"");
    let spec = spec(&text);
    let reported: Vec<_> = spec.links.iter().filter(|link| link.reported).map(|link| link.name.as_str()).collect();
    assert_eq!(reported, ["c-d", "a-b", "b-d", "a-c", "c-a"]);
}

/// The BDP of a link uses the longest RTT of the flows that use the link.
#[test]
fn link_bdp_is_of_the_flows_that_use_it() {
    let text = diamond() + &flow("from = \"a\"\nto = \"d\"") + &flow("from = \"a\"\nto = \"b\"\nlabel = \"short\"");
    let spec = spec(&text);
    let limit = |name: &str| spec.links.iter().find(|link| link.name == name).unwrap().config.limit;
    // The BDPs are: c-d, 8 Mbit/s × 38 ms; a-c, 10 Mbit/s × 38 ms; a-b, 10 Mbit/s × 20 ms. No flow uses b-d, so
    // its RTT is the longest RTT of all flows, 38 ms.
    assert_eq!(limit("c-d"), Limit::Bytes(Bytes::new(38_000)));
    assert_eq!(limit("a-c"), Limit::Bytes(Bytes::new(47_500)));
    assert_eq!(limit("a-b"), Limit::Bytes(Bytes::new(25_000)));
    assert_eq!(limit("b-d"), Limit::Bytes(Bytes::new(47_500)));
    assert_eq!(limit("d-c"), Limit::Bytes(Bytes::new(38_000)));
}

/// If the stated RTT exceeds the path's delay, the difference is added, half of it in each direction.
#[test]
fn stated_rtt_adds_missing_delay_at_the_ends() {
    let spec = spec(&(diamond() + &flow("from = \"a\"\nto = \"d\"\nrtt = \"50ms\"")));
    // The difference is 50 − 38 = 12 ms, half of it in each direction.
    let last = |hops: &[narrows_scenario::Hop]| hops[hops.len() - 1].delay;
    assert_eq!(last(&spec.flows[0].path.forward), Nanos::from_millis(14 + 6));
    assert_eq!(last(&spec.flows[0].path.reverse), Nanos::from_millis(5 + 6));
    assert_eq!(spec.flows[0].base_rtt, Nanos::from_millis(50));
}

/// Links inherit the keys that they do not state from the network, and loss acts in one direction.
#[test]
fn links_inherit_from_network_and_loss_is_one_way() {
    let text = "[network]\nrate = \"20mbit\"\nbuffer = \"30pkt\"\nloss = \"1%\"\ndelay = \"3ms\"\n\
                [[links]]\nfrom = \"a\"\nto = \"b\"\n\
                [[links]]\nfrom = \"b\"\nto = \"c\"\nrate = \"10mbit\"\nbuffer = \"50pkt\"\nloss = \"0%\"\nname = \"slow\"\n"
        .to_owned()
        + &flow("from = \"a\"\nto = \"c\"");
    let spec = spec(&text);
    let names: Vec<_> = spec.links.iter().map(|link| link.name.as_str()).collect();
    assert_eq!(names, ["slow", "a-b", "b-a", "c-b"]);
    let limits: Vec<_> = spec.links.iter().map(|link| link.config.limit).collect();
    assert_eq!(limits, [50, 30, 30, 50].map(Limit::Packets));
    let losses: Vec<_> = spec.links.iter().map(|link| link.config.loss).collect();
    assert_eq!(losses, [Loss::None, Loss::Bernoulli(0.01), Loss::None, Loss::None]);
    assert_eq!(spec.flows[0].base_rtt, Nanos::from_millis(12));
}

/// A parking lot is a chain of links with flows between any two nodes.
#[test]
fn parking_lot_is_a_chain_between_any_two_nodes() {
    //  r0 ──10ms── r1 ──10ms── r2 ──10ms── r3
    let text = "[network]\nkind = \"parking-lot\"\nhops = 3\nrate = \"10mbit\"\ndelay = \"10ms\"\n".to_owned()
        + &flow("label = \"long\"")
        + &flow("from = \"r1\"\nto = \"r2\"\nlabel = \"cross\"")
        + &flow("from = \"r2\"\nto = \"r0\"\nlabel = \"back\"");
    let spec = spec(&text);
    let flows: Vec<_> = spec.flows.iter().map(|flow| paths(&spec, flow).0.join(" ")).collect();
    assert_eq!(flows, ["r0-r1 r1-r2 r2-r3", "r1-r2", "r2-r1 r1-r0"]);
    let rtts: Vec<_> = spec.flows.iter().map(|flow| flow.base_rtt).collect();
    assert_eq!(rtts, [60, 20, 40].map(Nanos::from_millis));
    let reported: Vec<_> = spec.links.iter().filter(|link| link.reported).map(|link| link.name.as_str()).collect();
    assert_eq!(reported, ["r1-r2", "r0-r1", "r1-r0", "r2-r1", "r2-r3"]);
}

/// Any path can have access links at both ends.
#[test]
fn access_links_stand_before_and_after_any_path() {
    let text = "[network]\naccess_rate = \"1gbit\"\naccess_delay = \"2ms\"\n".to_owned()
        + &diamond()
        + &flow("from = \"a\"\nto = \"d\"");
    let spec = spec(&text);
    let (forward, reverse) = paths(&spec, &spec.flows[0]);
    assert_eq!(forward, ["newreno sender up", "a-c", "c-d", "newreno receiver down"]);
    assert_eq!(reverse, ["newreno receiver up", "d-c", "c-a", "newreno sender down"]);
    assert_eq!(spec.flows[0].base_rtt, Nanos::from_millis(38 + 8));
}
