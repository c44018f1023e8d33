//! A Nodectl node against hand-written messages.

mod crossing;
mod paths;

use narrows_cc::{Nanos, Params, Rate};
use narrows_packet::{ControlMessage, Flags, Packet};

use super::Nodectl;
use super::message::{self, Adjustment, Id, MOST, Message, Negotiation};
use crate::{Outgoing, Reading, Router, RouterSetup, TestPort, telemetry};

/// Bandwidth of the port in bytes per second.
pub(super) const TOTAL: u64 = 3_600_000;
pub(super) const ALL: u64 = MOST.as_bytes_per_sec();

/// A node, its port and the time.
pub(super) struct Node {
    pub(super) nodectl: Nodectl,
    pub(super) port: TestPort,
    now: Nanos,
    pub(super) serial: u32,
}

fn id(flow: u32) -> Id {
    Id { content: flow, destination: 1, subflow: 0 }
}

pub(super) fn rate(n: u64) -> Rate {
    Rate::from_bytes_per_sec(n)
}

pub(super) fn control(flow: u32, flags: Flags, message: &Message) -> Packet {
    Packet::control(flow, flags, message.encode().as_bytes())
}

pub(super) fn read(message: &ControlMessage) -> Message {
    Message::decode(message.as_bytes()).expect("a node writes valid messages")
}

impl Node {
    pub(super) fn new(values: &[(&str, f64)]) -> Self {
        let mut params = Params::defaults(Nodectl::INFO.params);
        for &(name, value) in values {
            params.set(name, value).expect("a parameter within its range");
        }
        let setup = RouterSetup { capacity: rate(TOTAL), params, flows: [].into(), learned: None };
        Self { nodectl: Nodectl::new(&setup), port: TestPort::default(), now: Nanos::ZERO, serial: 0 }
    }

    /// A port with flows 1 to `count`, which joined in this order.
    pub(super) fn with_flows(count: u32) -> Self {
        let mut node = Self::new(&[]);
        for flow in 1..=count {
            node.join(flow);
        }
        node
    }

    /// Whether the port has suggested to the flow an increase to about `rate` since the test last read the port's
    /// notices.
    pub(super) fn suggests(&mut self, flow: u32, rate: u64) -> bool {
        self.notices().iter().any(|&(to, kind, at)| to == flow && kind == Increase && near(at, rate))
    }

    pub(super) fn reading(&self, name: &str) -> u64 {
        let reading = telemetry::find(|sink| self.nodectl.telemetry(sink), name);
        reading.and_then(Reading::number).map(|x| x as u64).expect("a number with this name")
    }

    /// Passes a packet towards the responder; returns whether the node forwards it.
    pub(super) fn forward(&mut self, packet: &mut Packet) -> bool {
        let mut port = self.port.at(self.now, 0);
        self.nodectl.on_arrival(&mut port, packet);
        let on = !port.consumed();
        self.nodectl.check();
        on
    }

    pub(super) fn back(&mut self, packet: &mut Packet) {
        self.nodectl.on_return(&mut self.port.at(self.now, 0), packet);
        self.nodectl.check();
    }

    /// Advances time and runs the due wakes.
    pub(super) fn pass(&mut self, ms: u64) {
        let end = self.now + Nanos::from_millis(ms);
        while self.nodectl.next_wake() <= end {
            self.now = self.nodectl.next_wake();
            self.nodectl.on_wake(&mut self.port.at(self.now, 0));
            self.nodectl.check();
        }
        self.now = end;
    }

    /// Adjustments sent since the last call: flow, type, rate.
    fn notices(&mut self) -> Vec<(u32, Adjustment, u64)> {
        let notices = self.port.outbox.drain(..).filter_map(|out| match out {
            Outgoing::ToSender { flow, message, .. } => match read(&message) {
                Message::Adjustment { kind, id, speed } => {
                    assert_eq!(id.content, flow);
                    Some((flow, kind, speed.as_bytes_per_sec()))
                }
                Message::Negotiation { .. } => None,
            },
            Outgoing::Broadcast(_) => None,
        });
        notices.collect()
    }

    /// The message of the current negotiation, with an RTT of 20 ms.
    fn negotiation(&self, kind: Negotiation, id: Id, max: u64, min: u64) -> Message {
        Message::Negotiation { kind, max: rate(max), min: rate(min), id, rtt_us: 20_000 + self.serial }
    }

