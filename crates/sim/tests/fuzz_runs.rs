//! Small random runs that together use every key of a scenario: no run panics or hangs, and results are plausible.
//! `PROPTEST_CASES=N` runs N / 4 scenarios instead of 64.

use std::collections::{BTreeMap, BTreeSet};

use crate::drawn::{TRACES, files, scenario};
use narrows_cc::schemes::ALL;
use narrows_cc::{Bytes, Nanos};
use narrows_packet::Packet;
use narrows_scenario::result::Counters;
use narrows_scenario::telemetry::Shown;
use narrows_scenario::{Plan, Source, TracePlan, expand, resolve};
use narrows_sim::Link;
use narrows_sim::observer::{Flows, Observer, PacketEvent};
use narrows_sim::samples::Sampler;
use narrows_sim::{Engine, RunResult};
use narrows_traffic::AppConfig;
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;

/// Event limit far above the events of every run of this file: a run that reaches it would never end.
const ENDLESS: u64 = 6_000_000;

/// The first run of a text, or `None` if the text is invalid.
fn spec(text: &str) -> Option<Plan> {
    let files: BTreeMap<_, _> = TRACES.iter().map(|&(name, text)| (name.to_owned(), text.to_owned())).collect();
    let planned = expand(&Source { name: "fuzz.toml", text, files: &files }, &[]).ok()?;
    resolve(&planned[0].scenario, planned[0].seed, &files).ok()
}

/// An observer that reads all samples and counts their rows and the packet events.
#[derive(Default)]
struct Reader {
    sampler: Sampler,
    packets: u64,
    rows: u64,
}

impl Observer for Reader {
    fn packet(&mut self, _: Nanos, _: PacketEvent, _: Option<u32>, _: &Packet) {
        self.packets += 1;
    }

    fn sample(&mut self, now: Nanos, flows: Flows<'_>, links: &mut [Link]) {
        self.sampler.sample(now, flows, links, &mut |_, series, shown| {
            if let Shown::Number(value) = shown {
                assert!(!value.is_nan(), "{series} is {value}");
            }
            self.rows += 1;
        });
    }

    fn before_reset(&mut self, now: Nanos, links: &mut [Link]) {
        self.sampler.before_reset(now, links);
    }
}

/// Times at which packets of a flow reached one of its endpoints.
#[derive(Clone, Copy, Default)]
struct Arrivals {
    last: Nanos,
    longest_gap: Nanos,
}

impl Arrivals {
    fn note(&mut self, now: Nanos) {
        self.longest_gap = self.longest_gap.max(now - self.last);
        self.last = now;
    }
}

/// An observer of the arrivals at the sender and the receiver of every flow, and of packets dropped by the network.
struct Silences {
    ends: Vec<[Arrivals; 2]>,
    answers: Vec<u64>,
    drops: Vec<u64>,
}

impl Silences {
    fn new(spec: &Plan) -> Self {
        let from = |start| Arrivals { last: start, longest_gap: Nanos::ZERO };
        let ends = spec.flows.iter().map(|flow| [from(flow.start); 2]).collect();
        Self { ends, answers: vec![0; spec.flows.len()], drops: vec![0; spec.flows.len()] }
    }

    /// Longest time without an arrival at one endpoint of a flow, up to the last packet that its sender sent.
    fn longest(&self, flow: usize) -> Nanos {
        self.ends[flow].iter().map(|end| end.longest_gap).max().unwrap_or_default()
    }
}

impl Observer for Silences {
    fn packet(&mut self, now: Nanos, event: PacketEvent, _: Option<u32>, packet: &Packet) {
        let flow = packet.flow as usize;
        let [sender, receiver] = &mut self.ends[flow];
        match event {
            PacketEvent::Ack => {
                sender.note(now);
                self.answers[flow] += 1;
            }
            PacketEvent::Deliver => receiver.note(now),
            PacketEvent::Drop => self.drops[flow] += 1,
            // Sending a packet does not end a gap between arrivals, but shows that the gap has lasted until now.
            PacketEvent::Send => {
                for end in [sender, receiver] {
                    end.longest_gap = end.longest_gap.max(now - end.last);
                }
            }
        }
    }
}

/// Runs a plan and fails if the run does not end.
fn run(spec: Plan, observer: impl Observer) -> Result<RunResult, TestCaseError> {
    let duration = spec.duration;
    let mut engine = Engine::observed(spec, observer);
    let ended = engine.run_slice(duration, ENDLESS);
    prop_assert!(ended, "stuck at {:?}", engine.now());
    Ok(engine.finish())
}

fn check(spec: &Plan, result: &RunResult) -> Result<(), TestCaseError> {
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
        // TCP timestamps count microseconds, so an RTT sample may be 0.001 ms too small.
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
    let sent = result.counters().data_packets_sent;
    prop_assert!(result.data_packets <= sent, "{} of {sent} packets", result.data_packets);
    prop_assert!(most_delivered <= sent, "{most_delivered} of {sent} packets in order");
    prop_assert!(result.counters().retransmits <= sent);
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
    // At most half of the scenarios may be invalid.
    ProptestConfig { cases, max_global_rejects: cases, max_shrink_iters: 400, ..default }
}

