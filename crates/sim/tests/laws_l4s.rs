//! Laws of schemes that respond to the fraction of marked packets: DCTCP at a step queue, Prague beside CUBIC in a dual
//! queue. All use the dumbbell of `laws.rs`, and expectations are computed.

use crate::law::{assert_within, dumbbell, flows, run};
use narrows_sim::RunResult;

/// 100 Mbit/s × 10 ms in packets.
const PIPE: f64 = 100e6 / 8.0 * 0.010 / 1500.0;

/// Saw-tooth of one DCTCP flow with a pause of a round trip after each cut (Alizadeh et al. 2010, section 3.3).
struct SawTooth {
    alpha: f64,
    depth: f64,
    rounds: f64,
}

impl SawTooth {
    /// The queue exceeds the threshold K when the window exceeds W* = P + K (P is the pipe). In the round trip until
    /// the first mark arrives, the flow sends W* packets, which are all marked, and the window reaches W* + 1. Then it
    /// falls by the fraction alpha / 2, stays constant for the round trip of the reduction and grows by one per round
    /// trip. Alpha is the fraction of marked packets in a cycle.
    fn new(threshold: f64) -> Self {
        let critical = PIPE + threshold;
        let peak = critical + 1.0;
        let mut alpha = 0.1;
        for _ in 0..200 {
            let trough = peak * (1.0 - alpha / 2.0);
            let sent = (peak * peak - trough * trough) / 2.0 + trough;
            alpha = 0.5 * (alpha + critical / sent);
        }
        let depth = peak * alpha / 2.0;
        Self { alpha, depth, rounds: depth + 1.0 }
    }
}

/// One flow on 100 Mbit/s × 10 ms with a step at `threshold` packets. It uses the RFC profile, because the saw-tooth
/// assumes single packets and Linux's bursts of 1 ms (8 packets) would exceed small thresholds.
fn dctcp_alone(threshold: u32, ack_every: u32) -> RunResult {
    let queue = format!("queue = {{ kind = \"step\", above = \"{threshold}pkt\" }}");
    let tcp = format!("[tcp]\nprofile = \"rfc\"\nack_every = {ack_every}");
    let rest = format!("{queue}\n{tcp}\n{}", flows("dctcp", 10, ""));
    run(&dumbbell((45.0, Some(5.0)), ("100mbit", "500pkt"), &rest))
}

/// With an ACK per packet there are no bursts, as the analysis assumes. The fraction of marks, the cycle length in
/// round trips (within 8 %) and the mean queue (within 1.5 packets) match the saw-tooth. All thresholds
/// exceed a seventh of the pipe, so the queue never empties.
#[test]
fn law_dctcp_step_queue_follows_saw_tooth() {
    for threshold in [15, 30, 60] {
        let result = dctcp_alone(threshold, 1);
        let (link, flow) = (&result.links[0], &result.flows[0]);
        let law = SawTooth::new(f64::from(threshold));
        let rtt_s = 0.010 + link.queue_delay_mean_ms / 1e3;
        let rounds = 45.0 / result.counters().ecn_reductions as f64 / rtt_s;
        assert_within("alpha", link.marks as f64 / flow.packets_sent as f64, law.alpha, 0.08);
        assert_within("round trips in a cycle", rounds, law.rounds, 0.08);
        let queue = f64::from(threshold) + 1.0 - law.depth / 2.0;
        assert!((link.queue_mean_pkt - queue).abs() < 1.5, "{} packets queued, not {queue}", link.queue_mean_pkt);
        assert_keeps_near(threshold, &result);
    }
}

/// The pipe stays full, and the 95th percentile of the queue is at most two packets (of 0.12 ms) above the threshold.
fn assert_keeps_near(threshold: u32, result: &RunResult) {
    let link = &result.links[0];
    assert!(link.queue_delay_p95_ms < 0.12 * f64::from(threshold + 2), "p95 {} ms", link.queue_delay_p95_ms);
    assert!(link.utilization > 0.999, "utilisation {}", link.utilization);
    assert_eq!(link.drops, 0);
}

/// Delayed ACKs release packets in pairs, so the queue varies by one packet, and at the start of a cycle only every
/// second packet is marked: reductions are smaller and more frequent. The queue still stays at the threshold.
#[test]
fn law_dctcp_delayed_acks_keep_queue_at_threshold() {
    for threshold in [15, 30, 60] {
        let result = dctcp_alone(threshold, 2);
        assert_keeps_near(threshold, &result);
        let found = result.links[0].queue_mean_pkt;
        let most = SawTooth::new(f64::from(threshold)).depth;
        let k = f64::from(threshold);
        assert!((k - most / 2.0 - 1.0..k + 1.0).contains(&found), "{found} packets queued");
    }
}

