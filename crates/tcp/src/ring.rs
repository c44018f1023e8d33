//! A queue in a power-of-two buffer with stable item numbers.

/// A growing ring. Items are numbered modulo 2^32 as they are pushed. A number stays valid until its item is
/// popped, even when the buffer grows.
#[derive(Clone, Debug)]
pub(crate) struct Ring<T> {
    slots: Vec<T>,
    first: u32,
    len: u32,
}

/// Slots of the first allocation; an unused ring allocates nothing.
const LEAST_SLOTS: usize = 8;

impl<T: Copy + Default> Ring<T> {
    pub(crate) const fn new() -> Self {
        Self { slots: Vec::new(), first: 0, len: 0 }
    }

    /// Bytes of memory held.
    pub(crate) fn memory(&self) -> usize {
        self.slots.capacity() * size_of::<T>()
    }

    #[inline]
    pub(crate) fn len(&self) -> u32 {
        self.len
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The number of the oldest item, or of the next one if there is none.
    #[inline]
    pub(crate) fn first(&self) -> u32 {
        self.first
    }

    /// The number the next item will get.
    #[inline]
    pub(crate) fn end(&self) -> u32 {
        self.first.wrapping_add(self.len)
    }

    #[inline]
    fn slot(&self, id: u32) -> usize {
        id as usize & (self.slots.len().wrapping_sub(1))
    }

    /// The item with number `id`, which must be in the ring.
    #[inline]
    pub(crate) fn get(&self, id: u32) -> &T {
        debug_assert!(id.wrapping_sub(self.first) < self.len, "item {id} is not in the ring");
        &self.slots[self.slot(id)]
    }

    /// Mutable [`Ring::get`].
    #[inline]
    pub(crate) fn get_mut(&mut self, id: u32) -> &mut T {
        debug_assert!(id.wrapping_sub(self.first) < self.len, "item {id} is not in the ring");
        let slot = self.slot(id);
        &mut self.slots[slot]
    }

    /// Appends an item and returns its number.
    #[inline]
    pub(crate) fn push(&mut self, item: T) -> u32 {
        if self.len as usize == self.slots.len() {
            self.grow();
        }
        let id = self.end();
        let slot = self.slot(id);
        self.slots[slot] = item;
        self.len += 1;
        id
    }

    /// Removes the oldest item.
    #[inline]
    pub(crate) fn pop(&mut self) {
        debug_assert!(self.len > 0);
        self.first = self.first.wrapping_add(1);
        self.len -= 1;
    }

    #[cold]
    fn grow(&mut self) {
        let slots = (self.slots.len() * 2).max(LEAST_SLOTS);
        let mut grown = vec![T::default(); slots];
        for i in 0..self.len {
            let id = self.first.wrapping_add(i);
            grown[id as usize & (slots - 1)] = self.slots[self.slot(id)];
        }
        self.slots = grown;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_survive_growth_and_wrap_around() {
        let mut ring = Ring::new();
        ring.first = u32::MAX - 20;
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
}
