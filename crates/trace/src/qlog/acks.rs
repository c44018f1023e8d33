//! Packets in flight by sequence number, and the packet numbers that an acknowledgement newly covers.

use std::collections::BTreeMap;

/// A packet in flight.
#[derive(Clone, Copy, Debug)]
pub(super) struct InFlight {
    /// The sequence number that follows the packet.
    pub(super) end: u64,
    /// The packet's QUIC-style packet number.
    pub(super) number: u64,
    /// Whether the packet was reported lost.
    pub(super) lost: bool,
}

/// The packets in flight of one flow.
#[derive(Debug, Default)]
pub(super) struct Outstanding {
    packets: BTreeMap<u64, InFlight>,
    acked: Vec<u64>,
}

impl Outstanding {
    /// Adds the packet `start..end`, which replaces the packets that it retransmits. `replaced` receives the
    /// packet numbers of those replaced packets that were not reported lost.
    pub(super) fn send(&mut self, start: u64, end: u64, number: u64, mut replaced: impl FnMut(u64)) {
        let before = self.packets.range(..start).next_back();
        let before = before.filter(|(_, packet)| packet.end > start).map(|(&start, packet)| (start, *packet));
        let within: Vec<_> = self.packets.range(start..end).map(|(&start, packet)| (start, *packet)).collect();
        for (first, packet) in before.into_iter().chain(within) {
            self.packets.remove(&first);
            if !packet.lost {
                replaced(packet.number);
            }
            // Data that the retransmission does not cover is still in flight.
            if first < start {
                self.packets.insert(first, InFlight { end: start, lost: true, ..packet });
            }
            if packet.end > end {
                self.packets.insert(end, InFlight { lost: true, ..packet });
            }
        }
        self.packets.insert(start, InFlight { end, number, lost: false });
    }

    /// Marks the packet that begins at `start` as lost; returns its packet number, unless it was marked before.
    pub(super) fn lose(&mut self, start: u64) -> Option<u64> {
        let packet = self.packets.get_mut(&start).filter(|packet| !packet.lost)?;
        packet.lost = true;
        Some(packet.number)
    }

    /// Acknowledges all packets that end at or before `ack`.
    pub(super) fn acknowledge(&mut self, ack: u64) {
        while let Some(entry) = self.packets.first_entry().filter(|entry| entry.get().end <= ack) {
            self.acked.push(entry.remove().number);
        }
    }

    /// Acknowledges all packets that lie completely within `start..end`.
    pub(super) fn acknowledge_range(&mut self, start: u64, end: u64) {
        let mut from = start;
        while let Some((&first, packet)) = self.packets.range(from..end.max(from)).next() {
            from = packet.end.max(first + 1);
            if packet.end <= end {
                self.acked.push(packet.number);
                self.packets.remove(&first);
            }
        }
    }

    /// Removes packets that begin before `start`, because no acknowledgement will cover them.
    pub(super) fn forget_before(&mut self, start: u64) {
        while let Some(entry) = self.packets.first_entry().filter(|entry| *entry.key() < start) {
            entry.remove();
        }
    }

    /// Returns, as ranges, the packet numbers acknowledged since the last call.
    pub(super) fn take_acked(&mut self) -> Vec<(u64, u64)> {
        self.acked.sort_unstable();
        let mut ranges: Vec<(u64, u64)> = Vec::new();
        for number in self.acked.drain(..) {
            match ranges.last_mut() {
                Some((_, last)) if *last == number => {}
                Some((_, last)) if *last + 1 == number => *last = number,
                _ => ranges.push((number, number)),
            }
        }
        ranges
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sent(packets: &[(u64, u64)]) -> Outstanding {
        let mut outstanding = Outstanding::default();
        for (number, &(start, end)) in packets.iter().enumerate() {
            outstanding.send(start, end, number as u64, |number| panic!("{number} is replaced"));
        }
        outstanding
    }

    /// A cumulative and a selective acknowledgement together list every packet once, as ranges.
    #[test]
    fn acknowledgements_list_each_packet_once() {
        let mut own = sent(&[(0, 10), (10, 20), (20, 30), (30, 40), (40, 50)]);
        own.acknowledge_range(30, 50);
        assert_eq!(own.take_acked(), [(3, 4)]);
        own.acknowledge(10);
        own.acknowledge_range(30, 50);
        assert_eq!(own.take_acked(), [(0, 0)]);
        own.acknowledge(50);
        assert_eq!(own.take_acked(), [(1, 2)]);
    }

    /// A range that covers only part of a packet does not acknowledge the packet.
    #[test]
    fn partly_covered_packet_is_not_acknowledged() {
        let mut own = sent(&[(0, 10), (10, 20)]);
        own.acknowledge(5);
        own.acknowledge_range(10, 15);
        assert_eq!(own.take_acked(), []);
    }

    /// A retransmission replaces the original packets and reports those of them that were not yet reported lost.
    #[test]
    fn retransmission_replaces_what_it_repeats() {
        let mut own = sent(&[(0, 10), (10, 20), (20, 30)]);
        assert_eq!((own.lose(10), own.lose(10)), (Some(1), None));
        let mut replaced = Vec::new();
        own.send(5, 25, 3, |number| replaced.push(number));
        assert_eq!(replaced, [0, 2]);
        own.acknowledge(30);
        assert_eq!(own.take_acked(), [(0, 0), (2, 3)]);
    }
}
