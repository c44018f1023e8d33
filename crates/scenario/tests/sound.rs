//! Valid scenarios: defaults, computed values, sweeps, and names of runs.

use std::io::ErrorKind;

use crate::texts::{Folder, plan as spec, plan_with as spec_with};
use narrows_cc::{Bytes, Nanos, Rate};
use narrows_net::config::{Capacity, CoDel, DualPi2, FqCoDel, Limit, Loss, Pie, Queue, Red, Step};
use narrows_scenario::{FileError, Files, Hop, NoFiles, Source, expand, resolve};

const PLAIN: &str = r#"
[network]
rate = "100mbit"
[[flows]]
scheme = "newreno"
rtt = "40ms"
"#;

/// Defaults are the values that are usual in the field.
#[test]
fn defaults_are_those_of_the_field() {
    let spec = spec(PLAIN);
    assert_eq!(spec.name, "test");
    assert_eq!((spec.duration, spec.warmup, spec.seed), (Nanos::from_secs(60), Nanos::from_secs(6), 1));
    assert_eq!(spec.links.len(), 2);
    let bottleneck = &spec.links[0];
    assert_eq!((bottleneck.name.as_str(), bottleneck.reported), ("bottleneck", true));
    // The limit is one BDP, 100 Mbit/s × 40 ms = 500 000 B.
    assert_eq!(bottleneck.config.limit, Limit::Bytes(Bytes::new(500_000)));
    assert_eq!(bottleneck.config.queue, Queue::DropTail);
    assert_eq!(bottleneck.config.loss, Loss::None);
    assert!(matches!(bottleneck.config.capacity, Capacity::Constant(rate) if rate == Rate::from_mbit_per_sec(100.0)));
    assert_eq!((spec.links[1].name.as_str(), spec.links[1].reported), ("reverse", false));
    let flow = &spec.flows[0];
    assert_eq!((flow.label.as_str(), flow.scheme.info.name), ("newreno", "newreno"));
    assert_eq!(*flow.tcp, narrows_tcp::TcpConfig::default());
    assert_eq!(flow.app, narrows_traffic::AppConfig::Bulk);
    assert_eq!((flow.start, flow.stop, flow.base_rtt), (Nanos::ZERO, None, Nanos::from_millis(40)));
    assert_eq!(flow.path.forward, [Hop { link: 0, delay: Nanos::from_millis(20) }]);
    assert_eq!(flow.path.reverse, [Hop { link: 1, delay: Nanos::from_millis(20) }]);
    assert_eq!(spec.trace, Default::default());
}

/// Buffer sizes in BDPs are computed from rate and RTT.
#[test]
fn buffers_follow_the_arithmetic_of_the_bdp() {
    let text = |rate: &str, buffer: &str| {
        format!(
            "[network]\nrate = \"{rate}\"\nbuffer = \"{buffer}\"\n[[flows]]\nscheme = \"newreno\"\nrtt = \"10ms\"\n\
             [[flows]]\nscheme = \"newreno\"\nrtt = \"50ms\"\n"
        )
    };
    let limit = |rate, buffer| spec(&text(rate, buffer)).links[0].config.limit;
    // The longest base RTT is used: 100 Mbit/s × 50 ms = 625 000 B.
    assert_eq!(limit("100mbit", "1bdp"), Limit::Bytes(Bytes::new(625_000)));
    assert_eq!(limit("100mbit", "0.1bdp"), Limit::Bytes(Bytes::new(62_500)));
    assert_eq!(limit("100mbit", "5bdp@10ms"), Limit::Bytes(Bytes::new(625_000)));
    // 0.7 has no exact binary form, but 0.7 × 625 000 still gives exactly 437 500.
    assert_eq!(limit("100mbit", "0.7bdp"), Limit::Bytes(Bytes::new(437_500)));
    assert_eq!(limit("100mbit", "100pkt"), Limit::Packets(100));
    assert_eq!(limit("100mbit", "64kB"), Limit::Bytes(Bytes::new(64_000)));
    assert_eq!(limit("100mbit", "50ms"), Limit::Time(Nanos::from_millis(50)));
    assert_eq!(limit("2.5gbit", "2bdp"), Limit::Bytes(Bytes::new(31_250_000)));
}

