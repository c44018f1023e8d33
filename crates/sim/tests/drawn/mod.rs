//! Random scenario texts that together use every key of a scenario.

mod network;

use std::fmt::Write as _;

use narrows_cc::schemes::ALL;
use proptest::prelude::*;

pub use network::TRACES;
use network::{network, queueing};

/// Draws one of the strings; failures shrink towards the first string.
fn one_of(texts: &'static [&'static str]) -> impl Strategy<Value = String> {
    prop::sample::select(texts).prop_map(str::to_owned)
}

/// Draws at most one line from each group. Failures shrink towards no line.
fn lines(groups: &'static [&'static [&'static str]]) -> impl Strategy<Value = String> {
    let line = |texts: &'static [&'static str]| prop_oneof![2 => Just(""), 1 => prop::sample::select(texts)].boxed();
    groups
        .iter()
        .map(|texts| line(texts))
        .collect::<Vec<_>>()
        .prop_map(|all| all.into_iter().filter(|text| !text.is_empty()).map(|text| format!("{text}\n")).collect())
}

/// A number with a random order of magnitude.
fn magnitude(low: u32, high: u32) -> impl Strategy<Value = u64> {
    (low..high).prop_flat_map(|bits| (1u64 << bits)..(2u64 << bits))
}

/// Transport settings and the segment size that they state.
fn tcp() -> impl Strategy<Value = (String, u64)> {
    let segment = prop_oneof![
        4 => Just(1448u64),
        1 => Just(1),
        1 => 2u64..600,
        1 => 1000u64..9000,
        1 => Just(65_000),
    ];
    let window = prop_oneof![3 => Just(4_000u64), 1 => Just(1), 1 => 1u64..4, 1 => 4u64..400];
    let more = lines(&[
        &["initial_window = 1", "initial_window = 3", "initial_window = 4294967295"],
        &["ack_every = 1", "ack_every = 3", "ack_every = 4294967295"],
        &["ack_delay = \"0ms\"", "ack_delay = \"1us\"", "ack_delay = \"500ms\"", "ack_delay = \"9900000s\""],
        &["header_bytes = 20", "header_bytes = 400", "header_bytes = 65500"],
        &["sack = false", "rack = false", "tlp = false"],
        &["ecn = true", "ecn = true\necn_precise = true", "ecn = true\necn_precise = true\nect1 = true"],
        &["max_burst = \"3pkt\"", "max_burst = \"100pkt\"", "max_burst = \"1GB\""],
        &[
            "min_rto = \"1ns\"\ninitial_rto = \"1ms\"\nmax_rto = \"2s\"",
            "min_rto = \"1ms\"\ninitial_rto = \"1ms\"\nmax_rto = \"1ms\"",
            "min_rto = \"1s\"\ninitial_rto = \"3s\"\nmax_rto = \"60s\"",
            "min_rto = \"9900000s\"\ninitial_rto = \"9900000s\"\nmax_rto = \"9900000s\"",
        ],
    ]);
    (segment, window, any::<u16>(), more).prop_map(|(segment, window, part, more)| {
        // Windows need not be whole segments.
        let bytes = segment * window + u64::from(part) % segment;
        (format!("segment_bytes = {segment}\nreceive_window = \"{bytes}B\"\n{more}"), segment)
    })
}

/// A scheme, possibly with one parameter set to a bound of its range or to a value in between.
fn scheme() -> impl Strategy<Value = String> {
    prop::sample::select(ALL).prop_flat_map(|entry| {
        let name = entry.info.name;
        let plain = Just(name.to_owned());
        if entry.info.params.is_empty() {
            return plain.boxed();
        }
        let set = (prop::sample::select(entry.info.params), prop_oneof![Just(0.0), Just(1.0), 0.0..1.0f64]);
        let set = set.prop_map(move |(param, at)| {
            let value = match param.kind {
                narrows_cc::ParamKind::Flag => if at > 0.5 { "on" } else { "off" }.to_owned(),
                narrows_cc::ParamKind::Choice(words) => {
                    words[((at * words.len() as f64) as usize).min(words.len() - 1)].to_owned()
                }
                narrows_cc::ParamKind::Number => (param.min + at * (param.max - param.min)).to_string(),
                narrows_cc::ParamKind::Count => (param.min + at * (param.max - param.min)).floor().to_string(),
            };
            format!("{name}:{}={value}", param.name)
        });
        prop_oneof![plain, set].boxed()
    })
}

/// The application of a flow that never ends by itself.
fn endless_app() -> impl Strategy<Value = String> {
    prop_oneof![
        4 => Just(String::new()),
        1 => one_of(&[
            "app = { kind = \"on-off\", on = \"50ms\", off = \"100ms\" }\n",
            "app = { kind = \"on-off\", on = \"10us\", off = \"30us\" }\n",
            "app = { kind = \"on-off\", on = \"20ms\", off = \"50ms\", random = true }\n",
            "app = { kind = \"cbr\", rate = \"200kbit\" }\n",
            "app = { kind = \"cbr\", rate = \"50kbit\", write = \"1B\" }\n",
            "app = { kind = \"cbr\", rate = \"10mbit\", write = \"1MB\" }\n",
            "app = { kind = \"cbr\", rate = \"4000000000gbit\", write = \"1000000GB\" }\n",
            "size = \"4000000000GB\"\n",
        ]),
        1 => prop_oneof![Just(1u64), 2u64..3_000, 3_000u64..3_000_000].prop_map(|size| format!("size = \"{size}B\"\n")),
        1 => one_of(&[
            "arrivals = { rate = \"20/s\", size = \"10kB\" }\n",
            "arrivals = { rate = \"20/s\", size = { kind = \"exponential\", mean = \"1B\" }, limit = 9 }\n",
            "arrivals = { rate = \"5/s\", size = { kind = \"pareto\", mean = \"20kB\", shape = 1.05 } }\n",
        ]),
    ]
}

