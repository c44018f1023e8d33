//! The event queue: one pending time per event source, in a four-ary heap. The times of the first sources may instead
//! be in a list.
//!
//! A source is the head of a delay line, the service of a link, or the timer of an endpoint. Each has at most
//! one pending time. Postponing a time (as every acknowledgement does with a retransmission timer) is free, because the
//! heap entry is re-keyed only when it reaches the top. Events at equal times pop in the order of source numbers, so
//! the order does not depend on history.
//!
//! The first sources are delay lines, to which nearly all events belong. If there are few delay lines, their times are
//! in a list that each [`EventQueue::pop`] searches: this costs less than moving them through a heap of timers.
//!
//! With many sources most entries wait in a [`Wheel`] until they are due.

mod wheel;

use narrows_cc::Nanos;

use wheel::Wheel;

/// Number of an event source.
pub type SourceId = u32;

/// Time (upper 64 bits) and source in one number, so that one comparison orders two entries.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Entry(u128);

impl Entry {
    #[inline]
    fn new(at: Nanos, source: SourceId) -> Self {
        Self(u128::from(at.as_nanos()) << 64 | u128::from(source))
    }

    #[inline]
    fn at(self) -> Nanos {
        Nanos::from_nanos((self.0 >> 64) as u64)
    }

    #[inline]
    fn source(self) -> SourceId {
        self.0 as SourceId
    }
}

#[derive(Clone, Copy, Debug)]
struct Slot {
    /// Pending time of the source; `MAX` if idle.
    due: Nanos,
    /// Time of the source's valid entry in the heap or the wheel; `MAX` if it has none. Its other entries are stale.
    entry: Nanos,
}

/// Pending times of a fixed number of sources.
#[derive(Debug)]
pub struct EventQueue {
    /// Times of the first sources, by number; empty if there are more than [`MOST_LISTED`].
    listed: Vec<Nanos>,
    heap: Vec<Entry>,
    wheel: Wheel,
    /// Entries that leave the wheel during a call; empty between calls.
    leaving: Vec<Entry>,
    slots: Vec<Slot>,
    /// Time of the last event.
    now: Nanos,
    /// Whether the top entry was popped but is still in the heap; the next call replaces or removes this entry.
    hole: bool,
}

const ARITY: usize = 4;
/// Prefetch distance in entries that leave the wheel.
const NEXT: usize = 8;
/// Maximum number of sources in the list.
const MOST_LISTED: usize = 8;
/// Number of sources from which the wheel is used: a smaller heap fits in the caches closest to the core.
const MANY: usize = 4096;

impl EventQueue {
    /// A queue for sources `0..sources`, all idle. Most events belong to the first `frequent` sources.
    pub fn new(sources: usize, frequent: usize) -> Self {
        Self::of_size(sources, frequent, sources >= MANY)
    }

    fn of_size(sources: usize, frequent: usize, many: bool) -> Self {
        let listed = if frequent <= MOST_LISTED { frequent } else { 0 };
        Self {
            listed: vec![Nanos::MAX; listed],
            heap: Vec::with_capacity(if many { 0 } else { sources + 16 }),
            wheel: Wheel::new(many),
            leaving: Vec::new(),
            now: Nanos::ZERO,
            slots: vec![Slot { due: Nanos::MAX, entry: Nanos::MAX }; sources],
            hole: false,
        }
    }

    /// Prefetches the slot of a source.
    #[inline]
    pub fn prefetch(&self, source: SourceId) {
        narrows_units::prefetch(&self.slots[source as usize], 1);
    }

    /// Sets the pending time of a source; [`Nanos::MAX`] removes it.
    #[inline]
    pub fn schedule(&mut self, source: SourceId, at: Nanos) {
        if let Some(listed) = self.listed.get_mut(source as usize) {
            *listed = at;
            return;
        }
        let slot = &mut self.slots[source as usize];
        slot.due = at;
        if at >= slot.entry {
            return; // the entry is re-keyed when it reaches the top; also covers `MAX`
        }
        slot.entry = at;
        let entry = Entry::new(at, source);
        if self.wheel.add(entry, self.now) {
            return;
        }
        self.insert(entry);
    }

    /// Adds an entry to the heap.
    #[inline]
    fn insert(&mut self, entry: Entry) {
        if self.hole && self.heap[0].source() == entry.source() {
            self.hole = false;
            self.heap[0] = entry;
            self.sift_down();
        } else {
            self.heap.push(entry);
            self.sift_up();
        }
    }

    /// Removes the earliest source and returns its time and number; `None` if nothing is pending.
    #[inline]
    pub fn pop(&mut self) -> Option<(Nanos, SourceId)> {
        if self.hole {
            self.hole = false;
            self.remove_top();
        }
        let listed = self.first_listed();
        loop {
            // A valid heap entry is never later than the pending time of its source. At equal times, listed sources
            // come first.
            let (at, top) = match (self.heap.first(), listed) {
                (Some(&top), Some((at, _))) if top.at() < at => (top.at(), Some(top)),
                (Some(&top), None) => (top.at(), Some(top)),
                (_, Some((at, _))) => (at, None),
                (None, None) => (Nanos::MAX, None),
            };
            if self.wheel.may_precede(at) {
                self.turn();
                continue;
            }
            let Some(top) = top else {
                let (at, source) = listed?;
                self.listed[source as usize] = Nanos::MAX;
                self.now = at;
                return Some((at, source));
            };
            let source = top.source();
            let slot = &mut self.slots[source as usize];
            if slot.entry != at {
                self.remove_top();
            } else if slot.due > at {
                slot.entry = slot.due;
                let entry = Entry::new(slot.due, source);
                if slot.due == Nanos::MAX || self.wheel.add(entry, self.now) {
                    self.remove_top();
                } else {
                    self.heap[0] = entry;
                    self.sift_down();
                }
            } else {
                *slot = Slot { due: Nanos::MAX, entry: Nanos::MAX };
                self.hole = true;
                self.now = at;
                return Some((at, source));
            }
        }
    }

