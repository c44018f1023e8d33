//! Random networks: links, queues and disturbances.

use std::fmt::Write as _;

use proptest::prelude::*;

use super::lines;

/// Capacity traces by file name.
pub const TRACES: &[(&str, &str)] =
    &[("sparse", "700\n"), ("steady", "1\n"), ("bursts", "0\n0\n0\n9\n9\n40\n"), ("slow", "5\n300\n301\n1500\n")];

macro_rules! defaults {
    ($($(#[$about:meta])* $module:ident::$Kind:ident($Config:ty) $name:literal,)*) => {
        [$(concat!("\"", $name, "\"")),*]
    };
}

/// Queues with default settings; HTB is left out because its classes have no defaults.
fn defaults() -> impl Strategy<Value = &'static str> {
    let named = narrows_net::queue_disciplines!(defaults);
    prop::sample::select(named.into_iter().filter(|name| *name != "\"htb\"").collect::<Vec<_>>())
}

const QUEUES: &[&str] = &[
    "{ kind = \"codel\", target = \"1ns\", interval = \"1ns\" }",
    "{ kind = \"codel\", target = \"1ms\", interval = \"20ms\", ecn = true }",
    "{ kind = \"fq-codel\", queues = 1, quantum = \"1B\", ecn = true }",
    "{ kind = \"fq-codel\", queues = 2, quantum = \"9000B\", target = \"1us\" }",
    "{ kind = \"pie\", target = \"1ns\" }",
    "{ kind = \"pie\", target = \"1ms\", ecn = true }",
    "{ kind = \"red\", min = \"1pkt\", max = \"2pkt\", max_p = \"100%\", weight = 1.0 }",
    "{ kind = \"dualpi2\", target = \"1ms\", rtt_max = \"3ms\", beta = 100, shift = \"1ms\", ramp_range = \"0ms\" }",
    "{ kind = \"step\", above = \"3pkt\" }",
    "{ kind = \"htb\", default = \"a\", classes = [{ name = \"a\", rate = \"0bit\" }] }",
    "{ kind = \"htb\", default = \"b\", classes = [{ name = \"a\", rate = \"1kbit\", ceil = \"5kbit\" }, \
        { name = \"b\", parent = \"a\", rate = \"1kbit\", buffer = \"1pkt\" }] }",
    "{ kind = \"htb\", default = \"a\", classes = [\
        { name = \"a\", rate = \"1kbit\", policed = true, burst = \"60kB\", schemes = [\"cubic\"] }, \
        { name = \"b\", rate = \"0bit\", priority = 3, buffer = \"5ms\", schemes = [\"bbr\"] }] }",
    "{ kind = \"codel\", target = \"100us\", interval = \"5ms\", ecn = true }",
    "{ kind = \"red\", min = \"1pkt\", max = \"9pkt\", max_p = \"20%\", weight = 0.1, ecn = true }",
    "{ kind = \"red\", min = \"0pkt\", max = \"9kB\", weight = 0.5, adaptive = true, ecn = true }",
];

const LOSSES: &[&str] = &[
    "\"0%\"",
    "\"0.1%\"",
    "\"3%\"",
    "\"30%\"",
    "{ kind = \"periodic\", every = 2 }",
    "{ kind = \"periodic\", every = 50 }",
    "{ kind = \"gilbert-elliott\", to_bad = \"1%\", to_good = \"20%\" }",
    "{ kind = \"gilbert-elliott\", to_bad = \"50%\", to_good = \"50%\", loss_good = \"5%\", loss_bad = \"90%\" }",
];

const BUFFERS: &[&str] = &[
    "1bdp",
    "0.1bdp",
    "5bdp",
    "2bdp@30ms",
    "1pkt",
    "2pkt",
    "7pkt",
    "300pkt",
    "70kB",
    "1GB",
    "1ns",
    "2ms",
    "1s",
    "9900000s",
    "4000000000GB",
    "4000000000000000000pkt",
    "1000000000000bdp",
];

/// Loss, jitter, reordering and policing on a link.
fn disturbances() -> impl Strategy<Value = String> {
    let plain = lines(&[
        &["loss_at = \"ingress\""],
        &[
            "jitter = \"1us\"",
            "jitter = \"30ms\"",
            "jitter = { max = \"5ms\", reorder = true }",
            "jitter = { max = \"80ms\", reorder = true }",
            "jitter = \"9900000s\"",
        ],
        &[
            "reorder = { probability = \"1%\", delay = \"3ms\" }",
            "reorder = { probability = \"40%\", delay = \"200ms\" }",
            "reorder = { probability = \"100%\", delay = \"1ms\" }",
        ],
        &[
            "policer = { rate = \"1mbit\", burst = \"70kB\" }",
            "policer = { rate = \"100kbit\", burst = \"200kB\" }",
            "policer = { rate = \"4000000000gbit\", burst = \"4000000000GB\" }",
        ],
    ]);
    (plain, prop_oneof![1 => Just("\"0%\""), 1 => prop::sample::select(LOSSES)])
        .prop_map(|(plain, loss)| format!("{plain}loss = {loss}\n"))
}

/// Queue discipline and buffer of a link.
pub fn queueing() -> impl Strategy<Value = String> {
    let queue = prop_oneof![1 => Just("\"droptail\""), 1 => defaults(), 3 => prop::sample::select(QUEUES)];
    (queue, prop::sample::select(BUFFERS))
        .prop_map(|(queue, buffer)| format!("queue = {queue}\nbuffer = \"{buffer}\"\n"))
}

/// The text of a network, and the route keys that its flows may use.
pub fn network(rate: u64) -> impl Strategy<Value = (String, &'static [&'static str])> {
    const NOTHING: &[&str] = &[""];
    const LOT: &[&str] = &["", "to = \"r1\"", "from = \"r2\"\nto = \"r0\"", "route = [\"r0\", \"r1\", \"r0\", \"r1\"]"];
    const GRAPH: &[&str] = &[
        "from = \"a\"\nto = \"d\"",
        "from = \"a\"\nto = \"b\"",
        "from = \"d\"\nto = \"a\"",
        "route = [\"a\", \"b\", \"d\"]\nreverse_route = [\"d\", \"c\", \"a\"]",
        "route = [\"a\", \"c\", \"d\"]",
        "from = \"b\"\nto = \"e\"",
    ];
    let capacity = prop_oneof![
        4 => Just(format!("rate = \"{rate}bit\"\n")),
        1 => prop::sample::select(TRACES).prop_map(|(name, _)| format!("capacity_trace = \"{name}\"\n")),
    ];
    let access = prop_oneof![
        3 => Just(String::new()),
        1 => (1u64..20, lines(&[&["access_delay = \"1us\"", "access_delay = \"2ms\""], &["access_buffer = \"3pkt\""], &["receiver_access = false"]]))
            .prop_map(move |(tenth, more)| format!("access_rate = \"{}bit\"\n{more}", rate * tenth / 10 + 8)),
    ];
    let back = prop_oneof![
        3 => Just(String::new()),
        1 => (1u64..20).prop_map(move |tenth| format!("reverse_rate = \"{}bit\"\n", rate * tenth / 10 + 8)),
        1 => Just("reverse_buffer = \"1pkt\"\n".to_owned()),
    ];
    let common = (capacity, queueing(), disturbances(), access).prop_map(|(a, b, c, d)| a + &b + &c + &d).boxed();
    let dumbbell = (common.clone(), back).prop_map(|(common, back)| (common + &back, NOTHING));
    let lot = (common.clone(), 3u32..5)
        .prop_map(|(common, hops)| (format!("kind = \"parking-lot\"\nhops = {hops}\ndelay = \"1ms\"\n{common}"), LOT));
    let own = (queueing(), disturbances(), 1u64..20, 0u64..30).prop_map(move |(queueing, disturbances, tenth, ms)| {
        format!("rate = \"{}bit\"\ndelay = \"{ms}ms\"\n{queueing}{disturbances}", rate * tenth / 10 + 8)
    });
    let graph = (common, prop::array::uniform5(prop_oneof![Just(String::new()), own]), any::<bool>()).prop_map(
        |(common, own, duplex)| {
            let ends = [("a", "b"), ("b", "d"), ("a", "c"), ("c", "d"), ("d", "e")];
            let mut text = format!("kind = \"graph\"\n{common}delay = \"2ms\"\n");
            for (i, ((from, to), own)) in ends.into_iter().zip(own).enumerate() {
                write!(text, "[[links]]\nfrom = \"{from}\"\nto = \"{to}\"\n{own}").unwrap();
                if i == 0 && !duplex {
                    // Two one-way links instead of a duplex link.
                    text += "duplex = false\n[[links]]\nfrom = \"b\"\nto = \"a\"\nduplex = false\n";
                }
            }
            (text, GRAPH)
        },
    );
    prop_oneof![3 => dumbbell, 1 => lot, 1 => graph]
}
