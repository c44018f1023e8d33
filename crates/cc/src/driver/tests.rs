use alloc::vec::Vec;

use super::*;
use crate::schemes::{NewReno, find};
use crate::testing::{ms, setup};
use crate::{CongestionControl, Info, Scheme, Setup, Telemetry, Value};

const MSS: Bytes = Bytes::new(1_000);
const RTT: Nanos = Nanos::from_millis(10);

fn driver(name: &str) -> Driver {
    let entry = find(name).unwrap();
    Driver::new(entry.build(&setup(entry.info, MSS.as_u64(), &[])))
}

/// The end of an acknowledgement in the open phase that leaves `inflight`.
fn end(now: Nanos, inflight: Bytes) -> AckEnd {
    AckEnd {
        now,
        acked: None,
        acked_cumulative: Some(MSS),
        lost: Bytes::ZERO,
        rtt: Some(RTT),
        inflight,
        ce: Bytes::ZERO,
        phase: Phase::Open,
        srtt: Some(RTT),
        min_rtt: Some(RTT),
    }
}

/// Sends `N` packets at time `now` and returns their states.
fn send<const N: usize>(driver: &mut Driver, now: Nanos) -> [SentState; N] {
    core::array::from_fn(|i| {
        let state = driver.stamp(now, MSS, MSS * i as u64);
        driver.sent(&Sent { now, bytes: MSS, inflight: MSS * (i as u64 + 1), retransmission: false });
        state
    })
}

/// One acknowledgement of several packets gives one sample, one round and the sum of their bytes.
#[test]
fn acknowledgement_of_three_packets_counts_once() {
    let mut driver = driver("newreno");
    let sent = send::<3>(&mut driver, ms(0));
    assert_eq!(sent.map(|state| state.order), [1, 2, 3]);
    let mut ack = driver.begin_ack(MSS * 3);
    for state in &sent {
        driver.delivered_packet(ms(10), &mut ack, MSS, state);
    }
    let result = driver.finish_ack(&ack, &end(ms(10), Bytes::ZERO));
    assert_eq!(result, AckResult { acked: MSS * 3, sampled: true, round_start: true });
    assert_eq!((driver.delivered(), driver.round()), (MSS * 3, 1));
}

/// A packet without payload begins a round trip but gives no delivery-rate sample.
#[test]
fn packet_without_payload_gives_no_sample() {
    let mut driver = driver("newreno");
    let fin = driver.stamp(ms(0), Bytes::ZERO, Bytes::ZERO);
    let mut ack = driver.begin_ack(Bytes::ZERO);
    driver.delivered_packet(ms(10), &mut ack, Bytes::ZERO, &fin);
    let result = driver.finish_ack(&ack, &end(ms(10), Bytes::ZERO));
    assert_eq!(result, AckResult { acked: Bytes::ZERO, sampled: false, round_start: true });
}

/// An acknowledgement that delivers nothing begins no round trip.
#[test]
fn empty_acknowledgement_begins_no_round() {
    let mut driver = driver("newreno");
    let ack = driver.begin_ack(Bytes::ZERO);
    assert!(!driver.finish_ack(&ack, &end(ms(10), Bytes::ZERO)).round_start);
}

/// Once cwnd was full, it counts as full until all data sent up to that time is acknowledged. If cwnd fills again
/// meanwhile, this period is extended.
#[test]
fn usage_full_window_counts_for_a_round_trip() {
    let mut driver = driver("newreno");
    let at = |acknowledged, next| SendPosition { acknowledged, next };
    driver.note_usage(true, MSS * 10, at(0, 10));
    driver.note_usage(false, MSS * 3, at(9, 12));
    assert!(driver.is_cwnd_full());
    driver.note_usage(false, MSS * 3, at(10, 13));
    assert!(!driver.is_cwnd_full());
}

/// While cwnd is below its value after the last reduction, using more than half of it is enough for growth, as in
/// Linux.
#[test]
fn half_used_window_grows_in_slow_start_only() {
    let mut driver = driver("newreno");
    let at = SendPosition { acknowledged: 0, next: 10 };
    driver.note_usage(false, MSS * 6, at);
    assert!(driver.cwnd_limited());
    driver.recovery_entered(ms(1), CongestionCause::Loss, Flight { size: MSS * 10, inflight: MSS * 9 }, Bytes::ZERO);
    assert_eq!(driver.ssthresh(), MSS * 5);
    assert!(!driver.cwnd_limited());
    driver.restore_ssthresh(Bytes::MAX);
    assert!(driver.cwnd_limited());
}

/// A transport that counts every packet as full-sized reports deliveries in full-sized packets.
#[test]
fn packets_counted_as_full_ones_grow_the_window_as_such() {
    let mut driver = driver("newreno");
    let state = driver.stamp(ms(0), Bytes::new(100), Bytes::ZERO);
    driver.note_usage(true, MSS, SendPosition { acknowledged: 0, next: 1 });
    let mut ack = driver.begin_ack(MSS);
    driver.delivered_packet(ms(10), &mut ack, Bytes::new(100), &state);
    let result = driver.finish_ack(&ack, &AckEnd { acked: Some(MSS), ..end(ms(10), Bytes::ZERO) });
    assert_eq!((result.acked, driver.control().cwnd), (Bytes::new(100), MSS * 11));
}

