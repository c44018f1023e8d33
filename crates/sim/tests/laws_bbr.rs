//! BBR v1 compared with published results: the bias towards flows with long RTTs, the losses of several flows in
//! buffers below 1.5 BDP, and a share against CUBIC that does not depend on the number of CUBIC flows.
//!
//! One dumbbell with a drop-tail queue of X BDPs of the longest round-trip time:
//!
//!     senders ──[ X BDP │ rate ]── rtt/2 ── receivers

use crate::law::{assert_within, dumbbell, flows, run, spec};
use narrows_cc::{Nanos, Value};
use narrows_sim::{Engine, RunResult};

/// Share of flow 1 with RTT `rtt_ms` beside flow 0 with an RTT of 10 ms: the mean over four seeds, between which the
/// share varies by 0.02.
fn long_flow_share(rtt_ms: u64, buffer: &str) -> f64 {
    let both = flows("bbr", 10, "") + &flows("bbr", rtt_ms, "");
    let text = dumbbell((60.0, Some(20.0)), ("100mbit", buffer), &both);
    let share = |seed: u32| {
        let result = run(&format!("seed = {seed}\n{text}"));
        let throughput = |i: usize| result.flows[i].throughput_mbit_s;
        throughput(1) / (throughput(0) + throughput(1))
    };
    (1..=4).map(share).sum::<f64>() / 4.0
}

/// Once the queue can exceed the inflight cap 2 bw min_rtt of the flow with the short RTT, the cap favours the flow
/// with the long RTT. In a shallow buffer, losses occur before that, and the short-RTT flow gets no less than the other
/// (Hock et al., ICNP 2017). The share of the long-RTT flow therefore grows with the buffer and with the RTT ratio. Ma
/// et al. (arXiv 1706.09115) measured 6.3 and 87.3 Mbit/s for 10 and 50 ms on Linux with 2 MB of buffer, a share of
/// 0.933.
///
/// Tolerance: a share may deviate by 0.02 where the buffer is not the limit, because the probe phases are random.
#[test]
fn law_bbr_rtt_bias_grows_with_buffer_and_rtt_ratio() {
    const TOLERANCE: f64 = 0.02;
    let shares = [20, 50, 100].map(|rtt| ["0.2bdp", "1bdp", "5bdp"].map(|buffer| long_flow_share(rtt, buffer)));
    for pair in shares.windows(2) {
        for (nearer, farther) in pair[0].iter().zip(&pair[1]) {
            assert!(farther > &(nearer - TOLERANCE), "by ratio: {shares:.3?}");
        }
    }
    for row in &shares {
        assert!(row[1] > row[0] - TOLERANCE && row[2] > row[1] - TOLERANCE, "by buffer: {shares:.3?}");
        assert!(row[2] > row[0] + 0.1, "{shares:.3?}");
        assert!(row[2] > 0.8, "{shares:.3?}");
    }
    assert!(shares[0][0] < 0.53 && shares[1][0] < 0.53, "{shares:.3?}");
    assert!(shares[2][2] > shares[0][2] + 0.05, "{shares:.3?}");
    assert_within("share of 50 ms against 10 ms", shares[1][2], 87.3 / (87.3 + 6.3), 0.03);
}

/// BBR without SACK settles at the link's rate, because it loses no packet after STARTUP. The losses of STARTUP
/// are repaired one hole per round trip and then by a timeout that retransmits much data. If any retransmitted data
/// counted as delivered twice, BBR would overestimate the bandwidth and overflow the buffer repeatedly.
#[test]
fn law_bbr_without_sack_settles_at_link_rate() {
    let rest = format!("[tcp]\nsack = false\n{}", flows("bbr", 40, ""));
    let result = run(&dumbbell((30.0, Some(3.0)), ("100mbit", "1bdp"), &rest));
    assert!(result.counters().recoveries > 0, "no losses");
    assert!(result.links[0].utilization > 0.95, "utilisation {}", result.links[0].utilization);
    assert!(result.flows[0].retransmit_percent < 0.1, "{} % retransmitted", result.flows[0].retransmit_percent);
}

fn several(count: u32, buffer: &str) -> RunResult {
    // Skip 30 s: a flow that starts when a queue exists takes the queue for propagation delay. After two simultaneous
    // ProbeRTT phases all flows have the true min_rtt.
    let all = flows("bbr", 40, &format!("count = {count}\nstagger = \"100ms\""));
    run(&dumbbell((60.0, Some(30.0)), ("100mbit", buffer), &all))
}

