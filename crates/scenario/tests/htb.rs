//! Classes of a token bucket in a scenario: the resulting settings, and the class of each flow.

use crate::texts::{flows, links, plan as spec};
use narrows_cc::{Bytes, Nanos, Rate};
use narrows_net::config::{Htb, HtbClass, Limit, Queue};
use narrows_scenario::Plan;

fn htb(spec: &Plan, link: usize) -> &Htb {
    match &spec.links[link].config.queue {
        Queue::Htb(htb) => htb,
        other => panic!("{other:?}"),
    }
}

/// The label of each flow and the name of its class at a link.
fn classes(spec: &Plan, link: usize) -> Vec<(String, String)> {
    let htb = htb(spec, link);
    let of = |(flow, row): (usize, &narrows_scenario::FlowPlan)| {
        let class = &htb.classes()[usize::from(htb.leaf_of(flow as u32, None))];
        (row.label.clone(), class.name.clone())
    };
    spec.flows.iter().enumerate().map(of).collect()
}

/// A link gets the classes that the scenario states.
#[test]
fn htb_link_gets_the_stated_classes() {
    let spec = spec(
        r#"
[network]
rate = "100mbit"
buffer = "70pkt"
[network.queue]
kind = "htb"
default = "rest"
classes = [
    { name = "rest", parent = "all", rate = "20mbit" },
    { name = "all", rate = "80mbit", ceil = "90mbit", ceil_burst = "50kB" },
    { name = "first", parent = "all", rate = "8mbit", ceil = "9mbit", priority = 3, quantum = "3kB", burst = "20kB",
      buffer = "2bdp", schemes = ["bbr"] },
    { name = "policed", rate = "1mbit", policed = true, burst = "3kB", buffer = "5ms", flows = ["cubic"] },
]
[[flows]]
scheme = "cubic"
rtt = "40ms"
"#,
    );
    let mbit = Rate::from_mbit_per_sec;
    let expected = [
        HtbClass { parent: Some(1), ..HtbClass::new("rest", mbit(20.0)) },
        HtbClass { ceil: Some(mbit(90.0)), ceil_burst: Some(Bytes::new(50_000)), ..HtbClass::new("all", mbit(80.0)) },
        HtbClass {
            parent: Some(1),
            ceil: Some(mbit(9.0)),
            priority: 3,
            quantum: Some(3_000),
            burst: Some(Bytes::new(20_000)),
            // The limit is two BDPs of 8 Mbit/s × 40 ms.
            limit: Some(Limit::Bytes(Bytes::new(80_000))),
            ..HtbClass::new("first", mbit(8.0))
        },
        HtbClass {
            ceil: Some(mbit(1.0)),
            burst: Some(Bytes::new(3_000)),
            ceil_burst: Some(Bytes::new(3_000)),
            limit: Some(Limit::Time(Nanos::from_millis(5))),
            policed: true,
            ..HtbClass::new("policed", mbit(1.0))
        },
    ];
    assert_eq!(htb(&spec, 0).classes(), expected);
    assert_eq!(spec.links[0].config.limit, Limit::Packets(70));
    // The reverse link of a dumbbell still has drop-tail.
    assert_eq!(spec.links[1].config.queue, Queue::DropTail);
}

/// A flow belongs to the first class whose conditions it meets completely.
#[test]
fn htb_flow_joins_first_class_that_it_fully_matches() {
    let spec = spec(
        &(r#"
[network]
rate = "100mbit"
[network.queue]
kind = "htb"
default = "rest"
classes = [
    { name = "second of two", rate = "1mbit", flows = ["pair-2"] },
    { name = "plain pair", rate = "1mbit", flows = ["pair", "file"], protocol = "tcp" },
    { name = "datagrams", rate = "1mbit", protocol = "udp" },
    { name = "bbr by tcp", rate = "1mbit", protocol = "tcp", schemes = ["bbr"] },
    { name = "rest", rate = "1mbit" },
    { name = "also cubic", rate = "1mbit", schemes = ["cubic"] },
]
"#
        .to_owned()
            + &flows(&[
                ("newreno", "40ms", "count = 3\nlabel = \"pair\""),
                ("cubic", "40ms", "label = \"file\"\nprotocol = \"udp\""),
                ("bbr", "40ms", ""),
                ("cubic", "40ms", ""),
                ("vegas", "40ms", ""),
            ])),
    );
    let expected = [
        ("pair-1", "plain pair"),
        ("pair-2", "second of two"),
        ("pair-3", "plain pair"),
        ("file", "datagrams"),
        ("bbr", "bbr by tcp"),
        ("cubic", "also cubic"),
        ("vegas", "rest"),
    ];
    assert_eq!(classes(&spec, 0), expected.map(|(flow, class)| (flow.to_owned(), class.to_owned())));
}

/// Only flows that cross a link need a class in the link's queue.
#[test]
fn htb_only_flows_across_the_link_need_a_class() {
    let queue = "queue = { kind = \"htb\", classes = [{ name = \"only\", rate = \"1mbit\", schemes = [\"cubic\"] }] }";
    let links = links(&[("a", "b", queue), ("b", "c", "")]);
    let flows = "[[flows]]\nscheme = \"cubic\"\nfrom = \"a\"\nto = \"c\"\n\
                 [[flows]]\nscheme = \"vegas\"\nfrom = \"b\"\nto = \"c\"\n";
    let spec = spec(&format!("[network]\nrate = \"10mbit\"\ndelay = \"5ms\"\n{links}{flows}"));
    let with_classes = spec.links.iter().filter(|link| matches!(link.config.queue, Queue::Htb(_)));
    let with_classes: Vec<_> = with_classes.map(|link| link.name.as_str()).collect();
    // Like any queue, the token bucket is created in both directions of a duplex link.
    assert_eq!(with_classes, ["a-b", "b-a"]);
}
