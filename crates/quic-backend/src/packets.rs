//! The packets of a sender by packet number, with their sending order and fate.

use std::collections::BTreeMap;
use std::time::Instant;

use narrows_cc::Bytes;
use narrows_sim::external::PacketReport;

use super::relay::{HEADERS, OVERHEAD};

/// Packets in flight, and reports that the relay has not taken yet.
///
/// Each of QUIC's three packet number spaces counts from 0, and the controller does not learn the space.
/// Packets therefore also have numbers in sending order.
#[derive(Debug, Default)]
pub(super) struct Packets {
    /// Send time and size, by packet number and number in sending order.
    waiting: BTreeMap<(u64, u64), (Instant, u16)>,
    sent: u64,
    reports: Vec<PacketReport>,
}

impl Packets {
    /// Records that a packet is sent.
    pub(super) fn send(&mut self, at: Instant, number: u64, bytes: u16) {
        let order = self.sent;
        self.sent += 1;
        self.waiting.insert((number, order), (at, bytes));
        let (size, overhead) = (usize::from(bytes) + HEADERS, OVERHEAD as u64);
        let payload = Bytes::new(u64::from(bytes).saturating_sub(overhead));
        self.reports.push(PacketReport::Sent { number: order, size: Bytes::new(size as u64), payload });
    }

    /// Records that the packet sent at the time `sent` is acknowledged.
    pub(super) fn acknowledge(&mut self, number: u64, sent: Instant) {
        if let Some(order) = self.take(number, |at, _| at == sent) {
            self.reports.push(PacketReport::Acknowledged(order));
        }
    }

    /// Records that a packet is declared lost. Returns whether the packet needed an acknowledgement.
    pub(super) fn lose(&mut self, number: u64, bytes: u16) -> bool {
        let found = self.take(number, |_, size| size == bytes).or_else(|| self.take(number, |_, _| true));
        self.reports.extend(found.map(PacketReport::Lost));
        found.is_some()
    }

    /// Removes the last packet with this number for which `is_it` holds; returns its number in sending order.
    fn take(&mut self, number: u64, is_it: impl Fn(Instant, u16) -> bool) -> Option<u64> {
        let mut found = self.waiting.range((number, 0)..=(number, u64::MAX)).rev();
        let (&key, _) = found.find(|(_, (at, size))| is_it(*at, *size))?;
        self.waiting.remove(&key);
        Some(key.1)
    }

    /// Swaps the reports since the last call with `others`, which is empty.
    pub(super) fn swap_reports(&mut self, others: &mut Vec<PacketReport>) {
        std::mem::swap(&mut self.reports, others);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    /// Packet numbers repeat between spaces. Send time and size distinguish such packets, and each packet has one fate.
    #[test]
    fn packets_of_two_spaces_have_one_fate_each() {
        let (start, mut packets) = (Instant::now(), Packets::default());
        let later = start + Duration::from_millis(20);
        packets.send(start, 0, 1200);
        packets.send(later, 0, 300);
        packets.send(later, 1, 1400);
        packets.swap_reports(&mut Vec::new());
        assert!(packets.lose(0, 300) && packets.lose(1, 1400) && !packets.lose(1, 1400) && !packets.lose(7, 40));
        packets.acknowledge(0, start);
        packets.acknowledge(0, start);
        let mut reports = Vec::new();
        packets.swap_reports(&mut reports);
        let expected = [PacketReport::Lost(1), PacketReport::Lost(2), PacketReport::Acknowledged(0)];
        assert_eq!(reports, expected);
    }
}
