//! Real hosts as endpoints of flows: their packets enter and leave the run here.

use narrows_cc::Nanos;
use narrows_packet::{Flags, Packet};

use super::Engine;
use crate::ends::{ReceiverEndpoint, SenderEndpoint};
use crate::external::{ExternalReceiver, ExternalSender};
use crate::observer::{Observer, PacketEvent, Passage};

impl<O: Observer> Engine<O> {
    /// Replaces both endpoints of a flow by real hosts. Must be called before the run begins.
    ///
    /// # Panics
    /// If the flow is a subflow of a connection.
    pub fn attach(&mut self, flow: u32, sender: Box<dyn ExternalSender>, receiver: Box<dyn ExternalReceiver>) {
        assert!(self.connections.of(flow).is_none(), "a connection schedules its subflows itself");
        self.senders[flow as usize] = SenderEndpoint::External(sender);
        self.receivers[flow as usize] = ReceiverEndpoint::External(receiver);
        self.queue.schedule(self.sources.sender(flow), Nanos::MAX);
    }

    /// Time of the next event; [`Nanos::MAX`] if none is pending.
    pub fn next_event(&mut self) -> Nanos {
        let Some((at, source)) = self.queue.pop() else { return Nanos::MAX };
        self.queue.schedule(source, at);
        at
    }

    /// Sends a packet of a real host now, at the time reached by [`Engine::run_until`]. `packet` describes the packet
    /// whose content is `bytes`; the handle of `packet` is set here.
    pub fn inject(&mut self, mut packet: Packet, bytes: &[u8]) {
        packet.set_handle(self.arena.store(bytes));
        let flow = packet.flow as usize;
        if packet.flags.has(Flags::REVERSE) {
            if let ReceiverEndpoint::External(end) = &mut self.receivers[flow] {
                end.on_sent(self.now, &packet, bytes);
            }
        } else {
            if let SenderEndpoint::External(end) = &mut self.senders[flow] {
                end.on_sent(self.now, &packet, bytes);
            }
            self.metrics.on_transmitted(self.now, packet.flow, &self.senders[flow]);
            self.observer.packet(self.now, PacketEvent::Send, None, &packet);
        }
        self.observer.passage(self.now, Passage::Leaves, &packet, &self.arena);
        if !packet.flags.has(Flags::REVERSE) {
            self.note(packet.flow, O::transmitted);
        }
        self.offer(self.step_of(&packet), &packet);
    }

    /// Sends a control message of a real host for a flow now, as [`Engine::inject`] sends a segment.
    ///
    /// # Panics
    /// If the message is longer than [`ControlMessage::MAX_BYTES`](narrows_packet::ControlMessage::MAX_BYTES).
    pub fn inject_message(&mut self, flow: u32, flags: Flags, message: &[u8]) {
        let packet = Packet::control(flow, flags, message);
        if !flags.has(Flags::REVERSE) {
            self.observer.packet(self.now, PacketEvent::Send, None, &packet);
        }
        self.observer.passage(self.now, Passage::Leaves, &packet, &self.arena);
        self.offer(self.step_of(&packet), &packet);
    }

    /// Calls `write` with each packet or control message that has reached a real host since the last call, oldest
    /// first. Arguments: time of arrival, the packet, and its bytes (empty for a control message), in which `write`
    /// may set the ECN field.
    pub fn take_delivered(&mut self, mut write: impl FnMut(Nanos, &Packet, &mut [u8])) {
        let mut delivered = std::mem::take(&mut self.delivered);
        for (at, packet) in delivered.drain(..) {
            write(at, &packet, self.arena.bytes_mut(&packet));
            self.arena.free(&packet);
        }
        self.delivered = delivered;
    }
}
