//! A router algorithm's view of its port, and its requests to the node.

use narrows_cc::{Bytes, Nanos, Rate};
use narrows_net::config::Queue;
use narrows_net::hook::ClassQueue;
use narrows_net::standalone_queue;
use narrows_packet::{ControlMessage, Packet};

/// Addresses, ports and protocol of a flow's data packets.
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
    /// Transport protocol number.
    pub protocol: u8,
}

impl FiveTuple {
    /// Protocol number of TCP.
    pub const TCP: u8 = 6;
    /// Protocol number of DCCP.
    pub const DCCP: u8 = 33;
    /// Protocol number of UDP.
    pub const UDP: u8 = 17;
}

/// Congestion detected at a port by the controller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Congestion {
    /// The queue is too long.
    Queue {
        /// Length of the queue, in packets.
        packets: u64,
    },
    /// The link is utilised beyond the threshold, but the queue is short.
    Load,
}

/// A message from another node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    /// Rate of a flow in its 16-bit code, for any node on the path of its acknowledgements.
    Insert {
        /// The flow.
        flow: u32,
        /// The flow's rate.
        code: u16,
    },
    /// The controller detected congestion at the port.
    Congested(Congestion),
}

/// A message to other nodes or to a sender.
#[derive(Clone, Copy, Debug)]
pub enum Outgoing {
    /// A control message to the sender of a flow, sent from this node along the path of the flow's acknowledgements. If
    /// the acknowledgements do not pass this node, the message returns along the data path, without queueing.
    ToSender {
        /// The flow.
        flow: u32,
        /// Path on which the flow passed this node.
        path: u8,
        /// The message.
        message: ControlMessage,
    },
    /// A signal to the router algorithms of all other ports of the network.
    Broadcast(Signal),
}

/// The port at an event of its router algorithm, and the algorithm's requests to the node.
pub struct Port<'a> {
    /// The time.
    pub now: Nanos,
    /// Backlog in bytes, without the packet that arrives or departs and the packet in transmission.
    pub backlog: Bytes,
    pub(crate) class: Option<u8>,
    pub(crate) consumed: bool,
    /// Whether the algorithm supplies the queue discipline.
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

    /// The port of a node outside the simulator at an event; its queue has the algorithm's classes.
    pub fn on_node(now: Nanos, backlog: Bytes, classes: &'a mut dyn ClassQueue, outbox: &'a mut Vec<Outgoing>) -> Self {
        Self::new(now, backlog, true, classes, outbox)
    }

    /// Steers the arriving packet to a class of the queue that the algorithm supplies.
    pub fn steer(&mut self, class: u8) {
        self.class = self.own.then_some(class);
    }

    /// Consumes the arriving packet: it was addressed to the node.
    pub fn consume(&mut self) {
        self.consumed = true;
    }

    /// Sets the assured rate and the ceiling of a class of the queue that the algorithm supplies.
    pub fn set_class(&mut self, class: u8, rate: Rate, ceil: Rate) {
        if self.own {
            self.classes.set_class(self.now, class, rate, ceil);
        }
    }

    /// Backlog of a class of the queue that the algorithm supplies, in bytes; zero if the port has another queue.
    pub fn class_backlog(&self, class: u8) -> Bytes {
        if self.own { self.classes.class_backlog(class) } else { Bytes::ZERO }
    }

    /// Sends a message.
    pub fn send(&mut self, out: Outgoing) {
        self.outbox.push(out);
    }

    /// Class of the last [`Port::steer`], for tests.
    pub fn steered(&self) -> Option<u8> {
        self.class
    }

    /// Whether the packet was consumed, for tests.
    pub fn consumed(&self) -> bool {
        self.consumed
    }
}

/// A port without a link, to test and benchmark a router algorithm in isolation.
pub struct TestPort {
    queue: Box<dyn ClassQueue>,
    /// Messages sent, oldest first.
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
