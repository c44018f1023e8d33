//! The flow table: per-flow state of a router algorithm, bounded under any input.

use narrows_cc::Nanos;

/// No entry.
const NONE: u32 = u32::MAX;

#[derive(Clone, Debug)]
struct FlowEntry<T> {
    flow: u32,
    seen: Nanos,
    /// Neighbours in order of last use.
    older: u32,
    newer: u32,
    value: T,
}

/// A value for each of a limited number of flows, with constant average time per operation. When the table is full, a
/// new flow replaces the flow that has been silent for longest, if its silence exceeds the idle time; otherwise the new
/// flow is refused. A flood of new flows therefore evicts no active flow.
#[derive(Clone, Debug)]
pub struct FlowTable<T> {
    /// Positions of entries by hash, with linear probing; at least twice as many slots as entries.
    index: Vec<u32>,
    entries: Vec<FlowEntry<T>>,
    limit: usize,
    idle: Nanos,
    oldest: u32,
    newest: u32,
    evicted: u64,
    refused: u64,
}

impl<T> FlowTable<T> {
    /// An empty table for `limit` flows, evictable after a silence of `idle`.
    ///
    /// # Panics
    /// If the limit is zero or above 2^30.
    pub fn new(limit: usize, idle: Nanos) -> Self {
        assert!((1..=1 << 30).contains(&limit), "a table for {limit} flows; expected 1 to 2^30");
        Self {
            index: vec![NONE; (2 * limit).next_power_of_two()],
            entries: Vec::with_capacity(limit),
            limit,
            idle,
            oldest: NONE,
            newest: NONE,
            evicted: 0,
            refused: 0,
        }
    }

    /// Number of flows.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether the table is empty.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Number of flows evicted so far.
    pub fn evicted(&self) -> u64 {
        self.evicted
    }

    /// Number of flows refused so far.
    pub fn refused(&self) -> u64 {
        self.refused
    }

    /// Bytes of heap memory that the table owns.
    pub fn memory(&self) -> usize {
        self.index.capacity() * size_of::<u32>() + self.entries.capacity() * size_of::<FlowEntry<T>>()
    }

    /// Value of a flow; marks the flow as seen at `now`.
    #[inline]
    pub fn get(&mut self, now: Nanos, flow: u32) -> Option<&mut T> {
        let entry = self.index[self.slot(flow)];
        if entry == NONE {
            return None;
        }
        self.unlink(entry);
        self.link(entry);
        let entry = &mut self.entries[entry as usize];
        entry.seen = now;
        Some(&mut entry.value)
    }

    /// Value of a flow, without marking it as seen.
    #[inline]
    pub fn peek_mut(&mut self, flow: u32) -> Option<&mut T> {
        let entry = self.index[self.slot(flow)];
        self.entries.get_mut(entry as usize).map(|entry| &mut entry.value)
    }

    /// The flow that has been silent for longest, and the time of its last packet.
    pub fn oldest(&self) -> Option<(u32, Nanos)> {
        self.entries.get(self.oldest as usize).map(|entry| (entry.flow, entry.seen))
    }

    /// Adds a flow, or replaces the value of a known one; `None` if the table refuses the flow.
    pub fn insert(&mut self, now: Nanos, flow: u32, value: T) -> Option<&mut T> {
        if self.index[self.slot(flow)] == NONE {
            if self.entries.len() == self.limit {
                let oldest = &self.entries[self.oldest as usize];
                if now - oldest.seen < self.idle {
                    self.refused += 1;
                    return None;
                }
                let gone = oldest.flow;
                self.remove(gone);
                self.evicted += 1;
            }
            let slot = self.slot(flow);
            let entry = self.entries.len() as u32;
            self.index[slot] = entry;
            self.entries.push(FlowEntry { flow, seen: now, older: NONE, newer: NONE, value });
            self.link(entry);
            return self.entries.last_mut().map(|entry| &mut entry.value);
        }
        let known = self.get(now, flow)?;
        *known = value;
        Some(known)
    }

    /// Removes a flow.
    pub fn remove(&mut self, flow: u32) -> Option<T> {
        let slot = self.slot(flow);
        let entry = self.index[slot];
        if entry == NONE {
            return None;
        }
        self.unlink(entry);
        self.clear(slot);
        let last = self.entries.len() as u32 - 1;
        if entry != last {
            // The last entry moves into the gap.
            let moved = self.slot(self.entries[last as usize].flow);
            self.index[moved] = entry;
            let (older, newer) = (self.entries[last as usize].older, self.entries[last as usize].newer);
            *self.newer_of(older) = entry;
            *self.older_of(newer) = entry;
        }
        Some(self.entries.swap_remove(entry as usize).value)
    }

