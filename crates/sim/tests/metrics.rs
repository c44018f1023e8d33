//! Metrics at the edges: flows that stop, that end before the warm-up does, that never meet; the mean queue of a run that
//! ends with a standing queue.

use narrows_scenario::{NoFiles, Source, expand, resolve};
use narrows_sim::RunResult;

fn run(text: &str) -> RunResult {
    let planned =
        expand(&Source { name: "edge", text, files: &NoFiles }, &[]).unwrap_or_else(|e| panic!("{e}"));
    narrows_sim::run(
        resolve(&planned[0].scenario, planned[0].seed, &NoFiles).unwrap_or_else(|e| panic!("{e}")),
    )
}

/// Two flows one after the other, each of which fills a buffer of half a second before it stops.
const ONE_AFTER_THE_OTHER: &str = r#"
duration = "20s"
[network]
rate = "10mbit"
buffer = "5bdp"
[[flows]]
scheme = "cubic"
rtt = "100ms"
start = "1s"
stop = "3s"
[[flows]]
scheme = "cubic"
rtt = "100ms"
start = "8s"
stop = "10s"
"#;

#[test]
fn what_drains_after_a_flow_stopped_does_not_raise_its_rate_above_that_of_the_link() {
    for flow in &run(ONE_AFTER_THE_OTHER).flows {
        // 1448 of 1500 bytes are payload; one packet, 1.2 ms of a second, may be under way at either end.
        assert!(flow.throughput_mbit_s <= 10.0 * 1.0012, "{} Mbit/s", flow.throughput_mbit_s);
        assert!(flow.goodput_mbit_s <= 10.0 * 1448.0 / 1500.0 * 1.0012, "{} Mbit/s", flow.goodput_mbit_s);
        assert!(flow.goodput_mbit_s > 5.0);
    }
}

#[test]
fn flows_that_never_meet_do_not_converge() {
    assert_eq!(run(ONE_AFTER_THE_OTHER).convergence_s, None);
}

#[test]
fn a_flow_that_ends_before_the_warm_up_does_is_measured_over_its_whole_life() {
    let result = run(r#"
duration = "20s"
warmup = "10s"
[network]
rate = "10mbit"
[[flows]]
scheme = "newreno"
rtt = "100ms"
start = "6s"
size = "100kB"
"#);
    let flow = &result.flows[0];
    let seconds = flow.completion_s.expect("it ends");
    assert!((flow.goodput_mbit_s - 0.8 / seconds).abs() < 1e-9);
    assert_eq!(flow.packets_sent, 70); // 100 000 / 1448 rounded up
    let (least, greatest) = (flow.rtt_min_ms.expect("samples"), flow.rtt_p99_ms.expect("samples"));
    // Never more than its own 70 packets of 1.2 ms are queued.
    assert!((100.0..101.0).contains(&least) && greatest < 100.0 + 84.0, "{least} to {greatest} ms");
}

#[test]
fn the_mean_queue_counts_no_wait_beyond_the_end() {
    // Twice the rate for ten seconds: the queue grows steadily to what ten seconds carry, 8333 packets, and is half of that on
    // average; the handshake and the way of the first packet take 1 % off.
    for queue in ["droptail", "codel", "fq-codel"] {
        let result = run(&format!(
            r#"
duration = "10s"
warmup = "0s"
[network]
rate = "10mbit"
buffer = "100000pkt"
queue = {{ kind = "{queue}"{} }}
[[flows]]
scheme = "fixed:window=20000,rate=20"
rtt = "40ms"
"#,
            if queue == "droptail" { "" } else { ", target = \"100s\"" }
        ));
        let expected = 10.0 * 10e6 / 8.0 / 1500.0 / 2.0;
        let mean = result.links[0].queue_mean_pkt;
        assert!((mean / expected - 1.0).abs() < 0.08, "{queue}: {mean} packets, expected {expected}");
    }
}

#[test]
fn a_flow_names_the_parameters_that_differ_from_their_defaults_as_a_scheme_takes_them() {
    let of = |flow: &str| {
        let text =
            format!("duration = \"1s\"\n[network]\nrate = \"10mbit\"\n[[flows]]\nrtt = \"40ms\"\n{flow}");
        run(&text).flows[0].params.clone()
    };
    assert_eq!(of("scheme = \"cubic\""), "");
    assert_eq!(of("scheme = \"cubic:beta=0.7\""), "", "the default");
    assert_eq!(
        of("scheme = \"cubic:paced=on,beta=0.8,fast_convergence=off\""),
        "beta=0.8,fast_convergence=off,paced=on"
    );
    assert_eq!(of("scheme = \"cubic\"\nparams = { beta = 0.8 }"), "beta=0.8");
}
