//! Identity of flows (addresses, contents and alternate paths), and settings of the controller.

use crate::texts::{links, spec};
use narrows_cc::{Nanos, Rate};
use narrows_routers::FiveTuple;
use narrows_scenario::Plan;

fn dumbbell(network: &str, flows: &[&str]) -> Result<Plan, String> {
    let flows = flows.iter().map(|keys| format!("[[flows]]\nscheme = \"rcp\"\nrtt = \"40ms\"\n{keys}\n"));
    spec(&format!("[network]\nrate = \"10mbit\"\n{network}\n{}", flows.collect::<String>()))
}

fn tuples(spec: &Plan) -> Vec<FiveTuple> {
    spec.links[0].router.as_ref().map(|router| router.flows.to_vec()).unwrap_or_default()
}

/// Flows have distinct addresses by default, and share an address that they all state.
#[test]
fn flows_have_own_addresses_and_share_stated_ones() {
    let found = tuples(
        &dumbbell(
            "",
            &["count = 2", "protocol = \"udp\"\nport = 53\nsource = \"192.0.2.1\"\ndestination = \"192.0.2.255\""],
        )
        .unwrap(),
    );
    let host = |a: u32, b: u32, c: u32, d: u32| (a << 24) | (b << 16) | (c << 8) | d;
    let tcp = |n: u16| FiveTuple {
        source: host(10, 0, 0, 1),
        destination: host(10, 128, 0, 1),
        source_port: 49_152 + n,
        destination_port: 5001,
        protocol: 6,
    };
    assert_eq!(found[..2], [tcp(0), tcp(1)]);
    let udp = (found[2].source, found[2].destination, found[2].destination_port, found[2].protocol);
    assert_eq!(udp, (host(192, 0, 2, 1), host(192, 0, 2, 255), 53, 17));
}

/// Flows with the same content are subflows of one transmission.
#[test]
fn flows_of_one_content_are_one_transmission() {
    let spec = dumbbell(
        "",
        &[
            "count = 2",
            "content = 7\ncount = 2\nmin_rate = \"1mbit\"\nmax_rate = \"8mbit\"\nreceive_rate = \"4mbit\"",
            "content = 7",
            "content = 8",
        ],
    )
    .unwrap();
    let requests: Vec<_> = spec.flows.iter().map(|flow| flow.negotiation).collect();
    let names: Vec<_> = requests.iter().map(|request| (request.content, request.subflow)).collect();
    let own = 1 << 31;
    assert_eq!(names, [(own, 0), (own + 1, 0), (7, 0), (7, 1), (7, 2), (8, 0)]);
    assert!(requests[2].destination == requests[4].destination && requests[4].destination != requests[5].destination);
    let mbit = Rate::from_mbit_per_sec;
    assert_eq!((requests[3].min, requests[3].max, requests[3].receive), (mbit(1.0), mbit(8.0), mbit(4.0)));
    assert_eq!((requests[0].min, requests[0].paths), (Rate::ZERO, 1));
}

/// A graph with a flow from a to b through x and with these alternate paths; another path leads through y.
fn graph(alternatives: &str) -> Result<Plan, String> {
    let links = links(&[("a", "x", ""), ("a", "y", ""), ("x", "b", ""), ("y", "b", "")]);
    spec(&format!(
        "[network]\nrate = \"10mbit\"\ndelay = \"5ms\"\n{links}\
         [[flows]]\nscheme = \"rcp\"\nfrom = \"a\"\nto = \"b\"\nalternatives = [{alternatives}]\n"
    ))
}

/// Alternate paths connect the same nodes, in both directions.
#[test]
fn alternate_paths_join_the_same_nodes() {
    let found = graph("[\"a\", \"y\", \"b\"]").unwrap();
    let flow = &found.flows[0];
    let names = |hops: &[narrows_scenario::Hop]| -> Vec<String> {
        hops.iter().map(|hop| found.links[hop.link].name.clone()).collect()
    };
    assert_eq!(names(&flow.path.forward), ["a-x", "x-b"]);
    assert_eq!((names(&flow.alternates[0].forward), flow.alternates.len()), (vec!["a-y".into(), "y-b".into()], 1));
    assert_eq!(names(&flow.alternates[0].reverse), ["b-y", "y-a"]);
    assert_eq!(flow.negotiation.paths, 2);
    let opposite = |name: &str| {
        let link = found.links.iter().find(|link| link.name == name).unwrap();
        link.opposite.map(|index| found.links[index].name.clone())
    };
    assert_eq!((opposite("a-x"), opposite("b-y")), (Some("x-a".into()), Some("y-b".into())));
}

/// The settings of the controller, and the time at which a router algorithm fails, reach the plan.
#[test]
fn controller_and_end_of_router_are_read() {
    let network = "router = { kind = \"rcp\", dies = \"20s\" }\ncontroller = { poll = \"200ms\", queue = \"5%\" }";
    let found = dumbbell(network, &[""]).unwrap();
    assert_eq!(found.links[0].router.as_ref().unwrap().dies, Nanos::from_secs(20));
    assert_eq!((found.controller.poll, found.controller.delay), (Nanos::from_millis(200), Nanos::from_millis(10)));
    assert_eq!((found.controller.utilization, found.controller.queue), (0.98, 0.05));
    assert_eq!(tuples(&found).len(), 1);
}

/// Impossible addresses, rates, contents and alternate paths are refused.
#[test]
fn identity_impossible_values_are_refused() {
    let refused = |result: Result<Plan, String>, part: &str| {
        let message = result.expect_err(part);
        assert!(message.contains(part), "{message}");
    };
    refused(dumbbell("", &["source = \"10.0.0\""]), "`10.0.0` is not an address");
    refused(dumbbell("", &["min_rate = \"2mbit\"\nmax_rate = \"1mbit\""]), "`min_rate` exceeds `max_rate`");
    refused(dumbbell("", &["content = 3000000000"]), "out of range");
    refused(dumbbell("", &["alternatives = [[\"a\", \"b\"]]"]), "a dumbbell has only one path");
    refused(dumbbell("controller = { poll = \"0s\" }", &[""]), "a polling interval of zero");
    refused(dumbbell("router = { kind = \"none\", dies = \"1s\" }", &[""]), "dies");
    refused(graph("[\"a\", \"y\"]"), "does not lead from the sender");
    refused(graph(&"[\"a\", \"y\", \"b\"], ".repeat(4)), "4 alternate paths");
}
