//! Packets with a time each, in two parallel rings: 72 bytes a packet where a pair would be padded to 128.

use narrows_units::Nanos;

use crate::{Packet, Ring};

#[derive(Clone, Debug, Default)]
pub(crate) struct TimedRing {
    times: Ring<Nanos>,
    packets: Ring<Packet>,
}

impl TimedRing {
    #[inline]
    pub(crate) const fn len(&self) -> usize {
        self.times.len()
    }

    #[inline]
    pub(crate) const fn is_empty(&self) -> bool {
        self.times.is_empty()
    }

    /// The time of the first packet.
    #[inline]
    pub(crate) fn first_time(&self) -> Option<Nanos> {
        self.times.front().copied()
    }

    /// Drops the first packet.
    #[inline]
    pub(crate) fn advance(&mut self) {
        self.times.advance();
        self.packets.advance();
    }

    /// Asks for the memory of the packet that will be first after `ahead` others.
    #[inline]
    pub(crate) fn prefetch(&self, ahead: usize) {
        self.packets.prefetch(ahead);
    }

    /// The packet that will be first after `ahead` others.
    #[inline]
    pub(crate) fn peek(&self, ahead: usize) -> Option<&Packet> {
        self.packets.get(ahead)
    }

    #[inline]
    pub(crate) fn push(&mut self, at: Nanos, packet: &Packet) {
        self.times.push_back(at);
        self.packets.push_back(*packet);
    }

    /// Inserts in order of time, after those of the same time, searching from the back. Returns the position.
    #[inline]
    pub(crate) fn insert(&mut self, at: Nanos, packet: &Packet) -> usize {
        let mut position = self.len();
        while position > 0 && self.times.get(position - 1).is_some_and(|&before| before > at) {
            position -= 1;
        }
        if position == self.len() {
            self.push(at, packet);
        } else {
            self.times.insert(position, at);
            self.packets.insert(position, *packet);
        }
        position
    }

    #[inline]
    pub(crate) fn pop(&mut self) -> Option<(Nanos, Packet)> {
        Some((self.times.pop_front()?, self.packets.pop_front()?))
    }

    /// Bytes of memory it owns.
    pub(crate) fn memory(&self) -> usize {
        self.times.memory() + self.packets.memory()
    }
}
