//! The port as an allocator finds it, and what it can ask of its node.

use narrows_cc::{Bytes, Nanos, Rate};

use crate::Packet;
use crate::config::{Limit, Queue};
use crate::queue::Discipline;

/// What a flow number stands for: the addresses and ports of its data packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Tuple {
    /// IPv4 address of the sender.
    pub source: u32,
    /// IPv4 address of the receiver.
    pub destination: u32,
    /// Port of the sender.
    pub source_port: u16,
    /// Port of the receiver.
    pub destination_port: u16,
    /// Number of the transport protocol.
    pub protocol: u8,
}

impl Tuple {
    /// The protocol number of TCP.
    pub const TCP: u8 = 6;
    /// The protocol number of DCCP.
    pub const DCCP: u8 = 33;
    /// The protocol number of UDP.
    pub const UDP: u8 = 17;
}

/// What a controller found at a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Congestion {
    /// Too much waits.
    Queue {
        /// So many packets.
        packets: u64,
    },
    /// The link is used beyond the threshold, but little waits.
    Load,
}

/// What an allocator hears from other nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    /// The rate of a flow, in the 16-bit code of its acknowledgements: for whoever sees these.
    Insert {
        /// The flow.
        flow: u32,
        /// Its rate.
        code: u16,
    },
    /// The controller found the port congested.
    Congested(Congestion),
}

/// What an allocator sends.
#[derive(Clone, Copy, Debug)]
pub enum Outgoing {
    /// A packet to the sender of its flow. It takes the way of that flow's acknowledgements from this node on; where they
    /// do not pass this node, it goes back the way that data came, without waiting in queues.
    ToSender(Packet),
    /// A message to every other allocator of the network.
    Broadcast(Signal),
}

/// The port as an allocator finds it at an event, and what it can ask of its node.
#[derive(Debug)]
pub struct Port<'a> {
    /// The time.
    pub now: Nanos,
    /// Bytes that wait: without the packet that arrives or leaves, and without the one in transmission.
    pub backlog: Bytes,
    pub(super) class: Option<u8>,
    pub(super) consumed: bool,
    /// The queue's classes are those that the allocator asked for.
    own: bool,
    queue: &'a mut Discipline,
    outbox: &'a mut Vec<Outgoing>,
}

impl<'a> Port<'a> {
    pub(super) fn new(
        now: Nanos,
        own: bool,
        queue: &'a mut Discipline,
        outbox: &'a mut Vec<Outgoing>,
    ) -> Self {
        let backlog = Bytes::new(queue.bytes());
        Self { now, backlog, class: None, consumed: false, own, queue, outbox }
    }

    /// The arriving packet joins this class of the allocator's own queue.
    pub fn steer(&mut self, class: u8) {
        self.class = self.own.then_some(class);
    }

    /// The arriving packet ends here: it was meant for the node.
    pub fn consume(&mut self) {
        self.consumed = true;
    }

    /// Gives a class of the allocator's own queue another assured rate and ceiling.
    pub fn set_class(&mut self, class: u8, rate: Rate, ceil: Rate) {
        if self.own {
            self.queue.set_class(self.now, class, rate, ceil);
        }
    }

    /// Bytes that wait in a class of the allocator's own queue; zero where the port has another.
    pub fn class_backlog(&self, class: u8) -> Bytes {
        if self.own { self.queue.class_backlog(class) } else { Bytes::ZERO }
    }

    /// Sends something.
    pub fn send(&mut self, out: Outgoing) {
        self.outbox.push(out);
    }
}

/// Makes ports for tests and benches of an allocator on its own.
#[derive(Debug)]
pub struct Desk {
    queue: Discipline,
    /// What was sent, oldest first.
    pub outbox: Vec<Outgoing>,
}

impl Default for Desk {
    fn default() -> Self {
        Self::new(&Queue::DropTail)
    }
}

impl Desk {
    /// A desk whose port has a queue of this discipline, empty, before a link of 1 Mbit/s.
    pub fn new(queue: &Queue) -> Self {
        let random = narrows_cc::Random::stream(1, "desk", 0);
        Self {
            queue: Discipline::new(queue, Rate::from_bytes_per_sec(125_000), Limit::Packets(1000), random),
            outbox: Vec::new(),
        }
    }

    /// The port at an event, with so much waiting.
    pub fn port(&mut self, now: Nanos, backlog: u64) -> Port<'_> {
        let mut port = Port::new(now, true, &mut self.queue, &mut self.outbox);
        port.backlog = Bytes::new(backlog);
        port
    }
}

impl Port<'_> {
    /// Which class was chosen last, for tests.
    pub fn steered(&self) -> Option<u8> {
        self.class
    }

    /// Whether the packet was taken, for tests.
    pub fn consumed(&self) -> bool {
        self.consumed
    }
}