/// With a threshold below a seventh of the pipe, the saw-tooth empties the queue and wastes capacity: at K = 1 the
/// window falls D - K - 1 packets below the pipe (D is the depth of the saw-tooth) and grows by one per round trip.
#[test]
fn law_dctcp_low_threshold_loses_capacity() {
    let result = dctcp_alone(1, 1);
    let law = SawTooth::new(1.0);
    let lack = law.depth - 2.0;
    let expected = 1.0 - (lack * lack / 2.0 + lack) / (law.rounds * PIPE);
    let found = result.links[0].utilization;
    assert!((found - expected).abs() < 0.01, "utilisation {found}, not {expected}");
    assert!(found < 0.999, "utilisation {found}");
}

/// Without marks DCTCP is Reno.
#[test]
fn law_dctcp_without_marks_is_reno() {
    let goodput = |scheme: &str| {
        let result = run(&dumbbell((60.0, None), ("50mbit", "0.3bdp"), &flows(scheme, 20, "")));
        assert!(result.counters().recoveries > 10, "only {} recoveries", result.counters().recoveries);
        result.flows[0].goodput_mbit_s
    };
    assert_within("goodput", goodput("dctcp"), goodput("newreno"), 1e-9);
}

/// Two flows on 40 Mbit/s with a dual queue whose buffer is 250 ms.
fn in_dual_queue(first: &str, second: &str) -> RunResult {
    let rest = format!("queue = \"dualpi2\"\n[[flows]]\n{first}\n[[flows]]\n{second}\n");
    run(&dumbbell((100.0, Some(20.0)), ("40mbit", "250ms"), &rest))
}

/// Transmission time of a full packet and its ACK at 40 Mbit/s, in milliseconds.
const TRANSMISSION_MS: f64 = (1500.0 + 52.0) * 8.0 / 40e3;

/// The goal of RFC 9332: at equal base RTT, flows of both kinds get about the same rate (here within a factor of 2).
/// The 95th percentile of the L4S flow's queueing delay is below 1 ms; the classic flow's delay is the target of 15 ms
/// (within 15 %). CUBIC gets drops in one case and classic marks in the other.
#[test]
fn law_prague_and_cubic_share_dual_queue() {
    for ecn in [false, true] {
        let cubic = format!("scheme = \"cubic\"\nrtt = \"20ms\"\ntcp = {{ ecn = {ecn} }}");
        let result = in_dual_queue("scheme = \"prague\"\nrtt = \"20ms\"", &cubic);
        let (prague, cubic) = (&result.flows[0], &result.flows[1]);
        let ratio = prague.throughput_mbit_s / cubic.throughput_mbit_s;
        let low = prague.rtt_p95_ms.unwrap() - 20.0 - TRANSMISSION_MS;
        let classic = cubic.rtt_mean_ms.unwrap() - 20.0 - TRANSMISSION_MS;
        assert!((0.5..=2.0).contains(&ratio), "Prague gets {ratio} times the rate of CUBIC");
        assert!(low < 1.0, "{low} ms in the low-latency queue");
        assert!((classic / 15.0 - 1.0).abs() < 0.15, "{classic} ms in the classic queue");
        assert!(result.links[0].utilization > 0.99, "utilisation {}", result.links[0].utilization);
        assert_eq!(prague.loss_percent, 0.0);
        assert_eq!(cubic.loss_percent == 0.0, ecn);
    }
}

/// With the reference RTT of 25 ms, Prague flows with RTTs of 5 and 25 ms get about the same rate. Without the
/// reference the flow with the shorter RTT gets more, as with any scheme that adds a segment per round trip.
#[test]
fn law_prague_rtt_reference_equalises_rates() {
    let ratio = |params: &str| {
        let flow = |rtt| format!("scheme = \"prague:{params}\"\nrtt = \"{rtt}\"");
        let result = in_dual_queue(&flow("5ms"), &flow("25ms"));
        result.flows[0].throughput_mbit_s / result.flows[1].throughput_mbit_s
    };
    let (with, without) = (ratio("rtt_transition=0"), ratio("rtt_reference=0"));
    assert!((0.67..=1.5).contains(&with), "the short flow gets {with} times as much");
    assert!(without > 2.0, "without the reference: only {without} times as much");
}
