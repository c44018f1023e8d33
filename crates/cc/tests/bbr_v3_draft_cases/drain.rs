//! A.3 and A.4: exits of DRAIN.

use crate::bbr_v3_draft_cases::record::{Flow, start};
use crate::flow::Path;

/// A flow at the first event of DRAIN, and the position of that event in the record.
fn draining() -> (Flow, usize) {
    let mut flow = start(Path::new(20.0, 40), &[]);
    let entry = flow.leave();
    assert_eq!(flow.trace()[entry].state(), "drain");
    (flow, entry)
}

/// A.3 Exiting DRAIN Based on Inflight. Section 5.3.2: DRAIN paces at half the bandwidth (minus the margin of 1 %)
/// until inflight falls to BBRInflight(1.0). STARTUP leaves about two BDPs in flight, and pacing at half the bandwidth
/// drains one BDP in about two round-trip times. The first acknowledgement at which inflight is at or below the target
/// must end DRAIN.
#[test]
fn a03_drain_ends_when_inflight_falls_to_the_bdp() {
    let (mut flow, entry) = draining();
    let exit = flow.leave();
    for (place, pair) in flow.trace()[entry - 1..=exit].windows(2).enumerate().skip(1) {
        // The target comes from the model before this acknowledgement.
        let (mark, at) = (pair[0].figures.inflight_at_one(&pair[0].control), &pair[1]);
        let last = entry - 1 + place + 1 == exit;
        assert_eq!(at.ack().unwrap().inflight <= mark, last, "{at:?}");
        if !last {
            assert_eq!(at.figures.pacing_gain, 0.5);
            assert_eq!(at.control.pacing_rate, Some(at.figures.bw.mul_f64(0.5 * 0.99)));
        }
    }
    let (entry, exit) = (&flow.trace()[entry], &flow.trace()[exit]);
    assert!(exit.state().starts_with("probe_bw"), "{}", exit.state());
    assert!(exit.figures.round - entry.figures.round <= 3.0);
    let stay = exit.at - entry.at;
    assert!(stay < flow.path.rtt * 3, "{stay:?}");
}

/// A.4 Exiting DRAIN Based on Time. The case removes 10 % of the link rate when DRAIN begins and expects inflight to
/// stay above BBRInflight(1.0) for several rounds. With two BDPs in flight, removing 10 % is too little: DRAIN sends
/// 0.495 of the old rate into a link with 0.9 of the old rate and reaches the target within 1 / 0.405 = 2.5 round-trip
/// times, which are fewer than two rounds because the queue lengthens each round. The test shows this for 10 %, then
/// removes half of the rate: data enters the link at 0.495 and leaves it at 0.5 of the old rate. DRAIN must then end
/// when round_count exceeds the round of its start by more than three, with inflight still above the target.
#[test]
fn a04_drain_ends_after_three_rounds() {
    let (mut flow, entry) = draining();
    flow.set_rate(flow.path.rate.mul_f64(0.9));
    let exit = flow.leave();
    assert!(flow.trace()[exit].figures.round - flow.trace()[entry].figures.round <= 3.0);

    let (mut flow, entry) = draining();
    flow.set_rate(flow.path.rate.mul_f64(0.5));
    let exit = flow.leave();
    let start_round = flow.trace()[entry].figures.round;
    for point in &flow.trace()[entry..exit] {
        assert!(point.figures.round <= start_round + 3.0);
    }
    let (before, at) = (&flow.trace()[exit - 1], &flow.trace()[exit]);
    assert_eq!(at.figures.round, start_round + 4.0);
    assert_eq!(at.state(), "probe_bw_down");
    let mark = before.figures.inflight_at_one(&before.control);
    assert!(at.ack().unwrap().inflight > mark, "{at:?}");
}
