//! Frames and their times in two parallel rings: a frame of one cache line and its time take 72 bytes. As a pair in one
//! ring they would be padded to 128 bytes.

use narrows_units::Nanos;

use crate::{Frame, Ring};

#[derive(Clone, Debug)]
pub(crate) struct TimedRing<F> {
    times: Ring<Nanos>,
    frames: Ring<F>,
}

impl<F> Default for TimedRing<F> {
    fn default() -> Self {
        Self { times: Ring::default(), frames: Ring::default() }
    }
}

impl<F: Frame> TimedRing<F> {
    #[inline]
    pub(crate) const fn len(&self) -> usize {
        self.times.len()
    }

    #[inline]
    pub(crate) const fn is_empty(&self) -> bool {
        self.times.is_empty()
    }

    /// Time of the first frame.
    #[inline]
    pub(crate) fn first_time(&self) -> Option<Nanos> {
        self.times.front().copied()
    }

    /// Drops the first frame.
    #[inline]
    pub(crate) fn advance(&mut self) {
        self.times.advance();
        self.frames.advance();
    }

    /// Prefetches the frame behind `ahead` other frames.
    #[inline]
    pub(crate) fn prefetch(&self, ahead: usize) {
        self.times.prefetch(ahead);
        self.frames.prefetch(ahead);
    }

    /// The frame behind `ahead` other frames.
    #[inline]
    pub(crate) fn peek(&self, ahead: usize) -> Option<&F> {
        self.frames.get(ahead)
    }

    #[inline]
    pub(crate) fn push(&mut self, at: Nanos, frame: &F) {
        self.times.push_back(at);
        self.frames.push_back(*frame);
    }

    /// Inserts a frame in time order, after frames of equal time, searching from the back. Returns the position of the
    /// frame.
    #[inline]
    pub(crate) fn insert(&mut self, at: Nanos, frame: &F) -> usize {
        let mut position = self.len();
        while position > 0 && self.times.get(position - 1).is_some_and(|&before| before > at) {
            position -= 1;
        }
        if position == self.len() {
            self.push(at, frame);
        } else {
            self.times.insert(position, at);
            self.frames.insert(position, *frame);
        }
        position
    }

    #[inline]
    pub(crate) fn pop(&mut self) -> Option<(Nanos, F)> {
        Some((self.times.pop_front()?, self.frames.pop_front()?))
    }

    /// Bytes of allocated memory.
    pub(crate) fn memory(&self) -> usize {
        self.times.memory() + self.frames.memory()
    }
}