    /// Advances the wheel by one tick: entries of postponed sources return to the wheel, others enter the heap.
    #[cold]
    #[inline(never)]
    fn turn(&mut self) {
        let mut leaving = std::mem::take(&mut self.leaving);
        self.wheel.take_first(&mut leaving);
        for (i, &entry) in leaving.iter().enumerate() {
            if let Some(next) = leaving.get(i + NEXT) {
                self.prefetch(next.source());
            }
            let (at, source) = (entry.at(), entry.source());
            let slot = &mut self.slots[source as usize];
            if slot.entry != at {
                continue;
            }
            slot.entry = slot.due;
            let entry = Entry::new(slot.due, source);
            if slot.due < Nanos::MAX && !self.wheel.add(entry, self.now) {
                self.insert(entry);
            }
        }
        leaving.clear();
        self.leaving = leaving;
    }

    /// The earliest listed source; at equal times, the one with the lowest number.
    #[inline]
    fn first_listed(&self) -> Option<(Nanos, SourceId)> {
        let mut first = (Nanos::MAX, 0);
        for (source, &at) in (0..).zip(&self.listed) {
            if at < first.0 {
                first = (at, source);
            }
        }
        (first.0 < Nanos::MAX).then_some(first)
    }

    fn remove_top(&mut self) {
        self.heap.swap_remove(0);
        if !self.heap.is_empty() {
            self.sift_down();
        }
    }

    #[inline]
    fn sift_up(&mut self) {
        let mut i = self.heap.len() - 1;
        let entry = self.heap[i];
        while i > 0 {
            let parent = (i - 1) / ARITY;
            // A hole stays at the top: an entry with an equal time and a lower source number must not rise above it.
            if self.heap[parent] <= entry || (self.hole && parent == 0) {
                break;
            }
            self.heap[i] = self.heap[parent];
            i = parent;
        }
        self.heap[i] = entry;
    }

    #[inline]
    fn sift_down(&mut self) {
        let heap = self.heap.as_mut_slice();
        let entry = heap[0];
        let mut i = 0;
        while let Some((least, child)) = least_child(heap, i) {
            if entry <= child {
                break;
            }
            heap[i] = child;
            i = least;
        }
        heap[i] = entry;
    }
}

/// Position and value of the least child of the entry at `i`; `None` without a child.
#[inline]
fn least_child(heap: &[Entry], i: usize) -> Option<(usize, Entry)> {
    let first = i * ARITY + 1;
    let children = heap.get(first..)?;
    let less = |a: (usize, Entry), b: (usize, Entry)| if b.1 < a.1 { b } else { a };
    if let Some(&[a, b, c, d]) = children.first_chunk::<ARITY>() {
        // Two independent comparisons and a third, without a branch, because a processor cannot predict the least
        // child.
        return Some(less(less((first, a), (first + 1, b)), less((first + 2, c), (first + 3, d))));
    }
    children.iter().enumerate().map(|(k, &child)| (first + k, child)).reduce(less)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn ms(n: u64) -> Nanos {
        Nanos::from_millis(n)
    }

    /// Events at equal times pop in the order of their sources.
    #[test]
    fn event_queue_equal_times_pop_in_source_order() {
        let mut queue = EventQueue::new(3, 0);
        for source in [2, 0, 1] {
            queue.schedule(source, ms(5));
        }
        let order: Vec<_> = std::iter::from_fn(|| queue.pop()).map(|(_, source)| source).collect();
        assert_eq!(order, [0, 1, 2]);
    }

    /// A source that was rescheduled or removed does not pop at its old time.
    #[test]
    fn event_queue_rescheduled_source_pops_at_new_time() {
        let mut queue = EventQueue::new(2, 0);
        queue.schedule(0, ms(1));
        queue.schedule(1, ms(2));
        queue.schedule(0, ms(3));
        queue.schedule(1, Nanos::MAX);
        assert_eq!(queue.pop(), Some((ms(3), 0)));
        assert_eq!(queue.pop(), None);
    }

    proptest! {
        /// The queue pops the same events as a model that keeps one time per source in a list, whether times lie
        /// within one tick of the wheel or beyond its end.
        #[test]
        fn event_queue_matches_list_model(
            frequent in 0usize..12,
            many: bool,
            shift in 0u32..24,
            ops in prop::collection::vec((0u32..12, 0u64..60, any::<bool>()), 1..400),
        ) {
            let mut queue = EventQueue::of_size(12, frequent, many);
            let mut model = [Nanos::MAX; 12];
            let mut now = 0;
            for (source, ahead, pop) in ops {
                if pop {
                    let least = (0..12u32).map(|s| (model[s as usize], s)).min().unwrap();
                    let expected = (least.0 != Nanos::MAX).then_some(least);
                    prop_assert_eq!(queue.pop(), expected);
                    if let Some((at, s)) = expected {
                        now = at.as_nanos();
                        model[s as usize] = Nanos::MAX;
                    }
                } else {
                    let at = if ahead == 59 { Nanos::MAX } else { Nanos::from_nanos(now + (ahead << shift)) };
                    queue.schedule(source, at);
                    model[source as usize] = at;
                }
            }
        }
    }
}