    /// Sends a request; returns the forwarded Max.
    fn request(&mut self, flow: u32, max: u64, min: u64) -> Option<u64> {
        self.request_of(flow, id(flow), max, min)
    }

    pub(super) fn request_of(&mut self, flow: u32, id: Id, max: u64, min: u64) -> Option<u64> {
        self.serial += 1;
        let mut packet = control(flow, Flags::NONE, &self.negotiation(Negotiation::Request, id, max, min));
        self.forward(&mut packet).then(|| match read(&packet.message()) {
            Message::Negotiation { kind: Negotiation::Request, max, .. } => max.as_bytes_per_sec(),
            other => panic!("{other:?}"),
        })
    }

    /// Passes an answer to the last request; returns the kind and Max with which the port forwards it.
    fn answer(&mut self, flow: u32, kind: Negotiation, max: u64, min: u64) -> (Negotiation, u64) {
        let mut packet = control(flow, Flags::REVERSE, &self.negotiation(kind, id(flow), max, min));
        self.back(&mut packet);
        match read(&packet.message()) {
            Message::Negotiation { kind, max, .. } => (kind, max.as_bytes_per_sec()),
            other => panic!("{other:?}"),
        }
    }

    /// Runs a negotiation from request to success.
    fn join(&mut self, flow: u32) -> u64 {
        let max = self.request(flow, ALL, 0).expect("the node forwards it");
        assert_eq!(self.answer(flow, Negotiation::Success, max, 0), (Negotiation::Success, max));
        max
    }

    fn terminate(&mut self, flow: u32) {
        let message = Message::Adjustment { kind: Adjustment::Terminate, id: id(flow), speed: Rate::ZERO };
        assert!(self.forward(&mut control(flow, Flags::NONE, &message)), "other nodes need it too");
    }

    pub(super) fn data(&mut self, flow: u32) {
        let mut packet = Packet::new(flow);
        packet.payload = 1_448;
        assert!(self.forward(&mut packet));
    }
}

use Adjustment::{Increase, Reduce};

/// Whether two rates are equal up to the small deduction for messages.
fn near(measured: u64, expected: u64) -> bool {
    measured.abs_diff(expected) < expected / 10_000
}

/// Each new flow gets an equal share, and the others are notified immediately.
#[test]
fn joining_flow_gets_equal_share_and_others_are_notified() {
    let mut node = Node::new(&[]);
    assert_eq!(node.join(1), TOTAL);
    assert_eq!(node.notices(), []);
    assert_eq!(node.join(2), TOTAL / 2);
    assert_eq!(node.notices(), [(1, Reduce, TOTAL / 2)]);
    assert_eq!(node.join(3), TOTAL / 3);
    assert_eq!(node.notices(), [(1, Reduce, TOTAL / 3), (2, Reduce, TOTAL / 3)]);
    assert_eq!((node.reading("given"), node.reading("reduces")), (TOTAL, 3));
}

/// Bandwidth freed by a termination goes to the flows that request it.
#[test]
fn terminated_rate_goes_to_flows_that_request_it() {
    let mut node = Node::with_flows(3);
    node.notices();
    node.terminate(2);
    assert_eq!(node.notices(), [(1, Increase, TOTAL / 2), (3, Increase, TOTAL / 2)]);
    assert_eq!(node.reading("free"), TOTAL / 3);
    for flow in [1, 3] {
        assert_eq!(node.request(flow, TOTAL / 2, 0), Some(TOTAL / 2));
        assert_eq!(node.answer(flow, Negotiation::Success, TOTAL / 2, 0).1, TOTAL / 2);
    }
    assert_eq!((node.notices(), node.reading("given")), (vec![], TOTAL));
    // A repeated termination changes nothing.
    node.terminate(2);
    assert_eq!(node.notices(), []);
}

/// An increase that no request answers is repeated three times, then withdrawn.
#[test]
fn unanswered_increase_is_repeated_three_times() {
    let mut node = Node::with_flows(2);
    node.terminate(1);
    assert_eq!(node.notices().last(), Some(&(2, Increase, TOTAL)));
    node.pass(2_000);
    assert_eq!(node.notices(), [(2, Increase, TOTAL); 3]);
    // The increase of flow 2 is withdrawn, so flow 3 gets the other half immediately.
    assert!(near(node.join(3), TOTAL / 2));
    assert!(node.notices().iter().all(|notice| notice.1 == Reduce && near(notice.2, TOTAL / 2)));
}