/// Each flow takes its best probe as its bandwidth, so the estimates sum to more than the link's rate. In equilibrium a
/// probe with gain 1.25 just reproduces its flow's estimate, and the sum S of all estimates is at most 1.25 times the
/// rate. Windows of 2 S BDP in total cause a queue of 2 S - 1 BDP, between 1 and 1.5 BDP, plus 3 quanta of a few
/// segments per flow. A smaller buffer overflows all the time, and losses do not slow down any flow: at most
/// 1 - 1/1.25 = 20 % is lost. Up to half a BDP the size of the buffer makes no clear difference (four flows on Linux
/// 6.18: 10.7 % loss at 0.25 BDP, 10.3 % at 0.5 BDP). (Hock et al., ICNP 2017: queues of about 1.5 BDP, heavy loss in
/// buffers of 0.8 BDP.)
#[test]
fn law_bbr_several_flows_need_buffer_above_one_and_a_half_bdp() {
    const BDP: f64 = 100e6 / 8.0 * 0.04 / 1500.0;
    for flows in [4, 10] {
        let drops = ["0.25bdp", "0.5bdp", "1bdp", "2bdp", "3bdp"].map(|buffer| {
            let result = several(flows, buffer);
            let link = &result.links[0];
            if link.drop_percent < 0.1 {
                let slack = f64::from(flows) * 10.0 / BDP;
                assert!((1.0 - 0.1..1.5 + slack).contains(&(link.queue_mean_pkt / BDP)), "{}", link.queue_mean_pkt);
            }
            link.drop_percent
        });
        assert!(drops[..3].iter().all(|&drop| drop > 2.0 && drop < 20.0), "{flows} flows: {drops:.2?}");
        assert!(drops[0].min(drops[1]) > drops[2], "{flows} flows: {drops:.2?}");
        assert!(drops[3..].iter().all(|&drop| drop < 0.1), "{flows} flows: {drops:.2?}");
    }
}

/// Share of one BBR flow against `cubics` CUBIC flows with a buffer of `x` BDP.
fn share_against_cubic(cubics: u32, x: u32) -> f64 {
    let both = flows("bbr", 40, "") + &flows("cubic", 40, &format!("count = {cubics}"));
    let result = run(&dumbbell((500.0, Some(150.0)), ("10mbit", &format!("{x}bdp")), &both));
    assert!(result.links[0].utilization > 0.99);
    let total: f64 = result.flows.iter().map(|flow| flow.throughput_mbit_s).sum();
    result.flows[0].throughput_mbit_s / total
}

/// Ware, Mukerjee, Seshan and Sherry (IMC 2019): with a deep buffer BBR is limited by its inflight cap 2 bw
/// min_rtt, and its min_rtt includes the queue of the other flows, which remains when BBR drains its data in ProbeRTT.
/// Neither depends on the number of other flows.
///
/// Let c be the rate, l the propagation delay, q = X c l the full buffer, and s BBR's share of the buffer and therefore
/// of the link. BBR has s (q + c l) in flight. In ProbeRTT BBR has four packets in flight, and the (1 - s) (q + c l) of
/// the other flows are in the pipe and the queue, so min_rtt = ((1 - s) (q + c l) + 4) / c. The cap equals the data in
/// flight if
///
///     2 s c min_rtt = s (q + c l),    s = 1/2 + 4 / (q + c l),
///
/// and ProbeRTT takes q/c + 0.2 s + l of every 10 s. (Ware et al. neglect that the other flows' data also fills the
/// pipe while BBR's data is drained, and get s = 1/2 + 1/(2 X) + 4/q, which is equal in the limit of deep buffers.)
/// CUBIC's queue oscillates below the full buffer, where BBR finds a lower min_rtt. The tolerance is therefore 15 %
/// (Linux 6.18 beside two CUBIC flows with a buffer of 16 BDP: 0.43).
#[test]
fn law_bbr_deep_buffer_share_ignores_cubic_flow_count() {
    let (pipe, l) = (10e6 / 8.0 * 0.04 / 1500.0, 0.04);
    for x in [8, 16] {
        let shares = [1, 2, 4, 10].map(|cubics| share_against_cubic(cubics, x));
        let depth = f64::from(x);
        let probe_rtt = depth * l + 0.2 + l;
        let expected = (0.5 + 4.0 / ((depth + 1.0) * pipe)) * (1.0 - probe_rtt / 10.0);
        for share in shares {
            assert_within(&format!("share behind {x} BDP"), share, expected, 0.15);
            assert!((0.36..0.5).contains(&share), "share outside 0.36 to 0.5: {share}");
        }
        let spread = shares.iter().fold(0.0, |most: f64, share| most.max((share - shares[0]).abs()));
        assert!(spread < 0.05, "the number of CUBIC flows matters: {shares:.3?}");
    }
}

/// If an application writes at a tenth of the link's rate, the rate samples are application-limited. BBR therefore
/// stays in Startup, over TCP and DCCP, except for the 200 ms of each ProbeRTT. The application gets its rate within a
/// hundredth; data in flight at the start and the end of the measurement causes the difference.
#[test]
fn law_bbr_application_at_a_tenth_stays_in_startup() {
    for scheme in ["bbr", "bbr2", "bbr3", "dccp-bbr"] {
        let flow = flows(scheme, 40, "app = { kind = \"cbr\", rate = \"10mbit\" }");
        let text = dumbbell((12.0, Some(1.0)), ("100mbit", "1bdp"), &flow);
        let mut engine = Engine::new(spec(&text));
        for ms in (100..12_000).step_by(10) {
            engine.run_until(Nanos::from_millis(ms));
            let mut state = "none";
            engine.flow(0).telemetry(&mut |name, value| {
                if let ("state", Value::State(found)) = (name, value) {
                    state = found;
                }
            });
            assert!(["startup", "probe_rtt"].contains(&state), "{scheme}: {state} after {ms} ms");
        }
        assert_within(scheme, engine.finish().flows[0].goodput_mbit_s, 10.0, 0.01);
    }
}