/// A limit of the transport bounds the control of the scheme until it is lifted.
#[test]
fn limit_of_the_transport_bounds_the_control() {
    let mut driver = driver("newreno");
    let rate = Rate::from_bytes_per_sec(1_000);
    driver.set_limit(Limit::Paced(rate));
    driver.refresh();
    assert_eq!((driver.control().cwnd, driver.control().pacing_rate), (MSS * 10, Some(rate)));
    driver.set_limit(Limit::Capped(MSS * 4, rate));
    driver.refresh();
    assert_eq!((driver.control().cwnd, driver.control().pacing_rate), (MSS * 4, None));
    driver.set_limit(Limit::None);
    driver.refresh();
    assert_eq!(*driver.control(), driver.scheme().control());
}

/// Debug builds refuse an acknowledgement inside another.
#[test]
#[should_panic(expected = "begins inside another")]
fn nested_acknowledgement_panics() {
    let mut driver = driver("newreno");
    driver.begin_ack(Bytes::ZERO);
    driver.begin_ack(Bytes::ZERO);
}

/// Debug builds refuse deliveries after losses of the same acknowledgement.
#[test]
#[should_panic(expected = "out of order")]
fn delivery_after_loss_panics() {
    let mut driver = driver("newreno");
    let [first, second] = send::<2>(&mut driver, ms(0));
    let mut ack = driver.begin_ack(MSS * 2);
    driver.lost(ms(10), &LostPacket { bytes: MSS, packet: 0, sent: &first }, MSS);
    driver.delivered_packet(ms(10), &mut ack, MSS, &second);
}

/// Debug builds refuse a packet that leaves while an acknowledgement is processed.
#[test]
#[should_panic(expected = "an event of its own")]
fn sending_inside_an_acknowledgement_panics() {
    let mut driver = driver("newreno");
    driver.begin_ack(Bytes::ZERO);
    send::<1>(&mut driver, ms(0));
}

/// Debug builds refuse receiver feedback after the losses of its acknowledgement.
#[test]
#[should_panic(expected = "receiver feedback after")]
fn feedback_after_loss_panics() {
    let mut driver = driver("newreno");
    let [first] = send::<1>(&mut driver, ms(0));
    driver.begin_ack(MSS);
    driver.lost(ms(10), &LostPacket { bytes: MSS, packet: 0, sent: &first }, Bytes::ZERO);
    driver.receiver_feedback(&ReceiverFeedback { now: ms(10), ..ReceiverFeedback::default() });
}

/// Records the events that it receives.
#[derive(Clone, Debug, Default)]
struct Recorder {
    acks: Vec<Ack>,
    lost: Vec<Lost>,
}

impl Scheme for Recorder {
    const INFO: Info = Info { name: "recorder", ..NewReno::INFO };

    fn new(_setup: &Setup) -> Self {
        Self::default()
    }
}

impl CongestionControl for Recorder {
    fn on_ack(&mut self, event: &Ack) {
        self.acks.push(*event);
    }
    fn on_lost(&mut self, event: &Lost) {
        self.lost.push(*event);
    }
    fn on_recovery_entered(&mut self, _event: &RecoveryEntered) {}
    fn on_timeout(&mut self, _event: &Timeout) {}
    fn control(&self) -> Control {
        Control { cwnd: MSS * 10, pacing_rate: None, burst: MSS }
    }
    fn telemetry(&self, sink: Telemetry<'_>) {
        // The driver owns the scheme, so the test reads the records through telemetry.
        for lost in &self.lost {
            sink("packet", Value::Number(lost.packet as f64));
            sink("lost_at_send", Value::Bytes(lost.lost_at_send));
            sink("lost_total", Value::Bytes(lost.lost_total));
        }
        for ack in &self.acks {
            sink("inflight_before", Value::Bytes(ack.inflight_before));
            sink("acked", Value::Bytes(ack.acked));
            sink("srtt", Value::Number(if ack.srtt.is_some() { 1.0 } else { 0.0 }));
        }
    }
}

/// A scheme from outside the registry receives the state of lost packets, and missing values as `None`.
#[test]
fn external_scheme_sees_losses_and_absent_values() {
    let scheme = crate::schemes::Entry::of::<Recorder>().build(&setup(&Recorder::INFO, 1_000, &[]));
    let mut driver = Driver::new(scheme);
    let [first, second] = send::<2>(&mut driver, ms(0));
    let mut ack = driver.begin_ack(MSS * 2);
    driver.delivered_packet(ms(10), &mut ack, MSS, &second);
    driver.lost(ms(10), &LostPacket { bytes: MSS, packet: 7, sent: &first }, Bytes::ZERO);
    driver.finish_ack(&ack, &AckEnd { srtt: None, min_rtt: None, ..end(ms(10), Bytes::ZERO) });
    let mut seen = Vec::new();
    driver.scheme().telemetry(&mut |name, value| seen.push((name, value)));
    let expected = [
        ("packet", Value::Number(7.0)),
        ("lost_at_send", Value::Bytes(Bytes::ZERO)),
        ("lost_total", Value::Bytes(MSS)),
        ("inflight_before", Value::Bytes(MSS * 2)),
        ("acked", Value::Bytes(MSS)),
        ("srtt", Value::Number(0.0)),
    ];
    assert_eq!(seen, expected);
}
