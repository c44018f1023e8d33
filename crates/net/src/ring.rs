//! A FIFO of plain values in a power-of-two buffer that doubles when full and never shrinks.

/// A first-in, first-out buffer. A new ring owns no memory.
#[derive(Clone, Debug)]
pub struct Ring<T> {
    slots: Box<[T]>,
    head: u32,
    len: u32,
}

const FIRST_CAPACITY: usize = 4;

impl<T> Default for Ring<T> {
    fn default() -> Self {
        Self { slots: Box::default(), head: 0, len: 0 }
    }
}

impl<T: Copy> Ring<T> {
    /// Creates an empty ring.
    pub fn new() -> Self {
        Self::default()
    }

    /// Number of values.
    #[inline]
    pub const fn len(&self) -> usize {
        self.len as usize
    }

    /// Whether the ring is empty.
    #[inline]
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Slot of the value at `position` from the front. In a ring without slots the mask wraps to all ones, but in such
    /// a ring no position is valid.
    #[inline]
    const fn slot(&self, position: u32) -> usize {
        self.head.wrapping_add(position) as usize & self.slots.len().wrapping_sub(1)
    }

    /// The value at `position` from the front.
    #[inline]
    pub fn get(&self, position: usize) -> Option<&T> {
        if position < self.len() { self.slots.get(self.slot(position as u32)) } else { None }
    }

    /// The oldest value.
    #[inline]
    pub fn front(&self) -> Option<&T> {
        self.get(0)
    }

    /// The newest value.
    #[inline]
    pub fn back(&self) -> Option<&T> {
        self.get(self.len().wrapping_sub(1))
    }

    /// Appends a value.
    #[inline]
    pub fn push_back(&mut self, value: T) {
        if self.len() == self.slots.len() {
            self.grow(value);
        }
        let slot = self.slot(self.len);
        self.slots[slot] = value;
        self.len += 1;
    }

    /// Removes the oldest value.
    #[inline]
    pub fn pop_front(&mut self) -> Option<T> {
        if self.len == 0 {
            return None;
        }
        let value = self.slots[self.slot(0)];
        self.head = self.slot(1) as u32;
        self.len -= 1;
        Some(value)
    }

    /// Drops the oldest value, if any.
    #[inline]
    pub fn advance(&mut self) {
        if self.len > 0 {
            self.head = self.slot(1) as u32;
            self.len -= 1;
        }
    }

    /// Prefetches the slot at `position` from the front, whether or not the slot holds a value.
    #[inline]
    pub fn prefetch(&self, position: usize) {
        if let Some(slot) = self.slots.get(self.slot(position as u32)) {
            narrows_units::prefetch(slot, size_of::<T>().div_ceil(64));
        }
    }

    /// Inserts a value at `position` from the front; later values move back by one.
    ///
    /// # Panics
    /// If `position` is beyond the end.
    pub fn insert(&mut self, position: usize, value: T) {
        assert!(position <= self.len(), "position {position} of {}", self.len);
        self.push_back(value);
        for at in (position + 1..self.len()).rev() {
            let (to, from) = (self.slot(at as u32), self.slot(at as u32 - 1));
            self.slots[to] = self.slots[from];
        }
        let slot = self.slot(position as u32);
        self.slots[slot] = value;
    }

    /// Removes all values and keeps the allocated memory.
    pub fn clear(&mut self) {
        self.head = 0;
        self.len = 0;
    }

    /// Returns an iterator over all values, the oldest first.
    pub fn iter(&self) -> impl Iterator<Item = &T> + '_ {
        (0..self.len()).filter_map(|position| self.get(position))
    }

    /// Bytes of allocated memory.
    pub fn memory(&self) -> usize {
        size_of_val(&*self.slots)
    }

    #[cold]
    #[inline(never)]
    fn grow(&mut self, filler: T) {
        let capacity = (self.slots.len() * 2).max(FIRST_CAPACITY);
        let mut slots = Vec::with_capacity(capacity);
        slots.extend(self.iter());
        slots.resize(capacity, filler);
        self.slots = slots.into_boxed_slice();
        self.head = 0;
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use proptest::prelude::*;

    use super::*;

    /// An empty ring owns no memory; the capacity of a ring starts at four and doubles.
    #[test]
    fn empty_ring_owns_no_memory_and_grows_from_four() {
        let mut ring = Ring::<u64>::new();
        assert_eq!(ring.memory(), 0);
        assert_eq!((ring.front(), ring.back()), (None, None));
        assert_eq!(ring.pop_front(), None);
        ring.push_back(1);
        assert_eq!(ring.memory(), 4 * 8);
        (2..=5).for_each(|n| ring.push_back(n));
        assert_eq!(ring.memory(), 8 * 8);
    }

    proptest! {
        /// A ring behaves as a `VecDeque`.
        #[test]
        fn ring_behaves_as_a_deque(operations in prop::collection::vec((0..4u8, any::<u32>()), 0..400)) {
            let (mut ring, mut model) = (Ring::new(), VecDeque::new());
            for (operation, value) in operations {
                match operation {
                    0 => prop_assert_eq!(ring.pop_front(), model.pop_front()),
                    1 => {
                        let position = value as usize % (model.len() + 1);
                        ring.insert(position, value);
                        model.insert(position, value);
                    }
                    _ => {
                        ring.push_back(value);
                        model.push_back(value);
                    }
                }
                prop_assert!(ring.iter().eq(model.iter()));
                prop_assert_eq!(ring.front(), model.front());
                prop_assert_eq!(ring.back(), model.back());
            }
        }
    }
}
