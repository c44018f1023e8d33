//! A.12 and A.13: aggregated acknowledgements.

use narrows_cc::{Bytes, Nanos};

use crate::bbr_v3_draft_cases::record::{Flow, Point, start};
use crate::flow::{MSS, Path};

/// The round of each acknowledgement and its excess over bandwidth x time (section 5.5.9).
fn excesses(trace: &[Point]) -> Vec<(f64, Bytes)> {
    let (mut since, mut delivered) = (Nanos::ZERO, Bytes::ZERO);
    let mut samples = Vec::new();
    for pair in trace.windows(2) {
        let (model, at) = (&pair[0], &pair[1]);
        let Some(ack) = at.ack() else { continue };
        let mut expected = model.figures.bw.over(ack.now - since);
        if delivered <= expected {
            (since, delivered, expected) = (ack.now, Bytes::ZERO, Bytes::ZERO);
        }
        delivered += ack.acked;
        samples.push((at.figures.round, (delivered - expected).min(model.control.cwnd)));
    }
    samples
}

/// The maximum excess since round `round - window`.
fn most(samples: &[(f64, Bytes)], round: f64, window: f64) -> Bytes {
    samples.iter().rev().take_while(|(at, _)| *at >= round - window).map(|(_, excess)| *excess).max().unwrap()
}

/// Checks extra_acked at every acknowledgement from a position on: at most the maximum excess of the last `window`
/// rounds, and at least the latest excess.
fn check(flow: &Flow, from: usize, window: f64) {
    let samples = excesses(flow.trace());
    let acks: Vec<_> = flow.trace().iter().skip(1).filter(|point| point.ack().is_some()).collect();
    assert_eq!(acks.len(), samples.len());
    for (nth, point) in acks.iter().enumerate() {
        if point.at < flow.trace()[from].at {
            continue;
        }
        let (extra, round) = (point.figures.extra_acked, point.figures.round);
        let (latest, bound) = (samples[nth].1, most(&samples[..=nth], round, window));
        assert!(extra >= latest && extra <= bound, "{extra:?} for {latest:?} to {bound:?} at {:?}", point.at);
    }
}

/// A.12 Achieving Expected STARTUP Bandwidth on a Link With Aggregation. Acknowledgements arrive every 15 ms over a
/// path of 20 ms. Section 5.5.9: extra_acked is the largest excess over bandwidth x time within a round; the test
/// computes the excess of each acknowledgement itself. cwnd can then exceed two BDPs. Section 4.1: the interval of a
/// sample is the longer of its send and acknowledgement phases, so no burst may show more than the link rate, up to the
/// one segment by which bursts of 64 and 65 segments differ. STARTUP still doubles its rate per round, in rounds of up
/// to 35 ms, and ends within 2 % of the link rate.
#[test]
fn a12_startup_finds_bandwidth_with_ack_aggregation() {
    let mut path = Path::new(50.0, 20);
    path.bunch = Nanos::from_millis(15);
    let mut flow = start(path, &[]);
    let exit = flow.leave();
    let point = flow.trace()[exit];
    check(&flow, 0, 1.0);
    let rate = flow.path.rate;
    let full = flow.trace().iter().find(|point| point.figures.max_bw >= rate.mul_f64(0.98)).unwrap();
    assert!(point.figures.max_bw <= rate.mul_f64(65.0 / 64.0), "{:?}", point.figures.max_bw);
    // The flow starts with 12 segments per 20 ms, and the BDP is 86 segments: STARTUP needs three doublings, and one
    // round for the first sample.
    assert!(full.figures.round <= 6.0, "{}", full.figures.round);
    let bdp = rate.over(flow.path.rtt);
    assert!(point.control.cwnd > bdp * 2, "{:?}", point.control.cwnd);
    assert!(point.figures.extra_acked > bdp / 4, "{:?}", point.figures.extra_acked);
}

/// A.13 Achieving Expected Cruise Bandwidth on a Link With Aggregation. In PROBE_CRUISE a path with an RTT of 20 ms
/// begins to deliver acknowledgements only every 60 ms: with a cwnd of two BDPs the flow would send for 40 ms and then
/// wait for the next acknowledgements. Section 5.5.9: extra_acked is the maximum excess of the last ten rounds, so it
/// follows the bursts (the test computes each excess itself). Section 5.6.4.2 adds extra_acked to cwnd, so two bursts
/// later the flow uses at least 95 % of the link. After the bursts the application writes at a tenth of the rate, which
/// ends the last epoch, and the maximum expires after exactly ten rounds.
#[test]
fn a13_cruise_window_allows_for_ack_aggregation() {
    let mut flow = start(Path::new(50.0, 20), &[]);
    flow.reach("probe_bw_cruise");
    flow.run_for(Nanos::from_millis(200));
    assert_eq!(flow.last().state(), "probe_bw_cruise");
    let from = flow.trace().len() - 1;
    flow.path.bunch = Nanos::from_millis(60);
    flow.run_for(Nanos::from_millis(240));
    let (delivered, since) = (flow.delivered, flow.trace().len());
    flow.run_for(Nanos::from_millis(600));
    assert_eq!(flow.states_since(from), ["probe_bw_cruise"]);
    check(&flow, from, 10.0);
    let used = (flow.delivered - delivered).as_f64() / flow.path.rate.over(Nanos::from_millis(600)).as_f64();
    assert!(used >= 0.95, "{used}");
    for point in &flow.trace()[since..] {
        let target = point.figures.bdp() * 2 + point.figures.extra_acked;
        assert!(point.control.cwnd >= target.mul_f64(0.99), "{point:?}");
        assert!(point.figures.extra_acked >= point.figures.bdp(), "{point:?}");
    }
    flow.path.bunch = Nanos::ZERO;
    flow.write_at(flow.path.rate.mul_f64(0.1));
    // The application now writes less than the bandwidth: at a deficit of 0.9 of the rate, the excess of at most one
    // cwnd is used up in about 60 ms.
    flow.run_for(Nanos::from_millis(100));
    let round = flow.last().figures.round;
    let until = |flow: &mut Flow, rounds: f64| {
        assert!(flow.run_until(flow.now + Nanos::from_secs(2), |flow| flow.last().figures.round >= rounds));
        flow.last().figures.extra_acked
    };
    assert!(until(&mut flow, round + 4.0) > flow.last().figures.bdp());
    assert!(until(&mut flow, round + 11.0) < MSS * 4);
    check(&flow, from, 10.0);
}
