//! An allocator in its place on a port: who calls it, and when.

use narrows_cc::{Nanos, Rate};

use super::{AnyAllocator, Outgoing, Port, Signal, TICK};
use crate::config;
use crate::queue::Discipline;
use crate::{Flags, Packet};

/// What the allocator decided about an arriving packet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Arrived {
    /// The class of the queue it joins.
    pub(crate) class: Option<u8>,
    /// It was meant for the node.
    pub(crate) consumed: bool,
}

/// An allocator in its place on a port.
#[derive(Clone, Debug)]
pub(crate) struct Seat {
    allocator: AnyAllocator,
    /// The queue is one that the allocator asked for.
    own: bool,
    next_wake: Nanos,
    /// From then on it does nothing any more.
    dies: Nanos,
    outbox: Vec<Outgoing>,
    /// How much of it has been taken out.
    taken: usize,
}

impl Seat {
    pub(crate) fn new(config: &config::Allocator, capacity: Rate, own: bool) -> Self {
        let allocator = config.entry.build(&config.setup(capacity));
        let next_wake = allocator.next_wake();
        Self { allocator, own, next_wake, dies: config.dies, outbox: Vec::new(), taken: 0 }
    }

    pub(crate) const fn allocator(&self) -> &AnyAllocator {
        &self.allocator
    }

    pub(crate) fn take_outgoing(&mut self) -> Option<Outgoing> {
        let next = self.outbox.get(self.taken).copied();
        self.taken += 1;
        if next.is_none() {
            self.outbox.clear();
            self.taken = 0;
        }
        next
    }

    pub(crate) fn on_arrival(&mut self, now: Nanos, queue: &mut Discipline, packet: &mut Packet) -> Arrived {
        if now >= self.dies {
            return Arrived { class: None, consumed: false };
        }
        let mut port = Port::new(now, self.own, queue, &mut self.outbox);
        if !packet.flags.has(Flags::CONTROL) {
            if packet.flags.has(Flags::SYN) && !packet.flags.has(Flags::ACK) {
                self.allocator.on_open(&mut port, packet);
            }
            if packet.flags.has(Flags::FIN) {
                self.allocator.on_close(&mut port, packet);
            }
        }
        self.allocator.on_arrival(&mut port, packet);
        let arrived = Arrived { class: port.class, consumed: port.consumed };
        self.read_wake(now);
        arrived
    }

    pub(crate) fn on_departure(&mut self, now: Nanos, queue: &mut Discipline, packet: &mut Packet) {
        if now < self.dies {
            self.allocator.on_departure(&mut Port::new(now, self.own, queue, &mut self.outbox), packet);
        }
    }

    pub(crate) fn on_return(&mut self, now: Nanos, queue: &mut Discipline, packet: &mut Packet) {
        if now < self.dies {
            self.allocator.on_return(&mut Port::new(now, self.own, queue, &mut self.outbox), packet);
            self.read_wake(now);
        }
    }

    pub(crate) fn on_signal(&mut self, now: Nanos, queue: &mut Discipline, signal: &Signal) {
        if now < self.dies {
            self.allocator.on_signal(&mut Port::new(now, self.own, queue, &mut self.outbox), signal);
            self.read_wake(now);
        }
    }

    fn read_wake(&mut self, now: Nanos) {
        self.next_wake = self.allocator.next_wake().max(now.saturating_add(TICK));
    }

    #[inline]
    pub(crate) const fn next_wake(&self) -> Nanos {
        self.next_wake
    }

    /// Makes up for all wakes that are due.
    pub(crate) fn wake(&mut self, now: Nanos, queue: &mut Discipline) {
        while self.next_wake <= now {
            let at = self.next_wake;
            if at >= self.dies {
                self.next_wake = Nanos::MAX;
                break;
            }
            self.allocator.on_wake(&mut Port::new(at, self.own, queue, &mut self.outbox));
            // Whatever the allocator asks for, time goes on.
            self.next_wake = self.allocator.next_wake().max(at.saturating_add(TICK));
        }
    }
}
