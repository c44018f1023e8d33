//! Records of sent packets and their fates, by number.
//!
//! ```text
//!        first                     known                    end
//!   ------+-------------------------+------------------------+
//!   dropped | delivered, except gaps  | not yet acknowledged   |  not sent
//! ```

use std::collections::VecDeque;

use narrows_cc::{Bytes, SentState};

use crate::ack_vector::PacketState as State;

/// Number of later packets that declare a packet lost (RFC 4341 section 5: NUMDUPACK).
const NUMDUPACK: u64 = 3;

/// Fate of a packet as known to the sender.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Fate {
    Outstanding,
    Delivered,
    Lost,
    /// Given up after a timeout; no report has shown the packet as lost.
    Unanswered,
}

/// One sent packet.
#[derive(Clone, Copy, Debug)]
pub(super) struct Record {
    /// Payload bytes; zero for non-data packets, which only count as later packets in loss detection.
    pub(super) bytes: u32,
    pub(super) fate: Fate,
    /// CCID 3's window counter at its departure.
    pub(super) counter: u8,
    pub(super) snapshot: SentState,
}

impl Record {
    pub(super) fn size(&self) -> Bytes {
        Bytes::new(u64::from(self.bytes))
    }
}

/// Maximum number of lost packets remembered after their records are dropped.
const MAX_FORGOTTEN: usize = 1 << 14;

/// A lost packet whose record was dropped.
#[derive(Clone, Copy, Debug)]
struct Forgotten {
    number: u64,
    /// Payload bytes; zero once the packet has arrived.
    bytes: u32,
    /// Whether a timeout declared the packet lost and no report has covered the packet.
    unreported: bool,
}

/// Records from the oldest unsettled packet to the newest. Numbers start at 0 and do not wrap.
#[derive(Clone, Debug, Default)]
pub(super) struct Records {
    ring: VecDeque<Record>,
    first: u64,
    /// Greatest number known to be delivered, plus one.
    known: u64,
    /// Numbers below `known` not delivered so far, ascending.
    gaps: Vec<u64>,
    /// New gaps of the current report, descending.
    fresh: Vec<u64>,
    /// Packets below this number are delivered, lost or unanswered.
    lost_until: u64,
    /// Lost packets below `first`, ascending: the receiver may still report any of these as received, however late.
    forgotten: VecDeque<Forgotten>,
    /// Number of dropped records of packets that were declared lost and that no report covered.
    unreported: u64,
}

impl Records {
    pub(super) fn end(&self) -> u64 {
        self.first + self.ring.len() as u64
    }

    pub(super) fn len(&self) -> usize {
        self.ring.len()
    }

    pub(super) fn known(&self) -> u64 {
        self.known
    }

    pub(super) fn first(&self) -> u64 {
        self.first
    }

    /// Heap memory in bytes.
    pub(super) fn memory(&self) -> usize {
        self.ring.capacity() * size_of::<Record>()
            + (self.gaps.capacity() + self.fresh.capacity()) * 8
            + self.forgotten.capacity() * size_of::<Forgotten>()
    }

    pub(super) fn push(&mut self, record: Record) {
        self.ring.push_back(record);
    }

    /// Applies a report: disjoint ranges of numbers in descending order, each with lowest number, highest
    /// number and state. Calls `delivered` for each newly delivered packet, with its number, its record
    /// before the report, and whether it is marked.
    pub(super) fn apply(
        &mut self,
        ranges: impl Iterator<Item = (u64, u64, State)>,
        mut delivered: impl FnMut(u64, &Record, bool),
    ) {
        let Self { ring, first, known, gaps, fresh, .. } = self;
        let (first, end) = (*first, *first + ring.len() as u64);
        let mut take = |number: u64, state: State| {
            let record = &mut ring[(number - first) as usize];
            delivered(number, record, state == State::Marked);
            record.fate = Fate::Delivered;
        };
        fresh.clear();
        let mut rest = gaps.len();
        let mut filled = false;
        // A gap is a number not reported as received, from the greatest reported number down to the end of
        // the report or to `known`.
        let mut expected = None;
        let mut greatest = *known;
        for (low, high, state) in ranges {
            let received = state != State::Missing;
            let (low, high) = (low.max(first), high.min(end.saturating_sub(1)));
            if low > high || end == 0 {
                if high < first {
                    break;
                }
                continue;
            }
            if expected.is_none() {
                greatest = greatest.max(high + 1);
            }
            let from = low.max(*known);
            if let Some(expected) = expected {
                // The report omits the packets between its ranges.
                fresh.extend(((*known).max(high + 1)..expected).rev());
            }
            for number in (from..=high).rev() {
                if received { take(number, state) } else { fresh.push(number) }
            }
            if high >= *known {
                expected = Some(from);
            } else if expected.is_none() {
                expected = Some(*known);
            }
            if low < *known {
                expected = Some(*known);
                while rest > 0 && gaps[rest - 1] > high {
                    rest -= 1;
                }
                while rest > 0 && gaps[rest - 1] >= low {
                    rest -= 1;
                    if received {
                        take(gaps[rest], state);
                        gaps[rest] = u64::MAX;
                        filled = true;
                    }
                }
            }
        }
        if let Some(expected) = expected {
            fresh.extend((*known..expected).rev());
        }
        if filled {
            gaps.retain(|&gap| gap != u64::MAX);
        }
        gaps.extend(fresh.iter().rev());
        *known = greatest;
    }

