//! Scenarios with connections of several subflows, and the resulting plans.

use crate::texts::{links, plan as spec};
use narrows_cc::{Bytes, Nanos};
use narrows_tcp::Scheduler;
use narrows_traffic::AppConfig;

/// Each entry in a list of subflows becomes a flow with its own path.
#[test]
fn subflow_list_makes_a_flow_per_subflow_path() {
    let flows = r#"
[[flows]]
scheme = "cubic"
route = ["a", "c"]
subflows = [{}, { route = ["a", "b", "c"] }, { rtt = "30ms" }]
scheduler = "round-robin"
size = "1MB"
count = 2
[[flows]]
scheme = "cubic"
from = "a"
to = "b"
"#;
    let links = links(&[("a", "b", ""), ("a", "c", ""), ("b", "c", "")]);
    let spec = spec(&format!("duration = \"10s\"\n[network]\nrate = \"10mbit\"\ndelay = \"5ms\"\n{links}{flows}"));
    let labels: Vec<_> = spec.flows.iter().map(|flow| flow.label.as_str()).collect();
    assert_eq!(labels, ["cubic-1/1", "cubic-1/2", "cubic-1/3", "cubic-2/1", "cubic-2/2", "cubic-2/3", "cubic-3"]);
    let ms = Nanos::from_millis;
    let rtts: Vec<_> = spec.flows[..3].iter().map(|flow| flow.base_rtt).collect();
    assert_eq!(rtts, [ms(10), ms(20), ms(30)]);
    assert_eq!([0, 1, 2].map(|leg| spec.flows[leg].path.forward.len()), [1, 2, 1]);
    let [first, second] = &spec.connections[..] else { panic!("two connections") };
    assert_eq!((first.label.as_str(), first.first, first.subflows), ("cubic-1", 0, 3));
    assert_eq!((second.label.as_str(), second.first, second.subflows), ("cubic-2", 3, 3));
    assert_eq!((first.scheduler, first.app), (Scheduler::RoundRobin, AppConfig::File(Bytes::new(1_000_000))));
    // A full packet has the usual size, of which a mapping takes 20 bytes.
    let segments: Vec<_> = spec.flows.iter().map(|flow| flow.tcp.segment).collect();
    assert_eq!(segments, [1428, 1428, 1428, 1428, 1428, 1428, 1448]);
}

/// The subflows of a connection in a dumbbell share access links, and nodes treat them as one transmission.
#[test]
fn subflows_share_access_links_and_transmission() {
    let spec = spec(
        "name = \"bell\"\nduration = \"10s\"\n[network]\nrate = \"10mbit\"\naccess_rate = \"50mbit\"\n\
        [[flows]]\nscheme = \"nodectl\"\nrtt = \"40ms\"\nsubflows = 2\ncount = 2\ntcp = { segment_bytes = 1000 }\n",
    );
    // The plan has the bottleneck, the reverse link, and four access links for each of two connections.
    assert_eq!(spec.links.len(), 2 + 2 * 4);
    assert_eq!((&spec.flows[0].path, spec.flows[0].tcp.segment), (&spec.flows[1].path, 1000));
    assert_ne!(spec.flows[1].path, spec.flows[2].path);
    let requests: Vec<_> =
        spec.flows.iter().map(|flow| (flow.negotiation.content - (1 << 31), flow.negotiation.subflow)).collect();
    assert_eq!(requests, [(0, 0), (0, 1), (2, 0), (2, 1)]);
}
