//! The port of a real node: a negotiating router algorithm, driven by messages and counters instead of packets.
//!
//! A daemon receives the messages, distinguishes flows, and forwards or answers. The daemon owns the clock, as links do
//! in the simulator. The algorithm is that of the simulator.

use std::fmt;

use narrows_cc::{Bytes, Nanos, Params, Rate};
use narrows_net::config::Queue;
use narrows_net::hook::ClassQueue;
use narrows_net::{Direction, Ecn, Frame, standalone_queue};
use narrows_packet::{ControlMessage, Flags, Packet};

use crate::protocol::Explicit;
use crate::router::TICK;
use crate::{ALL, AnyRouter, Outgoing, Port, RateHeader, RouterConfig, RouterEntry, RouterFrame, TelemetrySink};

/// A port whose algorithm takes messages and counters.
pub struct NodePort {
    router: AnyRouter,
    classes: Box<dyn ClassQueue>,
    outbox: Vec<Outgoing>,
    next_wake: Nanos,
}

impl fmt::Debug for NodePort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NodePort").field("router", &self.router).finish_non_exhaustive()
    }
}

/// The algorithm whose protocol negotiates rates.
///
/// # Panics
/// If none is registered; a test excludes this.
pub fn negotiating() -> &'static RouterEntry {
    ALL.iter()
        .find(|entry| Explicit::named(entry.info.name).is_some_and(Explicit::negotiates))
        .unwrap_or_else(|| unreachable!("no router algorithm negotiates"))
}

/// Data packets that passed the port since the last report, represented as one frame.
#[derive(Clone, Copy, Debug)]
struct Counted {
    flow: u32,
    bytes: Bytes,
    direction: Direction,
}

impl Frame for Counted {
    fn size(&self) -> Bytes {
        self.bytes
    }
    fn ecn(&self) -> Ecn {
        Ecn::NotEct
    }
    fn set_ecn(&mut self, _: Ecn) {}
    fn flow(&self) -> u32 {
        self.flow
    }
    fn direction(&self) -> Direction {
        self.direction
    }
}

impl RouterFrame for Counted {
    fn is_message(&self) -> bool {
        false
    }
    fn opens(&self) -> bool {
        false
    }
    fn closes(&self) -> bool {
        false
    }
    fn acknowledges(&self) -> bool {
        true
    }
    fn path(&self) -> u8 {
        0
    }
    fn rate_header(&self) -> RateHeader {
        RateHeader::None
    }
    fn set_rate_header(&mut self, _: RateHeader) {}
    fn message(&self) -> ControlMessage {
        ControlMessage::new(&[])
    }
    fn set_message(&mut self, _: &[u8]) {}
}

impl NodePort {
    /// An idle port of this capacity with the algorithm of [`negotiating`].
    pub fn new(capacity: Rate, params: Params) -> Self {
        let entry = negotiating();
        let router = entry.build(&RouterConfig::new(entry, params).setup(capacity));
        let next_wake = router.next_wake();
        Self { router, classes: standalone_queue::<Packet>(&Queue::DropTail), outbox: Vec::new(), next_wake }
    }

