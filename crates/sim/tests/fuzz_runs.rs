//! Small random runs over everything a scenario may say: none panics or hangs, and what it measured makes sense. Runs with
//! `PROPTEST_CASES=N` try N / 4 scenarios instead of 64.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::path::PathBuf;
use std::sync::OnceLock;

use narrows_cc::Bytes;
use narrows_cc::schemes::ALL;
use narrows_endpoint::AppConfig;
use narrows_sim::result::Counters;
use narrows_sim::scenario::{Source, plan, resolve};
use narrows_sim::spec::{Spec, TraceSpec};
use narrows_sim::{Engine, Recorder, RunResult};
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;

/// No run of this file comes near so many events: one that does will never end.
const ENDLESS: u64 = 6_000_000;

/// Capacity traces by their file names.
const TRACES: &[(&str, &str)] = &[
    ("sparse", "700\n"),
    ("steady", "1\n"),
    ("bursts", "0\n0\n0\n9\n9\n40\n"),
    ("slow", "5\n300\n301\n1500\n"),
];

/// The folder that holds them, and what runs record.
fn folder() -> &'static PathBuf {
    static DIR: OnceLock<PathBuf> = OnceLock::new();
    DIR.get_or_init(|| {
        let dir = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("fuzz-runs");
        fs::create_dir_all(&dir).unwrap();
        for (name, text) in TRACES {
            fs::write(dir.join(name), text).unwrap();
        }
        dir
    })
}

/// The run that a text describes, or `None` if the text is refused.
fn spec(text: &str) -> Option<Spec> {
    let dir = Some(folder().as_path());
    let planned = plan(&Source { name: "fuzz.toml", text, dir }, &[]).ok()?;
    resolve(&planned[0].scenario, planned[0].seed, dir).ok()
}

/// One of the texts; failures shrink towards the first.
fn one_of(texts: &'static [&'static str]) -> impl Strategy<Value = String> {
    prop::sample::select(texts).prop_map(str::to_owned)
}

/// Lines of which any may be missing. Failures shrink towards none.
fn lines(groups: &'static [&'static [&'static str]]) -> impl Strategy<Value = String> {
    let line =
        |texts: &'static [&'static str]| prop_oneof![2 => Just(""), 1 => prop::sample::select(texts)].boxed();
    groups.iter().map(|texts| line(texts)).collect::<Vec<_>>().prop_map(|all| {
        all.into_iter().filter(|text| !text.is_empty()).map(|text| format!("{text}\n")).collect()
    })
}

/// A number of many magnitudes.
fn magnitude(low: u32, high: u32) -> impl Strategy<Value = u64> {
    (low..high).prop_flat_map(|bits| (1u64 << bits)..(2u64 << bits))
}

const QUEUES: &[&str] = &[
    "\"droptail\"",
    "\"codel\"",
    "\"fq-codel\"",
    "\"pie\"",
    "\"red\"",
    "{ kind = \"codel\", target = \"1ns\", interval = \"1ns\" }",
    "{ kind = \"codel\", target = \"1ms\", interval = \"20ms\", ecn = true }",
    "{ kind = \"fq-codel\", queues = 1, quantum = \"1B\", ecn = true }",
    "{ kind = \"fq-codel\", queues = 2, quantum = \"9000B\", target = \"1us\" }",
    "{ kind = \"pie\", target = \"1ns\" }",
    "{ kind = \"pie\", target = \"1ms\", ecn = true }",
    "{ kind = \"red\", min = \"1pkt\", max = \"2pkt\", max_p = \"100%\", weight = 1.0 }",
    "\"dualpi2\"",
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

/// What a link may do to packets besides queueing them.
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
    (plain, prop_oneof![2 => Just("\"0%\""), 1 => prop::sample::select(LOSSES)])
        .prop_map(|(plain, loss)| format!("{plain}loss = {loss}\n"))
}

/// The rest of a link: what it holds, and how.
fn queueing() -> impl Strategy<Value = String> {
    let queue = prop_oneof![1 => Just("\"droptail\""), 2 => prop::sample::select(QUEUES)];
    (queue, prop::sample::select(BUFFERS))
        .prop_map(|(queue, buffer)| format!("queue = {queue}\nbuffer = \"{buffer}\"\n"))
}

