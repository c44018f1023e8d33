//! Explanations: every effective option with its origin.

use narrows_scenario::{Explanation, NoFiles, Row, Source, explain};
use serde_json::Value;

const TEXT: &str = r#"duration = "10s"
[network]
rate = "100mbit"
queue = { kind = "codel", target = "2ms" }
[tcp]
profile = "ns3"
ack_delay = "40ms"
[[flows]]
scheme = "cubic:beta=0.8"
rtt = "10ms"
[[flows]]
scheme = "dctcp"
rtt = "50ms"
tcp = { profile = "rfc", sack = false }
[[flows]]
scheme = "newreno"
rtt = "50ms"
params = { abc = false }
"#;

fn explained(text: &str, overrides: &[(&str, &str)]) -> Vec<Explanation> {
    let overrides: Vec<_> = overrides.iter().map(|&(key, value)| (key.to_owned(), value.to_owned())).collect();
    let source = Source { name: "dir/two.toml", text, files: &NoFiles };
    explain(&source, &overrides).unwrap_or_else(|error| panic!("{error}"))
}

/// Value, origin and line of the row of a key.
fn found<'a>(rows: &'a [Row], key: &str) -> (&'a Value, &'a str, Option<usize>) {
    let row = rows.iter().find(|row| row.key == key).unwrap_or_else(|| panic!("no `{key}`"));
    (&row.value, &row.from, row.line)
}

/// Origins of transport options: the default, a profile, `[tcp]`, the flow, the command line, the scheme, and
/// another option.
#[test]
fn explain_names_the_origin_of_transport_options() {
    let point = explained(TEXT, &[("flows.1.tcp.quick_acks", "4")]).remove(0);
    let [first, second] = [0, 1].map(|flow: usize| &point.flows[flow].transport);
    assert_eq!(found(first, "profile"), (&"ns3".into(), "[tcp]", Some(6)));
    assert_eq!(found(first, "min_rto"), (&"1s".into(), "profile ns3", None));
    assert_eq!(found(first, "max_burst"), (&"1pkt".into(), "profile ns3", None));
    assert_eq!(found(first, "ack_delay"), (&"40ms".into(), "[tcp]", Some(7)));
    assert_eq!(found(first, "receive_window"), (&"64MiB".into(), "default", None));
    assert_eq!(found(second, "profile"), (&"rfc".into(), "[[flows]]", Some(14)));
    assert_eq!(found(second, "sack"), (&false.into(), "[[flows]]", Some(14)));
    assert_eq!(found(second, "rack"), (&false.into(), "derived", None));
    assert_eq!(found(second, "ack_delay"), (&"40ms".into(), "[tcp]", Some(7)));
    assert_eq!(found(second, "quick_acks"), (&4.into(), "command line", None));
    assert_eq!(found(second, "ecn"), (&true.into(), "scheme", None));
}

/// Without a stated profile, the options are those of `linux`, and every key of `[tcp]` is listed.
#[test]
fn explain_lists_all_keys_of_tcp() {
    let plain = "[network]\nrate = \"100mbit\"\n[[flows]]\nscheme = \"newreno\"\nrtt = \"40ms\"\n";
    let point = explained(plain, &[]).remove(0);
    let rows = &point.flows[0].transport;
    assert_eq!(rows.len(), 33);
    assert_eq!(found(rows, "profile"), (&"linux".into(), "default", None));
    assert_eq!(found(rows, "max_burst"), (&"65215B".into(), "profile linux", None));
    assert!(rows.iter().all(|row| row.line.is_none() && ["default", "profile linux"].contains(&row.from.as_str())));
}

/// Parameters of a scheme come from the text after its colon, the flow's table, the profile, or the scheme's defaults.
#[test]
fn explain_names_the_origin_of_parameters() {
    let point = explained(TEXT, &[]).remove(0);
    let cubic = &point.flows[0].params;
    assert_eq!(found(cubic, "beta"), (&0.8.into(), "[[flows]]", Some(9)));
    assert_eq!(found(cubic, "hystart"), (&"linux".into(), "profile ns3", None));
    assert_eq!(found(cubic, "fast_convergence"), (&true.into(), "default", None));
    assert_eq!(found(&point.flows[2].params, "abc"), (&false.into(), "[[flows]]", Some(18)));
}