    /// All flows with their values, in an order that depends only on the call history.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = (u32, &mut T)> {
        self.entries.iter_mut().map(|entry| (entry.flow, &mut entry.value))
    }

    /// Fibonacci hashing (Knuth, volume 3, section 6.4).
    #[inline]
    fn home(&self, flow: u32) -> usize {
        let hash = u64::from(flow).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        hash as usize & (self.index.len() - 1)
    }

    /// Slot of the flow in the index, or the empty slot for it.
    #[inline]
    fn slot(&self, flow: u32) -> usize {
        let mut slot = self.home(flow);
        while self.index[slot] != NONE && self.entries[self.index[slot] as usize].flow != flow {
            slot = (slot + 1) & (self.index.len() - 1);
        }
        slot
    }

    /// Empties a slot of the index and moves up entries displaced by linear probing.
    fn clear(&mut self, mut gap: usize) {
        let mask = self.index.len() - 1;
        let mut slot = gap;
        loop {
            slot = (slot + 1) & mask;
            let entry = self.index[slot];
            if entry == NONE {
                break;
            }
            let home = self.home(self.entries[entry as usize].flow);
            // An entry may move to the gap unless its home slot lies after the gap.
            if (slot.wrapping_sub(home) & mask) >= (slot.wrapping_sub(gap) & mask) {
                self.index[gap] = entry;
                gap = slot;
            }
        }
        self.index[gap] = NONE;
    }

    fn newer_of(&mut self, entry: u32) -> &mut u32 {
        if entry == NONE { &mut self.oldest } else { &mut self.entries[entry as usize].newer }
    }

    fn older_of(&mut self, entry: u32) -> &mut u32 {
        if entry == NONE { &mut self.newest } else { &mut self.entries[entry as usize].older }
    }

    fn unlink(&mut self, entry: u32) {
        let (older, newer) = (self.entries[entry as usize].older, self.entries[entry as usize].newer);
        *self.newer_of(older) = newer;
        *self.older_of(newer) = older;
    }

    /// Makes an entry the newest.
    fn link(&mut self, entry: u32) {
        let before = self.newest;
        *self.newer_of(before) = entry;
        self.entries[entry as usize].older = before;
        self.entries[entry as usize].newer = NONE;
        self.newest = entry;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const IDLE: Nanos = Nanos::from_millis(50);

    /// Reference model: a list, newest last.
    #[derive(Default)]
    struct Model {
        flows: Vec<(u32, Nanos, u64)>,
        evicted: u64,
        refused: u64,
    }

    impl Model {
        fn remove(&mut self, flow: u32) -> Option<u64> {
            let at = self.flows.iter().position(|known| known.0 == flow)?;
            Some(self.flows.remove(at).2)
        }

        fn insert(&mut self, now: Nanos, flow: u32, value: u64, limit: usize) -> bool {
            if self.remove(flow).is_none() && self.flows.len() == limit {
                if now - self.flows[0].1 < IDLE {
                    self.refused += 1;
                    return false;
                }
                self.flows.remove(0);
                self.evicted += 1;
            }
            self.flows.push((flow, now, value));
            true
        }
    }

    proptest! {
        /// The table behaves as a list ordered by last use.
        #[test]
        fn table_matches_a_list_model(
            limit in 1usize..12,
            calls in prop::collection::vec((0u8..3, 0u32..24, 0u64..30), 1..400),
        ) {
            let (mut table, mut model) = (FlowTable::new(limit, IDLE), Model::default());
            let mut now = Nanos::ZERO;
            for (value, (call, flow, ms)) in calls.into_iter().enumerate() {
                now += Nanos::from_millis(ms);
                let value = value as u64;
                match call {
                    0 => prop_assert_eq!(table.insert(now, flow, value).is_some(), model.insert(now, flow, value, limit)),
                    1 => {
                        let known = model.remove(flow);
                        if let Some(value) = known {
                            model.flows.push((flow, now, value));
                        }
                        prop_assert_eq!(table.get(now, flow).copied(), known);
                    }
                    _ => prop_assert_eq!(table.remove(flow), model.remove(flow)),
                }
                prop_assert_eq!(table.len(), model.flows.len());
                prop_assert_eq!(table.oldest(), model.flows.first().map(|known| (known.0, known.1)));
                let peeked = model.flows.iter().find(|known| known.0 == flow).map(|known| known.2);
                prop_assert_eq!(table.peek_mut(flow).copied(), peeked);
                prop_assert_eq!((table.evicted(), table.refused()), (model.evicted, model.refused));
                let mut all: Vec<_> = table.iter_mut().map(|(flow, value)| (flow, *value)).collect();
                let mut expected: Vec<_> = model.flows.iter().map(|&(flow, _, value)| (flow, value)).collect();
                all.sort_unstable();
                expected.sort_unstable();
                prop_assert_eq!(all, expected);
            }
        }
    }

    /// A flood of new flows neither grows the table nor evicts active flows.
    #[test]
    fn flood_neither_grows_table_nor_evicts_active_flows() {
        let mut table = FlowTable::new(1000, IDLE);
        let memory = table.memory();
        let mut now = Nanos::ZERO;
        for flow in 0..500 {
            table.insert(now, flow, flow);
        }
        for flood in 1_000..1_000_000 {
            now += Nanos::from_micros(1);
            table.get(now, flood % 500).expect("an active flow");
            table.insert(now, flood, 0);
        }
        assert_eq!((table.len(), table.memory()), (1000, memory));
        assert!((0..500).all(|flow| table.get(now, flow).is_some()));
        // The flood fills the other 500 entries immediately and replaces these entries once per idle time of 50 ms: 20
        // times in 1 s.
        assert_eq!(table.evicted() + table.refused(), 999_000 - 500);
        assert!((9_000..=10_000).contains(&table.evicted()), "{}", table.evicted());
    }
}