    /// Takes the forgotten packets that a report lists as received. Returns the number and total payload of these
    /// packets.
    pub(super) fn take_forgotten(&mut self, ranges: impl Iterator<Item = (u64, u64, State)>) -> Option<(u64, Bytes)> {
        let (oldest, newest) = (self.forgotten.front()?.number, self.forgotten.back()?.number);
        let mut found: Option<(u64, Bytes)> = None;
        for (low, high, state) in ranges {
            if high < oldest {
                break;
            }
            if low > newest || state == State::Missing {
                continue;
            }
            let from = self.forgotten.partition_point(|packet| packet.number < low);
            for packet in self.forgotten.range_mut(from..).take_while(|packet| packet.number <= high) {
                if packet.bytes > 0 {
                    let (packets, bytes) = found.get_or_insert_default();
                    *packets += 1;
                    *bytes += Bytes::new(u64::from(std::mem::take(&mut packet.bytes)));
                    self.unreported -= u64::from(std::mem::take(&mut packet.unreported));
                }
            }
        }
        found
    }

    /// Number of packets that a timeout declared lost and no report has covered.
    pub(super) fn unreported_losses(&self) -> u64 {
        let from = (self.known.max(self.first) - self.first) as usize;
        let lost = |record: &&Record| record.fate == Fate::Lost && record.bytes > 0;
        self.unreported + self.ring.iter().skip(from).filter(lost).count() as u64
    }

    /// Returns the oldest packet that three later packets have overtaken and that was not declared lost before, and
    /// declares it lost.
    pub(super) fn next_lost(&mut self) -> Option<(u64, Record)> {
        let i = self.gaps.partition_point(|&gap| gap < self.lost_until);
        let &gap = self.gaps.get(i)?;
        // Number of packets delivered above the gap. This number does not grow from one gap to the next.
        let later = self.known - 1 - gap - (self.gaps.len() - 1 - i) as u64;
        if later < NUMDUPACK {
            return None;
        }
        self.lost_until = gap + 1;
        let record = &mut self.ring[(gap - self.first) as usize];
        record.fate = Fate::Lost;
        Some((gap, *record))
    }

    /// Sets the fate of the oldest outstanding packet below `until` and returns its record.
    pub(super) fn settle_next(&mut self, until: u64, fate: Fate) -> Option<Record> {
        let until = until.min(self.end());
        while self.lost_until.max(self.first) < until {
            let number = self.lost_until.max(self.first);
            self.lost_until = number + 1;
            let record = &mut self.ring[(number - self.first) as usize];
            if record.fate == Fate::Outstanding {
                record.fate = fate;
                return Some(*record);
            }
        }
        None
    }

