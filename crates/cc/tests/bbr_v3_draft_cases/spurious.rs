//! A.18 and A.19: spurious losses.

use narrows_cc::{Bytes, Nanos};

use crate::bbr_v3_draft_cases::record::{Event, Flow, NO_PROBE_RTT, Point, bounded, start};
use crate::flow::{MSS, Path};

fn place_of(flow: &Flow, from: usize, wanted: impl Fn(&Event) -> bool) -> usize {
    from + flow.trace()[from..].iter().position(|point| wanted(&point.event)).expect("it happened")
}

fn spurious(event: &Event) -> bool {
    matches!(event, Event::Spurious)
}

/// Whether `after` is at least `before`; `None` is infinity.
fn at_least<T: PartialOrd>(after: Option<T>, before: Option<T>) -> bool {
    match (after, before) {
        (None, _) => true,
        (Some(after), Some(before)) => after >= before,
        (Some(_), None) => false,
    }
}

/// Asserts that the undo restored the three bounds and cwnd to at least their values in `before`, and reset the plateau
/// detector.
#[track_caller]
fn assert_restored(before: &Point, after: &Point) {
    let (old, new) = (&before.figures, &after.figures);
    assert!(at_least(new.bw_short, old.bw_short), "{new:?} after {old:?}");
    assert!(at_least(new.inflight_short, old.inflight_short), "{new:?} after {old:?}");
    assert!(at_least(new.inflight_long, old.inflight_long), "{new:?} after {old:?}");
    assert!(after.control.cwnd >= before.control.cwnd, "{after:?} after {before:?}");
    assert!(!new.full_bw_now && new.full_bw_count == 0.0);
}

/// A flow on 20 Mbit/s and 40 ms in a later PROBE_UP, with an inflight_longterm from an earlier probe over a shallow
/// buffer; the buffer is unlimited from then on.
fn probing_up() -> Flow {
    let mut flow = bounded(20.0, Bytes::new(1 << 40));
    flow.reach("probe_bw_up");
    flow.leave();
    flow.reach("probe_bw_up");
    flow
}

/// A.18 Handling Spurious Fast Recovery. In PROBE_UP eight consecutive packets are overtaken by later packets: when
/// three later packets are acknowledged first, the eight packets are declared lost and fast recovery begins. All eight
/// packets arrive 100 ms later, and the recovery proves spurious. Section 5.5.10.2: the losses end PROBE_UP and lower
/// inflight_longterm. Section 5.5.11: the prior state is restored and the probe restarts with PROBE_REFILL, then
/// PROBE_UP a round later. The test repeats this in PROBE_CRUISE, where the losses lower the short-term bounds; the
/// undo restores these bounds, and the state stays.
#[test]
fn a18_spurious_fast_recovery_is_undone() {
    let mut flow = probing_up();
    let from = flow.trace().len();
    flow.path.delay = Some((8, Nanos::from_millis(100)));
    assert!(flow.run_until(flow.now + Nanos::from_secs(1), |flow| spurious(&flow.last().event)
        || flow.trace()[from..].iter().any(|p| spurious(&p.event))));
    let first = place_of(&flow, from, |event| matches!(event, Event::Lost(_)));
    let undone = place_of(&flow, from, spurious);
    let (before, during, after) = (flow.trace()[first - 1], flow.trace()[undone - 1], flow.trace()[undone]);
    assert_eq!(before.state(), "probe_bw_up");
    assert!(during.state() == "probe_bw_down" || during.state() == "probe_bw_cruise", "{during:?}");
    assert!(during.figures.inflight_long < before.figures.inflight_long, "{during:?} after {before:?}");
    assert_eq!(flow.trace()[first..undone].iter().filter(|point| point.lost().is_some()).count(), 8);
    assert_eq!(after.state(), "probe_bw_refill");
    assert_restored(&before, &after);
    let up = flow.reach("probe_bw_up");
    assert!(flow.trace()[up].figures.round - after.figures.round <= 1.0);
    assert_eq!(flow.states_since(undone), ["probe_bw_refill", "probe_bw_up"]);

    let mut flow = start(Path::new(20.0, 40), NO_PROBE_RTT);
    flow.reach("probe_bw_cruise");
    flow.run_for(Nanos::from_millis(400));
    let from = flow.trace().len();
    flow.path.delay = Some((8, Nanos::from_millis(100)));
    flow.run_for(Nanos::from_millis(400));
    let first = place_of(&flow, from, |event| matches!(event, Event::Lost(_)));
    let undone = place_of(&flow, from, spurious);
    let (before, during, after) = (flow.trace()[first - 1], flow.trace()[undone - 1], flow.trace()[undone]);
    assert!(during.figures.bw_short.is_some() && during.figures.inflight_short.is_some(), "{during:?}");
    assert_restored(&before, &after);
    assert_eq!((after.figures.bw_short, after.figures.inflight_short), (None, None));
    assert_eq!(flow.states_since(from - 1), ["probe_bw_cruise"]);
}

/// A.19 Handling Spurious RTO Recovery. In PROBE_UP the link stops for 1.4 s. The retransmission timer of 1 s expires:
/// all queued packets are declared lost, and cwnd becomes one segment, because inflight is zero (section 5.6.4.4). 0.4
/// s later all these packets arrive. Section 5.5.11: the prior bounds and cwnd are restored, and the probe restarts.
#[test]
fn a19_spurious_timeout_is_undone() {
    let mut flow = probing_up();
    let from = flow.trace().len();
    flow.stall(Nanos::from_millis(1400));
    assert!(flow.run_until(flow.now + Nanos::from_secs(2), |flow| matches!(flow.last().event, Event::Timeout)));
    let first = place_of(&flow, from, |event| matches!(event, Event::Lost(_)));
    let (before, at) = (flow.trace()[first - 1], *flow.last());
    assert_eq!((before.state(), at.state()), ("probe_bw_up", "probe_bw_down"));
    assert_eq!(at.control.cwnd, MSS);
    assert!(at.figures.inflight_long <= before.figures.inflight_long);
    assert!(
        flow.run_until(flow.now + Nanos::from_secs(2), |flow| {
            flow.trace()[from..].iter().any(|p| spurious(&p.event))
        })
    );
    let undone = place_of(&flow, from, spurious);
    let after = flow.trace()[undone];
    assert_restored(&before, &after);
    assert_eq!(after.state(), "probe_bw_refill");
    let up = flow.reach("probe_bw_up");
    assert!(flow.trace()[up].figures.round - after.figures.round <= 1.0);
}