/// The BDP of a link with a capacity trace uses the trace's mean rate.
#[test]
fn bdp_of_capacity_trace_uses_its_mean_rate() {
    let text =
        "[network]\ncapacity_trace = \"scenario-capacity.trace\"\n[[flows]]\nscheme = \"newreno\"\nrtt = \"40ms\"\n";
    let files = &Folder("tests/fixtures");
    let runs = expand(&Source { name: "t", text, files }, &[]).unwrap();
    let spec = resolve(&runs[0].scenario, 1, files).unwrap();
    // Five opportunities of 1500 B in 10 ms are 750 000 B/s, and 750 000 B/s × 40 ms = 30 000 B.
    assert_eq!(spec.links[0].config.limit, Limit::Bytes(Bytes::new(30_000)));
    assert!(
        matches!(&spec.links[0].config.capacity, Capacity::Trace(trace) if trace.opportunities_ms == [1, 2, 2, 5, 10])
    );
    assert!(matches!(spec.links[1].config.capacity, Capacity::Constant(rate) if rate.as_bytes_per_sec() == 750_000));
}

/// The stated RTT includes the delay of access links.
#[test]
fn access_links_take_delay_out_of_stated_rtt() {
    //  sender ──5ms── ─10ms─ bottleneck ──5ms── receiver: 20 ms in each direction.
    let text = r#"
        [network]
        rate = "80mbit"
        access_rate = "200mbit"
        access_delay = "5ms"
        access_buffer = "100pkt"
        [[flows]]
        scheme = "newreno"
        rtt = "40ms"
        count = 2
    "#;
    let spec1 = spec(text);
    assert_eq!(spec1.links.len(), 2 + 2 * 4);
    let hop = |link, delay| Hop { link, delay: Nanos::from_millis(delay) };
    for (flow, first) in spec1.flows.iter().zip([2, 6]) {
        assert_eq!(flow.path.forward, [hop(first, 5), hop(0, 10), hop(first + 2, 5)]);
        assert_eq!(flow.path.reverse, [hop(first + 3, 5), hop(1, 10), hop(first + 1, 5)]);
        assert_eq!(flow.base_rtt, Nanos::from_millis(40));
        let total: Nanos = flow.path.forward.iter().chain(&flow.path.reverse).map(|hop| hop.delay).sum();
        assert_eq!(total, flow.base_rtt);
    }
    for link in &spec1.links[2..] {
        assert!(!link.reported);
        assert_eq!(link.config.limit, Limit::Packets(100));
        assert!(matches!(link.config.capacity, Capacity::Constant(rate) if rate == Rate::from_mbit_per_sec(200.0)));
    }
    // If receivers have no access links, the stated RTT includes only the delay of the senders' access links.
    let spec2 = spec_with(text, &[("network.receiver_access", "false")]);
    assert_eq!(spec2.links.len(), 2 + 2 * 2);
    assert_eq!(spec2.flows[0].path.forward, [hop(2, 5), hop(0, 15)]);
    assert_eq!(spec2.flows[0].path.reverse, [hop(1, 15), hop(3, 5)]);
    // With these access delays, the bottleneck has a delay of zero, which is still valid.
    let spec3 = spec_with(text, &[("network.access_delay", "10ms")]);
    assert_eq!(spec3.flows[0].path.forward, [hop(2, 10), hop(0, 0), hop(4, 10)]);
}

/// An RTT with an odd number of nanoseconds is split into two delays without losing one.
#[test]
fn odd_rtt_is_split_without_loss() {
    let spec = spec_with(PLAIN, &[("flows.rtt", "41ns"), ("network.buffer", "10pkt")]);
    assert_eq!(spec.flows[0].path.forward[0].delay, Nanos::from_nanos(20));
    assert_eq!(spec.flows[0].path.reverse[0].delay, Nanos::from_nanos(21));
}