    fn call<R>(&mut self, now: Nanos, event: impl FnOnce(&mut AnyRouter, &mut Port<'_>) -> R) -> R {
        self.wake(now);
        let mut port = Port::new(now, Bytes::ZERO, false, &mut *self.classes, &mut self.outbox);
        let result = event(&mut self.router, &mut port);
        self.read_wake(now);
        result
    }

    fn read_wake(&mut self, now: Nanos) {
        self.next_wake = self.router.next_wake().max(now.saturating_add(TICK));
    }

    /// Handles a message from requester to responder. Returns the message to forward; `None` if the port consumes it.
    pub fn on_request(&mut self, now: Nanos, flow: u32, message: ControlMessage) -> Option<ControlMessage> {
        let mut packet = Packet::control(flow, Flags::NONE, message.as_bytes());
        let consumed = self.call(now, |router, port| {
            router.on_arrival(port, &mut packet);
            port.consumed
        });
        (!consumed).then(|| packet.message())
    }

    /// Handles a message from responder to requester. Returns the message to forward.
    pub fn on_answer(&mut self, now: Nanos, flow: u32, message: ControlMessage) -> ControlMessage {
        let mut packet = Packet::control(flow, Flags::REVERSE, message.as_bytes());
        self.call(now, |router, port| router.on_return(port, &mut packet));
        packet.message()
    }

    /// Counts data of a flow that passed the port, headers included, so that the port detects a flow that exceeds its
    /// rate.
    pub fn on_data(&mut self, now: Nanos, flow: u32, bytes: Bytes) {
        let mut counted = Counted { flow, bytes, direction: Direction::Forward };
        self.call(now, |router, port| router.on_arrival(port, &mut counted));
    }

    /// Counts packets of reverse-direction flows that passed the port, whose rate the port deducts from its bandwidth.
    pub fn on_other(&mut self, now: Nanos, bytes: Bytes) {
        let mut counted = Counted { flow: u32::MAX, bytes, direction: Direction::Reverse };
        self.call(now, |router, port| router.on_arrival(port, &mut counted));
    }

    /// Time of the next [`NodePort::wake`].
    pub const fn next_wake(&self) -> Nanos {
        self.next_wake
    }

    /// Runs all wakes due by `now`.
    pub fn wake(&mut self, now: Nanos) {
        while self.next_wake <= now {
            let at = self.next_wake;
            let mut port = Port::new(at, Bytes::ZERO, false, &mut *self.classes, &mut self.outbox);
            self.router.on_wake(&mut port);
            self.read_wake(at);
        }
    }

    /// Passes to `send`, oldest first, each message that the port has sent to a requester since the last call.
    pub fn take_messages(&mut self, mut send: impl FnMut(u32, ControlMessage)) {
        for out in self.outbox.drain(..) {
            if let Outgoing::ToSender { flow, message, .. } = out {
                send(flow, message);
            }
        }
    }

    /// Named internals of the algorithm.
    pub fn telemetry(&self, sink: TelemetrySink<'_>) {
        self.router.telemetry(sink);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::negotiation::{Adjustment, Id, Message, Negotiation};

    const MS: Nanos = Nanos::from_millis(1);

    fn message(message: &Message) -> ControlMessage {
        ControlMessage::new(message.encode().as_bytes())
    }

    fn id(content: u32) -> Id {
        Id { content, destination: 9, subflow: 0 }
    }

    fn negotiation(kind: Negotiation, content: u32, max: u64) -> ControlMessage {
        let (max, min) = (Rate::from_bytes_per_sec(max), Rate::ZERO);
        message(&Message::Negotiation { kind, max, min, id: id(content), rtt_us: 20_000 })
    }

    fn port() -> NodePort {
        let entry = negotiating();
        NodePort::new(Rate::from_bytes_per_sec(1_000_000), Params::defaults(entry.info.params))
    }

    fn request(port: &mut NodePort, now: Nanos, flow: u32) -> u64 {
        let asked = negotiation(Negotiation::Request, flow, 5_000_000);
        let passed = port.on_request(now, flow, asked).expect("it is forwarded");
        match Message::decode(passed.as_bytes()) {
            Ok(Message::Negotiation { max, .. }) => max.as_bytes_per_sec(),
            other => panic!("{other:?}"),
        }
    }

    /// A port allocates its whole capacity to the first flow, and reduces that flow when a second flow joins.
    #[test]
    fn node_port_allocates_and_adjusts() {
        let mut port = port();
        assert_eq!(request(&mut port, MS, 1), 1_000_000);
        port.on_answer(MS * 21, 1, negotiation(Negotiation::Success, 1, 1_000_000));
        assert_eq!(request(&mut port, MS * 30, 2), 500_000);
        let mut sent = Vec::new();
        port.take_messages(|flow, message| sent.push((flow, Message::decode(message.as_bytes()))));
        let speed = Rate::from_bytes_per_sec(500_000);
        let reduced = Message::Adjustment { kind: Adjustment::Reduce, id: id(1), speed };
        assert_eq!(sent, [(1, Ok(reduced))]);
    }

    /// From counters of data the port detects a flow that exceeds its granted rate, and notifies the flow again.
    #[test]
    fn node_port_notices_excess_in_counters() {
        let mut port = port();
        request(&mut port, MS, 1);
        port.on_answer(MS * 21, 1, negotiation(Negotiation::Success, 1, 1_000_000));
        for n in 3..20 {
            port.on_data(MS * (20 * n), 1, Bytes::new(40_000)); // twice the rate
        }
        let mut sent = 0;
        port.take_messages(|_, _| sent += 1);
        assert!(sent > 2, "{sent} notices");
        let mut disobeyed = 0.0;
        port.telemetry(&mut |name, reading| {
            if name == "disobeyed" {
                disobeyed = reading.number().unwrap_or(0.0);
            }
        });
        assert!(disobeyed > 2.0, "{disobeyed}");
    }

    /// Messages that a responder does not read are not forwarded.
    #[test]
    fn node_port_stops_misdirected_messages() {
        let mut port = port();
        assert!(port.on_request(MS, 1, negotiation(Negotiation::Success, 1, 5)).is_none());
        assert!(port.on_request(MS, 1, ControlMessage::new(&[0, 0x11, 1])).is_none());
    }
}
