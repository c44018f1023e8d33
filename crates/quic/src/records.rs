//! Packets in flight, by packet number.

use narrows_cc::{Bytes, Nanos, SentState};

/// Initial capacity of a connection's ring, in packets.
const FIRST: usize = 64;
/// Maximum number of recorded packets in flight; further packets are sent without a record.
const MOST: usize = 1 << 17;
/// Maximum number of records of handshake packets whose numbers were used again, because each of QUIC's three
/// packet number spaces counts from 0.
const DISPLACED: usize = 16;

/// The record of a packet in flight.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Record {
    pub(crate) number: u64,
    /// Send time as the transport reports it.
    pub(crate) at: Nanos,
    pub(crate) bytes: Bytes,
    pub(crate) sent: SentState,
}

/// A ring of records, indexed by packet number. The ring grows when packets are sent, and never shrinks.
#[derive(Clone, Debug)]
pub(crate) struct Records {
    ring: Vec<Option<Record>>,
    displaced: [Option<Record>; DISPLACED],
    live: usize,
    /// Lowest packet number that can be in the ring.
    lowest: u64,
    /// One more than the highest packet number sent.
    next: u64,
}

impl Records {
    pub(crate) fn new() -> Self {
        Self { ring: vec![None; FIRST], displaced: [None; DISPLACED], live: 0, lowest: 0, next: 0 }
    }

    fn place(&self, number: u64) -> usize {
        number as usize & (self.ring.len() - 1)
    }

    /// Records a sent packet. A full ring drops its oldest records, because the transport may have dropped
    /// those packets silently (MTU probes, packets whose keys were discarded after the handshake).
    pub(crate) fn insert(&mut self, record: Record) {
        while let Some(older) = self.ring[self.place(record.number)] {
            if older.number == record.number {
                self.displace(older);
                break;
            }
            if self.live * 4 <= self.ring.len() || self.ring.len() >= MOST {
                self.live -= 1;
                break;
            }
            self.grow();
        }
        let place = self.place(record.number);
        self.ring[place] = Some(record);
        self.live += 1;
        self.lowest = self.lowest.min(record.number);
        self.next = self.next.max(record.number.saturating_add(1));
    }

    /// Moves a record out of the ring, because a packet of another space has the same number.
    fn displace(&mut self, record: Record) {
        self.live -= 1;
        let oldest = self.displaced.iter_mut().min_by_key(|slot| slot.map_or(0, |record| record.sent.order));
        if let Some(slot) = oldest {
            *slot = Some(record);
        }
    }

    #[cold]
    fn grow(&mut self) {
        let size = self.ring.len() * 2;
        let old = std::mem::replace(&mut self.ring, vec![None; size]);
        for record in old.into_iter().flatten() {
            let place = self.place(record.number);
            self.ring[place] = Some(record);
        }
    }

    /// Removes the record of an acknowledged packet. The send time `at` distinguishes packets of different spaces.
    pub(crate) fn take_acked(&mut self, number: u64, at: Nanos) -> Option<Record> {
        self.take(number, |record| record.at == at)
    }

    /// Removes the record of a lost packet. Its size distinguishes packets of different spaces. If the sizes
    /// are equal, the record of the last packet is removed, because most displaced packets were discarded with
    /// the keys of their space.
    pub(crate) fn take_lost(&mut self, number: u64, bytes: Bytes) -> Option<Record> {
        self.take(number, |record| record.bytes == bytes).or_else(|| self.take(number, |_| true))
    }

    fn take(&mut self, number: u64, is_it: impl Fn(&Record) -> bool) -> Option<Record> {
        let is_it =
            |slot: &Option<Record>| slot.as_ref().is_some_and(|record| record.number == number && is_it(record));
        let place = self.place(number);
        if is_it(&self.ring[place]) {
            self.live -= 1;
            return self.ring[place].take();
        }
        let found = self.displaced.iter_mut().filter(|slot| is_it(slot));
        found.max_by_key(|slot| slot.map_or(0, |record| record.sent.order))?.take()
    }

    /// Whether a packet with a lower number is in flight.
    pub(crate) fn has_below(&mut self, number: u64) -> bool {
        let end = number.min(self.next);
        // Records of packets more than the ring's length below `end` have left the ring.
        self.lowest = self.lowest.max(end.saturating_sub(self.ring.len() as u64));
        while self.lowest < end {
            let lowest = self.lowest;
            if self.ring[self.place(lowest)].is_some_and(|record| record.number == lowest) {
                return true;
            }
            self.lowest += 1;
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIZE: Bytes = Bytes::new(1200);

    fn record(number: u64, order: u64) -> Record {
        let sent = narrows_cc::record!(SentState { order, sent_at: Nanos::from_millis(order) });
        Record { number, at: sent.sent_at, bytes: SIZE, sent }
    }

    /// Records are found by packet number, exactly once, in any order, and beyond the ring's initial capacity.
    #[test]
    fn records_by_number_are_found_once() {
        let mut records = Records::new();
        for number in 0..1000 {
            records.insert(record(number, number + 1));
        }
        for number in (0..1000).rev() {
            assert_eq!(records.take_lost(number, SIZE).map(|found| found.sent.order), Some(number + 1));
            assert!(records.take_lost(number, SIZE).is_none());
        }
        assert_eq!(records.live, 0);
    }

    /// The same number in two spaces refers to two packets, which are distinguished by their send times.
    #[test]
    fn numbers_of_two_spaces_are_told_apart() {
        let mut records = Records::new();
        records.insert(record(0, 1));
        records.insert(record(0, 2));
        assert_eq!(records.take_acked(0, Nanos::from_millis(1)).map(|found| found.sent.order), Some(1));
        assert_eq!(records.take_acked(0, Nanos::from_millis(2)).map(|found| found.sent.order), Some(2));
        assert!(records.take_lost(0, SIZE).is_none());
    }

    /// A loss report has no send time. Of two packets with the same number, it removes the packet of the
    /// reported size; if no size matches, the packet that was sent last.
    #[test]
    fn lost_packet_of_two_spaces_is_told_by_size() {
        let of_size = |order, bytes| Record { bytes: Bytes::new(bytes), ..record(0, order) };
        let lost = |sizes: [u64; 2], bytes| {
            let mut records = Records::new();
            records.insert(of_size(1, sizes[0]));
            records.insert(of_size(2, sizes[1]));
            records.take_lost(0, Bytes::new(bytes)).map(|found| found.sent.order)
        };
        assert_eq!(lost([1200, 80], 1200), Some(1));
        assert_eq!(lost([1200, 80], 80), Some(2));
        assert_eq!(lost([1200, 1200], 1200), Some(2));
        assert_eq!(lost([1200, 80], 500), Some(2));
    }

    /// Packets that the transport never reports again neither make the ring grow nor count as a gap forever.
    #[test]
    fn forgotten_packets_do_not_make_the_ring_grow() {
        let mut records = Records::new();
        records.insert(record(3, 1));
        for number in 4..100_000 {
            records.insert(record(number, number));
            assert!(records.take_lost(number, SIZE).is_some());
        }
        assert_eq!(records.ring.len(), FIRST);
        assert!(!records.has_below(100_000));
    }

    /// A gap is a packet in flight with a lower number than the delivered packets.
    #[test]
    fn gap_is_seen_until_it_is_filled() {
        let mut records = Records::new();
        for number in 10..20 {
            records.insert(record(number, number));
        }
        assert!(!records.has_below(10));
        records.take_lost(11, SIZE);
        assert!(records.has_below(11));
        records.take_lost(10, SIZE);
        assert!(!records.has_below(11));
        assert!(records.has_below(13));
    }
}
