//! Position in a round robin among classes.

/// A set of class numbers from 0 to 63, and the current position in the round robin among them.
#[derive(Clone, Copy, Debug)]
pub(super) struct Turn {
    members: u64,
    /// Position in the round: the first member at or after this number has the turn.
    at: u8,
}

impl Turn {
    pub(super) const EMPTY: Self = Self { members: 0, at: 0 };

    pub(super) const fn is_empty(&self) -> bool {
        self.members == 0
    }

    pub(super) const fn insert(&mut self, class: usize) {
        self.members |= 1 << class;
    }

    pub(super) const fn remove(&mut self, class: usize) {
        self.members &= !(1 << class);
    }

    /// The member with the turn; `None` at the end of the round.
    #[inline]
    pub(super) fn next(&mut self) -> Option<usize> {
        let rest = self.members.checked_shr(u32::from(self.at)).unwrap_or(0);
        if rest == 0 {
            return None;
        }
        self.at += rest.trailing_zeros() as u8;
        Some(usize::from(self.at))
    }

    /// The member with the turn in this round or, at the end of the round, the first member of the next round. The set
    /// must not be empty.
    #[inline]
    pub(super) fn next_or_first(&mut self) -> usize {
        self.next().unwrap_or_else(|| {
            self.at = self.members.trailing_zeros() as u8;
            usize::from(self.at)
        })
    }

    /// Passes the turn to the class after `class`.
    pub(super) const fn pass(&mut self, class: usize) {
        self.at = class as u8 + 1;
    }

    /// Passes the turn on if the removed class had the turn.
    pub(super) const fn leave(&mut self, class: usize) {
        if self.at as usize == class {
            self.pass(class);
        }
    }

    /// Begins the next round.
    pub(super) const fn rewind(&mut self) {
        self.at = 0;
    }
}
