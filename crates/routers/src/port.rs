//! The port as a router algorithm sees it, and the requests that it can make of its node.

use narrows_cc::{Bytes, Nanos, Rate};
use narrows_net::config::Queue;
use narrows_net::hook::ClassQueue;
use narrows_net::standalone_queue;
use narrows_packet::{ControlMessage, Packet};

/// The addresses, ports and protocol of a flow's data packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct FiveTuple {
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

impl FiveTuple {
    /// The protocol number of TCP.
    pub const TCP: u8 = 6;
    /// The protocol number of DCCP.
    pub const DCCP: u8 = 33;
    /// The protocol number of UDP.
    pub const UDP: u8 = 17;
}

/// The congestion that a controller found at a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Congestion {
    /// The queue is too long.
    Queue {
        /// Its length, in packets.
        packets: u64,
    },
    /// The link is utilised beyond the threshold, but the queue is short.
    Load,
}

/// A message from another node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    /// The rate of a flow in its 16-bit code, for any node that its acknowledgements pass.
    Insert {
        /// The flow.
        flow: u32,
        /// Its rate.
        code: u16,
    },
    /// The controller found the port congested.
    Congested(Congestion),
}

/// A message to other nodes or to a sender.
#[derive(Clone, Copy, Debug)]
pub enum Outgoing {
    /// A control message to the sender of a flow. From this node on it takes the path of the flow's
    /// acknowledgements. If they do not pass this node, it returns along the data path, without queueing.
    ToSender {
        /// The flow.
        flow: u32,
        /// The path on which the flow passed this node.
        path: u8,
        /// The message.
        message: ControlMessage,
    },
    /// A signal to the router algorithms of all other ports of the network.
    Broadcast(Signal),
}

/// The port at an event of its router algorithm, and the requests that this can make of the node.
pub struct Port<'a> {
    /// The time.
    pub now: Nanos,
    /// The backlog in bytes, without the packet that arrives or leaves and without the one in transmission.
    pub backlog: Bytes,
    pub(crate) class: Option<u8>,
    pub(crate) consumed: bool,
    /// The algorithm chose the queue discipline.
    own: bool,
    classes: &'a mut dyn ClassQueue,
    outbox: &'a mut Vec<Outgoing>,
}

impl<'a> Port<'a> {
    pub(crate) fn new(
        now: Nanos,
        backlog: Bytes,
        own: bool,
        classes: &'a mut dyn ClassQueue,
        outbox: &'a mut Vec<Outgoing>,
    ) -> Self {
        Self { now, backlog, class: None, consumed: false, own, classes, outbox }
    }

    /// Steers the arriving packet to a class of the algorithm's own queue.
    pub fn steer(&mut self, class: u8) {
        self.class = self.own.then_some(class);
    }

    /// Consumes the arriving packet: it was addressed to the node.
    pub fn consume(&mut self) {
        self.consumed = true;
    }

    /// Sets the assured rate and the ceiling of a class of the algorithm's own queue.
    pub fn set_class(&mut self, class: u8, rate: Rate, ceil: Rate) {
        if self.own {
            self.classes.set_class(self.now, class, rate, ceil);
        }
    }

    /// The backlog of a class of the algorithm's own queue, in bytes; zero if the port has another queue.
    pub fn class_backlog(&self, class: u8) -> Bytes {
        if self.own { self.classes.class_backlog(class) } else { Bytes::ZERO }
    }

    /// Sends a message.
    pub fn send(&mut self, out: Outgoing) {
        self.outbox.push(out);
    }

    /// The class of the last [`Port::steer`], for tests.
    pub fn steered(&self) -> Option<u8> {
        self.class
    }

    /// Whether the packet was consumed, for tests.
    pub fn consumed(&self) -> bool {
        self.consumed
    }
}

/// A port without a link, to test and measure a router algorithm on its own.
pub struct TestPort {
    queue: Box<dyn ClassQueue>,
    /// The messages sent, oldest first.
    pub outbox: Vec<Outgoing>,
}

impl Default for TestPort {
    fn default() -> Self {
        Self::new(&Queue::DropTail)
    }
}

impl TestPort {
    /// A port with an empty queue of this discipline.
    pub fn new(queue: &Queue) -> Self {
        Self { queue: standalone_queue::<Packet>(queue), outbox: Vec::new() }
    }

    /// The port at an event, with a backlog in bytes.
    pub fn at(&mut self, now: Nanos, backlog: u64) -> Port<'_> {
        Port::new(now, Bytes::new(backlog), true, &mut *self.queue, &mut self.outbox)
    }
}
