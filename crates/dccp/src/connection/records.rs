//! What was sent and became of it: one record per packet, by number.
//!
//! ```text
//!        first                     known                    end
//!   ------+-------------------------+------------------------+
//!  forgotten | delivered but for gaps | nothing heard of yet  |  not sent
//! ```

use std::collections::VecDeque;

use narrows_cc::{Bytes, SentState};

use crate::ack_vector::PacketState as State;

/// A packet is lost when this many later ones have arrived (RFC 4341 section 5: NUMDUPACK).
const LATER: u64 = 3;

/// What is known of a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Fate {
    Outstanding,
    Delivered,
    Lost,
    /// Given up; nobody says that it was lost.
    Unanswered,
}

/// One packet.
#[derive(Clone, Copy, Debug)]
pub(super) struct Record {
    /// Its payload; zero for packets without data, which only count as later ones.
    pub(super) bytes: u32,
    pub(super) fate: Fate,
    /// CCID 3's window counter when it left.
    pub(super) counter: u8,
    pub(super) snapshot: SentState,
}

impl Record {
    pub(super) fn size(&self) -> Bytes {
        Bytes::new(u64::from(self.bytes))
    }
}

/// The records from the oldest that matters to the newest. Packets are numbered from 0, without end.
#[derive(Clone, Debug, Default)]
pub(super) struct Records {
    ring: VecDeque<Record>,
    first: u64,
    /// One beyond the greatest number known to be delivered.
    known: u64,
    /// Numbers below `known` that were not delivered so far, ascending.
    gaps: Vec<u64>,
    fresh: Vec<u64>,
    /// What was not delivered below this is lost.
    lost_until: u64,
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

    /// Bytes of memory held.
    pub(super) fn memory(&self) -> usize {
        self.ring.capacity() * size_of::<Record>() + (self.gaps.capacity() + self.fresh.capacity()) * 8
    }

    pub(super) fn push(&mut self, record: Record) {
        self.ring.push_back(record);
    }

    /// The other side reports ranges of numbers, descending and disjoint: lowest, highest, what became of them. `delivered` is
    /// called for each packet that was not known to be delivered, with its number, its fate until now, and whether it is marked.
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
        // What lies between the greatest number reported and the end of the report, or what was known, and is not reported
        // as received, is a gap.
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
                // Of packets in between nothing is said.
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

    /// The oldest packet that three later ones have overtaken, and that was not lost before; now it is.
    pub(super) fn next_lost(&mut self) -> Option<(u64, Record)> {
        let i = self.gaps.partition_point(|&gap| gap < self.lost_until);
        let &gap = self.gaps.get(i)?;
        // Numbers above it that are known, less the gaps among them. It does not grow from one gap to the next.
        let later = self.known - 1 - gap - (self.gaps.len() - 1 - i) as u64;
        if later < LATER {
            return None;
        }
        self.lost_until = gap + 1;
        let record = &mut self.ring[(gap - self.first) as usize];
        record.fate = Fate::Lost;
        Some((gap, *record))
    }

    /// The oldest packet below `until` that is still outstanding; now it has this fate.
    pub(super) fn lose_next(&mut self, until: u64, fate: Fate) -> Option<Record> {
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

    /// Forgets the oldest records as far as nothing can become of them any more; those that are lost are kept from `keep` on,
    /// for they may be only late.
    pub(super) fn forget(&mut self, keep: u64) {
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
            records.push(Record {
                bytes: 10,
                fate: Fate::Outstanding,
                counter: 0,
                snapshot: SentState::default(),
            });
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

    #[test]
    fn three_later_packets_make_a_lost_one() {
        let mut records = records(10);
        assert_eq!(apply(&mut records, &[(3, 4, true), (1, 2, false), (0, 0, true)]), [4, 3, 0]);
        assert_eq!(detect(&mut records), []);
        assert_eq!(apply(&mut records, &[(5, 5, true), (3, 4, true), (1, 2, false), (0, 0, true)]), [5]);
        assert_eq!(detect(&mut records), [1, 2]);
        assert_eq!(apply(&mut records, &[(7, 7, true), (6, 6, false), (2, 5, true), (1, 1, false)]), [7, 2]);
        assert_eq!(detect(&mut records), []);
        records.forget(0);
        assert_eq!(records.first(), 1, "a lost packet is kept while it may be late");
        records.forget(2);
        assert_eq!(records.first(), 6);
    }

    #[test]
    fn what_a_short_report_leaves_out_is_a_gap() {
        let mut records = records(6);
        assert_eq!(apply(&mut records, &[(4, 4, true)]), [4]);
        assert_eq!(apply(&mut records, &[(5, 5, true), (4, 4, true), (0, 3, true)]), [5, 3, 2, 1, 0]);
    }

    #[test]
    fn any_reports_leave_every_packet_with_the_fate_that_a_list_gives_it() {
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
