//! Scoreboard: one record per packet between SND.UNA and SND.NXT.
//!
//! Records are stored in a ring in sequence order. Records in flight also form a list in transmission order,
//! so that time-based loss detection (RFC 8985) inspects only candidates. Lost records not yet retransmitted
//! form a list in sequence order, so that its head is the next one to repair. Both lists share the link
//! fields, and a record is in at most one of them.

use narrows_cc::{Bytes, Nanos, SentState};
use narrows_packet::Packet;

use crate::{ranges::Ranges, ring::Ring};

/// State of a sent packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub(crate) enum Place {
    /// In flight.
    #[default]
    Flight,
    /// Lost, not yet retransmitted.
    Lost,
    /// Selectively acknowledged.
    Sacked,
}

/// A sent packet.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Record {
    pub(crate) snapshot: SentState,
    pub(crate) seq: u64,
    previous: u32,
    next: u32,
    /// Payload bytes; zero for a FIN.
    pub(crate) len: u16,
    pub(crate) place: Place,
    /// Number of retransmissions.
    pub(crate) retransmissions: u8,
    /// Copies counted in flight: 1, or 2 after the retransmission of a packet not deemed lost.
    copies: u8,
}

impl Record {
    /// The next sequence number after the packet; a FIN occupies one.
    #[inline]
    pub(crate) fn end(&self) -> u64 {
        self.seq + u64::from(self.len).max(1)
    }

    #[inline]
    pub(crate) fn bytes(&self) -> Bytes {
        Bytes::new(u64::from(self.len))
    }

    /// Whether it was lost and retransmitted. Copies of packets not deemed lost do not count.
    pub(crate) fn is_repair(&self) -> bool {
        self.place == Place::Flight && self.retransmissions > 0 && self.copies == 1
    }

    fn inflight(&self) -> u64 {
        u64::from(self.len) * u64::from(self.copies)
    }
}

/// Ends of a doubly linked list with its links in the records. The tail of the flight links to the next number, usually
/// the next to leave; other links beyond the ends are meaningless.
#[derive(Clone, Copy, Debug, Default)]
struct List {
    head: u32,
    tail: u32,
    len: u32,
}

/// The outstanding records of one sender.
#[derive(Clone, Debug, Default)]
pub(crate) struct Scoreboard {
    records: Ring<Record>,
    flight: List,
    lost: List,
    inflight: u64,
    segment: u64,
    sacked: Ranges,
    sacked_packets: u32,
    /// Retransmitted records not yet acknowledged.
    retransmitted: u32,
    /// Last record in the flight list sent before the newest delivered one; see [`Scoreboard::overtaken`].
    edge: Option<u32>,
    /// Last record inserted into the lost list.
    hint: Option<u32>,
}

impl Scoreboard {
    pub(crate) fn new(segment: u16) -> Self {
        Self { segment: u64::from(segment).max(1), ..Self::default() }
    }

    /// Prefetches the oldest records, and the memory of the next one.
    #[inline]
    pub(crate) fn prefetch(&self) {
        if let Some((_, record)) = self.first() {
            narrows_units::prefetch(record, 3);
            self.records.prefetch(self.records.end());
            self.sacked.prefetch();
        }
    }

    /// Prefetches the records that loss detection and repair access when `packet` arrives; the first one begins at
    /// `una`.
    #[inline]
    pub(crate) fn prefetch_lossy(&self, packet: &Packet, una: u64) {
        for id in [self.flight.head, self.flight.tail, self.lost.head] {
            self.records.prefetch(id);
        }
        for (start, _) in packet.sack_blocks().take(2) {
            let place = start.saturating_sub(una) / self.segment;
            self.records.prefetch(self.records.first().wrapping_add(place as u32));
        }
    }

    /// Bytes of memory held.
    pub(crate) fn memory(&self) -> usize {
        self.records.memory() + self.sacked.memory()
    }

    #[inline]
    pub(crate) fn inflight(&self) -> Bytes {
        Bytes::new(self.inflight)
    }

