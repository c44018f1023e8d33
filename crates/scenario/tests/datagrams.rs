//! DCCP flows: choice of the transport, settings, and refusals.

use crate::texts::{spec, warnings};
use narrows_dccp::Config;
use narrows_dccp::connection::Overflow;
use narrows_scenario::{Plan, datagram_flow};
use narrows_traffic::AppConfig;

fn flow(scheme: &str, more: &str) -> String {
    format!("[[flows]]\nscheme = \"{scheme}\"\nrtt = \"40ms\"\n{more}\n")
}

fn text(head: &str, flows: &[String]) -> String {
    format!("{head}[network]\nrate = \"10mbit\"\nbuffer = \"100kB\"\n{}", flows.concat())
}

fn accepted(head: &str, flows: &[String]) -> Plan {
    spec(&text(head, flows)).unwrap_or_else(|error| panic!("{error}"))
}

/// The DCCP settings of the first flow.
fn settings(head: &str, scheme: &str, more: &str) -> Config {
    accepted(head, &[flow(scheme, more)]).flows.remove(0).datagrams.expect("datagrams carry it")
}

/// DCCP carries the schemes designed for datagrams, and other schemes if the flow states `protocol`.
#[test]
fn datagrams_carry_schemes_made_for_them_and_others_on_request() {
    let flows = [
        flow("ccid2", ""),
        flow("ccid3", ""),
        flow("dccp-bbr", ""),
        flow("cubic", ""),
        flow("cubic", "protocol = \"dccp\""),
        flow("dccp-bbr", "protocol = \"tcp\""),
        flow("cubic", "protocol = \"udp\""),
    ];
    let carried: Vec<_> = accepted("", &flows).flows.iter().map(|flow| flow.datagrams.is_some()).collect();
    assert_eq!(carried, [true, true, true, false, true, false, false]);
}

/// Settings that a scenario does not state have the documented defaults.
#[test]
fn dccp_unstated_settings_have_documented_defaults() {
    let plain = settings("", "ccid3", "");
    assert_eq!((plain.scheme.info.name, plain.datagram, plain.ack_ratio), ("ccid3", 1448, 2));
    assert_eq!((plain.short, plain.sequence_window, plain.queue), (false, 1_000, 256));
    assert_eq!((plain.overflow, plain.ecn, plain.initial_window), (Overflow::DropOldest, true, 3));
    // The packet size includes headers.
    let tcp = &accepted("", &[flow("ccid3", "")]).flows[0].tcp;
    assert_eq!((tcp.segment, tcp.header), (1448, 36));
}

/// The `dccp` table of a flow overrides the common table key by key.
#[test]
fn dccp_table_of_flow_overrides_common_table_by_key() {
    let common = "[dccp]\ndatagram_bytes = 500\nack_ratio = 4\nshort_sequence_numbers = true\nsequence_window = 200\n\
                  queue = 9\noverflow = \"drop-newest\"\necn = false\ninitial_window = 4\n";
    let all = settings(common, "ccid2", "");
    assert_eq!((all.datagram, all.ack_ratio, all.short), (500, 4, true));
    assert_eq!((all.sequence_window, all.queue, all.overflow), (200, 9, Overflow::DropNewest));
    assert_eq!((all.ecn, all.initial_window), (false, 4));
    let own = "dccp = { datagram_bytes = 600, overflow = \"drop-oldest\", ecn = true, short_sequence_numbers = false }";
    let some = settings(common, "ccid2", own);
    assert_eq!((some.datagram, some.overflow, some.ecn, some.short), (600, Overflow::DropOldest, true, false));
    assert_eq!((some.ack_ratio, some.sequence_window, some.queue, some.initial_window), (4, 200, 9, 4));
    // TCP flows have no datagram settings.
    assert!(accepted(common, &[flow("cubic", "")]).flows[0].datagrams.is_none());
}

/// A scheme that runs over DCCP keeps its parameters.
#[test]
fn dccp_scheme_keeps_its_parameters() {
    let set = settings("", "dccp-bbr:loss_low=0.1", "");
    assert!((set.params.number("loss_low") - 0.1).abs() < 1e-12);
}

/// The smallest and the largest value of each range are accepted.
#[test]
fn dccp_range_ends_are_accepted() {
    for (key, least, most) in [
        ("datagram_bytes", 1, 65_000),
        ("ack_ratio", 1, 1_000),
        ("sequence_window", 32, (1_u64 << 46) - 1),
        ("queue", 1, 1_000_000),
        ("initial_window", 1, 10_000),
    ] {
        for value in [least, most] {
            settings(&format!("[dccp]\n{key} = {value}\n"), "ccid2", "");
            settings("", "ccid2", &format!("dccp = {{ {key} = {value} }}"));
        }
    }
}

/// A video has the stated parameters, and the documented defaults for the others.
#[test]
fn video_unstated_parameters_are_those_of_the_reference() {
    let app = |more: &str| {
        let app = format!("app = {{ kind = \"video\", rate = \"2mbit\"{more} }}");
        accepted("", &[flow("ccid3", &app)]).flows[0].app
    };
    let of = |app| match app {
        AppConfig::Video { rate, frames, key_every, key_size, variation } => {
            (rate.as_bytes_per_sec(), frames, key_every, key_size, variation)
        }
        other => panic!("{other:?}"),
    };
    assert_eq!(of(app("")), (250_000, 30.0, 60, 5.0, 0.2));
    let all = ", frames = 25, key_every = 1, key_size = 1, variation = 0";
    assert_eq!(of(app(all)), (250_000, 25.0, 1, 1.0, 0.0));
}