/// Every key of `[network]` reaches the link.
#[test]
fn every_network_key_reaches_the_link() {
    use narrows_net::config::{Jitter, LossAt, Policer, Reordering};
    let spec = spec(
        r#"
        [network]
        rate = "100mbit"
        reverse_rate = "10mbit"
        reverse_buffer = "50pkt"
        queue = { kind = "fq-codel", target = "1ms", interval = "20ms", queues = 64, quantum = "300B", ecn = true }
        loss = { kind = "gilbert-elliott", to_bad = "1%", to_good = "25%", loss_bad = "50%" }
        loss_at = "ingress"
        jitter = { max = "2ms", reorder = true }
        reorder = { probability = "0.5%", delay = "3ms" }
        policer = { rate = "50mbit", burst = "30kB" }
        [[flows]]
        scheme = "newreno"
        rtt = "40ms"
        "#,
    );
    let [link, reverse] = &spec.links[..] else { panic!("two links") };
    let (target, interval) = (Nanos::from_millis(1), Nanos::from_millis(20));
    assert_eq!(
        link.config.queue,
        Queue::FqCoDel(FqCoDel { codel: CoDel { target, interval, ecn: true }, queues: 64, quantum: 300 })
    );
    let loss = Loss::GilbertElliott { to_bad: 0.01, to_good: 0.25, loss_good: 0.0, loss_bad: 0.5 };
    assert_eq!((link.config.loss, link.config.loss_at), (loss, LossAt::Ingress));
    assert_eq!(link.jitter, Some(Jitter { max: Nanos::from_millis(2), reorder: true }));
    assert_eq!(link.reordering, Some(Reordering { probability: 0.005, delay: Nanos::from_millis(3) }));
    let policer = Policer { rate: Rate::from_mbit_per_sec(50.0), burst: Bytes::new(30_000) };
    assert_eq!(link.config.policer, Some(policer));
    assert_eq!((reverse.config.loss, reverse.jitter, reverse.config.policer), (Loss::None, None, None));
    assert_eq!(reverse.config.limit, Limit::Packets(50));
    assert!(matches!(reverse.config.capacity, Capacity::Constant(rate) if rate == Rate::from_mbit_per_sec(10.0)));
}

/// Queues have the defaults of the RFCs and papers that define them.
#[test]
fn queues_have_the_defaults_of_their_documents() {
    let ms = Nanos::from_millis;
    let queue = |text| spec_with(PLAIN, &[("network.queue", text)]).links[0].config.queue.clone();
    let codel = CoDel { target: ms(5), interval: ms(100), ecn: false };
    assert_eq!(queue("codel"), Queue::CoDel(codel));
    assert_eq!(queue("fq-codel"), Queue::FqCoDel(FqCoDel { codel, queues: 1024, quantum: 1514 }));
    assert_eq!(queue("pie"), Queue::Pie(Pie { target: ms(15), ecn: false }));
    let red = |min, max, ecn| Queue::Red(Red { min, max, max_p: 0.1, weight: 0.002, adaptive: false, ecn });
    assert_eq!(queue("red"), red(5.0, 15.0, false));
    // The minimum of 15 000 B is ten full packets of 1500 B.
    assert_eq!(queue("{ kind = 'red', min = '15kB', ecn = true }"), red(10.0, 30.0, true));
    assert_eq!(
        spec_with(PLAIN, &[("network.queue", "pie"), ("network.queue.target", "20ms")]).links[0].config.queue,
        Queue::Pie(Pie { target: ms(20), ecn: false })
    );
    assert_eq!(queue("step"), Queue::Step(Step { above: 65.0 }));
    assert_eq!(queue("{ kind = 'step', above = '15kB' }"), Queue::Step(Step { above: 10.0 }));
    assert_eq!(queue("dualpi2"), Queue::DualPi2(DualPi2::default()));
    // The default gains follow from the times: 0.1 × 10 ms / (200 ms)² and 0.3 / 200 ms.
    let Queue::DualPi2(slow) = queue("{ kind = 'dualpi2', update = '10ms', rtt_max = '200ms' }") else {
        panic!("another kind")
    };
    assert!((slow.alpha - 0.025).abs() < 1e-12 && (slow.beta - 1.5).abs() < 1e-12, "{slow:?}");
}