/// The explanation of the network includes the parameters of its queue and the bytes of its buffer.
#[test]
fn explain_resolves_the_network() {
    let point = explained(TEXT, &[("network.buffer", "2bdp")]).remove(0);
    let rows = &point.network;
    assert_eq!(found(rows, "rate"), (&"100mbit".into(), "[network]", Some(3)));
    assert_eq!(found(rows, "queue"), (&"codel".into(), "[network]", Some(4)));
    assert_eq!(found(rows, "queue.target"), (&"2ms".into(), "[network]", Some(4)));
    assert_eq!(found(rows, "queue.interval"), (&"100ms".into(), "default", None));
    assert_eq!(found(rows, "buffer"), (&"2bdp".into(), "command line", None));
    let buffer = rows.iter().find(|row| row.key == "buffer").unwrap();
    // The buffer is the data of 100 Mbit/s in twice 50 ms, the longest RTT.
    assert_eq!(buffer.resolved.as_deref(), Some("1250000B"));
    assert_eq!(found(&point.run, "duration"), (&"10s".into(), "scenario", Some(1)));
    assert_eq!(point.scenario, "two");
}

/// A sweep has one explanation per point, and the origin of swept values is `[sweep]`.
#[test]
fn explain_covers_every_point_of_a_sweep() {
    let swept = format!("{TEXT}[sweep]\n\"tcp.profile\" = [\"linux\", \"rfc\"]\n");
    let points = explained(&swept, &[]);
    assert_eq!(points.len(), 2);
    let of = |point: usize, key: &str| found(&points[point].flows[0].transport, key);
    assert_eq!(of(0, "profile"), (&"linux".into(), "[sweep]", Some(20)));
    assert_eq!(of(1, "profile"), (&"rfc".into(), "[sweep]", Some(20)));
    assert_eq!(of(1, "timers"), (&"rfc".into(), "profile rfc", None));
    assert_eq!(points[1].point["tcp.profile"], "rfc");
}

/// Links of a graph take the keys that they do not state from `[network]`; DCCP flows show the DCCP settings.
#[test]
fn explain_covers_graphs_and_datagrams() {
    let text = "[network]\nbuffer = \"20pkt\"\n[dccp]\nqueue = 64\n[[links]]\nfrom = \"a\"\nto = \"b\"\nrate = \"10mbit\"\n\
                delay = \"10ms\"\nqueue = \"red\"\n[[flows]]\nscheme = \"ccid2\"\nfrom = \"a\"\nto = \"b\"\n";
    let point = explained(text, &[]).remove(0);
    let link = &point.links[0];
    assert_eq!(link.link, "a-b");
    assert_eq!(found(&link.options, "rate"), (&"10mbit".into(), "[[links]]", Some(8)));
    assert_eq!(found(&link.options, "buffer"), (&"20pkt".into(), "[network]", Some(2)));
    assert_eq!(found(&link.options, "queue.max"), (&"15pkt".into(), "default", None));
    let flow = &point.flows[0];
    assert_eq!(found(&flow.options, "protocol"), (&"dccp".into(), "scheme", None));
    assert_eq!(found(&flow.transport, "queue"), (&64.into(), "[dccp]", Some(4)));
    assert_eq!(found(&flow.transport, "ack_ratio"), (&2.into(), "default", None));
}

/// Explaining an invalid scenario fails with the same error as running it.
#[test]
fn explain_refuses_what_a_run_refuses() {
    let source = Source { name: "bad.toml", text: "[tcp]\nprofile = \"bsd\"\n", files: &NoFiles };
    let error = explain(&source, &[]).unwrap_err();
    assert_eq!((error.line, error.key.as_deref()), (Some(2), Some("tcp.profile")));
}