/// Each setting of a transport that no flow uses causes a warning.
#[test]
fn settings_of_unused_transport_give_warnings() {
    let head = "[tcp]\nack_every = 8\nsegment_bytes = 500\n[dccp]\nqueue = 9\n";
    let unused =
        |line, transport: &str, key: &str| (Some(line), format!("unused setting `{key}`: no flow uses {transport}"));
    let (ack, segment) = (unused(2, "TCP", "tcp.ack_every"), unused(3, "TCP", "tcp.segment_bytes"));
    assert_eq!(warnings(&text(head, &[flow("ccid2", "")])), [ack, segment]);
    for carried in [flow("cubic", ""), flow("ccid2", "protocol = \"tcp\"")] {
        assert_eq!(warnings(&text(head, &[carried])), [unused(5, "DCCP", "dccp.queue")]);
    }
    assert_eq!(warnings(&text(head, &[flow("cubic", ""), flow("ccid2", "")])), []);
    assert_eq!(warnings(&text("", &[flow("ccid2", "")])), []);
}

/// An initial window that the flow's CCID does not use causes a warning.
#[test]
fn initial_window_unused_by_ccid_gives_warning() {
    let own = |scheme: &str, window: u32, size: u32| {
        let dccp = format!("dccp = {{ initial_window = {window}, datagram_bytes = {size} }}");
        warnings(&text("", &[flow(scheme, &dccp)])).into_iter().map(|(_, message)| message).collect::<Vec<_>>()
    };
    // RFC 3390 allows 4380 bytes, but at least two and at most four packets.
    for (size, most) in [(500, 4), (1448, 3), (4000, 2)] {
        assert_eq!(own("ccid2", most, size), [""; 0]);
        let message = format!("ccid2 starts with at most {most} datagrams of this size (RFC 3390)");
        assert_eq!(own("ccid2", most + 1, size), [message]);
        let run = settings("", "ccid2", &format!("dccp = {{ initial_window = 10, datagram_bytes = {size} }}"));
        assert_eq!(run.initial_window, 10, "the run keeps the stated value; the scheme uses less");
    }
    let message = "unused setting `dccp.initial_window`: ccid3 starts with a rate";
    assert_eq!(own("ccid3", 3, 1448), [message]);
    assert_eq!(own("dccp-bbr", 100, 1448), [""; 0]);
    let common = text("[dccp]\ninitial_window = 9\n", &[flow("cubic", ""), flow("ccid3", "")]);
    assert_eq!(warnings(&common), [(Some(2), message.to_owned())]);
}

/// A queue at the sender that would exhaust memory is refused.
#[test]
fn dccp_queue_beyond_memory_is_refused() {
    let refused = |head: &str, more: &str| spec(&text(head, &[flow("ccid2", more)])).expect_err("too much");
    assert_eq!(settings("", "ccid2", "dccp = { queue = 1000000, datagram_bytes = 2000 }").queue, 1_000_000);
    let message = "flows.0.dccp.queue: 1000000 datagrams of 2001 B are 2.0 GB\n  \
                accepted: at most 999500 of this size, which are 2 GB";
    let own = refused("", "dccp = { queue = 1000000, datagram_bytes = 2001 }");
    assert!(own.ends_with(message), "{own}");
    let common = refused("[dccp]\nqueue = 300000\n", "dccp = { datagram_bytes = 65000 }");
    assert!(common.contains(": dccp.queue: 300000 datagrams of 65000 B are 19.5 GB"), "{common}");
}

/// The keys of a flow without a network have the same meaning as in a scenario's flow.
#[test]
fn datagram_flow_alone_equals_that_of_a_scenario() {
    let keys = "scheme = \"ccid3\"\napp = { kind = \"cbr\", rate = \"1mbit\" }\n\
                dccp = { datagram_bytes = 500, queue = 7, overflow = \"drop-newest\", ecn = false }\n";
    let alone = datagram_flow("command line", keys).unwrap_or_else(|error| panic!("{error}"));
    let all = format!("[network]\nrate = \"1gbit\"\n[[flows]]\nrtt = \"1ms\"\n{keys}");
    let flow = spec(&all).unwrap().flows.remove(0);
    assert_eq!(format!("{:?}", alone.config), format!("{:?}", flow.datagrams.unwrap()));
    assert_eq!(alone.app, flow.app);
    assert_eq!(alone.queue, Some(7));
}

/// Without a scenario, a scheme that runs over TCP by default runs over DCCP. The caller chooses a queue length
/// that is not stated.
#[test]
fn datagram_flow_alone_defaults_to_dccp_and_no_queue() {
    let flow = datagram_flow("command line", "scheme = \"cubic\"").unwrap();
    assert_eq!((flow.app, flow.queue), (AppConfig::Bulk, None));
    assert_eq!(flow.config.scheme.info.name, "cubic");
}

/// Without a scenario, an error names the key without its table, and keys that need a network are unknown.
#[test]
fn datagram_flow_alone_refusals_name_the_key() {
    let refused = |text: &str| {
        let error = datagram_flow("command line", text).expect_err(text);
        (error.line, error.key.unwrap_or_default(), error.message)
    };
    let key = |line, key: &str, message: &str| (Some(line), key.to_owned(), message.to_owned());
    assert_eq!(refused("scheme = \"ccid2\"\ndccp = { queue = 0 }"), key(2, "dccp.queue", "`0` is out of range"));
    assert_eq!(
        refused("scheme = \"ccid2\"\napp = { kind = \"cbr\", rate = \"0mbit\" }"),
        key(2, "app.rate", "`0mbit` carries nothing")
    );
    assert_eq!(refused("scheme = \"ccid2\"\nrtt = \"1ms\"").1, "rtt");
    assert_eq!(refused("scheme = \"none\"").1, "scheme");
    assert_eq!(refused("size = \"1MB\"").1, "scheme");
}