/// A scheme that needs marks turns ECN on, unless the scenario states otherwise.
#[test]
fn scheme_needing_marks_gets_ecn_unless_overridden() {
    let marks = |scheme: &str, more: &[(&str, &str)]| {
        let mut overrides = vec![("flows.0.scheme", scheme)];
        overrides.extend(more);
        let tcp = spec_with(PLAIN, &overrides).flows[0].tcp.clone();
        (tcp.ecn, tcp.ecn_precise, tcp.ect1)
    };
    assert_eq!(marks("cubic", &[]), (false, false, false));
    assert_eq!(marks("dctcp", &[]), (true, true, false));
    assert_eq!(marks("prague", &[]), (true, true, true));
    assert_eq!(marks("prague", &[("tcp.ect1", "false")]), (true, true, false));
    assert_eq!(marks("dctcp", &[("tcp.ecn", "false")]), (false, true, false));
    assert_eq!(marks("cubic", &[("tcp.ecn", "true")]), (true, false, false));
}

/// Loss is read as a percentage or a pattern.
#[test]
fn loss_is_read_as_percentage_or_pattern() {
    let loss = |text| spec_with(PLAIN, &[("network.loss", text)]).links[0].config.loss;
    assert_eq!(loss("0%"), Loss::None);
    assert_eq!(loss("0.015%"), Loss::Bernoulli(0.00015));
    assert_eq!(loss("{ kind = 'periodic', every = 1000 }"), Loss::Periodic(1000));
}

/// The `tcp` table of a flow overrides the common table.
#[test]
fn tcp_table_of_flow_overrides_common_one() {
    let spec = spec(
        r#"
        [network]
        rate = "100mbit"
        [tcp]
        initial_window = 1
        ack_every = 1
        segment_bytes = 1000
        max_burst = "2pkt"
        sack = false
        [[flows]]
        scheme = "newreno"
        rtt = "40ms"
        [[flows]]
        scheme = "newreno"
        rtt = "40ms"
        tcp = { initial_window = 4, sack = true, receive_window = "100kB", min_rto = "1s", ack_delay = "0ms" }
        "#,
    );
    let (common, own) = (&spec.flows[0].tcp, &spec.flows[1].tcp);
    assert_eq!((common.initial_window, common.ack_every, common.segment), (1, 1, 1000));
    assert_eq!(common.max_burst, Bytes::new(2000));
    assert_eq!((common.sack, common.rack, common.tlp), (false, false, false));
    assert_eq!((own.initial_window, own.ack_every, own.segment), (4, 1, 1000));
    assert_eq!((own.sack, own.rack, own.tlp), (true, true, true));
    assert_eq!((own.receive_window, own.min_rto), (Bytes::new(100_000), Nanos::from_secs(1)));
    assert_eq!((own.ack_delay, own.max_rto), (Nanos::ZERO, Nanos::from_secs(120)));
}

/// Parameters of a scheme come from the text after the scheme's colon and from the table `params`.
#[test]
fn scheme_takes_parameters_from_text_and_table() {
    let params = |scheme: &str, table: &str| {
        let text = format!(
            "[network]\nrate = \"100mbit\"\n[[flows]]\nscheme = \"{scheme}\"\nrtt = \"40ms\"\nparams = {{ {table} }}\n"
        );
        let flow = spec(&text).flows.remove(0);
        (flow.scheme.info.name, flow.params)
    };
    let (name, both) = params("fixed:window=20pkt, rate=2.5", "");
    assert_eq!((name, both.number("window"), both.number("rate")), ("fixed", 20.0, 2.5));
    let (_, table) = params("fixed", "window = 7, rate = '3 mbit'");
    assert_eq!((table.number("window"), table.number("rate")), (7.0, 3.0));
    assert_eq!(params("reno", "").0, "newreno");
    assert!(params("newreno", "").1.flag("abc"));
    assert!(!params("newreno:abc=off", "").1.flag("abc"));
    assert!(!params("newreno", "abc = false").1.flag("abc"));
}

/// The flows of an entry start simultaneously, staggered, or spread over an interval.
#[test]
fn flows_of_an_entry_start_together_staggered_or_spread() {
    let starts = |extra: &[(&str, &str)]| -> Vec<f64> {
        let mut overrides = vec![("flows.count", "4"), ("flows.start", "1s")];
        overrides.extend_from_slice(extra);
        spec_with(PLAIN, &overrides).flows.iter().map(|flow| flow.start.as_secs_f64()).collect()
    };
    assert_eq!(starts(&[]), [1.0, 1.0, 1.0, 1.0]);
    assert_eq!(starts(&[("flows.stagger", "2s")]), [1.0, 3.0, 5.0, 7.0]);
    assert_eq!(starts(&[("flows.spread", "2s")]), [1.0, 1.5, 2.0, 2.5]);
}