    /// Drops the oldest settled records. Lost packets from `keep` on stay, because they may arrive late.
    pub(super) fn drop_settled(&mut self, keep: u64) {
        let before = self.first;
        while let Some(record) = self.ring.front() {
            let settled = match record.fate {
                Fate::Delivered => true,
                Fate::Outstanding => record.bytes == 0,
                Fate::Lost | Fate::Unanswered => record.bytes == 0 || self.first < keep,
            };
            if !settled {
                break;
            }
            if record.fate == Fate::Lost && record.bytes > 0 {
                let unreported = self.first >= self.known;
                self.unreported += u64::from(unreported);
                if self.forgotten.len() == MAX_FORGOTTEN {
                    self.forgotten.pop_front();
                }
                self.forgotten.push_back(Forgotten { number: self.first, bytes: record.bytes, unreported });
            }
            self.ring.pop_front();
            self.first += 1;
        }
        if self.first > before && !self.gaps.is_empty() {
            let gone = self.gaps.partition_point(|&gap| gap < self.first);
            self.gaps.drain(..gone);
        }
        self.known = self.known.max(self.first);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use narrows_cc::Random;

    fn records(n: u64) -> Records {
        let mut records = Records::default();
        for _ in 0..n {
            records.push(Record { bytes: 10, fate: Fate::Outstanding, counter: 0, snapshot: SentState::default() });
        }
        records
    }

    fn apply(records: &mut Records, ranges: &[(u64, u64, bool)]) -> Vec<u64> {
        let mut seen = vec![];
        let state = |received| if received { State::Received } else { State::Missing };
        let ranges = ranges.iter().map(|&(low, high, received)| (low, high, state(received)));
        records.apply(ranges, |number, _, _| seen.push(number));
        seen
    }

    fn detect(records: &mut Records) -> Vec<u64> {
        std::iter::from_fn(|| records.next_lost()).map(|(number, _)| number).collect()
    }

    /// A packet counts as lost when three later packets have arrived. Its record is kept, because the packet may arrive
    /// late.
    #[test]
    fn records_declare_loss_after_three_later_packets() {
        let mut records = records(10);
        assert_eq!(apply(&mut records, &[(3, 4, true), (1, 2, false), (0, 0, true)]), [4, 3, 0]);
        assert_eq!(detect(&mut records), []);
        assert_eq!(apply(&mut records, &[(5, 5, true), (3, 4, true), (1, 2, false), (0, 0, true)]), [5]);
        assert_eq!(detect(&mut records), [1, 2]);
        assert_eq!(apply(&mut records, &[(7, 7, true), (6, 6, false), (2, 5, true), (1, 1, false)]), [7, 2]);
        assert_eq!(detect(&mut records), []);
        records.drop_settled(0);
        assert_eq!(records.first(), 1, "a lost packet may arrive late, so its record stays");
        records.drop_settled(2);
        assert_eq!(records.first(), 6);
    }

    /// Packets that a short report omits are gaps.
    #[test]
    fn records_omitted_by_short_report_are_gaps() {
        let mut records = records(6);
        assert_eq!(apply(&mut records, &[(4, 4, true)]), [4]);
        assert_eq!(apply(&mut records, &[(5, 5, true), (4, 4, true), (0, 3, true)]), [5, 3, 2, 1, 0]);
    }

    /// After random reports, deliveries and losses match a reference list.
    #[test]
    fn records_after_random_reports_match_reference_list() {
        let mut random = Random::stream(1, "reports", 0);
        for _ in 0..300 {
            let n = 1 + random.below(60);
            let mut records = records(n);
            let mut list = vec![Fate::Outstanding; n as usize];
            for _ in 0..8 {
                let top = random.below(n + 4);
                let (mut high, mut ranges) = (top as i64, vec![]);
                while high >= 0 && ranges.len() < 20 {
                    let low = (high - random.below(6) as i64).max(0);
                    ranges.push((low as u64, high as u64, random.chance(0.6)));
                    high = low - 1 - i64::from(random.chance(0.2));
                }
                let seen = apply(&mut records, &ranges);
                let mut expected = vec![];
                for &(low, high, received) in &ranges {
                    for number in (low..=high.min(n - 1)).rev() {
                        if received && list[number as usize] != Fate::Delivered {
                            list[number as usize] = Fate::Delivered;
                            expected.push(number);
                        }
                    }
                }
                assert_eq!(seen, expected);
                let lost = detect(&mut records);
                let mut expected = vec![];
                for number in 0..n as usize {
                    let later = list[number..].iter().filter(|&&fate| fate == Fate::Delivered).count();
                    if list[number] == Fate::Outstanding && later >= 3 {
                        list[number] = Fate::Lost;
                        expected.push(number as u64);
                    }
                }
                assert_eq!(lost, expected);
            }
        }
    }
}
