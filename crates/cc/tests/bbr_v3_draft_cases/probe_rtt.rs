//! A.10, A.11 and A.20: entry, exit and skipping of PROBE_RTT.

use narrows_cc::{Nanos, Rate};

use crate::bbr_v3_draft_cases::record::{Event, rate_near, start};
use crate::flow::{MSS, Path};

const INTERVAL: Nanos = Nanos::from_secs(5);
const DURATION: Nanos = Nanos::from_millis(200);

/// A.10 Entering and Exiting PROBE_RTT. The handshake measured 40 ms. Two seconds later the path's RTT rises to 60 ms,
/// so every RTT sample is above 40 ms and no sample renews probe_rtt_min_delay. Section 5.3.4.3 (draft-06): the first
/// acknowledgement after 5 s begins PROBE_RTT, with a cwnd gain of 0.5 and a cwnd of at most half a BDP, computed with
/// the min_rtt of 40 ms and not with the sample that renews the 5 s filter. Once inflight has fallen to that cwnd,
/// PROBE_RTT lasts for 200 ms and a round, and ends with the first acknowledgement after both have passed. The flow
/// continues in PROBE_CRUISE with its old cwnd and without short-term bounds. The next PROBE_RTT starts five seconds
/// after the end of this one, and after 10 s the 40 ms leave the filter of min_rtt.
#[test]
fn a10_probe_rtt_after_five_seconds_lasts_200_ms_and_round() {
    let mut flow = start(Path::new(20.0, 40), &[]);
    let known = flow.now;
    flow.run(Nanos::from_secs(2), |_, _| {});
    flow.path.rtt = Nanos::from_millis(60);
    let entry = flow.reach("probe_rtt");
    let (before, at) = (flow.trace()[entry - 1], flow.trace()[entry]);
    assert!(before.at <= known + INTERVAL && at.at > known + INTERVAL, "{:?}", at.at);
    assert!(before.state().starts_with("probe_bw"));
    assert_eq!((at.figures.cwnd_gain, at.figures.pacing_gain), (0.5, 1.0));
    assert_eq!(at.figures.min_rtt, known);
    let half = at.figures.bw.over(known).mul_f64(0.5);
    let exit = flow.leave();
    for point in &flow.trace()[entry..exit] {
        assert!(point.control.cwnd <= half.max(MSS * 4), "{point:?}");
        assert_eq!(point.figures.min_rtt, known);
    }
    let point = flow.trace()[exit];
    assert_eq!(point.state(), "probe_bw_cruise");
    let stay = &flow.trace()[entry..exit];
    let low = stay.iter().find(|point| point.ack().unwrap().inflight <= half).unwrap();
    assert!(point.at > low.at + DURATION, "{:?} after {:?}", point.at, low.at);
    let previous = flow.trace()[exit - 1];
    // A round of 60 ms is over long before 200 ms have passed, so the first acknowledgement after 200 ms ends
    // PROBE_RTT.
    assert!(previous.at <= low.at + DURATION, "{:?} after {:?}", previous.at, low.at);
    assert!(point.control.cwnd >= before.control.cwnd.min(point.figures.bdp() * 2), "{point:?}");
    assert_eq!((point.figures.bw_short, point.figures.inflight_short), (None, None));
    flow.run_for(Nanos::from_millis(120));
    assert!(flow.inflight() >= flow.path.rate.over(known).mul_f64(0.8), "{:?}", flow.inflight());

    flow.reach("probe_bw");
    let again = flow.reach("probe_rtt");
    let after = flow.trace()[again].at - point.at;
    assert!(after > INTERVAL && after < INTERVAL + Nanos::from_millis(2), "{after:?}");
    // After 10.04 s min_rtt is the value of the 5 s filter, which is the current RTT.
    assert_eq!(flow.last().figures.min_rtt, flow.path.min_rtt());
}

/// A.11 Skipping PROBE_RTT Due to Application-Limited Sending. In PROBE_BW the application stops writing, inflight
/// drains, and the 5 s pass. Section 5.4.1: the next packet sets idle_restart and paces at exactly the bandwidth (minus
/// the margin). Section 5.3.4.2: the first sample renews the expired filter and no PROBE_RTT begins; the next PROBE_RTT
/// would begin 5 s later. A flow without idle time enters PROBE_RTT after 5 s.
#[test]
fn a11_probe_rtt_is_skipped_after_idle_time() {
    let mut flow = start(Path::new(20.0, 40), &[]);
    flow.reach("probe_bw_cruise");
    flow.write_at(Rate::ZERO);
    flow.run_for(Nanos::from_secs(6));
    assert!(flow.inflight().is_zero());
    flow.write_without_end();
    let silent = flow.trace().len();
    flow.run_for(Nanos::from_millis(1));
    let restart = flow.trace()[silent];
    assert!(matches!(restart.event, Event::Restart), "{restart:?}");
    assert!(restart.figures.idle_restart);
    assert_eq!(restart.control.pacing_rate, Some(restart.figures.bw.mul_f64(0.99)));
    let resumed = restart.at;
    let entry = flow.reach("probe_rtt");
    let (first, after) = (flow.trace()[silent + 1], flow.trace()[entry].at - resumed);
    assert!(!first.figures.idle_restart, "the first acknowledgement ends the restart: {first:?}");
    assert!(after > INTERVAL, "{after:?}");

    let mut busy = start(Path::new(20.0, 40), &[]);
    let entry = busy.reach("probe_rtt");
    assert!(busy.trace()[entry].at < resumed);
}

/// A.20 Entering and Exiting PROBE_RTT During STARTUP. The application writes at a tenth of the link rate, so STARTUP
/// cannot end before the 5 s have passed and PROBE_RTT begins. Section 5.3.4.4: the pipe was never full, so the flow
/// returns to STARTUP. With unlimited data, it finds the link rate by a plateau and enters DRAIN.
#[test]
fn a20_probe_rtt_before_full_pipe_returns_to_startup() {
    let mut flow = start(Path::new(20.0, 40), &[]);
    flow.write_at(Rate::from_mbit_per_sec(2.0));
    let entry = flow.reach("probe_rtt");
    assert_eq!(flow.states_since(0), ["startup", "probe_rtt"]);
    assert!(!flow.trace()[entry].figures.full_bw_reached);
    let exit = flow.leave();
    let point = flow.trace()[exit];
    assert_eq!(point.state(), "startup");
    assert!(!point.figures.full_bw_reached);
    assert_eq!((point.figures.pacing_gain, point.figures.cwnd_gain), (2.77, 2.0));
    flow.write_without_end();
    let drain = flow.leave();
    let point = flow.trace()[drain];
    assert_eq!(point.state(), "drain");
    assert!(rate_near(point.figures.max_bw, flow.path.rate, 0.02), "{:?}", point.figures.max_bw);
    flow.reach("probe_bw_up");
}