/// A repeated request for an increase keeps this port as the bottleneck.
#[test]
fn repeated_increase_request_keeps_the_bottleneck() {
    let mut node = Node::with_flows(3);
    node.terminate(3);
    // The first answer is lost. In the meantime the other flow has ended too, so more bandwidth is available.
    assert_eq!(node.request(1, TOTAL / 2, 0), Some(TOTAL / 2));
    node.terminate(2);
    assert_eq!(node.request(1, TOTAL / 2, 0), Some(TOTAL / 2));
    node.notices();
    node.answer(1, Negotiation::Success, TOTAL / 2, 0);
    node.pass(200);
    assert!(node.notices().iter().any(|notice| notice.1 == Increase && near(notice.2, TOTAL)));
}

/// An answer reveals the bottleneck and frees the bandwidth beyond it; a failure undoes the negotiation.
#[test]
fn answer_reveals_the_bottleneck_and_frees_the_rest() {
    let mut node = Node::new(&[]);
    assert_eq!(node.request(1, ALL, 0), Some(TOTAL));
    // The responder grants a third of the bandwidth: the rest is free, and this port is not the bottleneck.
    assert_eq!(node.answer(1, Negotiation::Success, TOTAL / 3, 0).1, TOTAL / 3);
    assert_eq!(node.reading("given"), TOTAL / 3);
    assert_eq!(node.join(2), TOTAL * 2 / 3);
    assert_eq!(node.notices(), []);
    node.terminate(2);
    assert_eq!(node.notices(), [], "no flow here can use it");
    // A failure from a later node undoes the negotiation.
    assert_eq!(node.request(3, ALL, 0), Some(TOTAL * 2 / 3));
    node.answer(3, Negotiation::Failure, 0, 0);
    assert_eq!((node.reading("given"), node.reading("flows")), (TOTAL / 3, 1));
}

/// A failed change keeps the earlier reservation.
#[test]
fn failed_change_keeps_the_old_reservation() {
    let mut node = Node::with_flows(2);
    node.terminate(1);
    assert_eq!(node.request(2, TOTAL, 10), Some(TOTAL));
    node.answer(2, Negotiation::Failure, 9, 10);
    assert_eq!((node.reading("given"), node.reading("flows")), (TOTAL / 2, 1));
}

/// A share below Min is refused, and no other flow is adjusted for it.
#[test]
fn share_below_min_is_refused_without_adjustments() {
    let mut node = Node::with_flows(1);
    assert_eq!(node.request(2, ALL, TOTAL / 2 + 1), None);
    let sent = node.port.outbox.pop();
    let Some(Outgoing::ToSender { flow, message, .. }) = sent else { panic!("{sent:?}") };
    let expected = node.negotiation(Negotiation::Failure, id(2), TOTAL / 2, TOTAL / 2 + 1);
    assert_eq!((flow, read(&message)), (2, expected));
    assert_eq!((node.notices(), node.reading("given"), node.reading("flows")), (vec![], TOTAL, 1));
    assert_eq!(node.request(2, ALL, TOTAL / 2), Some(TOTAL / 2));
}

/// A success above a reservation reduced in the meantime is lowered, or becomes a failure below Min.
#[test]
fn success_above_reduced_reservation_is_lowered() {
    let mut node = Node::new(&[]);
    assert_eq!(node.request(1, ALL, 0), Some(TOTAL));
    let first = node.serial;
    assert_eq!(node.request(2, ALL, 0), Some(TOTAL / 2));
    assert_eq!(node.notices(), [(1, Reduce, TOTAL / 2)]);
    node.serial = first;
    assert_eq!(node.answer(1, Negotiation::Success, TOTAL, 0), (Negotiation::Success, TOTAL / 2));
    // A success below Min becomes a failure.
    let mut node = Node::new(&[]);
    node.request(1, ALL, TOTAL / 2 + 1);
    let first = node.serial;
    node.request(2, ALL, 0);
    node.serial = first;
    let answer = node.answer(1, Negotiation::Success, TOTAL, TOTAL / 2 + 1);
    assert_eq!(answer, (Negotiation::Failure, TOTAL / 2));
    assert_eq!(node.reading("flows"), 1);
}

