//! Port events: departures from non-FIFO queues, packets dropped after they were queued, and messages of router
//! algorithms outside the data path.

use narrows_cc::Nanos;
use narrows_packet::{Flags, Packet};
use narrows_routers::{Outgoing, RouterLink};

use super::Engine;
use crate::Link;
use crate::control::ControlEvent;
use crate::observer::{Observer, PacketEvent};

impl<O: Observer> Engine<O> {
    /// A link with a non-FIFO queue ends a transmission.
    pub(super) fn on_service(&mut self, link: u32) {
        let index = link as usize;
        self.serve_due(index);
        self.queue.schedule(self.sources.service(link), self.links[index].next_service());
    }

    /// Ends the transmissions of a link that are due now.
    pub(super) fn serve_due(&mut self, index: usize) {
        while self.links[index].next_service() <= self.now {
            if let Some(packet) = self.links[index].serve(self.now) {
                let step = self.step_of(&packet);
                self.propagate(step.hop, self.now, &packet);
            }
        }
        self.collect(index);
    }

    /// Records packets dropped by the queue discipline and sends the messages of the router algorithm.
    pub(super) fn collect(&mut self, index: usize) {
        while let Some(packet) = self.links[index].take_dropped() {
            self.note_drop(index as u32, &packet);
        }
        while let Some(out) = self.links[index].take_outgoing() {
            self.send_message(index, out);
        }
    }

    /// A packet on the reverse path passes the node of a router algorithm.
    pub(super) fn on_return(&mut self, link: u32, packet: &mut Packet) {
        self.at_port(link, |port, now| port.on_return(now, packet));
    }

    /// Passes an event to the router algorithm of a link, after ending the transmissions that are due by now.
    fn at_port(&mut self, link: u32, event: impl FnOnce(&mut Link, Nanos)) {
        let index = link as usize;
        if self.links[index].next_service() <= self.now {
            self.serve_due(index);
        }
        event(&mut self.links[index], self.now);
        self.collect(index);
        self.queue.schedule(self.sources.service(link), self.links[index].next_service());
    }

    /// Sends a message of a router algorithm.
    fn send_message(&mut self, index: usize, out: Outgoing) {
        match out {
            Outgoing::Broadcast(signal) => {
                let at = self.now.saturating_add(self.control.delay());
                for link in 0..self.links.len() {
                    if link != index && self.links[link].router().is_some() {
                        self.control.at(at, ControlEvent::Signal { link: link as u32, signal });
                    }
                }
            }
            Outgoing::ToSender { flow, path, message } => {
                let mut packet = Packet::control(flow, Flags::REVERSE, message.as_bytes());
                packet.set_path(path);
                let routes = self.routes_of(&packet);
                let opposite = self.plan.links[index].opposite;
                let back = self.steps_of_route(routes.reverse).position(|step| Some(step.link as usize) == opposite);
                let mut at = self.now;
                if let Some(taken) = back {
                    packet.hop = taken as u8;
                } else {
                    // The reverse path does not pass this node, so the packet takes the delays of the forward path back
                    // to the sender.
                    packet.hop = (self.steps_of_route(routes.reverse).count() - 1) as u8;
                    let before = self.steps_of_route(routes.forward).take_while(|step| step.link as usize != index);
                    at += before.map(|step| self.hops[step.hop as usize].line.delay()).sum::<Nanos>();
                }
                self.control.at(at, ControlEvent::Packet(packet));
            }
        }
        self.queue.schedule(self.sources.control(), self.control.next());
    }

    /// Processes the control-plane events that are due.
    pub(super) fn on_control(&mut self) {
        while let Some(event) = self.control.take(self.now) {
            match event {
                ControlEvent::Packet(packet) if self.hops[self.step_of(&packet).hop as usize].last => {
                    self.deliver(&packet);
                }
                ControlEvent::Packet(packet) => self.pass_on(packet),
                ControlEvent::Signal { link, signal } => {
                    self.at_port(link, |port, now| port.on_signal(now, &signal));
                }
                ControlEvent::Poll => self.control.poll(self.now),
                ControlEvent::Request { port } => {
                    let link = self.control.link(port);
                    if let Some(counters) = self.links[link as usize].port_statistics() {
                        let at = self.now.saturating_add(self.control.delay());
                        self.control.at(at, ControlEvent::Reply { port, read_at: self.now, counters });
                    }
                }
                ControlEvent::Reply { port, read_at, counters } => {
                    self.control.on_reply(self.now, port, read_at, &counters);
                }
            }
        }
        self.queue.schedule(self.sources.control(), self.control.next());
    }

    #[cold]
    pub(super) fn note_drop(&mut self, link: u32, packet: &Packet) {
        self.metrics.on_drop(packet);
        self.observer.packet(self.now, PacketEvent::Drop, Some(link), packet);
        self.arena.free(packet);
        // A dropped packet may also make the router algorithm start a timer or send a message.
        let port = &mut self.links[link as usize];
        if port.router().is_some() {
            let next = port.next_service();
            while let Some(out) = self.links[link as usize].take_outgoing() {
                self.send_message(link as usize, out);
            }
            self.queue.schedule(self.sources.service(link), next);
        }
    }
}
