//! Quantities as types. The unit stands in constructors and accessors; a bare number never crosses an interface.

use core::fmt;
use core::iter::Sum;
use core::ops::{Add, AddAssign, Div, Mul, Sub, SubAssign};

const NANOS_PER_SEC: u64 = 1_000_000_000;

/// `a * b / c`, exact also where the product needs more than 64 bits; saturates at `u64::MAX`.
#[inline]
const fn mul_div(a: u64, b: u64, c: u64) -> u64 {
    match a.checked_mul(b) {
        Some(product) => product / c,
        None => {
            let wide = a as u128 * b as u128 / c as u128;
            if wide > u64::MAX as u128 { u64::MAX } else { wide as u64 }
        }
    }
}

/// A point in time since the start of the run, or the length of an interval, in nanoseconds.
///
/// Subtraction saturates at zero: an interval is never negative.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Hash)]
pub struct Nanos(u64);

/// An amount of data in bytes. Subtraction saturates at zero.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Hash)]
pub struct Bytes(u64);

/// A rate in bytes per second.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Hash)]
pub struct Rate(u64);

impl Nanos {
    /// No time.
    pub const ZERO: Self = Self(0);
    /// Later than everything: 'never' for a deadline.
    pub const MAX: Self = Self(u64::MAX);

    /// From nanoseconds.
    pub const fn from_nanos(n: u64) -> Self {
        Self(n)
    }
    /// From microseconds.
    pub const fn from_micros(n: u64) -> Self {
        Self(n * 1_000)
    }
    /// From milliseconds.
    pub const fn from_millis(n: u64) -> Self {
        Self(n * 1_000_000)
    }
    /// From seconds.
    pub const fn from_secs(n: u64) -> Self {
        Self(n * NANOS_PER_SEC)
    }
    /// From seconds with a fraction; negative and not-a-number become zero.
    pub fn from_secs_f64(s: f64) -> Self {
        Self((s * 1e9) as u64)
    }
    /// In nanoseconds.
    pub const fn as_nanos(self) -> u64 {
        self.0
    }
    /// In milliseconds.
    pub fn as_millis_f64(self) -> f64 {
        self.0 as f64 / 1e6
    }
    /// In seconds.
    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 / 1e9
    }
    /// Multiplied by a ratio; a negative ratio gives zero.
    pub fn mul_f64(self, ratio: f64) -> Self {
        Self((self.0 as f64 * ratio) as u64)
    }
    /// The sum, or [`Nanos::MAX`] where it would overflow.
    pub const fn saturating_add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
    /// `true` for the empty interval and the start of the run.
    pub const fn is_zero(self) -> bool {
        self.0 == 0
    }
}

impl Bytes {
    /// Nothing.
    pub const ZERO: Self = Self(0);
    /// No limit.
    pub const MAX: Self = Self(u64::MAX);

    /// From a count of bytes.
    pub const fn new(n: u64) -> Self {
        Self(n)
    }
    /// The count of bytes.
    pub const fn as_u64(self) -> u64 {
        self.0
    }
    /// The count of bytes as a float.
    pub fn as_f64(self) -> f64 {
        self.0 as f64
    }
    /// From a fractional count, rounded down; negative and not-a-number become zero.
    pub fn from_f64(n: f64) -> Self {
        Self(n as u64)
    }
    /// How many segments of `mss` this is, with a fraction.
    pub fn in_segments(self, mss: Bytes) -> f64 {
        self.0 as f64 / mss.0 as f64
    }
    /// Multiplied by a ratio, rounded down.
    pub fn mul_f64(self, ratio: f64) -> Self {
        Self((self.0 as f64 * ratio) as u64)
    }
    /// `true` for nothing.
    pub const fn is_zero(self) -> bool {
        self.0 == 0
    }
    /// The rate that carries this amount in `interval`; an empty interval gives [`Rate::MAX`].
    pub const fn per(self, interval: Nanos) -> Rate {
        if interval.0 == 0 {
            return Rate::MAX;
        }
        Rate(mul_div(self.0, NANOS_PER_SEC, interval.0))
    }
}

impl Rate {
    /// Nothing per second.
    pub const ZERO: Self = Self(0);
    /// No limit.
    pub const MAX: Self = Self(u64::MAX);

