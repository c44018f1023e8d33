//! Multipath receiver: reassembles data from several subflows.

use narrows_cc::{Bytes, Nanos};
use narrows_packet::{Flags, Kind, Packet};

use super::option::MptcpOption;
use crate::ranges::Ranges;
use crate::{Arrival, ConnectionConfig, Receiver};

/// Counters of the multipath receiver.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MultipathReceiverStats {
    /// Payload bytes delivered in the order of the connection's data.
    pub bytes_in_order: u64,
    /// Payload bytes that had been received before.
    pub duplicate_bytes: u64,
    /// Peak number of bytes out of order.
    pub most_waiting: u64,
    /// Discarded packets: data beyond the window, or without a matching mapping.
    pub refused_packets: u64,
    /// Whether DATA_FIN has arrived after all data.
    pub ended: bool,
}

/// Multipath receiver.
#[derive(Clone, Debug)]
pub struct MultipathReceiver {
    base: u32,
    /// Next data byte expected.
    next: u64,
    stored: Ranges,
    buffer: u64,
    stats: MultipathReceiverStats,
}

impl MultipathReceiver {
    /// A receiver whose first subflow is flow `base`.
    pub fn new(base: u32, config: &ConnectionConfig) -> Self {
        Self {
            base,
            next: 0,
            stored: Ranges::default(),
            buffer: config.receive_window.as_u64().min(u64::from(u32::MAX)),
            stats: MultipathReceiverStats::default(),
        }
    }

    /// The counters.
    pub fn stats(&self) -> &MultipathReceiverStats {
        &self.stats
    }

    /// Bytes of allocated memory.
    pub fn memory(&self) -> usize {
        size_of::<Self>() + self.stored.memory()
    }

    /// Processes a packet from the sender on the subflow of `receiver`; returns the packet's contribution to the
    /// connection's data.
    pub fn on_packet(&mut self, now: Nanos, packet: &Packet, receiver: &mut Receiver) -> Arrival {
        let ours = !packet.flags.has(Flags::REVERSE) && packet.kind() == Kind::Tcp;
        if !ours || (packet.payload == 0 && !packet.flags.has(Flags::FIN)) {
            receiver.on_packet(now, packet);
            return Arrival::default();
        }
        let start = match MptcpOption::of(packet) {
            Some(MptcpOption::Mapping { data, subflow, len, fin })
                if subflow == packet.tcp().seq as u32 && len == packet.payload =>
            {
                self.stats.ended |= fin && data <= self.next;
                data
            }
            _ => {
                self.stats.refused_packets += 1;
                return Arrival::default();
            }
        };
        let end = start.saturating_add(u64::from(packet.payload));
        // The subflow must not acknowledge data beyond the connection's window.
        if end > self.next + self.buffer {
            self.stats.refused_packets += 1;
            return Arrival::default();
        }
        receiver.on_packet(now, packet);
        if start == end {
            return Arrival::default();
        }
        let before = self.next;
        let mut fresh = 0;
        let from = start.max(self.next);
        if from < end {
            if from == self.next && self.stored.is_empty() {
                fresh = end - from;
                self.next = end;
            } else {
                self.stored.insert(from, end, |start, end| fresh += end - start);
                while let Some(end) = self.stored.pop_reached(self.next) {
                    self.next = self.next.max(end);
                }
                self.stats.most_waiting = self.stats.most_waiting.max(self.stored.total());
            }
        }
        let in_order = self.next - before;
        self.stats.bytes_in_order += in_order;
        self.stats.duplicate_bytes += end - start - fresh;
        if in_order > fresh {
            receiver.acknowledge_now();
        }
        Arrival { in_order: Bytes::new(in_order), distinct: fresh > 0, duplicate: fresh == 0 }
    }

    /// Adds the multipath option and the connection's window to a packet of a subflow's receiver.
    pub fn complete(&self, packet: &mut Packet) {
        if packet.kind() != Kind::Tcp {
            return;
        }
        *packet.tcp_mut().window = self.buffer as u32;
        let option = match (packet.flags.has(Flags::SYN), packet.flow - self.base) {
            (true, 0) => MptcpOption::Capable { answer: true },
            (true, own) => MptcpOption::Join { address: own as u8, answer: true },
            (false, _) => MptcpOption::DataAck { ack: self.next as u32 },
        };
        option.write(packet);
    }
}
