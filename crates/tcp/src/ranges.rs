//! Sorted disjoint ranges of sequence numbers: out-of-order data at a receiver, SACKed data at a sender.

use std::collections::VecDeque;

/// A set of sequence numbers as half-open ranges that neither overlap nor touch.
#[derive(Clone, Debug, Default)]
pub struct Ranges {
    ranges: VecDeque<(u64, u64)>,
    total: u64,
}

impl Ranges {
    /// Bytes of allocated memory.
    pub fn memory(&self) -> usize {
        self.ranges.capacity() * size_of::<(u64, u64)>()
    }

    /// Prefetches the lowest ranges, or the memory for them.
    #[inline]
    pub(crate) fn prefetch(&self) {
        narrows_units::prefetch(self.ranges.as_slices().0, 1);
    }

    /// Whether the set is empty.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    /// Number of sequence numbers in the set.
    #[inline]
    pub fn total(&self) -> u64 {
        self.total
    }

    /// The end of the highest range.
    #[inline]
    pub fn end(&self) -> Option<u64> {
        self.ranges.back().map(|r| r.1)
    }

    /// The lowest range.
    pub fn first(&self) -> Option<(u64, u64)> {
        self.ranges.front().copied()
    }

    /// The ranges, highest first.
    pub fn descending(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        self.ranges.iter().rev().copied()
    }

    /// The range that contains `seq`.
    pub fn find(&self, seq: u64) -> Option<(u64, u64)> {
        if let Some(&last) = self.ranges.back().filter(|r| r.0 <= seq) {
            return (seq < last.1).then_some(last);
        }
        let i = self.ranges.partition_point(|r| r.1 <= seq);
        self.ranges.get(i).copied().filter(|r| r.0 <= seq)
    }

    /// The lowest part of `start..end` that is in the set.
    pub fn overlap(&self, start: u64, end: u64) -> Option<(u64, u64)> {
        let i = self.ranges.partition_point(|r| r.1 <= start);
        self.ranges.get(i).filter(|r| r.0 < end).map(|r| (r.0.max(start), r.1.min(end)))
    }

    /// Adds `start..end` and reports each part of it that was not in the set, lowest first.
    #[inline]
    pub fn insert(&mut self, start: u64, end: u64, mut new: impl FnMut(u64, u64)) {
        debug_assert!(start < end);
        match self.ranges.back_mut() {
            // The common case, growth at the top, needs no search.
            Some(last) if start >= last.0 && start <= last.1 => {
                if end > last.1 {
                    let from = last.1;
                    self.total += end - from;
                    last.1 = end;
                    new(from, end);
                }
            }
            Some(last) if start < last.0 => self.insert_inside(start, end, new),
            _ => {
                self.ranges.push_back((start, end));
                self.total += end - start;
                new(start, end);
            }
        }
    }

    fn insert_inside(&mut self, start: u64, end: u64, mut new: impl FnMut(u64, u64)) {
        let i = self.ranges.partition_point(|r| r.1 < start);
        let mut covered = start;
        let mut j = i;
        while let Some(&(s, e)) = self.ranges.get(j).filter(|r| r.0 <= end) {
            if s > covered {
                self.total += s - covered;
                new(covered, s);
            }
            covered = covered.max(e);
            j += 1;
        }
        if end > covered {
            self.total += end - covered;
            new(covered, end);
        }
        if i == j {
            self.ranges.insert(i, (start, end));
            return;
        }
        self.ranges[i] = (self.ranges[i].0.min(start), covered.max(end));
        if j > i + 1 {
            self.ranges.drain(i + 1..j);
        }
    }

    /// Removes everything below `seq`.
    #[inline]
    pub fn remove_below(&mut self, seq: u64) {
        while let Some(first) = self.ranges.front_mut() {
            if first.1 <= seq {
                self.total -= first.1 - first.0;
                self.ranges.pop_front();
            } else {
                if first.0 < seq {
                    self.total -= seq - first.0;
                    first.0 = seq;
                }
                return;
            }
        }
    }

    /// Removes the lowest range if it begins at or below `seq`, and returns its end.
    #[inline]
    pub fn pop_reached(&mut self, seq: u64) -> Option<u64> {
        let &(start, end) = self.ranges.front()?;
        if start > seq {
            return None;
        }
        self.ranges.pop_front();
        self.total -= end - start;
        Some(end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_set_of_ranges_agrees_with_a_set_of_numbers(
            inserts in prop::collection::vec((0u64..60, 1u64..12), 1..40),
            floor in 0u64..60,
        ) {
            let mut ranges = Ranges::default();
            let mut numbers = std::collections::BTreeSet::new();
            for (start, length) in inserts {
                let mut reported = Vec::new();
                ranges.insert(start, start + length, |a, b| reported.extend(a..b));
                let expected: Vec<u64> = (start..start + length).filter(|&n| numbers.insert(n)).collect();
                prop_assert_eq!(reported, expected);
                prop_assert_eq!(ranges.total(), numbers.len() as u64);
                let separate = ranges.ranges.iter().zip(ranges.ranges.iter().skip(1)).all(|(a, b)| a.1 < b.0);
                prop_assert!(separate, "{:?}", ranges);
            }
            ranges.remove_below(floor);
            numbers.retain(|&n| n >= floor);
            prop_assert_eq!(ranges.total(), numbers.len() as u64);
            for n in 0..80 {
                prop_assert_eq!(ranges.find(n).is_some(), numbers.contains(&n));
            }
        }
    }
}