    /// From bytes per second.
    pub const fn from_bytes_per_sec(n: u64) -> Self {
        Self(n)
    }
    /// From bits per second.
    pub const fn from_bits_per_sec(n: u64) -> Self {
        Self(n / 8)
    }
    /// From Mbit/s (10^6 bits per second).
    pub fn from_mbit_per_sec(n: f64) -> Self {
        Self((n * 125_000.0) as u64)
    }
    /// In bytes per second.
    pub const fn as_bytes_per_sec(self) -> u64 {
        self.0
    }
    /// In Mbit/s.
    pub fn as_mbit_per_sec(self) -> f64 {
        self.0 as f64 / 125_000.0
    }
    /// Multiplied by a ratio (a gain), rounded down.
    pub fn mul_f64(self, gain: f64) -> Self {
        Self((self.0 as f64 * gain) as u64)
    }
    /// `true` for nothing per second.
    pub const fn is_zero(self) -> bool {
        self.0 == 0
    }
    /// How much this rate carries in `interval`, rounded down: the bandwidth-delay product when `interval` is an RTT.
    pub const fn over(self, interval: Nanos) -> Bytes {
        Bytes(mul_div(self.0, interval.0, NANOS_PER_SEC))
    }
    /// How long `amount` takes at this rate, rounded down; [`Nanos::MAX`] at rate zero.
    pub const fn time_for(self, amount: Bytes) -> Nanos {
        if self.0 == 0 {
            return Nanos::MAX;
        }
        Nanos(mul_div(amount.0, NANOS_PER_SEC, self.0))
    }
}

macro_rules! arithmetic {
    ($t:ident) => {
        impl Add for $t {
            type Output = Self;
            #[inline]
            fn add(self, other: Self) -> Self {
                Self(self.0 + other.0)
            }
        }
        impl AddAssign for $t {
            #[inline]
            fn add_assign(&mut self, other: Self) {
                self.0 += other.0;
            }
        }
        impl Sub for $t {
            type Output = Self;
            #[inline]
            fn sub(self, other: Self) -> Self {
                Self(self.0.saturating_sub(other.0))
            }
        }
        impl SubAssign for $t {
            #[inline]
            fn sub_assign(&mut self, other: Self) {
                self.0 = self.0.saturating_sub(other.0);
            }
        }
        impl Mul<u64> for $t {
            type Output = Self;
            #[inline]
            fn mul(self, by: u64) -> Self {
                Self(self.0 * by)
            }
        }
        impl Div<u64> for $t {
            type Output = Self;
            #[inline]
            fn div(self, by: u64) -> Self {
                Self(self.0 / by)
            }
        }
        impl Sum for $t {
            fn sum<I: Iterator<Item = Self>>(items: I) -> Self {
                items.fold(Self(0), Add::add)
            }
        }
    };
}
arithmetic!(Nanos);
arithmetic!(Bytes);
arithmetic!(Rate);

impl fmt::Debug for Nanos {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if *self == Self::MAX { f.write_str("never") } else { write!(f, "{}ms", self.as_millis_f64()) }
    }
}
impl fmt::Debug for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}B", self.0)
    }
}
impl fmt::Debug for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}Mbit/s", self.as_mbit_per_sec())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bdp_and_serialisation_time_agree_with_hand_arithmetic() {
        let rate = Rate::from_mbit_per_sec(100.0);
        assert_eq!(rate.over(Nanos::from_millis(40)), Bytes::new(500_000));
        assert_eq!(rate.time_for(Bytes::new(1500)), Nanos::from_micros(120));
        assert_eq!(Bytes::new(500_000).per(Nanos::from_millis(40)), rate);
    }

    #[test]
    fn products_beyond_64_bits_stay_exact() {
        let rate = Rate::from_bytes_per_sec(12_500_000_000);
        assert_eq!(rate.over(Nanos::from_secs(10)), Bytes::new(125_000_000_000));
    }

    #[test]
    fn intervals_never_go_negative() {
        assert_eq!(Nanos::from_millis(1) - Nanos::from_millis(2), Nanos::ZERO);
    }
}
