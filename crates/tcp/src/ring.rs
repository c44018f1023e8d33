//! A queue in a ring buffer whose size is a power of two, with stable item numbers.

/// A ring that grows and shrinks. Items are numbered modulo 2^32 as they are pushed. A number stays valid until its
/// item is popped, even when the ring changes size.
///
/// Items cycle through the slots in use. A ring with few items uses only the first slots of its memory, so that the
/// used memory of thousands of rings fits in the caches. Shrinking does not free memory.
#[derive(Clone, Debug, Default)]
pub(crate) struct Ring<T> {
    memory: Box<[T]>,
    first: u32,
    len: u32,
    /// Number of slots in use (a power of two) minus one; meaningless without memory.
    mask: u32,
}

/// Minimum number of slots in use; an unused ring allocates nothing.
const LEAST_SLOTS: usize = 4;

impl<T: Copy + Default> Ring<T> {
    /// Bytes of allocated memory.
    pub(crate) fn memory(&self) -> usize {
        self.memory.len() * size_of::<T>()
    }

    #[inline]
    pub(crate) fn len(&self) -> u32 {
        self.len
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The number of the oldest item; if the ring is empty, the number of the next item.
    #[inline]
    pub(crate) fn first(&self) -> u32 {
        self.first
    }

    /// The number that the next item will get.
    #[inline]
    pub(crate) fn end(&self) -> u32 {
        self.first.wrapping_add(self.len)
    }

    #[inline]
    fn slot(&self, id: u32) -> usize {
        (id & self.mask) as usize
    }

    /// The item with number `id`, which must be in the ring.
    #[inline]
    pub(crate) fn get(&self, id: u32) -> &T {
        debug_assert!(id.wrapping_sub(self.first) < self.len, "item {id} is not in the ring");
        &self.memory[self.slot(id)]
    }

    /// Like [`Ring::get`], mutable.
    #[inline]
    pub(crate) fn get_mut(&mut self, id: u32) -> &mut T {
        debug_assert!(id.wrapping_sub(self.first) < self.len, "item {id} is not in the ring");
        let slot = self.slot(id);
        &mut self.memory[slot]
    }

    /// Prefetches the slot of number `id`.
    #[inline]
    pub(crate) fn prefetch(&self, id: u32) {
        if let Some(slot) = self.memory.get(self.slot(id)) {
            narrows_units::prefetch(slot, 2);
        }
    }

    /// Appends an item and returns its number.
    #[inline]
    pub(crate) fn push(&mut self, item: T) -> u32 {
        if self.len > self.mask || self.memory.is_empty() {
            self.grow();
        }
        let id = self.end();
        let slot = self.slot(id);
        self.memory[slot] = item;
        self.len += 1;
        id
    }

    /// Removes the oldest item.
    #[inline]
    pub(crate) fn pop(&mut self) {
        debug_assert!(self.len > 0);
        self.first = self.first.wrapping_add(1);
        self.len -= 1;
        if self.len < self.mask >> 2 && self.mask >= LEAST_SLOTS as u32 {
            self.shrink();
        }
    }

    /// Doubles the slots in use.
    #[cold]
    fn grow(&mut self) {
        let before = if self.memory.is_empty() { 0 } else { self.mask as usize + 1 };
        let slots = (before * 2).max(LEAST_SLOTS);
        if slots > self.memory.len() {
            let mut memory = vec![T::default(); slots].into_boxed_slice();
            memory[..before].copy_from_slice(&self.memory[..before]);
            self.memory = memory;
        }
        self.resize(slots);
    }

    /// Halves the slots in use.
    #[cold]
    fn shrink(&mut self) {
        self.resize((self.mask as usize).div_ceil(2));
    }

    /// Moves each item to its slot after doubling or halving the number of slots; no two items share a slot.
    fn resize(&mut self, slots: usize) {
        let before = self.mask;
        self.mask = (slots - 1) as u32;
        for i in 0..self.len {
            let id = self.first.wrapping_add(i);
            let (from, to) = ((id & before) as usize, self.slot(id));
            if from != to {
                self.memory[to] = self.memory[from];
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_survive_growth_and_wrap_around() {
        let mut ring = Ring { first: u32::MAX - 20, ..Ring::default() };
        for i in 0..100u64 {
            ring.push(i);
            if i % 3 == 0 {
                ring.pop();
            }
        }
        assert_eq!(ring.len(), 66);
        for i in 34..100 {
            assert_eq!(*ring.get((u32::MAX - 20).wrapping_add(i)), u64::from(i));
        }
        assert_eq!(ring.end(), 79);
    }

    /// A ring with few items uses few slots, even if it used many before, and does not allocate to use many again.
    #[test]
    fn ring_with_few_items_uses_few_slots() {
        let mut ring = Ring { first: u32::MAX - 100, ..Ring::default() };
        let mut pushed = 0..;
        for most in [1_000, 20, 300] {
            while ring.len() < most {
                ring.push(pushed.next().expect("endless"));
            }
            while ring.len() > most / 10 {
                assert_eq!(*ring.get(ring.first()), u64::from(ring.first().wrapping_sub(u32::MAX - 100)));
                ring.pop();
            }
            assert!(ring.mask < (4 * (most / 10)).next_power_of_two().max(LEAST_SLOTS as u32));
            assert_eq!(ring.memory(), 1_024 * size_of::<u64>());
        }
    }
}
