//! A.14 to A.17: tiny BDPs, sudden changes of the link rate, and policers.

use narrows_cc::{Bytes, Nanos, Rate};

use crate::bbr_v3_draft_cases::record::{Flow, NO_PROBE_RTT, Point, bounded, near, rate_near, start};
use crate::flow::{MSS, Path};

/// A.14 Correctly Managing Sub-Packet BDPs. The BDP of 64 kbit/s and 10 ms is 80 B, a twentieth of a segment; a segment
/// takes 181 ms to send. The receiver acknowledges every second segment (bursts of 362 ms). Section 5.6.4.3: cwnd is at
/// least four segments, even in PROBE_RTT, where half a BDP would be 40 B. The bandwidth estimate is within 2 % of the
/// link rate, the pacing rate is the estimate times the state's gain, and the link stays busy.
#[test]
fn a14_sub_packet_bdp_is_filled_by_four_segments() {
    let mut path = Path::new(0.064, 10);
    path.bunch = path.rate.time_for(MSS) * 2;
    let mut flow = start(path, &[]);
    flow.reach("probe_bw_cruise");
    let from = flow.trace().len() - 1;
    let delivered = flow.delivered;
    flow.run_for(Nanos::from_secs(60));
    let states = flow.states_since(from);
    for state in ["probe_bw_up", "probe_bw_down", "probe_rtt"] {
        assert!(states.contains(&state), "{states:?}");
    }
    let rate = flow.path.rate;
    for point in &flow.trace()[from..] {
        assert!(point.control.cwnd >= MSS * 4, "{point:?}");
        if point.state() == "probe_rtt" {
            assert_eq!(point.control.cwnd, MSS * 4);
        }
        assert!(rate_near(point.figures.max_bw, rate, 0.02), "{point:?}");
        let paced = point.figures.bw.mul_f64(point.figures.pacing_gain * 0.99);
        assert!(rate_near(point.control.pacing_rate.unwrap(), paced, 1e-3), "{point:?}");
    }
    let used = (flow.delivered - delivered).as_f64() / rate.over(Nanos::from_secs(60)).as_f64();
    assert!(used >= 0.95, "{used}");
}

/// The first position, at or after `from`, of a point for which `wanted` holds.
#[track_caller]
fn first(flow: &Flow, from: usize, wanted: impl Fn(&Point) -> bool) -> usize {
    from + flow.trace()[from..].iter().position(wanted).expect("it comes to that")
}

/// A.15 Increasing Bandwidth 10x and Ensuring Full Bandwidth is Reached. A flow on 10 Mbit/s and 40 ms (a BDP of 34
/// segments) has an inflight_longterm from a probe over a shallow buffer. Then the link rate grows to 100 Mbit/s (a BDP
/// of 345 segments) and the buffer to one BDP. Section 5.3.3.5: while the bound limits the flow in PROBE_UP, the bound
/// grows by 1, 2, 4, 8, ... segments per round, or 311 segments in 8.3 rounds. Section 5.6.2: pacing grows by at most
/// 1.25 x 0.99 per round, or tenfold in 10.8 rounds. Even if the growth of the bound and the growth of the pacing rate
/// follow one another, the flow finds the link rate within 20 rounds of the probe's start. The test checks the steps of
/// the bound as long as pacing can fill them, from the second limited round on (the first step includes the remainder
/// of the previous round): 4, 8 and 16 segments, each within one segment.
#[test]
fn a15_tenfold_bandwidth_is_found_in_log_rounds() {
    let mut flow = bounded(10.0, Bytes::new(500_000));
    flow.set_rate(Rate::from_mbit_per_sec(100.0));
    let up = flow.reach("probe_bw_up");
    let found = flow
        .run_until(flow.now + Nanos::from_secs(10), |flow| flow.last().figures.max_bw >= flow.path.rate.mul_f64(0.98));
    let rounds = flow.last().figures.round - flow.trace()[up].figures.round;
    assert!(found && rounds <= 20.0, "{rounds} rounds: {:?}", flow.states());
    assert!(!flow.lost_since(up));
    assert!(flow.last().figures.max_bw <= flow.path.rate.mul_f64(1.001));

    // The bound at the start of each round of the PROBE_UP that found the rate.
    let length = flow.trace().iter().rev().take_while(|point| point.state() == "probe_bw_up").count();
    let from = flow.trace().len() - length;
    let mut bounds = Vec::new();
    for pair in flow.trace()[from..].windows(2) {
        if pair[1].figures.round > pair[0].figures.round {
            bounds.push(pair[0].figures.inflight_long.unwrap().in_segments(MSS));
        }
    }
    let steps: Vec<f64> = bounds.windows(2).map(|pair| pair[1] - pair[0]).collect();
    let reached = steps.iter().position(|step| *step > 0.0).unwrap();
    assert!((1.0..=4.0).contains(&steps[reached]), "{steps:?}");
    for (step, expected) in steps[reached + 1..].iter().zip([4.0, 8.0, 16.0]) {
        assert!((step - expected).abs() <= 1.0, "{steps:?}");
    }
}

