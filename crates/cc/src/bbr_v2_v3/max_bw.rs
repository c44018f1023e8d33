//! The maximum delivery rate of the current and the previous ProbeBW cycle.

use crate::Rate;

/// A maximum over two slots, one per cycle (section 5.5.6 of the draft: one bit of virtual time).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MaxBw {
    previous: Rate,
    current: Rate,
}

impl MaxBw {
    /// The maximum of both slots.
    #[inline]
    pub fn get(&self) -> Rate {
        self.previous.max(self.current)
    }

    /// Feeds a sample of the current cycle.
    #[inline]
    pub fn update(&mut self, rate: Rate) {
        self.current = self.current.max(rate);
    }

    /// Begins a new cycle and drops the maximum of the older slot. Does nothing if the current cycle has no sample.
    pub fn advance(&mut self) {
        if !self.current.is_zero() {
            *self = Self { previous: self.current, current: Rate::ZERO };
        }
    }
}