/// A scenario of files over one bottleneck with loss, delay and reordering, and enough time to complete.
pub fn files() -> impl Strategy<Value = String> {
    // Loss processes that never drop all packets for the duration of a file.
    const SETTLED: &[&str] = &[
        "",
        "loss = \"1%\"",
        "loss = \"20%\"",
        "loss = { kind = \"gilbert-elliott\", to_bad = \"2%\", to_good = \"30%\" }",
        "loss = \"10%\"\nloss_at = \"ingress\"\njitter = { max = \"50ms\", reorder = true }",
        "jitter = { max = \"300ms\", reorder = true }",
        "reorder = { probability = \"20%\", delay = \"400ms\" }",
        "policer = { rate = \"200kbit\", burst = \"70kB\" }",
        "reverse_buffer = \"1pkt\"",
    ];
    let flow = (scheme(), 1_000u64..200_000_000, 1u64..60_000, 0u64..2_000);
    let network = (magnitude(16, 30), queueing(), prop::sample::select(SETTLED), any::<u32>());
    (network, tcp(), prop::collection::vec(flow, 1..4)).prop_map(
        |((rate, queueing, settled, seed), (tcp, segment), flows)| {
            // If the timeout cannot back off beyond a packet's transmission time, retransmissions fill any queue.
            let tcp: Vec<&str> = tcp.lines().filter(|line| !line.contains("rto")).collect();
            let tcp = tcp.join("\n") + "\n";
            let mut text = format!(
                "duration = \"1000000s\"\nwarmup = \"0%\"\nseed = {seed}\n[tcp]\n{tcp}[network]\nrate = \"{rate}bit\"\n{queueing}{settled}\n"
            );
            for (scheme, rtt, size, start) in flows {
                // At most a few hundred segments.
                let size = size.min(300 * segment);
                write!(
                    text,
                    "[[flows]]\nscheme = \"{scheme}\"\nrtt = \"{rtt}ns\"\nsize = \"{size}B\"\nstart = \"{start}ms\"\n"
                )
                .unwrap();
            }
            text
        },
    )
}

/// A scenario that may use any key.
pub fn scenario() -> impl Strategy<Value = String> {
    let rate =
        prop_oneof![6 => magnitude(19, 25), 1 => magnitude(3, 19), 1 => magnitude(25, 36), 1 => magnitude(36, 56)];
    (rate, tcp()).prop_flat_map(|(rate, (tcp, segment))| {
        // The run lasts for at most about 20 000 packets.
        let longest = 20_000 * (segment + 20) * 8 * 1_000 / rate;
        let ms = longest.clamp(5, 2_000);
        let rtt = prop_oneof![
            8 => 1_000_000u64..200_000_000,
            2 => 1u64..1_000_000,
            2 => Just(1_000_000_000),
            1 => Just(9_900_000_000_000_000)
        ];
        // At the highest rates only the receive window bounds the number of packets, so require a minimum RTT.
        let least_rtt = if rate >> 36 == 0 { 0 } else { 2_000_000 };
        // Start and stop, in thousandths of the run's duration.
        let times = prop_oneof![3 => Just((0u64, None)), 2 => (0u64..1000, prop::option::of(1u64..1000))];
        let flow = (scheme(), rtt, times, endless_app(), 0usize..12);
        let run = (prop::sample::select(&["0%", "10%", "90%"][..]), any::<u32>(), any::<bool>());
        (network(rate), prop::collection::vec(flow, 1..5), run).prop_map(
            move |((network, routes), flows, (warmup, seed, count))| {
                let mut text = format!(
                    "duration = \"{ms}ms\"\nwarmup = \"{warmup}\"\nseed = {seed}\n[tcp]\n{tcp}[network]\n{network}"
                );
                for (scheme, rtt, (start, stop), app, route) in flows {
                    let start = start * ms;
                    let route = routes[route % routes.len()];
                    write!(text, "[[flows]]\nscheme = \"{scheme}\"\nstart = \"{start}us\"\n{app}{route}\n").unwrap();
                    if route.is_empty() {
                        // With routes the links determine the RTT. The access links of a dumbbell add up to 8 ms.
                        writeln!(
                            text,
                            "rtt = \"{}ns\"",
                            rtt.max(least_rtt) + 8_000_000 * u64::from(network.contains("access"))
                        )
                        .unwrap();
                    }
                    if let Some(after) = stop {
                        writeln!(text, "stop = \"{}us\"", start + after * ms).unwrap();
                    }
                    if count && !app.contains("arrivals") {
                        text += "count = 2\n";
                    }
                }
                text
            },
        )
    })
}
