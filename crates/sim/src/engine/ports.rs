//! What links do by themselves: departures that are decided one by one, packets dropped behind the queue's entry, and
//! router algorithms with what they send beside the paths of packets.

use narrows_cc::Nanos;
use narrows_packet::{Flags, Packet};
use narrows_routers::{Outgoing, RouterLink};

use super::Engine;
use crate::control::Notice;
use crate::ends::Origin;
use crate::observer::{Observer, PacketEvent};

impl<O: Observer> Engine<O> {
    /// A link whose departures are decided one by one ends a transmission.
    pub(super) fn on_service(&mut self, link: u32) {
        let index = link as usize;
        self.serve_due(index);
        self.queue.schedule(self.sources.service(link), self.links[index].next_service());
    }

    /// Ends the transmissions of a link that are due.
    pub(super) fn serve_due(&mut self, index: usize) {
        while self.links[index].next_service() <= self.now {
            if let Some(packet) = self.links[index].serve(self.now) {
                let step = self.step_of(&packet);
                self.fly(step.wire, self.now, &packet);
            }
        }
        self.collect(index);
    }

    /// Attributes packets that a queue discipline dropped by itself, and sends off what a router algorithm has sent.
    pub(super) fn collect(&mut self, index: usize) {
        while let Some(packet) = self.links[index].take_dropped() {
            self.note_drop(index as u32, &packet);
        }
        while let Some(out) = self.links[index].take_outgoing() {
            self.send_off(index, out);
        }
    }

    /// A packet on its way back passes the node of a router algorithm.
    pub(super) fn on_return(&mut self, link: u32, packet: &mut Packet) {
        let index = link as usize;
        if self.links[index].next_service() <= self.now {
            self.serve_due(index);
        }
        self.links[index].on_return(self.now, packet);
        self.collect(index);
        self.queue.schedule(self.sources.service(link), self.links[index].next_service());
    }

    /// A router algorithm sends something.
    fn send_off(&mut self, index: usize, out: Outgoing) {
        match out {
            Outgoing::Broadcast(signal) => {
                let at = self.now.saturating_add(self.control.delay());
                for link in 0..self.links.len() {
                    if link != index && self.links[link].router().is_some() {
                        self.control.at(at, Notice::Signal { link: link as u32, signal });
                    }
                }
            }
            Outgoing::ToSender { flow, path, message } => {
                let mut packet = Packet::control(flow, Flags::REVERSE, message.as_bytes());
                packet.set_path(path);
                let routes = self.routes_of(&packet);
                let opposite = self.plan.links[index].opposite;
                let back = self.way(routes.reverse).position(|step| Some(step.link as usize) == opposite);
                let mut at = self.now;
                if let Some(taken) = back {
                    packet.hop = taken as u8;
                } else {
                    // Back the way that data came.
                    packet.hop = (self.way(routes.reverse).count() - 1) as u8;
                    let before = self.way(routes.forward).take_while(|step| step.link as usize != index);
                    at += before.map(|step| self.wires[step.wire as usize].wire.delay()).sum::<Nanos>();
                }
                self.control.at(at, Notice::Packet(packet));
            }
        }
        self.queue.schedule(self.sources.control(), self.control.next());
    }

    /// What is due beside the ways of packets.
    pub(super) fn on_control(&mut self) {
        while let Some(notice) = self.control.take(self.now) {
            match notice {
                Notice::Packet(packet) if self.wires[self.step_of(&packet).wire as usize].last => {
                    self.deliver(&packet);
                }
                Notice::Packet(packet) => self.pass_on(packet),
                Notice::Signal { link, signal } => {
                    let index = link as usize;
                    if self.links[index].next_service() <= self.now {
                        self.serve_due(index);
                    }
                    self.links[index].on_signal(self.now, &signal);
                    self.collect(index);
                    self.queue.schedule(self.sources.service(link), self.links[index].next_service());
                }
                Notice::Poll => self.control.poll(self.now),
                Notice::Read { port } => {
                    let link = self.control.link(port);
                    if let Some(counters) = self.links[link as usize].port_statistics() {
                        let at = self.now.saturating_add(self.control.delay());
                        self.control.at(at, Notice::Judge { port, read: self.now, counters });
                    }
                }
                Notice::Judge { port, read, counters } => {
                    self.control.judge(self.now, port, read, &counters);
                }
            }
        }
        self.queue.schedule(self.sources.control(), self.control.next());
    }

    #[cold]
    pub(super) fn note_drop(&mut self, link: u32, packet: &Packet) {
        self.metrics.on_drop(packet);
        if matches!(self.senders[packet.flow as usize], Origin::Datagrams(_)) {
            self.bodies.forget(packet);
        }
        self.observer.packet(self.now, PacketEvent::Drop, Some(link), packet);
        // Even a packet that is dropped may wake a router algorithm, or make it send something.
        let port = &mut self.links[link as usize];
        if port.router().is_some() {
            let next = port.next_service();
            while let Some(out) = self.links[link as usize].take_outgoing() {
                self.send_off(link as usize, out);
            }
            self.queue.schedule(self.sources.service(link), next);
        }
    }
}
