//! 48-bit sequence numbers, modulo 2^48 (RFC 4340 section 3.1).

use std::fmt;

/// A sequence number. Every packet consumes a sequence number, acknowledgements included.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Seq(u64);

/// Size of the number space.
const MODULUS: u64 = 1 << 48;

impl Seq {
    /// `value` modulo 2^48.
    #[inline]
    pub const fn new(value: u64) -> Self {
        Self(value % MODULUS)
    }

    /// The value, below 2^48.
    #[inline]
    pub const fn get(self) -> u64 {
        self.0
    }

    /// This number plus `n`, modulo 2^48.
    #[inline]
    #[must_use]
    pub const fn add(self, n: i64) -> Self {
        Self(self.0.wrapping_add_signed(n) % MODULUS)
    }

    /// Circular distance from `other` to this number: −2^47 to 2^47 − 1.
    #[inline]
    pub const fn minus(self, other: Self) -> i64 {
        let distance = self.0.wrapping_sub(other.0) % MODULUS;
        if distance < MODULUS / 2 { distance as i64 } else { distance as i64 - MODULUS as i64 }
    }

    /// Whether this number follows `other` in circular order.
    #[inline]
    pub const fn after(self, other: Self) -> bool {
        self.minus(other) > 0
    }

    /// Whether this number lies in the circular range from `first` to `last`, inclusive.
    #[inline]
    pub const fn within(self, first: Self, last: Self) -> bool {
        self.0.wrapping_sub(first.0) % MODULUS <= last.0.wrapping_sub(first.0) % MODULUS
    }

    /// Extends a 24-bit number to the 48-bit number nearest to `reference` (RFC 4340 section 7.6).
    #[inline]
    pub const fn extend(low: u32, reference: Self) -> Self {
        const LOW: u64 = 1 << 24;
        let distance = (low as u64).wrapping_sub(reference.0) % LOW;
        let distance = if distance < LOW / 2 { distance as i64 } else { distance as i64 - LOW as i64 };
        reference.add(distance)
    }
}

impl fmt::Debug for Seq {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "#{}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Arithmetic and comparison of sequence numbers wrap at 2^48.
    #[test]
    fn seq_at_2_48_wraps() {
        let last = Seq::new(MODULUS - 1);
        assert_eq!(last.add(1), Seq::new(0));
        assert_eq!(Seq::new(0).add(-1), last);
        assert_eq!((Seq::new(3).minus(last), last.minus(Seq::new(3))), (4, -4));
        assert!(Seq::new(0).after(last) && !last.after(Seq::new(0)));
        assert!(Seq::new(1).within(last, Seq::new(2)) && !Seq::new(3).within(last, Seq::new(2)));
        assert!(last.within(last, last));
    }

    /// A short number extends to the 48-bit number nearest to the reference.
    #[test]
    fn seq_extend_returns_nearest_number() {
        let reference = Seq::new((5 << 24) + 10);
        assert_eq!(Seq::extend(12, reference), Seq::new((5 << 24) + 12));
        assert_eq!(Seq::extend(0x00ff_fff0, reference), Seq::new((4 << 24) + 0x00ff_fff0));
        assert_eq!(Seq::extend(5, Seq::new(MODULUS - 3)), Seq::new(5));
    }
}
