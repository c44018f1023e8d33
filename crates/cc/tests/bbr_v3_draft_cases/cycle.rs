//! A.8, A.9 and A.22: exits of PROBE_DOWN, and PROBE_REFILL without data.

use narrows_cc::{Bytes, Nanos, Rate};

use crate::bbr_v3_draft_cases::record::{Flow, NO_PROBE_RTT, rate_near, send_quantum, start};
use crate::flow::Path;

/// A flow at the first event of PROBE_DOWN after a probe, and the position of that event in the record.
fn going_down(buffer: Option<u64>) -> (Flow, usize) {
    let mut path = Path::new(20.0, 40);
    path.buffer = buffer.map_or(path.buffer, Bytes::new);
    let mut flow = start(path, NO_PROBE_RTT);
    flow.reach("probe_bw_up");
    let entry = flow.leave();
    assert_eq!(flow.trace()[entry].state(), "probe_bw_down");
    (flow, entry)
}

/// A.8 Exiting PROBE_DOWN on Inflight. Section 5.3.3.1: PROBE_DOWN paces at 0.90 of the bandwidth until inflight is at
/// or below both BBRInflightWithHeadroom() and BBRInflight(1.0). The first acknowledgement at which inflight is at or
/// below both targets must begin PROBE_CRUISE. The test runs with unlimited buffer (no long-term bound and thus no
/// headroom) and with a buffer of a tenth of a BDP. With the small buffer the losses of the probe set the bound, and
/// the target is 0.85 of the bound.
#[test]
fn a08_probe_down_ends_with_headroom_and_no_queue() {
    for (buffer, bounded) in [(None, false), (Some(10_000), true)] {
        let (mut flow, entry) = going_down(buffer);
        let exit = flow.leave();
        assert_eq!(flow.trace()[exit].state(), "probe_bw_cruise");
        for (place, pair) in flow.trace().windows(2).enumerate().take(exit).skip(entry) {
            let (model, at) = (&pair[0], &pair[1]);
            assert_eq!(model.figures.pacing_gain, 0.9);
            let Some(ack) = at.ack() else { continue };
            // The test uses the bounds in force at this acknowledgement; later losses may have bounded bw.
            let one = model.figures.max_bw.over(model.figures.min_rtt).max(send_quantum(&model.control) * 3);
            let headroom = model.figures.inflight_with_headroom();
            // The bound, if any, determines the target.
            assert_eq!(headroom.is_some_and(|bound| bound < one), bounded);
            let low = ack.inflight <= one && headroom.is_none_or(|bound| ack.inflight <= bound);
            assert_eq!(low, place + 1 == exit, "{at:?}");
        }
        let down = &flow.trace()[exit - 1];
        assert!(rate_near(down.control.pacing_rate.unwrap(), down.figures.bw.mul_f64(0.9 * 0.99), 1e-3));
    }
}

/// A.9 Exiting PROBE_DOWN After Max Time. When PROBE_DOWN begins, the link loses 10 % of its rate: the sender paces at
/// 0.9 x 0.99 of the old bandwidth into a link with 0.9 of the old bandwidth. The queue drains by only 1 % of the link
/// rate, so inflight stays above the target. Section 5.3.3.8: when bw_probe_wait (2 to 3 s) has passed, IsTimeToProbeBW
/// holds, and the next acknowledgement begins PROBE_REFILL directly from PROBE_DOWN. The other limit, 63 rounds, takes
/// longer: with the queue a round takes more than 55 ms.
#[test]
fn a09_probe_down_ends_in_refill_after_maximum_time() {
    let (mut flow, entry) = going_down(None);
    flow.set_rate(flow.path.rate.mul_f64(0.9));
    let exit = flow.leave();
    let (down, before, at) = (&flow.trace()[entry], &flow.trace()[exit - 1], &flow.trace()[exit]);
    assert_eq!(at.state(), "probe_bw_refill");
    let wait = down.figures.probe_wait;
    assert!(wait >= Nanos::from_secs(2) && wait <= Nanos::from_secs(3), "{wait:?}");
    assert!(at.at > down.at + wait && before.at <= down.at + wait, "{:?}", at.at - down.at);
    assert!(at.figures.round - down.figures.round < 62.0);
    for point in &flow.trace()[entry..exit] {
        assert!(point.ack().unwrap().inflight > point.figures.bdp(), "{point:?}");
    }
}

/// A.22 Handling Application-Limited Sending During PROBE_REFILL. When PROBE_REFILL begins, the application writes at
/// only a twentieth of the link rate, so that rounds still end. Section 5.5.5: application-limited samples below max_bw
/// do not enter the filter of max_bw, so max_bw stays at the link rate. Section 5.3.3.3: PROBE_UP still follows after
/// one round. When unlimited data is available again, PROBE_UP ends on a plateau and the estimate is still the link
/// rate.
#[test]
fn a22_app_limited_refill_keeps_bandwidth_estimate() {
    let mut flow = start(Path::new(20.0, 40), NO_PROBE_RTT);
    let entry = flow.reach("probe_bw_refill");
    let (round, known) = (flow.last().figures.round, flow.last().figures.max_bw);
    flow.write_at(Rate::from_mbit_per_sec(1.0));
    let exit = flow.leave();
    assert_eq!(flow.trace()[exit].state(), "probe_bw_up");
    assert_eq!(flow.trace()[exit].figures.round, round + 1.0);
    // PROBE_REFILL lasts one round trip and the interval to the next packet, which is 11.6 ms at 1 Mbit/s.
    let stay = flow.trace()[exit].at - flow.trace()[entry].at;
    assert!(stay < flow.path.rtt + Nanos::from_millis(25), "{stay:?}");
    flow.run_for(Nanos::from_secs(1));
    let samples = flow.trace()[entry..].iter().filter_map(|point| point.ack()?.rate);
    let low = samples.filter(|sample| sample.app_limited && sample.rate < known.mul_f64(0.5)).count();
    assert!(low > 20, "{low}");
    assert!(flow.trace()[entry..].iter().all(|point| point.figures.max_bw == known));
    flow.write_without_end();
    let down = flow.leave();
    assert_eq!(flow.trace()[down].state(), "probe_bw_down");
    assert!(flow.trace()[down].figures.full_bw_now);
    flow.run_for(Nanos::from_secs(5));
    assert!(rate_near(flow.last().figures.max_bw, flow.path.rate, 0.02), "{:?}", flow.last().figures.max_bw);
}
