//! Datagrams that wait: to be sent, or to be read. Bounded, and without allocation once its buffers have been used.

use std::collections::VecDeque;

use super::config::Overflow;

/// A queue of datagrams.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Queue {
    items: VecDeque<Vec<u8>>,
    spare: Vec<Vec<u8>>,
    most: usize,
    overflow: Overflow,
    /// Datagrams that a full queue cost.
    pub(super) dropped: u64,
}

impl Queue {
    pub(super) fn new(most: usize, overflow: Overflow) -> Self {
        Self { items: VecDeque::new(), spare: Vec::new(), most: most.max(1), overflow, dropped: 0 }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    pub(super) fn len(&self) -> usize {
        self.items.len()
    }

    /// How many may wait.
    pub(super) fn limit(&self) -> usize {
        self.most
    }

    /// Whether one more fits without a loss.
    pub(super) fn has_room(&self) -> bool {
        self.items.len() < self.most
    }

    /// Whether more than half of it is taken.
    pub(super) fn is_filling(&self) -> bool {
        self.items.len() * 2 > self.most
    }

    /// Appends a copy; `false` if it is refused.
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

    /// Takes a buffer back for the next datagram.
    pub(super) fn recycle(&mut self, buffer: Vec<u8>) {
        if self.spare.len() < self.most {
            self.spare.push(buffer);
        }
    }

    pub(super) fn clear(&mut self) {
        self.items.clear();
        self.spare.clear();
    }

    /// Bytes of memory held.
    pub(super) fn memory(&self) -> usize {
        let bytes = |buffer: &Vec<u8>| buffer.capacity() + size_of::<Vec<u8>>();
        self.items.iter().map(bytes).sum::<usize>() + self.spare.iter().map(bytes).sum::<usize>()
    }
}