/// Flows that share a label are numbered; a flow with a unique label is not.
#[test]
fn flows_sharing_a_label_are_numbered() {
    let flows = [
        ("newreno", "10ms", "count = 2"),
        ("fixed", "10ms", ""),
        ("newreno", "50ms", ""),
        ("newreno", "50ms", "label = \"late\""),
    ];
    let text = format!("[network]\nrate = \"100mbit\"\n{}", crate::texts::flows(&flows));
    let labels: Vec<_> = spec(&text).flows.into_iter().map(|flow| flow.label).collect();
    assert_eq!(labels, ["newreno-1", "newreno-2", "fixed", "newreno-3", "late"]);
}

/// Every form of an application is accepted.
#[test]
fn applications_are_read_in_every_form() {
    use narrows_traffic::AppConfig;
    let app = |key, text| spec_with(PLAIN, &[(key, text)]).flows[0].app;
    assert_eq!(app("flows.app", "bulk"), AppConfig::Bulk);
    assert_eq!(app("flows.size", "3MB"), AppConfig::File(Bytes::new(3_000_000)));
    let (on, off) = (Nanos::from_secs(1), Nanos::from_millis(500));
    assert_eq!(
        app("flows.app", "{ kind = 'on-off', on = '1s', off = '500ms', random = true }"),
        AppConfig::OnOff { on, off, random: true }
    );
    let rate = Rate::from_mbit_per_sec(1.0);
    assert_eq!(app("flows.app", "{ kind = 'cbr', rate = '1mbit' }"), AppConfig::Cbr { rate, write: Bytes::new(1448) });
    assert_eq!(
        app("flows.app", "{ kind = 'cbr', rate = '1mbit', write = '200B' }"),
        AppConfig::Cbr { rate, write: Bytes::new(200) }
    );
}

/// The warm-up is either a share of the run or a time.
#[test]
fn warmup_is_a_share_or_a_time() {
    let warmup = |text| spec_with(PLAIN, &[("warmup", text), ("duration", "30s")]).warmup;
    assert_eq!(warmup("7%"), Nanos::from_millis(2100));
    assert_eq!(warmup("5s"), Nanos::from_secs(5));
    assert_eq!(warmup("0s"), Nanos::ZERO);
}

/// The settings of `[trace]` reach the plan.
#[test]
fn trace_settings_reach_the_plan() {
    let trace = spec_with(PLAIN, &[("trace.samples", "10ms"), ("trace.packets", "true")]).trace;
    assert_eq!((trace.samples, trace.packets), (Some(Nanos::from_millis(10)), true));
    assert_eq!(spec_with(PLAIN, &[("trace.samples", "off")]).trace.samples, None);
}

/// Numbers are accepted in every notation of TOML.
#[test]
fn numbers_are_read_in_every_toml_notation() {
    let seed = |text: &str| spec(&format!("seed = {text}\n{PLAIN}")).seed;
    assert_eq!([seed("0x10"), seed("1_000"), seed("0b101"), seed("+7")], [16, 1000, 5, 7]);
}

/// A missing file of learned router state counts as empty, but an unreadable file is refused. A missing trace
/// is refused with its line and key.
#[test]
fn missing_file_and_unreadable_file_differ() {
    struct Locked;
    impl Files for Locked {
        fn read(&self, name: &str) -> Result<String, FileError> {
            Err(FileError { place: format!("/locked/{name}"), error: ErrorKind::PermissionDenied.into() })
        }
    }
    let run = |network: &str, files: &dyn Files| {
        let text = PLAIN.replace("[network]\n", &format!("[network]\n{network}\n"));
        expand(&Source { name: "t", text: &text, files }, &[]).map_err(|error| error.to_string())
    };
    assert_eq!(run("learned = \"l\"", &NoFiles).unwrap().len(), 1);
    let refused = run("learned = \"l\"", &Locked).unwrap_err();
    assert!(refused.starts_with("t:3: network.learned: cannot read `/locked/l`: permission denied"), "{refused}");
    let refused = run("loss_trace = \"x\"", &NoFiles).unwrap_err();
    assert!(refused.starts_with("t:3: network.loss_trace: cannot read `x`: entity not found"), "{refused}");
}