    /// Whether nothing is outstanding.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.records.is_empty()
    }

    #[inline]
    pub(crate) fn len(&self) -> u32 {
        self.records.len()
    }

    #[inline]
    pub(crate) fn get(&self, id: u32) -> &Record {
        self.records.get(id)
    }

    /// The lowest outstanding record.
    #[inline]
    pub(crate) fn first(&self) -> Option<(u32, &Record)> {
        (!self.records.is_empty()).then(|| (self.records.first(), self.records.get(self.records.first())))
    }

    /// The highest outstanding record.
    pub(crate) fn last(&self) -> Option<u32> {
        (!self.records.is_empty()).then(|| self.records.end().wrapping_sub(1))
    }

    #[inline]
    pub(crate) fn sacked(&self) -> &Ranges {
        &self.sacked
    }

    #[inline]
    pub(crate) fn sacked_packets(&self) -> u32 {
        self.sacked_packets
    }

    /// Whether the lowest outstanding record is SACKed, which a receiver that keeps its data never causes.
    #[inline]
    pub(crate) fn is_head_sacked(&self) -> bool {
        self.sacked_packets > 0 && self.first().is_some_and(|(_, record)| record.place == Place::Sacked)
    }

    /// Number of retransmitted records not yet acknowledged.
    pub(crate) fn retransmitted(&self) -> u32 {
        self.retransmitted
    }

    #[inline]
    pub(crate) fn has_lost(&self) -> bool {
        self.lost.len > 0
    }

    /// The lowest lost record not yet retransmitted.
    #[inline]
    pub(crate) fn next_lost(&self) -> Option<u32> {
        (self.lost.len > 0).then_some(self.lost.head)
    }

    /// The record in flight with the earliest transmission.
    #[inline]
    pub(crate) fn oldest(&self) -> Option<u32> {
        (self.flight.len > 0).then_some(self.flight.head)
    }

    /// All records, lowest first.
    pub(crate) fn ids(&self) -> impl Iterator<Item = u32> + use<> {
        let first = self.records.first();
        (0..self.records.len()).map(move |i| first.wrapping_add(i))
    }

    /// The first record that begins at or after `seq`.
    pub(crate) fn at(&self, seq: u64) -> Option<u32> {
        let (first, record) = self.first()?;
        let above = seq.saturating_sub(record.seq);
        // No packet exceeds a segment, so this guess is never too high, and it is usually exact.
        let mut low = (above / self.segment).min(u64::from(self.len())) as u32;
        let mut high = self.len();
        if low < high && self.get(first.wrapping_add(low)).seq >= seq {
            return Some(first.wrapping_add(low));
        }
        while low < high {
            let middle = low + (high - low) / 2;
            if self.get(first.wrapping_add(middle)).seq < seq {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        (low < self.len()).then(|| first.wrapping_add(low))
    }

    fn list(&mut self, place: Place) -> &mut List {
        if place == Place::Lost { &mut self.lost } else { &mut self.flight }
    }

    /// Inserts `id` into the list of lost records behind `after`, or at its head.
    fn insert_lost(&mut self, id: u32, after: Option<u32>) {
        let list = self.lost;
        self.lost.len += 1;
        match after {
            None if list.len == 0 => (self.lost.head, self.lost.tail) = (id, id),
            None => {
                self.records.get_mut(id).next = list.head;
                self.records.get_mut(list.head).previous = id;
                self.lost.head = id;
            }
            Some(after) => {
                self.records.get_mut(id).previous = after;
                if after == list.tail {
                    self.lost.tail = id;
                } else {
                    let next = self.records.get(after).next;
                    self.records.get_mut(id).next = next;
                    self.records.get_mut(next).previous = id;
                }
                self.records.get_mut(after).next = id;
            }
        }
    }

    #[inline]
    fn append_to_flight(&mut self, id: u32) {
        let List { tail, len, .. } = self.flight;
        let record = self.records.get_mut(id);
        record.previous = tail;
        record.next = id.wrapping_add(1);
        if len == 0 {
            self.flight.head = id;
        } else if id != tail.wrapping_add(1) {
            self.records.get_mut(tail).next = id;
        }
        self.flight.tail = id;
        self.flight.len += 1;
    }

    #[inline]
    fn unlink(&mut self, id: u32) {
        let record = self.records.get(id);
        let (previous, next, place) = (record.previous, record.next, record.place);
        let list = *self.list(place);
        let (is_head, is_tail) = (id == list.head, id == list.tail);
        let cursor = if place == Place::Lost { &mut self.hint } else { &mut self.edge };
        if *cursor == Some(id) {
            *cursor = (!is_head).then_some(previous);
        }
        let mut changed = List { len: list.len - 1, ..list };
        match (is_head, is_tail) {
            (true, true) => {}
            (true, false) => changed.head = next,
            (false, true) => {
                changed.tail = previous;
                self.records.get_mut(previous).next = previous.wrapping_add(1);
            }
            (false, false) => {
                self.records.get_mut(previous).next = next;
                self.records.get_mut(next).previous = previous;
            }
        }
        *self.list(place) = changed;
    }

    /// Adds the record of a new packet.
    #[inline]
    pub(crate) fn push(&mut self, seq: u64, len: u16, snapshot: SentState) {
        let record = Record { snapshot, seq, len, copies: 1, ..Record::default() };
        let id = self.records.push(record);
        self.append_to_flight(id);
        self.inflight += u64::from(len);
    }

    /// Records a retransmission.
    pub(crate) fn resend(&mut self, id: u32, snapshot: SentState) {
        self.unlink(id);
        let record = self.records.get_mut(id);
        let before = record.inflight();
        record.copies = (record.copies + 1).min(2);
        record.place = Place::Flight;
        record.snapshot = snapshot;
        self.retransmitted += u32::from(record.retransmissions == 0);
        record.retransmissions = record.retransmissions.saturating_add(1);
        self.inflight += record.inflight() - before;
        self.append_to_flight(id);
    }

    /// Removes a record from its list and from the data in flight.
    #[inline]
    fn settle(&mut self, id: u32) {
        self.unlink(id);
        let record = self.records.get(id);
        self.inflight -= record.inflight();
        self.retransmitted -= u32::from(record.retransmissions > 0);
    }

    /// Removes records acknowledged by `ack`. Calls `deliver` for each not SACKed before.
    #[inline]
    pub(crate) fn acknowledge(&mut self, ack: u64, mut deliver: impl FnMut(&Record)) {
        while !self.records.is_empty() {
            let id = self.records.first();
            let record = self.records.get(id);
            if record.end() > ack {
                break;
            }
            if record.place == Place::Sacked {
                self.sacked_packets -= 1;
            } else {
                deliver(record);
                self.settle(id);
            }
            self.records.pop();
        }
        if !self.sacked.is_empty() {
            self.sacked.remove_below(ack);
        }
    }

    /// Marks `start..end` as SACKed. Calls `deliver` for each newly SACKed record; returns whether there was any.
    pub(crate) fn sack(&mut self, start: u64, end: u64, mut deliver: impl FnMut(&Record)) -> bool {
        let mut sacked = std::mem::take(&mut self.sacked);
        let mut news = false;
        sacked.insert(start, end, |start, end| {
            let Some(mut id) = self.at(start) else { return };
            while id != self.records.end() {
                let record = self.records.get(id);
                if record.end() > end {
                    break;
                }
                debug_assert!(record.place != Place::Sacked);
                deliver(record);
                self.settle(id);
                let record = self.records.get_mut(id);
                record.copies = 0;
                record.place = Place::Sacked;
                self.sacked_packets += 1;
                news = true;
                id = id.wrapping_add(1);
            }
        });
        self.sacked = sacked;
        news
    }

    /// Declares an in-flight record lost.
    pub(crate) fn mark_lost(&mut self, id: u32) {
        debug_assert!(self.get(id).place == Place::Flight);
        self.unlink(id);
        let record = self.records.get_mut(id);
        self.inflight -= record.inflight();
        record.copies = 0;
        record.place = Place::Lost;
        let seq = record.seq;
        let after = self.lost_before(seq);
        self.insert_lost(id, after);
        self.hint = Some(id);
    }

    /// The highest lost record below `seq`.
    fn lost_before(&self, seq: u64) -> Option<u32> {
        if self.lost.len == 0 || self.get(self.lost.head).seq > seq {
            return None;
        }
        if self.get(self.lost.tail).seq < seq {
            return Some(self.lost.tail);
        }
        let mut at = self.hint.unwrap_or(self.lost.tail);
        while self.get(at).seq > seq {
            at = self.get(at).previous;
        }
        // The tail is above `seq`, so this stops before it.
        while self.get(self.get(at).next).seq < seq {
            at = self.get(at).next;
        }
        Some(at)
    }

    /// Whether any packet in flight was sent before transmission number `order`.
    #[inline]
    pub(crate) fn has_sent_before(&self, order: u64) -> bool {
        self.flight.len > 0 && self.get(self.flight.head).snapshot.order < order
    }

    /// Send time of the latest transmission in flight before number `order`. `order` never decreases between
    /// calls, so all calls together visit each record once.
    pub(crate) fn overtaken(&mut self, order: u64) -> Option<Nanos> {
        loop {
            let next = match self.edge {
                None if self.flight.len > 0 => self.flight.head,
                Some(edge) if edge != self.flight.tail => self.get(edge).next,
                _ => break,
            };
            if self.get(next).snapshot.order >= order {
                break;
            }
            self.edge = Some(next);
        }
        self.edge.map(|edge| self.get(edge).snapshot.sent_at)
    }

    /// Reverts all losses not yet repaired: the packets are in flight after all.
    pub(crate) fn forget_losses(&mut self) {
        while let Some(id) = self.next_lost() {
            self.unlink(id);
            let record = self.records.get_mut(id);
            record.place = Place::Flight;
            record.copies = 1;
            self.inflight += u64::from(record.len);
        }
        self.relink_flight();
    }

    /// Forgets all SACKs: the receiver has discarded the data (RFC 2018 section 8).
    pub(crate) fn forget_sacks(&mut self) {
        for id in self.ids() {
            let record = self.records.get_mut(id);
            if record.place == Place::Sacked {
                record.place = Place::Flight;
                record.copies = 1;
                self.inflight += u64::from(record.len);
                self.retransmitted += u32::from(record.retransmissions > 0);
            }
        }
        self.sacked = Ranges::default();
        self.sacked_packets = 0;
        self.relink_flight();
    }

    /// Builds the flight list again in order of transmission.
    fn relink_flight(&mut self) {
        let mut ids: Vec<u32> = self.ids().filter(|&id| self.get(id).place == Place::Flight).collect();
        ids.sort_unstable_by_key(|&id| self.get(id).snapshot.order);
        self.flight = List::default();
        self.edge = None;
        for id in ids {
            self.append_to_flight(id);
        }
    }

    /// Recomputes all counts and compares them, for tests.
    pub(crate) fn check(&self) {
        let records = || self.ids().map(|id| self.get(id));
        assert_eq!(self.inflight, records().map(Record::inflight).sum::<u64>(), "data in flight");
        let count = |place| records().filter(|r| r.place == place).count() as u32;
        assert_eq!(self.flight.len, count(Place::Flight), "packets in flight");
        assert_eq!(self.lost.len, count(Place::Lost), "packets lost");
        assert_eq!(self.sacked_packets, count(Place::Sacked), "packets sacked");
        let open = records().filter(|r| r.place != Place::Sacked && r.retransmissions > 0).count() as u32;
        assert_eq!(self.retransmitted, open, "retransmissions");
        let mut at = self.flight.head;
        for _ in 1..self.flight.len {
            let next = self.get(at).next;
            assert!(self.get(at).snapshot.order < self.get(next).snapshot.order, "order of transmission");
            assert_eq!(self.get(next).previous, at);
            at = next;
        }
        let mut at = self.lost.head;
        for _ in 1..self.lost.len {
            let next = self.get(at).next;
            assert!(self.get(at).seq < self.get(next).seq, "order of lost packets");
            at = next;
        }
    }
}
