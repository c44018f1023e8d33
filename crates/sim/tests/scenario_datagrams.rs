//! Flows that datagrams carry: which ones do, what their settings become, and what is refused.

mod texts;

use narrows_dccp::Config;
use narrows_dccp::connection::Overflow;
use narrows_endpoint::AppConfig;
use narrows_sim::spec::Spec;
use texts::spec;

fn flow(scheme: &str, more: &str) -> String {
    format!("[[flows]]\nscheme = \"{scheme}\"\nrtt = \"40ms\"\n{more}\n")
}

fn text(head: &str, flows: &[String]) -> String {
    format!("{head}[network]\nrate = \"10mbit\"\nbuffer = \"100kB\"\n{}", flows.concat())
}

fn accepted(head: &str, flows: &[String]) -> Spec {
    spec(&text(head, flows)).unwrap_or_else(|error| panic!("{error}"))
}

/// The settings of the first flow.
fn settings(head: &str, scheme: &str, more: &str) -> Config {
    accepted(head, &[flow(scheme, more)]).flows.remove(0).datagrams.expect("datagrams carry it")
}

#[test]
fn schemes_made_for_datagrams_have_them_and_the_others_when_asked() {
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

#[test]
fn what_nothing_is_said_of_is_as_stated() {
    let plain = settings("", "ccid3", "");
    assert_eq!((plain.scheme.info.name, plain.datagram, plain.ack_ratio), ("ccid3", 1448, 2));
    assert_eq!((plain.short, plain.sequence_window, plain.queue), (false, 1_000, 256));
    assert_eq!((plain.overflow, plain.ecn, plain.initial_window), (Overflow::DropOldest, true, 3));
    // A packet is reckoned with its headers.
    let tcp = &accepted("", &[flow("ccid3", "")]).flows[0].tcp;
    assert_eq!((tcp.segment, tcp.header), (1448, 36));
}

#[test]
fn a_flow_says_more_than_the_common_table_key_by_key() {
    let common = "[dccp]\ndatagram_bytes = 500\nack_ratio = 4\nshort_sequence_numbers = true\nsequence_window = 200\n\
                  queue = 9\noverflow = \"drop-newest\"\necn = false\ninitial_window = 4\n";
    let all = settings(common, "ccid2", "");
    assert_eq!((all.datagram, all.ack_ratio, all.short), (500, 4, true));
    assert_eq!((all.sequence_window, all.queue, all.overflow), (200, 9, Overflow::DropNewest));
    assert_eq!((all.ecn, all.initial_window), (false, 4));
    let own = "dccp = { datagram_bytes = 600, overflow = \"drop-oldest\", ecn = true, short_sequence_numbers = false }";
    let some = settings(common, "ccid2", own);
    assert_eq!(
        (some.datagram, some.overflow, some.ecn, some.short),
        (600, Overflow::DropOldest, true, false)
    );
    assert_eq!((some.ack_ratio, some.sequence_window, some.queue, some.initial_window), (4, 200, 9, 4));
    // Streams have nothing of it.
    assert!(accepted(common, &[flow("cubic", "")]).flows[0].datagrams.is_none());
}

#[test]
fn a_scheme_keeps_its_parameters() {
    let set = settings("", "dccp-bbr:loss_low=0.1", "");
    assert!((set.params.number("loss_low") - 0.1).abs() < 1e-12);
}

#[test]
fn the_ends_of_each_range_are_accepted() {
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

#[test]
fn a_video_has_the_parameters_stated_and_else_those_of_the_reference() {
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
