//! Bounded queues of datagrams to send or to read. They reuse buffers instead of allocating.

use std::collections::VecDeque;

use super::config::Overflow;

/// A FIFO of datagrams.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Queue {
    items: VecDeque<Vec<u8>>,
    spare: Vec<Vec<u8>>,
    limit: usize,
    overflow: Overflow,
    /// Datagrams dropped by overflow.
    pub(super) dropped: u64,
}

impl Queue {
    pub(super) fn new(limit: usize, overflow: Overflow) -> Self {
        Self { items: VecDeque::new(), spare: Vec::new(), limit: limit.max(1), overflow, dropped: 0 }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    pub(super) fn len(&self) -> usize {
        self.items.len()
    }

    /// Capacity in datagrams.
    pub(super) fn limit(&self) -> usize {
        self.limit
    }

    /// Whether a datagram fits without a drop.
    pub(super) fn has_room(&self) -> bool {
        self.items.len() < self.limit
    }

    /// Whether the queue is more than half full.
    pub(super) fn is_filling(&self) -> bool {
        self.items.len() * 2 > self.limit
    }

    /// Appends a copy; `false` if the queue rejects it.
    pub(super) fn push(&mut self, data: &[u8]) -> bool {
        if !self.has_room() {
            self.dropped += 1;
            if self.overflow == Overflow::DropNewest {
                return false;
            }
            let oldest = self.items.pop_front();
            self.recycle(oldest.unwrap_or_default());
        }
        let mut buffer = self.spare.pop().unwrap_or_default();
        buffer.clear();
        buffer.extend_from_slice(data);
        self.items.push_back(buffer);
        true
    }

    pub(super) fn front(&self) -> Option<&Vec<u8>> {
        self.items.front()
    }

    pub(super) fn pop(&mut self) -> Option<Vec<u8>> {
        self.items.pop_front()
    }

    /// Takes back a buffer for reuse.
    pub(super) fn recycle(&mut self, buffer: Vec<u8>) {
        if self.spare.len() < self.limit {
            self.spare.push(buffer);
        }
    }

    pub(super) fn clear(&mut self) {
        self.items.clear();
        self.spare.clear();
    }

    /// Heap memory in bytes.
    pub(super) fn memory(&self) -> usize {
        let bytes = |buffer: &Vec<u8>| buffer.capacity() + size_of::<Vec<u8>>();
        self.items.iter().map(bytes).sum::<usize>() + self.spare.iter().map(bytes).sum::<usize>()
    }
}
