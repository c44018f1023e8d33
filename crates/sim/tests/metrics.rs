//! Metrics in edge cases: flows that stop, that end before the warm-up or that are never active together, and the mean
//! queue of a run that ends with a standing queue.

use crate::law::{PAYLOAD, dumbbell, flows, run, scenario};
use narrows_scenario::result::RunResult;

/// Two consecutive flows, each of which fills a buffer of half a second before it stops.
fn one_after_the_other() -> RunResult {
    let flow = |times| flows("cubic", 100, times);
    let both = flow("start = \"1s\"\nstop = \"3s\"") + &flow("start = \"8s\"\nstop = \"10s\"");
    run(&dumbbell((20.0, None), ("10mbit", "5bdp"), &both))
}

/// The queue that drains after a flow has stopped does not raise the flow's rate above the link's rate.
#[test]
fn metrics_stopped_flow_rate_stays_within_link_rate() {
    for flow in &one_after_the_other().flows {
        // 1448 of 1500 bytes are payload. Tolerance: one packet (1.2 ms of a second) in flight at the start or end.
        assert!(flow.throughput_mbit_s <= 10.0 * 1.0012, "{} Mbit/s", flow.throughput_mbit_s);
        assert!(flow.goodput_mbit_s <= 10.0 * PAYLOAD * 1.0012, "{} Mbit/s", flow.goodput_mbit_s);
        assert!(flow.goodput_mbit_s > 5.0);
    }
}

/// Flows that are never active together have no convergence time.
#[test]
fn metrics_disjoint_flows_have_no_convergence() {
    assert_eq!(one_after_the_other().convergence_s, None);
}

/// A flow that ends before the warm-up is measured over its whole life.
#[test]
fn metrics_flow_ending_in_warmup_counts_whole_life() {
    let file = flows("newreno", 100, "start = \"6s\"\nsize = \"100kB\"");
    let result = run(&scenario(20.0, 10.0, "rate = \"10mbit\"", &file));
    let flow = &result.flows[0];
    let seconds = flow.completion_s.expect("a completion time");
    assert!((flow.goodput_mbit_s - 0.8 / seconds).abs() < 1e-9);
    assert_eq!(flow.packets_sent, 70); // 100 000 / 1448 rounded up
    let (least, greatest) = (flow.rtt_min_ms.expect("samples"), flow.rtt_p99_ms.expect("samples"));
    // At most the 70 packets of the flow, of 1.2 ms each, are queued.
    assert!((100.0..101.0).contains(&least) && greatest < 100.0 + 84.0, "{least} to {greatest} ms");
}

/// The mean queue does not include waiting after the end of the run.
#[test]
fn metrics_mean_queue_excludes_wait_beyond_end() {
    // The flow sends twice the link's rate for ten seconds: the queue grows linearly to the 8333 packets that the link
    // carries in ten seconds, and the mean is half of that. The handshake and the first packet's delay subtract 1 %.
    for queue in ["droptail", "codel", "fq-codel"] {
        let target = if queue == "droptail" { "" } else { ", target = \"100s\"" };
        let rest = format!("queue = {{ kind = \"{queue}\"{target} }}\n{}", flows("fixed:window=20000,rate=20", 40, ""));
        let result = run(&dumbbell((10.0, Some(0.0)), ("10mbit", "100000pkt"), &rest));
        let expected = 10.0 * 10e6 / 8.0 / 1500.0 / 2.0;
        let mean = result.links[0].queue_mean_pkt;
        assert!((mean / expected - 1.0).abs() < 0.08, "{queue}: {mean} packets, expected {expected}");
    }
}

/// Losses and retransmissions after the warm-up are divided by the packets sent after the warm-up: one in a hundred. If
/// losses were counted from the start, the result would be 2 %; if packets were counted from the start, their number
/// would be twice as high.
#[test]
fn metrics_loss_and_repair_are_those_after_warmup() {
    let rest = "loss = { kind = \"periodic\", every = 100 }\n".to_owned() + &flows("fixed:window=40", 40, "");
    let result = run(&dumbbell((20.0, Some(10.0)), ("10mbit", "1000pkt"), &rest));
    let flow = &result.flows[0];
    // The window exceeds the 33 packets of the path, so 833 packets are sent per second, 8333 in all. The number of
    // losses in the period is 83 +- 1.
    assert!((8_200..8_400).contains(&flow.packets_sent), "{} packets", flow.packets_sent);
    for (what, percent) in [("lost", flow.loss_percent), ("repaired", flow.retransmit_percent)] {
        assert!((percent - 1.0).abs() <= 0.02, "{percent} % {what}");
    }
}