/// A network: its text, and what each flow says of its way through it.
fn network(rate: u64) -> impl Strategy<Value = (String, &'static [&'static str])> {
    const NOTHING: &[&str] = &[""];
    const LOT: &[&str] =
        &["", "to = \"r1\"", "from = \"r2\"\nto = \"r0\"", "route = [\"r0\", \"r1\", \"r0\", \"r1\"]"];
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
    let common =
        (capacity, queueing(), disturbances(), access).prop_map(|(a, b, c, d)| a + &b + &c + &d).boxed();
    let dumbbell = (common.clone(), back).prop_map(|(common, back)| (common + &back, NOTHING));
    let lot = (common.clone(), 3u32..5).prop_map(|(common, hops)| {
        (format!("kind = \"parking-lot\"\nhops = {hops}\ndelay = \"1ms\"\n{common}"), LOT)
    });
    let own = (queueing(), disturbances(), 1u64..20, 0u64..30).prop_map(
        move |(queueing, disturbances, tenth, ms)| {
            format!("rate = \"{}bit\"\ndelay = \"{ms}ms\"\n{queueing}{disturbances}", rate * tenth / 10 + 8)
        },
    );
    let graph = (common, prop::array::uniform5(prop_oneof![Just(String::new()), own]), any::<bool>())
        .prop_map(|(common, own, duplex)| {
            let ends = [("a", "b"), ("b", "d"), ("a", "c"), ("c", "d"), ("d", "e")];
            let mut text = format!("kind = \"graph\"\n{common}delay = \"2ms\"\n");
            for (i, ((from, to), own)) in ends.into_iter().zip(own).enumerate() {
                write!(text, "[[links]]\nfrom = \"{from}\"\nto = \"{to}\"\n{own}").unwrap();
                if i == 0 && !duplex {
                    // Two one-way links in place of one that leads both ways.
                    text += "duplex = false\n[[links]]\nfrom = \"b\"\nto = \"a\"\nduplex = false\n";
                }
            }
            (text, GRAPH)
        });
    prop_oneof![3 => dumbbell, 1 => lot, 1 => graph]
}

/// Transport settings for segments of a size.
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

/// A scheme, perhaps with one parameter at an end of its range or between.
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
                narrows_cc::ParamKind::Number => (param.min + at * (param.max - param.min)).to_string(),
                narrows_cc::ParamKind::Count => {
                    (param.min + at * (param.max - param.min)).floor().to_string()
                }
            };
            format!("{name}:{}={value}", param.name)
        });
        prop_oneof![plain, set].boxed()
    })
}

/// What feeds a flow that never ends by itself.
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

