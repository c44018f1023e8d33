//! Laws of BBR v3 on the dumbbell of `laws.rs` with 50 Mbit/s and 40 ms. The BDP is 172 segments, so BBR probes every
//! 2 to 3 s or 62 rounds.

use crate::law::{run, scenario};
use narrows_sim::RunResult;

/// One run; `network` and `flows` are TOML lines.
fn dumbbell(seconds: f64, warmup: f64, network: &str, flows: &str) -> RunResult {
    let network = format!("rate = \"50mbit\"\n{network}\n[tcp]\nreceive_window = \"20MB\"");
    run(&scenario(seconds, warmup, &network, flows))
}

fn flows(scheme: &str, count: u32) -> String {
    crate::law::flows(scheme, 40, &format!("count = {count}\nstagger = \"300ms\""))
}

/// BBR v3 alone paces 1 % below the bandwidth in PROBE_CRUISE, and PROBE_RTT (half of the window for 200 ms in 5 s)
/// costs another 2 % (the draft estimates 0.98 in section 5.3.4.2): it uses 0.97 of the link, within 1 %. A probe lasts
/// at most four rounds, until the third round without growth, and each round multiplies the data in flight by 1.2375:
/// the queue is 1.35 BDP at the end of the probe. PROBE_DOWN drains the queue with 0.109 of the rate in 12.4 round
/// trips. With the four rounds of the probe, which the queue lengthens, a queue exists in 18 of 62 round trips, with
/// half of the peak on average: the mean is below 1.35 x 18 / 62 / 2 = 0.20 BDP. Most round trips see no queue.
#[test]
fn law_bbr3_alone_fills_pipe_with_small_queue() {
    let result = dumbbell(60.0, 6.0, "buffer = \"2bdp\"", &flows("bbr3", 1));
    let (link, flow) = (&result.links[0], &result.flows[0]);
    let bdp_packets = 50e6 / 8.0 * 0.04 / 1500.0;
    let queue = link.queue_mean_pkt / bdp_packets;
    assert!((link.utilization / 0.97 - 1.0).abs() <= 0.01, "utilisation {}", link.utilization);
    assert!(queue < 0.2, "{queue} BDP queued");
    assert!(flow.rtt_p50_ms.unwrap() < 40.0 * 1.05, "median round trip {:?} ms", flow.rtt_p50_ms);
    assert_eq!(flow.retransmit_percent, 0.0);
}

/// Five flows share 0.3 BDP of buffer. BBR v1 keeps twice the BDP in flight regardless of losses, so the
/// excess is lost all the time. BBR v3 loses only while it probes: a probe ends as soon as 2 % of a flight is
/// lost, and the new bound prevents the flow from filling the buffer until the next probe. The losses of v3 stay
/// below this threshold of 2 %, and v1 loses at least five times as many packets.
#[test]
fn law_bbr3_shallow_buffer_loses_a_fifth_of_v1_losses() {
    let retransmitted = |scheme: &str| {
        let result = dumbbell(40.0, 10.0, "buffer = \"0.3bdp\"", &flows(scheme, 5));
        let sent: f64 = result.flows.iter().map(|flow| flow.packets_sent as f64).sum();
        let again: f64 = result.flows.iter().map(|flow| flow.retransmit_percent * flow.packets_sent as f64).sum();
        assert!(result.links[0].utilization >= 0.95, "{scheme}: {}", result.links[0].utilization);
        again / sent
    };
    let (v1, v3) = (retransmitted("bbr"), retransmitted("bbr3"));
    assert!(v3 < 2.0, "v3 retransmits {v3} %");
    assert!(v1 >= 5.0 * v3, "v1 retransmits {v1} %, v3 {v3} %");
}

/// Random loss below the threshold of 2 % lowers only the short-term bounds. In PROBE_DOWN, bw_short falls to the send
/// rate, 0.9 x 0.99 = 0.89 of the bandwidth. Each of the 50 rounds of PROBE_CRUISE then multiplies bw_short by at least
/// 0.99 (1 - p), which is 0.98 at 1 % loss; the mean of this factor over the 50 rounds is 0.64. This gives 0.57 of the
/// link for 50 of 62 rounds and, with the full rate in the other rounds, 0.65 in total. That is a lower bound, because
/// the latest rate is a maximum over a round and hides some losses. PROBE_DOWN keeps the share below 0.97. Above the
/// threshold every probe stops because of losses and lowers inflight_long, so the rate collapses. BBR v1 keeps its rate
/// up to 20 % loss (`law_bbr_random_loss_keeps_rate_up_to_probe_gain`).
#[test]
fn law_bbr3_random_loss_collapses_above_threshold() {
    let share = |scheme: &str, loss: f64| {
        let network = format!("buffer = \"2bdp\"\nloss = \"{loss}%\"\nloss_at = \"ingress\"");
        dumbbell(60.0, 6.0, &network, &flows(scheme, 1)).links[0].utilization
    };
    for loss in [0.1, 1.0] {
        let kept: f64 = 0.99 * (1.0 - loss / 100.0);
        let cruise = 0.891 * (1.0 - kept.powi(50)) / (50.0 * (1.0 - kept));
        let least = (50.0 * cruise + 12.0) / 62.0;
        let got = share("bbr3", loss);
        assert!(got >= least && got <= 0.97, "{loss} %: {got}, at least {least}");
    }
    let (v1, v3) = (share("bbr", 3.0), share("bbr3", 3.0));
    assert!(v3 < 0.3 && v1 > 0.9, "3 %: v1 {v1}, v3 {v3}");
}

/// Against CUBIC in one BDP of buffer, BBR v1 ignores losses and leaves CUBIC only the space that its two BDPs do not
/// fill. BBR v3 reduces its bound to at most 0.7 in a lossy round and leaves 15 % of the bound as headroom. With v3,
/// Jain's index over all flows is at least a tenth higher, and the CUBIC flows get at least twice as much.
#[test]
fn law_bbr3_beside_cubic_leaves_more_than_v1() {
    for count in [1, 3] {
        let shares = |scheme: &str| {
            let both = format!("{}{}", flows(scheme, count), flows("cubic", count));
            let result = dumbbell(60.0, 20.0, "buffer = \"1bdp\"", &both);
            let cubic = result.flows.iter().filter(|flow| flow.scheme == "cubic");
            let cubic: f64 = cubic.map(|flow| flow.goodput_mbit_s).sum();
            (result.jain, cubic)
        };
        let ((v1, to_v1), (v3, to_v3)) = (shares("bbr"), shares("bbr3"));
        assert!(v3 >= v1 + 0.1, "Jain {v1} with v1, {v3} with v3");
        assert!(to_v3 >= 2.0 * to_v1, "cubic gets {to_v1} beside v1, {to_v3} beside v3");
    }
}