/// A scenario of 12 s in which another flow keeps a queue of up to 200 packets for the first 3 s.
fn beside_a_full_queue(warmup_s: f64, scheme: &str, more: &str) -> RunResult {
    let both = flows(scheme, 40, more) + &flows("fixed:window=400", 40, "stop = \"3s\"");
    run(&dumbbell((12.0, Some(warmup_s)), ("10mbit", "200pkt"), &both))
}

/// A queue that another flow causes before the end of the warm-up does not affect the measured round-trip times: none
/// is longer than the RTT of the path and of the measured flow's window.
#[test]
fn metrics_rtt_excludes_queue_in_warmup() {
    let measured = |warmup_s| beside_a_full_queue(warmup_s, "fixed:window=20", "").flows.remove(0);
    // The RTT of the path is 40 ms. The flow's window of 20 packets of 1.2 ms may all be queued; while the other flow
    // is active, up to 200 packets are queued.
    let own = 40.0 + 20.0 * 1.2;
    let congested = measured(0.0);
    assert!(congested.rtt_p95_ms.expect("samples") > 40.0 + 100.0 * 1.2, "{congested:?}");
    let flow = measured(6.0);
    let (mean, p99) = (flow.rtt_mean_ms.expect("samples"), flow.rtt_p99_ms.expect("samples"));
    assert!(mean <= own && p99 <= own, "round-trip times of {mean} ms on average, 99 % up to {p99} ms");
    assert!(flow.rtt_range_ms.expect("samples") <= 20.0 * 1.2, "{flow:?}");
}

/// The fill time is measured from the first data packet, not from the SYN a round trip earlier or the start of the run.
/// A flow paced at twice the rate of its path fills the path's BDP of 125 kB in 125 kB / 2.5 MB/s = 50 ms, before the
/// first ACK. A packet takes 0.6 ms.
#[test]
fn metrics_fill_time_runs_from_first_data_packet() {
    let flow = flows("fixed:window=500,rate=20", 100, "start = \"1s\"\ntcp = { receive_autotuning = false }");
    let result = run(&dumbbell((3.0, Some(0.0)), ("10mbit", "1000pkt"), &flow));
    let fill = result.flows[0].fill_time_ms.expect("a fill time");
    assert!((fill - 50.0).abs() <= 0.6, "{fill} ms");
}

/// The result of a flow shows the parameters that differ from their defaults, in the syntax of a scheme.
#[test]
fn metrics_params_show_changes_in_scheme_syntax() {
    let of = |flow: &str| {
        let text = format!("duration = \"1s\"\n[network]\nrate = \"10mbit\"\n[[flows]]\nrtt = \"40ms\"\n{flow}");
        run(&text).flows[0].params.clone()
    };
    assert_eq!(of("scheme = \"cubic\""), "");
    assert_eq!(of("scheme = \"cubic:beta=0.7\""), "", "beta has its default");
    assert_eq!(
        of("scheme = \"cubic:paced=on,beta=0.8,fast_convergence=off\""),
        "beta=0.8,fast_convergence=off,paced=on"
    );
    assert_eq!(of("scheme = \"cubic\"\nparams = { beta = 0.8 }"), "beta=0.8");
}

/// A queue in the warm-up does not affect the measured delays of datagrams either.
#[test]
fn metrics_delay_of_datagrams_excludes_queue_in_warmup() {
    let own = "protocol = \"dccp\"\napp = { kind = \"cbr\", rate = \"1mbit\", write = \"1000B\" }";
    let delay = |warmup_s| {
        let result = beside_a_full_queue(warmup_s, "ccid2", own);
        let found = result.flows[0].datagrams.clone().expect("datagrams");
        (found.delay_mean_ms.expect("arrivals"), found.delay_p99_ms.expect("arrivals"))
    };
    // The one-way delay is 20 ms; up to 200 packets of 1.2 ms are queued while the other flow is active.
    let congested = delay(0.0).1;
    assert!(congested > 20.0 + 100.0 * 1.2, "{congested} ms");
    let (mean, p99) = delay(6.0);
    assert!(mean < 22.0 && p99 < 25.0, "{mean} ms on average, 99 % up to {p99} ms");
}