/// Files over one bottleneck that loses, delays and reorders, with time to spare: their text.
fn files() -> impl Strategy<Value = String> {
    // Between them the losses of a file never go on for ever.
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
            // A timeout that may not back off beyond the time a packet takes fills any queue with copies.
            let tcp: Vec<&str> = tcp.lines().filter(|line| !line.contains("rto")).collect();
            let tcp = tcp.join("\n") + "\n";
            let mut text = format!(
                "name = \"fuzz\"\nduration = \"1000000s\"\nwarmup = \"0%\"\nseed = {seed}\n[tcp]\n{tcp}[network]\nrate = \"{rate}bit\"\n{queueing}{settled}\n"
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

/// A whole scenario.
fn scenario() -> impl Strategy<Value = String> {
    let rate = prop_oneof![6 => magnitude(19, 25), 1 => magnitude(3, 19), 1 => magnitude(25, 36), 1 => magnitude(36, 56)];
    (rate, tcp()).prop_flat_map(|(rate, (tcp, segment))| {
        // So long that some 20 000 packets pass at the most.
        let longest = 20_000 * (segment + 20) * 8 * 1_000 / rate;
        let ms = longest.clamp(5, 2_000);
        let rtt = prop_oneof![
            8 => 1_000_000u64..200_000_000,
            2 => 1u64..1_000_000,
            2 => Just(1_000_000_000),
            1 => Just(9_900_000_000_000_000)
        ];
        // Only the receiver's window bounds what passes at the highest rates.
        let least_rtt = if rate >> 36 == 0 { 0 } else { 2_000_000 };
        // In thousandths of the run.
        let times = prop_oneof![3 => Just((0u64, None)), 2 => (0u64..1000, prop::option::of(1u64..1000))];
        let flow = (scheme(), rtt, times, endless_app(), 0usize..12);
        let run = (prop::sample::select(&["0%", "10%", "90%"][..]), any::<u32>(), any::<bool>());
        (network(rate), prop::collection::vec(flow, 1..5), run).prop_map(
            move |((network, ways), flows, (warmup, seed, count))| {
                let mut text = format!(
                    "name = \"fuzz\"\nduration = \"{ms}ms\"\nwarmup = \"{warmup}\"\nseed = {seed}\n[tcp]\n{tcp}[network]\n{network}"
                );
                for (scheme, rtt, (start, stop), app, way) in flows {
                    let start = start * ms;
                    let way = ways[way % ways.len()];
                    write!(text, "[[flows]]\nscheme = \"{scheme}\"\nstart = \"{start}us\"\n{app}{way}\n").unwrap();
                    if way.is_empty() {
                        // Elsewhere it is that of the links; a dumbbell's access links take up to 8 ms of it.
                        writeln!(text, "rtt = \"{}ns\"", rtt.max(least_rtt) + 8_000_000 * u64::from(network.contains("access"))).unwrap();
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

/// Runs a text that is accepted; says so where the run does not end.
fn run(spec: Spec, recorder: Recorder) -> Result<RunResult, TestCaseError> {
    let duration = spec.duration;
    let mut engine = Engine::new(spec, recorder);
    let ended = engine.run_slice(duration, ENDLESS).unwrap();
    prop_assert!(ended, "stuck at {:?}", engine.now());
    Ok(engine.finish().unwrap())
}

fn check(spec: &Spec, result: &RunResult) -> Result<(), TestCaseError> {
    let finite = |name: &str, value: f64| {
        prop_assert!(value.is_finite() && value >= 0.0, "{name} is {value}");
        Ok(())
    };
    let share = |name: &str, value: f64, most: f64| {
        prop_assert!((0.0..=most).contains(&value), "{name} is {value}");
        Ok(())
    };
    prop_assert!(result.jain > 0.0 && result.jain <= 1.0 + 1e-12, "jain is {}", result.jain);
    finite("convergence", result.convergence_s.unwrap_or(0.0))?;
    let mut most_delivered = 0;
    for (flow, of) in result.flows.iter().zip(&spec.flows) {
        finite("goodput", flow.goodput_mbit_s)?;
        finite("throughput", flow.throughput_mbit_s)?;
        share("retransmitted", flow.retransmit_percent, 100.0)?;
        share("lost", flow.loss_percent, 100.0)?;
        let optional = [
            ("fill time", flow.fill_time_ms),
            ("completion", flow.completion_s),
            ("rtt range", flow.rtt_range_ms),
            ("throughput range", flow.throughput_range_mbit_s),
        ];
        for (name, value) in optional {
            finite(name, value.unwrap_or(0.0))?;
        }
        let order = [flow.rtt_min_ms, flow.rtt_p50_ms, flow.rtt_p95_ms, flow.rtt_p99_ms];
        prop_assert!(order.iter().all(|rtt| rtt.is_some() == flow.rtt_mean_ms.is_some()), "{order:?}");
        let rtts: Vec<f64> = order.into_iter().flatten().collect();
        prop_assert!(rtts.is_sorted(), "{rtts:?}");
        // Timestamps count microseconds.
        let least = rtts.first().copied().unwrap_or(f64::INFINITY);
        prop_assert!(least >= flow.rtt_base_ms - 0.001, "an RTT of {least} ms over {} ms", flow.rtt_base_ms);
        if let Some(mean) = flow.rtt_mean_ms {
            prop_assert!(mean >= least * (1.0 - 1e-12), "{mean} ms on average, {least} ms at least");
        }
        if spec.warmup.is_zero() {
            let sent = flow.packets_sent * u64::from(of.tcp.segment);
            prop_assert!(flow.bytes_delivered <= sent, "{} of {sent} bytes", flow.bytes_delivered);
            prop_assert!(flow.goodput_mbit_s <= flow.throughput_mbit_s, "{flow:?}");
        }
        most_delivered += flow.bytes_delivered.div_ceil(u64::from(of.tcp.segment));
    }
    let sent = result.counters.data_packets_sent;
    prop_assert!(result.data_packets <= sent, "{} of {sent} packets", result.data_packets);
    prop_assert!(most_delivered <= sent, "{most_delivered} of {sent} packets in order");
    prop_assert!(result.counters.retransmits <= sent);
    for link in &result.links {
        share("utilization", link.utilization, 1.0001)?;
        finite("queueing delay", link.queue_delay_mean_ms)?;
        finite("queueing delay", link.queue_delay_p95_ms)?;
        finite("queue", link.queue_mean_pkt)?;
        share("dropped", link.drop_percent, 100.0)?;
    }
    Ok(())
}

fn config() -> ProptestConfig {
    let default = ProptestConfig::default();
    let cases = default.cases.div_ceil(4);
    // Refused scenarios are the exception.
    ProptestConfig { cases, max_global_rejects: cases, max_shrink_iters: 400, ..default }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn a_run_neither_panics_nor_hangs_and_its_numbers_make_sense(
        text in scenario(),
        traced in prop::bool::weighted(0.1),
    ) {
        let spec = spec(&text);
        prop_assume!(spec.is_some());
        let spec = spec.unwrap();
        let trace = TraceSpec { samples: Some(spec.duration / 20), packets: true };
        let recorder = if traced { Recorder::new(&trace, folder()).unwrap() } else { Recorder::off() };
        let result = run(spec.clone(), recorder)?;
        check(&spec, &result)?;
    }

    #[test]
    fn every_file_arrives_in_the_end(text in files()) {
        let spec = spec(&text);
        prop_assume!(spec.is_some());
        let spec = spec.unwrap();
        let result = run(spec.clone(), Recorder::off())?;
        check(&spec, &result)?;
        for (flow, of) in result.flows.iter().zip(&spec.flows) {
            prop_assert!(flow.completion_s.is_some(), "{} has only {} bytes", flow.flow, flow.bytes_delivered);
            prop_assert_eq!(AppConfig::File(Bytes::new(flow.bytes_delivered)), of.app);
        }
    }
}

#[test]
fn the_scenarios_are_mostly_accepted_and_make_every_part_act() {
    // Without this, the properties above could hold because nothing happened.
    let mut runner = TestRunner::deterministic();
    let strategy = scenario();
    let texts: Vec<String> = (0..300).map(|_| strategy.new_tree(&mut runner).unwrap().current()).collect();
    let specs: Vec<Spec> = texts.iter().filter_map(|text| spec(text)).collect();
    assert!(specs.len() > 200, "only {} of {} are accepted", specs.len(), texts.len());
    let mut schemes = BTreeSet::new();
    let (mut links, mut completed, mut total) = ([0; 3], 0, Counters::default());
    for spec in specs {
        schemes.extend(spec.flows.iter().map(|flow| flow.scheme.info.name));
        let result = run(spec, Recorder::off()).unwrap();
        for link in &result.links {
            for (sum, n) in links.iter_mut().zip([link.drops, link.random_losses, link.marks]) {
                *sum += n;
            }
        }
        completed += result.flows.iter().filter(|flow| flow.completion_s.is_some()).count();
        let (all, one) = (&mut total, &result.counters);
        all.sack_blocks += one.sack_blocks;
        all.recoveries += one.recoveries;
        all.timeouts += one.timeouts;
        all.spurious_recoveries += one.spurious_recoveries;
        all.tlp_probes += one.tlp_probes;
        all.paced_waits += one.paced_waits;
        all.rate_samples += one.rate_samples;
        all.delayed_acks += one.delayed_acks;
        all.ecn_reductions += one.ecn_reductions;
    }
    assert_eq!(schemes.len(), ALL.len(), "schemes that ran: {schemes:?}");
    assert!(
        links.iter().all(|&n| n > 0) && completed > 0,
        "{links:?} drops, losses, marks; {completed} files"
    );
    let acted = [
        total.sack_blocks,
        total.recoveries,
        total.timeouts,
        total.spurious_recoveries,
        total.tlp_probes,
        total.paced_waits,
        total.rate_samples,
        total.delayed_acks,
        total.ecn_reductions,
    ];
    assert!(acted.iter().all(|&n| n > 20), "{total:?}");
}