/// Stale and repeated answers change nothing.
#[test]
fn stale_and_repeated_answers_change_nothing() {
    let mut node = Node::new(&[]);
    node.request(1, ALL, 0);
    let first = node.serial;
    node.request(1, ALL, 0);
    let second = node.serial;
    node.serial = first;
    assert_eq!(node.answer(1, Negotiation::Success, 5, 0).1, 5);
    assert_eq!(node.reading("given"), TOTAL);
    node.serial = second;
    node.answer(1, Negotiation::Success, TOTAL / 2, 0);
    assert_eq!(node.reading("given"), TOTAL / 2);
    node.answer(1, Negotiation::Success, TOTAL / 4, 0);
    node.answer(1, Negotiation::Failure, 0, 0);
    assert_eq!((node.reading("given"), node.reading("flows")), (TOTAL / 2, 1));
}

/// A record without data expires; data keeps a record.
#[test]
fn silent_record_expires_and_data_keeps_it() {
    let mut node = Node::with_flows(2);
    for _ in 0..20 {
        node.pass(1_000);
        node.data(1);
    }
    assert_eq!((node.reading("flows"), node.reading("expired")), (1, 1));
    assert!(
        node.notices().iter().any(|notice| (notice.0, notice.1) == (1, Increase) && near(notice.2, TOTAL)),
        "the rate of the silent flow is distributed"
    );
    node.pass(11_000);
    assert_eq!((node.reading("flows"), node.nodectl.next_wake()), (0, Nanos::MAX));
}

/// A disobeyed reduction is repeated.
#[test]
fn disobeyed_reduction_is_repeated() {
    let mut node = Node::with_flows(2);
    node.notices();
    // Flow 1 continues at the full bandwidth, 2400 packets of 1500 B per second; flow 2 keeps to its half.
    for n in 0..480 {
        node.data(1);
        if n % 2 == 0 {
            node.data(2);
        }
        node.now += Nanos::from_nanos(416_667);
        node.pass(0);
    }
    let notices = node.notices();
    assert!((2..10).contains(&notices.len()), "{notices:?}");
    assert!(notices.iter().all(|notice| *notice == (1, Reduce, TOTAL / 2)), "{notices:?}");
    assert_eq!(node.reading("disobeyed"), notices.len() as u64);
}

/// Subflows share the rate of one transmission.
#[test]
fn subflows_share_one_transmissions_rate() {
    let mut node = Node::new(&[]);
    let subflow = |subflow| Id { content: 7, destination: 1, subflow };
    node.join(1);
    // The first subflow is a transmission like any other; the second takes its part from the first only.
    assert_eq!(node.request_of(7, subflow(0), ALL, 0), Some(TOTAL / 2));
    node.port.outbox.clear();
    assert_eq!(node.request_of(8, subflow(1), ALL, 0), Some(TOTAL / 4));
    let notices = node.port.outbox.iter().map(|out| match out {
        Outgoing::ToSender { flow, message, .. } => (*flow, read(message)),
        Outgoing::Broadcast(_) => panic!("a node sends no broadcasts"),
    });
    let notices: Vec<_> = notices.collect();
    let reduced = Message::Adjustment { kind: Reduce, id: subflow(0), speed: rate(TOTAL / 4) };
    assert_eq!(notices, [(7, reduced)]);
    assert_eq!((node.reading("flows"), node.reading("transmissions")), (3, 2));
    // A third subflow requests half of the port's bandwidth, so the weights are 2, 2 and 1. The third subflow gets a
    // fifth of the transmission's rate, which is half of the bandwidth.
    assert_eq!(node.request_of(9, subflow(2), TOTAL / 2, 0), Some(TOTAL / 2 / 5));
    assert_eq!(node.reading("given"), TOTAL);
}

/// Expected arrivals find reserved bandwidth.
#[test]
fn expected_arrivals_find_reserved_bandwidth() {
    // Ten arrivals per second, and alpha = 10 with an RTT of 20.011 ms (the eleventh request): QT = 2.0011.
    let mut node = Node::new(&[("slot", 1_000.0), ("alpha", 10.0)]);
    for flow in 0..10 {
        node.join(flow);
        node.terminate(flow);
    }
    node.pass(1_000);
    assert!(near(node.join(20), (TOTAL as f64 / 2.0011) as u64));
    // The next slot has one arrival. A second later no arrival is expected, so the reserved bandwidth is distributed.
    node.pass(2_500);
    assert!(node.notices().iter().any(|notice| notice.1 == Increase && near(notice.2, TOTAL)));
}

