//! A.5, A.6, A.7 and A.21: exits of PROBE_UP.

use narrows_cc::{Bytes, CongestionControl, Lost, Nanos, Rate, record};

use crate::bbr_v3_draft_cases::record::{Flow, NO_PROBE_RTT, Plateau, bounded, start};
use crate::flow::{MSS, Path};

/// A flow at the first event of PROBE_UP on 20 Mbit/s and 40 ms: the BDP is 69 segments, and the buffer is unlimited.
fn probing_up() -> Flow {
    let mut flow = start(Path::new(20.0, 40), NO_PROBE_RTT);
    flow.reach("probe_bw_up");
    flow
}

/// A.5 Exiting PROBE_UP on Bandwidth Plateau. A bulk flow sends as fast as pacing at 1.25 times the bandwidth permits,
/// without loss. Section 5.3.3.7: IsTimeToGoDown holds when the detector, started with the rate of the acknowledgement
/// that began PROBE_UP, has counted three rounds in which the rate grew by less than a quarter. The test runs the
/// detector over the recorded samples.
#[test]
fn a05_probe_up_ends_on_a_bandwidth_plateau() {
    let mut flow = probing_up();
    let entry = flow.trace().len() - 1;
    assert_eq!(flow.last().figures.pacing_gain, 1.25);
    assert_eq!(flow.last().figures.cwnd_gain, 2.25);
    assert!(!flow.last().figures.full_bw_now);
    let baseline = flow.last().ack().unwrap().rate.unwrap().rate;
    let exit = flow.leave();
    let (mut plateau, mut round, mut found) = (Plateau::from(baseline), flow.trace()[entry].figures.round, None);
    for (place, point) in flow.trace().iter().enumerate().skip(entry + 1) {
        if point.figures.round > round {
            round = point.figures.round;
            if plateau.round(point.ack().unwrap()) {
                found = found.or(Some(place));
            }
        }
    }
    assert_eq!(found, Some(exit));
    let (before, at) = (&flow.trace()[exit - 1], &flow.trace()[exit]);
    assert!(!before.figures.full_bw_now && at.figures.full_bw_now);
    assert_eq!(at.state(), "probe_bw_down");
    assert!(!flow.lost_since(0));
    // The flow had filled the pipe: sending at 1.25 times the bandwidth for three rounds puts more than 1.25 BDP in
    // flight.
    let inflight = before.ack().unwrap().inflight;
    assert!(inflight >= flow.path.rate.over(flow.path.rtt).mul_f64(1.25), "{inflight:?}");
}

/// A.6 Exiting PROBE_UP on Loss When Application-Limited. In PROBE_UP the application begins to write at half the link
/// rate, so samples are application-limited. Then every tenth packet is lost. Section 5.5.10.2: PROBE_UP ends as soon
/// as the data lost since a lost packet's transmission exceeds 2 % of the inflight at its transmission,
/// application-limited or not. With 34 packets in flight the first loss exceeds 2 %. HandleInflightTooHigh does not set
/// inflight_longterm for a packet sent while application-limited, so the bound stays infinite. The probe still counts
/// as too high.
#[test]
fn a06_loss_ends_app_limited_probe_up() {
    let mut flow = probing_up();
    flow.write_at(flow.path.rate.mul_f64(0.5));
    flow.run_for(Nanos::from_millis(400));
    assert_eq!(flow.last().state(), "probe_bw_up");
    flow.path.drop_every = Some(10);
    let exit = flow.leave();
    let (before, at) = (&flow.trace()[exit - 1], &flow.trace()[exit]);
    let lost = at.lost().expect("the loss itself ends the state");
    assert!(lost.app_limited);
    assert!((lost.lost_total - lost.lost_at_send).as_f64() > 0.02 * lost.tx_in_flight.as_f64());
    assert_eq!(flow.lost, 1);
    assert_eq!(at.state(), "probe_bw_down");
    assert!(!before.figures.probe_too_high && at.figures.probe_too_high);
    assert_eq!((before.figures.inflight_long, at.figures.inflight_long), (None, None));
}