proptest! {
    #![proptest_config(config())]

    /// A random scenario neither panics nor hangs, and its results are plausible.
    #[test]
    fn random_scenario_runs_to_plausible_results(
        text in scenario(),
        traced in prop::bool::weighted(0.1),
    ) {
        let spec = spec(&text);
        prop_assume!(spec.is_some());
        let spec = spec.unwrap();
        let result = if traced {
            let trace = TracePlan { samples: Some(spec.duration / 20), packets: true };
            let mut reader = Reader::default();
            let result = run(Plan { trace, ..spec.clone() }, &mut reader)?;
            prop_assert!(reader.rows > 0 && reader.packets >= result.data_packets);
            result
        } else {
            run(spec.clone(), ())?
        };
        check(&spec, &result)?;
    }

    /// Every file of a random scenario completes, unless DCCP aborted because the network dropped every packet for too
    /// long.
    #[test]
    fn random_files_complete(text in files()) {
        let spec = spec(&text);
        prop_assume!(spec.is_some());
        let spec = spec.unwrap();
        let mut silences = Silences::new(&spec);
        let result = run(spec.clone(), &mut silences)?;
        check(&spec, &result)?;
        check_files(&spec, &result, &silences)?;
    }
}

/// TCP files complete and arrive whole. DCCP files complete, or their connection was aborted because the network
/// dropped packets of the flow: a handshake is aborted when the Request limit passes without an answer, an open
/// connection when 4 MSL pass without an answer (RFC 4340 sections 8.1.1 and 8.1.5).
fn check_files(spec: &Plan, result: &RunResult, silences: &Silences) -> Result<(), TestCaseError> {
    for (i, (flow, of)) in result.flows.iter().zip(&spec.flows).enumerate() {
        let state = format!("{} has completion {:?} and {} bytes", flow.flow, flow.completion_s, flow.bytes_delivered);
        let Some(config) = &of.datagrams else {
            prop_assert!(flow.completion_s.is_some(), "{state}");
            prop_assert_eq!(AppConfig::File(Bytes::new(flow.bytes_delivered)), of.app);
            continue;
        };
        // DCCP does not retransmit lost datagrams, so a completed file may lack some of its data.
        if flow.completion_s.is_some() {
            continue;
        }
        let (silence, answers, drops) = (silences.longest(i), silences.answers[i], silences.drops[i]);
        if answers == 0 {
            prop_assert!(silence >= config.request_limit, "{state} after {silence:?} without a Response");
            prop_assert_eq!((flow.bytes_delivered, flow.packets_sent), (0, 0));
            // Requests leave after 0, 1, 3, 7, ... s; each Request or its Response was lost.
            prop_assert!(drops >= 8, "{state} after {drops} drops");
        } else {
            // The server aborts 4 MSL after the first Request, and the client at most the Request limit later.
            let least = (config.msl * 4) - config.request_limit;
            prop_assert!(silence >= least, "{state} after {silence:?} of silence");
            prop_assert!(drops > 0, "{state} without a drop");
        }
    }
    Ok(())
}

/// A DCCP file completes over a path without loss; if the path drops everything, the client aborts the handshake.
#[test]
fn dccp_file_completes_or_handshake_gives_up() {
    for (loss, completes) in [("0%", true), ("99.9999%", false)] {
        let text = format!(
            "duration = \"1000s\"\nwarmup = \"0%\"\n[network]\nrate = \"10mbit\"\nbuffer = \"1bdp\"\nloss = \"{loss}\"\n\
             [[flows]]\nscheme = \"ccid2\"\nrtt = \"40ms\"\nsize = \"30kB\"\n"
        );
        let spec = spec(&text).expect("a valid scenario");
        let mut silences = Silences::new(&spec);
        let result = run(spec.clone(), &mut silences).unwrap();
        assert_eq!(result.flows[0].completion_s.is_some(), completes);
        check_files(&spec, &result, &silences).unwrap();
    }
}

/// Most random scenarios are valid, and together they use every scheme and mechanism.
#[test]
fn random_scenarios_are_mostly_valid_and_cover_all_parts() {
    // Without this test, the properties above could hold vacuously.
    let mut runner = TestRunner::deterministic();
    let strategy = scenario();
    let texts: Vec<String> = (0..300).map(|_| strategy.new_tree(&mut runner).unwrap().current()).collect();
    let specs: Vec<Plan> = texts.iter().filter_map(|text| spec(text)).collect();
    assert!(specs.len() > 200, "only {} of {} scenarios are valid", specs.len(), texts.len());
    let mut schemes = BTreeSet::new();
    let counts = |of: &Counters| {
        [
            of.sack_blocks,
            of.recoveries,
            of.timeouts,
            of.spurious_recoveries,
            of.tlp_probes,
            of.paced_waits,
            of.rate_samples,
            of.delayed_acks,
            of.ecn_reductions,
        ]
    };
    let (mut links, mut completed, mut acted) = ([0; 3], 0, [0; 9]);
    let add = |sums: &mut [u64], more: &[u64]| sums.iter_mut().zip(more).for_each(|(sum, n)| *sum += n);
    for spec in specs {
        schemes.extend(spec.flows.iter().map(|flow| flow.scheme.info.name));
        let result = run(spec, ()).unwrap();
        for link in &result.links {
            add(&mut links, &[link.drops, link.random_losses, link.marks]);
        }
        completed += result.flows.iter().filter(|flow| flow.completion_s.is_some()).count();
        add(&mut acted, &counts(result.counters()));
    }
    assert_eq!(schemes.len(), ALL.len(), "only {schemes:?} ran");
    assert!(links.iter().all(|&n| n > 0) && completed > 0, "{links:?} drops, losses, marks; {completed} files");
    assert!(acted.iter().all(|&n| n > 20), "{acted:?}");
}