/// A.16 Decreasing Bandwidth 10x and Ensuring Max Bandwidth Adapts Down. In PROBE_CRUISE the rate of a link with a
/// buffer of 50 kB falls from 100 to 10 Mbit/s. Section 5.5.10.3: at the end of each round with loss bw_shortterm
/// becomes the larger of 0.7 of its old value and the latest delivery rate. It falls from 100 to 10 Mbit/s in
/// log(10)/log(1/0.7) = 6.5 steps. A step takes up to two packet-timed rounds, because a loss round begins with the
/// first loss after the previous step. max_bw covers two cycles: it stays at the old rate until the second probe after
/// the change has ended, and is then within 2 % of the new rate.
#[test]
fn a16_tenth_of_bandwidth_lowers_both_estimates() {
    let mut path = Path::new(100.0, 40);
    path.buffer = Bytes::new(50_000);
    let mut flow = start(path, NO_PROBE_RTT);
    flow.reach("probe_bw_up");
    flow.reach("probe_bw_cruise");
    flow.run_for(Nanos::from_millis(400));
    let from = flow.trace().len() - 1;
    assert_eq!(flow.last().state(), "probe_bw_cruise");
    flow.set_rate(Rate::from_mbit_per_sec(10.0));
    let slow = flow.path.rate;
    flow.reach("probe_bw_refill");
    let short: Vec<_> =
        flow.trace()[from..].iter().filter_map(|point| Some((point.figures.round, point.figures.bw_short?))).collect();
    let mut values: Vec<Rate> = short.iter().map(|(_, rate)| *rate).collect();
    values.dedup();
    for pair in values.windows(2) {
        assert!(pair[1] <= pair[0].mul_f64(1.05) && pair[1] >= pair[0].mul_f64(0.699), "{values:?}");
    }
    let there = short.iter().find(|(_, rate)| *rate <= slow.mul_f64(1.1)).expect("bw_short falls to the new rate");
    let rounds = there.0 - short[0].0;
    assert!(rounds <= 14.0, "{rounds} rounds: {values:?}");

    // After two probes the old maximum has expired.
    flow.reach("probe_bw_up");
    flow.leave();
    flow.run_for(Nanos::from_millis(300));
    assert!(flow.last().figures.max_bw > slow * 9, "{:?}", flow.last().figures);
    flow.reach("probe_bw_up");
    flow.leave();
    let down = flow.last().figures.round;
    assert!(flow.run_until(flow.now + Nanos::from_secs(5), |flow| flow.last().figures.round >= down + 3.0));
    assert!(rate_near(flow.last().figures.max_bw, slow, 0.02), "{:?}", flow.last().figures);
}

/// A.17 Handling Token Bucket Policers. A policer of 10 Mbit/s in front of a link of 100 Mbit/s passes 8 MB and then
/// drops all packets above its rate, without a queue. The bucket is not empty before the end of STARTUP; it is empty
/// about 0.7 s later, in PROBE_CRUISE. Section 5.5.10.3: the losses set both short-term bounds at the end of the loss
/// round. Afterwards the flow follows the token rate: from 20 s to 60 s it uses at least 90 % of the tokens and loses
/// less than a tenth of its packets. A cycle is 34 rounds, one per packet of the BDP. When the tokens run out in a
/// probe, its whole flight of about two BDPs may be lost: 6 % of the packets of a cycle. The other losses occur in the
/// rounds in which the short-term bounds fall.
#[test]
fn a17_policer_with_empty_bucket_is_obeyed() {
    let mut path = Path::new(100.0, 40);
    let tokens = Rate::from_mbit_per_sec(10.0);
    path.policer = Some((tokens, Bytes::new(8_000_000)));
    let mut flow = start(path, &[]);
    flow.reach("probe_bw_cruise");
    assert_eq!(flow.lost, 0);
    let from = flow.trace().len();
    flow.run(Nanos::from_secs(20), |_, _| {});
    let loss = first(&flow, from, |point| point.lost().is_some());
    assert_eq!(flow.trace()[loss].state(), "probe_bw_cruise");
    let bounded = first(&flow, loss, |point| point.figures.bw_short.is_some());
    let (at, then) = (&flow.trace()[loss].figures, &flow.trace()[bounded].figures);
    assert!(then.round - at.round <= 2.0 && then.inflight_short.is_some(), "{then:?}");
    assert_eq!(then.state, "probe_bw_cruise");

    let (delivered, sent, lost) = (flow.delivered, flow.sent, flow.lost);
    flow.run(Nanos::from_secs(60), |_, _| {});
    let got = (flow.delivered - delivered).per(Nanos::from_secs(40));
    assert!(near(got.as_mbit_per_sec(), 10.0, 0.1), "{got:?}");
    let share = (flow.lost - lost) as f64 / (flow.sent - sent) as f64;
    assert!(share < 0.1, "{share}");
}
