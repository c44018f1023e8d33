//! The node against messages written by hand.

mod crossing;
mod paths;

use narrows_cc::{Nanos, Params, Rate};
use narrows_packet::{ControlMessage, Flags, Packet};

use super::message::{self, Adjustment, Id, MOST, Message, Negotiation};
use super::Nodectl;
use crate::{Outgoing, Router, RouterSetup, TestPort};

/// Bytes per second of the port.
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
    Message::decode(message.as_bytes()).expect("a node writes sound messages")
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

    pub(super) fn reading(&self, name: &str) -> u64 {
        let mut found = None;
        self.nodectl.telemetry(&mut |item, value| {
            if item == name {
                found = value.number().map(|x| x as u64);
            }
        });
        found.expect("it tells this")
    }

    /// A packet passes to the user; whether it went on.
    pub(super) fn forward(&mut self, packet: &mut Packet) -> bool {
        let mut port = self.port.at(self.now, 0);
        self.nodectl.on_arrival(&mut port, packet);
        let on = !port.consumed();
        self.nodectl.table.check();
        on
    }

    pub(super) fn back(&mut self, packet: &mut Packet) {
        self.nodectl.on_return(&mut self.port.at(self.now, 0), packet);
        self.nodectl.table.check();
    }

    /// Lets time pass, with the wakes that are due.
    pub(super) fn pass(&mut self, ms: u64) {
        let end = self.now + Nanos::from_millis(ms);
        while self.nodectl.next_wake() <= end {
            self.now = self.nodectl.next_wake();
            self.nodectl.on_wake(&mut self.port.at(self.now, 0));
            self.nodectl.table.check();
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

    /// A request with a round-trip time of 20 ms: the Max with which it goes on.
    fn request(&mut self, flow: u32, max: u64, min: u64) -> Option<u64> {
        self.request_of(flow, id(flow), max, min)
    }

    pub(super) fn request_of(&mut self, flow: u32, id: Id, max: u64, min: u64) -> Option<u64> {
        self.serial += 1;
        let message = Message::Negotiation {
            kind: Negotiation::Request,
            max: rate(max),
            min: rate(min),
            id,
            rtt_us: 20_000 + self.serial,
        };
        let mut packet = control(flow, Flags::NONE, &message);
        self.forward(&mut packet).then(|| match read(&packet.message()) {
            Message::Negotiation { kind: Negotiation::Request, max, .. } => max.as_bytes_per_sec(),
            other => panic!("{other:?}"),
        })
    }

    /// The answer to the last request passes; what it says afterwards.
    fn answer(&mut self, flow: u32, kind: Negotiation, max: u64, min: u64) -> (Negotiation, u64) {
        let message = Message::Negotiation {
            kind,
            max: rate(max),
            min: rate(min),
            id: id(flow),
            rtt_us: 20_000 + self.serial,
        };
        let mut packet = control(flow, Flags::REVERSE, &message);
        self.back(&mut packet);
        match read(&packet.message()) {
            Message::Negotiation { kind, max, .. } => (kind, max.as_bytes_per_sec()),
            other => panic!("{other:?}"),
        }
    }

    /// A negotiation from request to success.
    fn join(&mut self, flow: u32) -> u64 {
        let max = self.request(flow, ALL, 0).expect("it goes on");
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

/// Equal but for the little that is set aside for messages.
fn near(measured: u64, expected: u64) -> bool {
    measured.abs_diff(expected) < expected / 10_000
}

/// Each flow that joins gets an equal share, and the others are notified at once.
#[test]
fn join_gets_equal_share_and_notifies_others() {
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
fn termination_is_handed_out_on_request() {
    let mut node = Node::new(&[]);
    for flow in 1..=3 {
        node.join(flow);
    }
    node.notices();
    node.terminate(2);
    assert_eq!(node.notices(), [(1, Increase, TOTAL / 2), (3, Increase, TOTAL / 2)]);
    assert_eq!(node.reading("free"), TOTAL / 3);
    for flow in [1, 3] {
        assert_eq!(node.request(flow, TOTAL / 2, 0), Some(TOTAL / 2));
        assert_eq!(node.answer(flow, Negotiation::Success, TOTAL / 2, 0).1, TOTAL / 2);
    }
    assert_eq!((node.notices(), node.reading("given")), (vec![], TOTAL));
    // Repeated: nothing happens.
    node.terminate(2);
    assert_eq!(node.notices(), []);
}

/// An increase that no request answers is repeated three times and given up.
#[test]
fn unanswered_increase_is_repeated_three_times() {
    let mut node = Node::new(&[]);
    node.join(1);
    node.join(2);
    node.terminate(1);
    assert_eq!(node.notices().last(), Some(&(2, Increase, TOTAL)));
    node.pass(2_000);
    assert_eq!(node.notices(), [(2, Increase, TOTAL); 3]);
    // It does not want more, so a third gets the other half at once.
    assert!(near(node.join(3), TOTAL / 2));
    assert!(node.notices().iter().all(|notice| notice.1 == Reduce && near(notice.2, TOTAL / 2)));
}

/// A repeated request for an increase leaves the bottleneck where it is.
#[test]
fn repeated_increase_request_keeps_bottleneck() {
    let mut node = Node::new(&[]);
    for flow in 1..=3 {
        node.join(flow);
    }
    node.terminate(3);
    // The first answer is lost; meanwhile the other has gone too, so that more could be had.
    assert_eq!(node.request(1, TOTAL / 2, 0), Some(TOTAL / 2));
    node.terminate(2);
    assert_eq!(node.request(1, TOTAL / 2, 0), Some(TOTAL / 2));
    node.notices();
    node.answer(1, Negotiation::Success, TOTAL / 2, 0);
    node.pass(200);
    assert!(node.notices().iter().any(|notice| notice.1 == Increase && near(notice.2, TOTAL)));
}

/// A success on its way back tells the bottleneck and frees the rest.
#[test]
fn success_names_bottleneck_and_frees_rest() {
    let mut node = Node::new(&[]);
    assert_eq!(node.request(1, ALL, 0), Some(TOTAL));
    // The user takes a third: the rest is free, and this port is not the bottleneck.
    assert_eq!(node.answer(1, Negotiation::Success, TOTAL / 3, 0).1, TOTAL / 3);
    assert_eq!(node.reading("given"), TOTAL / 3);
    assert_eq!(node.join(2), TOTAL * 2 / 3);
    assert_eq!(node.notices(), []);
    node.terminate(2);
    assert_eq!(node.notices(), [], "nobody here can use it");
    // A failure from farther on undoes the negotiation.
    assert_eq!(node.request(3, ALL, 0), Some(TOTAL * 2 / 3));
    node.answer(3, Negotiation::Failure, 0, 0);
    assert_eq!((node.reading("given"), node.reading("flows")), (TOTAL / 3, 1));
}

/// A failed change restores the rate before it.
#[test]
fn failed_change_restores_rate() {
    let mut node = Node::new(&[]);
    node.join(1);
    node.join(2);
    node.terminate(1);
    assert_eq!(node.request(2, TOTAL, 10), Some(TOTAL));
    node.answer(2, Negotiation::Failure, 9, 10);
    assert_eq!((node.reading("given"), node.reading("flows")), (TOTAL / 2, 1));
}

/// A share below Min is refused, and no flow is adjusted for it.
#[test]
fn share_below_min_is_refused_without_effect() {
    let mut node = Node::new(&[]);
    node.join(1);
    assert_eq!(node.request(2, ALL, TOTAL / 2 + 1), None);
    let sent = node.port.outbox.pop();
    let Some(Outgoing::ToSender { flow, message, .. }) = sent else { panic!("{sent:?}") };
    let expected = Message::Negotiation {
        kind: Negotiation::Failure,
        max: rate(TOTAL / 2),
        min: rate(TOTAL / 2 + 1),
        id: id(2),
        rtt_us: 20_000 + node.serial,
    };
    assert_eq!((flow, read(&message)), (2, expected));
    assert_eq!((node.notices(), node.reading("given"), node.reading("flows")), (vec![], TOTAL, 1));
    assert_eq!(node.request(2, ALL, TOTAL / 2), Some(TOTAL / 2));
}

/// A success above a rate that was reduced meanwhile is lowered.
#[test]
fn success_above_meanwhile_reduced_is_lowered() {
    let mut node = Node::new(&[]);
    assert_eq!(node.request(1, ALL, 0), Some(TOTAL));
    let first = node.serial;
    assert_eq!(node.request(2, ALL, 0), Some(TOTAL / 2));
    assert_eq!(node.notices(), [(1, Reduce, TOTAL / 2)]);
    node.serial = first;
    assert_eq!(node.answer(1, Negotiation::Success, TOTAL, 0), (Negotiation::Success, TOTAL / 2));
    // Below what it would have been content with it becomes a failure.
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

/// Silence ends a record, and data keeps it.
#[test]
fn silence_ends_record_and_data_keeps_it() {
    let mut node = Node::new(&[]);
    node.join(1);
    node.join(2);
    for _ in 0..20 {
        node.pass(1_000);
        node.data(1);
    }
    assert_eq!((node.reading("flows"), node.reading("expired")), (1, 1));
    assert!(
        node.notices().iter().any(|notice| (notice.0, notice.1) == (1, Increase) && near(notice.2, TOTAL)),
        "what the silent one had is handed out"
    );
    node.pass(11_000);
    assert_eq!((node.reading("flows"), node.nodectl.next_wake()), (0, Nanos::MAX));
}

/// A reduction that a flow does not obey is repeated.
#[test]
fn disobeyed_reduction_is_repeated() {
    let mut node = Node::new(&[]);
    node.join(1);
    node.join(2);
    node.notices();
    // 1 goes on with all of the bandwidth, 2400 packets of 1500 B per second; 2 keeps to its half, packet by packet.
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

/// Subflows share the bandwidth of one transmission.
#[test]
fn subflows_share_one_transmission() {
    let mut node = Node::new(&[]);
    let subflow = |subflow| Id { content: 7, destination: 1, subflow };
    node.join(1);
    // The first subflow is a transmission like any other; the second takes its part from the first alone.
    assert_eq!(node.request_of(7, subflow(0), ALL, 0), Some(TOTAL / 2));
    node.port.outbox.clear();
    assert_eq!(node.request_of(8, subflow(1), ALL, 0), Some(TOTAL / 4));
    let outbox = std::mem::take(&mut node.port.outbox);
    let notices: Vec<_> = outbox
        .iter()
        .map(|out| match out {
            Outgoing::ToSender { flow, message, .. } => (*flow, read(message)),
            Outgoing::Broadcast(_) => panic!("a node broadcasts nothing"),
        })
        .collect();
    let reduced = Message::Adjustment { kind: Reduce, id: subflow(0), speed: rate(TOTAL / 4) };
    assert_eq!(notices, [(7, reduced)]);
    assert_eq!((node.reading("flows"), node.reading("transmissions")), (3, 2));
    // By weight: a third one asks for half the port, so it gets a fifth of the transmission's half.
    assert_eq!(node.request_of(9, subflow(2), TOTAL / 2, 0), Some(TOTAL / 2 / 5));
    assert_eq!(node.reading("given"), TOTAL);
}

/// Expected arrivals find room.
#[test]
fn expected_arrivals_find_room() {
    // Ten transmissions per second, ten round-trip times of 20.011 ms (the eleventh request): QT = 2.0011.
    let mut node = Node::new(&[("slot", 1_000.0), ("alpha", 10.0)]);
    for flow in 0..10 {
        node.join(flow);
        node.terminate(flow);
    }
    node.pass(1_000);
    assert!(near(node.join(20), (TOTAL as f64 / 2.0011) as u64));
    // In the slot after that only one came, and a second later nobody is expected: the rest is handed out.
    node.pass(2_500);
    assert!(node.notices().iter().any(|notice| notice.1 == Increase && near(notice.2, TOTAL)));
}

/// A flood of requests cannot grow the table.
#[test]
fn request_flood_cannot_grow_table() {
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

/// Messages with impossible fields or directions are stopped and counted.
#[test]
fn impossible_messages_are_stopped_and_counted() {
    let mut node = Node::new(&[]);
    node.join(1);
    let mut short = Packet::control(1, Flags::NONE, &[0, 0x11, 9]);
    assert!(!node.forward(&mut short));
    let success = Message::Negotiation {
        kind: Negotiation::Success,
        max: rate(5),
        min: Rate::ZERO,
        id: id(1),
        rtt_us: 0,
    };
    let reduce = Message::Adjustment { kind: Reduce, id: id(1), speed: rate(5) };
    for message in [success, reduce] {
        assert!(!node.forward(&mut control(1, Flags::NONE, &message)));
    }
    assert_eq!(node.reading("messages_refused"), 3);
    // Requests and terminations for the transmission of another.
    assert_eq!(node.request_of(1, id(2), ALL, 0), None);
    let end = Message::Adjustment { kind: Adjustment::Terminate, id: id(2), speed: Rate::ZERO };
    node.forward(&mut control(1, Flags::NONE, &end));
    node.back(&mut control(
        1,
        Flags::REVERSE,
        &Message::Adjustment { kind: Reduce, id: id(2), speed: rate(5) },
    ));
    assert_eq!(node.reading("messages_foreign"), 3);
    node.back(&mut Packet::control(1, Flags::REVERSE, &[1, 2, 3]));
    assert_eq!(node.reading("messages_refused"), 4);
    assert_eq!((node.reading("given"), node.reading("flows")), (TOTAL, 1));
}

/// A passing reduction by another node frees the bandwidth that it takes.
#[test]
fn passing_reduction_frees_bandwidth() {
    let mut node = Node::new(&[]);
    node.join(1);
    node.join(2);
    node.notices();
    let reduce = Message::Adjustment { kind: Reduce, id: id(1), speed: rate(TOTAL / 6) };
    node.back(&mut control(1, Flags::REVERSE, &reduce));
    assert_eq!(node.notices(), [(2, Increase, TOTAL - TOTAL / 6)]);
    // One that overtakes a request says nothing of the answer to that.
    assert_eq!(node.request(1, TOTAL / 3, 0), Some(TOTAL / 3));
    node.back(&mut control(1, Flags::REVERSE, &reduce));
    assert_eq!(node.answer(1, Negotiation::Success, TOTAL / 4, 0), (Negotiation::Success, TOTAL / 4));
}

/// Traffic that returns to other senders is left out of the bandwidth.
#[test]
fn returning_traffic_reduces_bandwidth() {
    let mut node = Node::new(&[]);
    node.join(1);
    node.join(2);
    node.notices();
    // 52 B every 100 us are 520 kB/s; with a tenth more, 572 kB/s.
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
    // When they cease it is handed out again.
    node.pass(2_000);
    assert_eq!(node.notices().last().map(|notice| notice.1), Some(Increase));
}