/// A.7 Never Exiting PROBE_UP (or STARTUP) When Application-Limited With No Loss. The application writes at a tenth and
/// at a quarter of the link rate. Application-limited rounds do not count for the detector, so neither state may end in
/// a thousand rounds. PROBE_RTT would end both states if the minimum RTT were constant for 5 s, so the test shortens
/// the path's RTT by a microsecond per second. Once the application limit is lifted, the state ends within the usual
/// few rounds.
#[test]
fn a07_app_limited_without_loss_stays_in_probe_up() {
    let mut startup = start(Path::new(20.0, 40), &[]);
    startup.write_at(Rate::from_mbit_per_sec(2.0));
    let mut up = start(Path::new(20.0, 40), NO_PROBE_RTT);
    up.reach("probe_bw_up");
    up.write_at(Rate::from_mbit_per_sec(5.0));
    for (mut flow, state) in [(startup, "startup"), (up, "probe_bw_up")] {
        let (entry, round) = (flow.trace().len() - 1, flow.last().figures.round);
        // Lower the RTT below the RTT sample of the handshake, which does not include the transmission time of a
        // segment.
        flow.path.rtt -= Nanos::from_millis(1);
        for _ in 0..45 {
            flow.path.rtt -= Nanos::from_micros(1);
            flow.run_for(Nanos::from_secs(1));
        }
        assert_eq!(flow.states_since(entry), [state]);
        let rounds = flow.last().figures.round - round;
        assert!(rounds > 1000.0, "{rounds}");
        assert!(!flow.lost_since(0));
        flow.write_without_end();
        let (from, freed) = (flow.last().figures.round, flow.leave());
        let rounds = flow.trace()[freed].figures.round - from;
        // STARTUP grows from a tenth of the link rate: four doublings, then three rounds without growth.
        assert!((3.0..=9.0).contains(&rounds), "{state}: {rounds}");
    }
}

/// A flow in PROBE_UP with an inflight_longterm from an earlier probe over a shallow buffer; the buffer is now
/// unlimited.
fn probing_up_with_a_long_term_bound() -> Flow {
    let mut flow = bounded(20.0, Bytes::new(1 << 40));
    // The first probe after a probe that was too high is cautious; the probe after the cautious probe continues beyond
    // the bound.
    flow.reach("probe_bw_up");
    flow.leave();
    flow.reach("probe_bw_up");
    assert!(!flow.last().figures.probe_too_high);
    flow
}

/// A.21 Handling Loss During PROBE_UP After inflight_longterm is Set. While PROBE_UP raises its bound, every twentieth
/// packet is lost. Section 5.5.10.2: HandleInflightTooHigh runs at the packet whose loss raises the loss rate above 2
/// %. inflight_longterm becomes the larger of two values: the inflight at which the loss rate reaches 2 %,
/// inflight_prev + (0.02 inflight_prev - lost_prev) / 0.98, and beta = 0.7 times min(BDP, cwnd). PROBE_DOWN begins at
/// the same packet, before any plateau. On a path with uniform loss the first value is larger; a packet lost from a
/// small flight tests the second value.
#[test]
fn a21_loss_in_probe_up_lowers_bound_and_ends_it() {
    let mut flow = probing_up_with_a_long_term_bound();
    let entry = flow.trace().len() - 1;
    flow.path.drop_every = Some(20);
    let exit = flow.leave();
    let (before, at) = (&flow.trace()[exit - 1], &flow.trace()[exit]);
    let lost = at.lost().expect("the loss itself ends the state");
    assert!(before.figures.inflight_long.is_some());
    assert_eq!((before.state(), at.state()), ("probe_bw_up", "probe_bw_down"));
    assert!(!at.figures.full_bw_now && at.figures.probe_too_high);
    let since = |lost: &Lost| (lost.lost_total - lost.lost_at_send).as_f64();
    for point in flow.trace()[entry..exit].iter().filter_map(|point| point.lost()) {
        assert!(since(point) <= 0.02 * point.tx_in_flight.as_f64(), "{point:?}");
    }
    assert!(since(lost) > 0.02 * lost.tx_in_flight.as_f64());
    let size = MSS.as_f64();
    let (inflight_prev, lost_prev) = (lost.tx_in_flight.as_f64() - size, since(lost) - size);
    let at_loss = inflight_prev + (0.02 * inflight_prev - lost_prev) / 0.98;
    let floor = 0.7 * before.figures.bdp().min(before.control.cwnd).as_f64();
    let expected = at_loss.max(floor);
    let long = at.figures.inflight_long.unwrap();
    assert!((long.as_f64() - expected).abs() <= 2.0, "{long:?} for {expected}");

    let mut flow = probing_up_with_a_long_term_bound();
    let before = *flow.last();
    flow.cc.on_lost(&record!(Lost { tx_in_flight: MSS * 10, lost_at_send: lost.lost_total - MSS, ..*lost }));
    assert_eq!(flow.last().state(), "probe_bw_down");
    let floor = 0.7 * before.figures.bdp().min(before.control.cwnd).as_f64();
    let long = flow.last().figures.inflight_long.unwrap();
    assert!(floor > 10.0 * size);
    assert!((long.as_f64() - floor).abs() <= 2.0, "{long:?} for {floor}");
}
