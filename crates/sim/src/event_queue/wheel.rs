//! Timing wheel: the entries of a queue with many timers, in buckets by time.
//!
//! Most timers are postponed before they expire. An entry in a bucket is never compared with other timers; only the
//! entries of the current tick move from the wheel to the heap.

use narrows_cc::Nanos;

use super::Entry;

/// Length of a tick: 2^20 ns, about 1 ms.
const SHIFT: u32 = 20;
/// Number of ticks that the wheel covers, about 0.27 s. Later entries stay in the heap: they are few, or wait for
/// their flows to start.
const BUCKETS: usize = 256;

/// Entries of the next [`BUCKETS`] ticks.
#[derive(Debug)]
pub(super) struct Wheel {
    /// The entries of tick `t` are in bucket `t` modulo [`BUCKETS`], in any order.
    buckets: Vec<Vec<Entry>>,
    /// The first tick in the wheel.
    first: u64,
    /// Entries in the wheel.
    len: usize,
}

impl Wheel {
    /// A wheel for many timers. For few timers it has no buckets and accepts no entries.
    pub(super) fn new(many: bool) -> Self {
        Self { buckets: vec![Vec::new(); if many { BUCKETS } else { 0 }], first: 0, len: 0 }
    }

    /// Adds an entry unless its time is outside the ticks of the wheel; returns whether it was added. No pending entry
    /// is earlier than `now`.
    #[inline]
    pub(super) fn add(&mut self, entry: Entry, now: Nanos) -> bool {
        if self.buckets.is_empty() {
            return false;
        }
        if self.len == 0 {
            self.first = self.first.max(now.as_nanos() >> SHIFT);
        }
        let tick = entry.at().as_nanos() >> SHIFT;
        if !(self.first..self.first + BUCKETS as u64).contains(&tick) {
            return false;
        }
        self.buckets[tick as usize % BUCKETS].push(entry);
        self.len += 1;
        true
    }

    /// Whether entries at or before `at` may be in the wheel.
    #[inline]
    pub(super) fn may_precede(&self, at: Nanos) -> bool {
        self.len > 0 && self.first <= at.as_nanos() >> SHIFT
    }

    /// Moves the entries of the first tick to `to`, which is empty.
    pub(super) fn take_first(&mut self, to: &mut Vec<Entry>) {
        debug_assert!(to.is_empty());
        // Swapping reuses the memory of both vectors.
        std::mem::swap(&mut self.buckets[self.first as usize % BUCKETS], to);
        self.len -= to.len();
        self.first += 1;
    }
}