/// A flood of requests cannot grow the table.
#[test]
fn request_flood_cannot_grow_the_table() {
    let mut node = Node::new(&[("flows", 100.0)]);
    node.request(0, ALL, 0);
    let memory = node.nodectl.memory();
    for flow in 0..20_000 {
        node.request(flow, ALL, 0);
        node.now += Nanos::from_micros(1);
    }
    assert_eq!((node.reading("flows"), node.nodectl.memory()), (100, memory));
    assert_eq!((node.reading("table_full"), node.reading("failures")), (19_900, 19_900));
    assert!(node.reading("given") <= TOTAL);
    node.pass(10_100);
    assert_eq!(node.reading("flows"), 0);
}

/// Invalid and misdirected messages are consumed and counted; messages about another flow's transmission are counted.
#[test]
fn invalid_or_misdirected_messages_stop_and_count() {
    let mut node = Node::with_flows(1);
    let mut short = Packet::control(1, Flags::NONE, &[0, 0x11, 9]);
    assert!(!node.forward(&mut short));
    let success =
        Message::Negotiation { kind: Negotiation::Success, max: rate(5), min: Rate::ZERO, id: id(1), rtt_us: 0 };
    let reduce = Message::Adjustment { kind: Reduce, id: id(1), speed: rate(5) };
    for message in [success, reduce] {
        assert!(!node.forward(&mut control(1, Flags::NONE, &message)));
    }
    assert_eq!(node.reading("messages_refused"), 3);
    // A request, a termination and a reduction that name another flow's transmission.
    assert_eq!(node.request_of(1, id(2), ALL, 0), None);
    let end = Message::Adjustment { kind: Adjustment::Terminate, id: id(2), speed: Rate::ZERO };
    node.forward(&mut control(1, Flags::NONE, &end));
    node.back(&mut control(1, Flags::REVERSE, &Message::Adjustment { kind: Reduce, id: id(2), speed: rate(5) }));
    assert_eq!(node.reading("messages_foreign"), 3);
    node.back(&mut Packet::control(1, Flags::REVERSE, &[1, 2, 3]));
    assert_eq!(node.reading("messages_refused"), 4);
    assert_eq!((node.reading("given"), node.reading("flows")), (TOTAL, 1));
}

/// A passing reduction by another node frees bandwidth.
#[test]
fn passing_reduction_of_another_node_frees_bandwidth() {
    let mut node = Node::with_flows(2);
    node.notices();
    let reduce = Message::Adjustment { kind: Reduce, id: id(1), speed: rate(TOTAL / 6) };
    node.back(&mut control(1, Flags::REVERSE, &reduce));
    assert_eq!(node.notices(), [(2, Increase, TOTAL - TOTAL / 6)]);
    // A reduction that passes between a request and its answer does not affect the answer.
    assert_eq!(node.request(1, TOTAL / 3, 0), Some(TOTAL / 3));
    node.back(&mut control(1, Flags::REVERSE, &reduce));
    assert_eq!(node.answer(1, Negotiation::Success, TOTAL / 4, 0), (Negotiation::Success, TOTAL / 4));
}

/// Reverse-direction traffic is deducted from the port's bandwidth.
#[test]
fn reverse_traffic_is_deducted_from_the_bandwidth() {
    let mut node = Node::with_flows(2);
    node.notices();
    // ACKs of 52 B every 100 us are 520 kB/s; with the margin of a tenth, 572 kB/s.
    for _ in 0..1_000 {
        let mut ack = Packet::new(9);
        ack.flags = Flags::ACK.with(Flags::REVERSE);
        node.forward(&mut ack);
        node.pass(0);
        node.now += Nanos::from_micros(100);
    }
    let given = node.reading("given");
    assert!((TOTAL - 580_000..=TOTAL - 572_000 + 4_000).contains(&given), "{given}");
    let notices = node.notices();
    assert!(notices.iter().filter(|notice| notice.1 == Reduce).count() >= 2, "{notices:?}");
    // After the ACKs cease, the deducted rate is distributed again.
    node.pass(2_000);
    assert_eq!(node.notices().last().map(|notice| notice.1), Some(Increase));
}
