//! Quantities as types. Constructors and accessors name the unit; interfaces never exchange bare numbers.

use core::fmt;
use core::iter::Sum;
use core::ops::{Add, AddAssign, Div, Mul, Sub, SubAssign};

const NANOS_PER_SEC: u64 = 1_000_000_000;

/// `a * b / c`, exact even if the product exceeds 64 bits; saturates at `u64::MAX`.
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

/// A time since the start of the run, or an interval, in nanoseconds.
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
    /// Zero.
    pub const ZERO: Self = Self(0);
    /// A time later than any other; as a deadline, it means 'never'.
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
    /// From fractional seconds; negative values and NaN give zero.
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
    /// Product with a ratio; a negative ratio gives zero.
    pub fn mul_f64(self, ratio: f64) -> Self {
        Self((self.0 as f64 * ratio) as u64)
    }
    /// The sum, saturating at [`Nanos::MAX`].
    pub const fn saturating_add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
    /// Whether the interval is empty.
    pub const fn is_zero(self) -> bool {
        self.0 == 0
    }
}

impl Bytes {
    /// Zero.
    pub const ZERO: Self = Self(0);
    /// No limit.
    pub const MAX: Self = Self(u64::MAX);

    /// From a number of bytes.
    pub const fn new(n: u64) -> Self {
        Self(n)
    }
    /// Number of bytes.
    pub const fn as_u64(self) -> u64 {
        self.0
    }
    /// Number of bytes as a float.
    pub fn as_f64(self) -> f64 {
        self.0 as f64
    }
    /// From a fractional number of bytes, rounded down; negative values and NaN give zero.
    pub fn from_f64(n: f64) -> Self {
        Self(n as u64)
    }
    /// Number of segments of size `mss`, with a fraction.
    pub fn in_segments(self, mss: Bytes) -> f64 {
        self.0 as f64 / mss.0 as f64
    }
    /// Product with a ratio, rounded down.
    pub fn mul_f64(self, ratio: f64) -> Self {
        Self((self.0 as f64 * ratio) as u64)
    }
    /// Whether the amount is zero.
    pub const fn is_zero(self) -> bool {
        self.0 == 0
    }
    /// The rate that carries this amount in `interval`; [`Rate::MAX`] for an empty interval.
    pub const fn per(self, interval: Nanos) -> Rate {
        if interval.0 == 0 {
            return Rate::MAX;
        }
        Rate(mul_div(self.0, NANOS_PER_SEC, interval.0))
    }
}

impl Rate {
    /// Zero.
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
    /// Product with a ratio (a gain), rounded down.
    pub fn mul_f64(self, gain: f64) -> Self {
        Self((self.0 as f64 * gain) as u64)
    }
    /// Whether the rate is zero.
    pub const fn is_zero(self) -> bool {
        self.0 == 0
    }
    /// Amount carried in `interval` at this rate, rounded down; this is the bandwidth-delay product if
    /// `interval` is an RTT.
    pub const fn over(self, interval: Nanos) -> Bytes {
        Bytes(mul_div(self.0, interval.0, NANOS_PER_SEC))
    }
    /// Time for `amount` at this rate, rounded down; [`Nanos::MAX`] at rate zero.
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

    /// BDP, serialisation time and rate equal values computed by hand.
    #[test]
    fn rate_bdp_and_serialisation_time_match_by_hand() {
        let rate = Rate::from_mbit_per_sec(100.0);
        assert_eq!(rate.over(Nanos::from_millis(40)), Bytes::new(500_000));
        assert_eq!(rate.time_for(Bytes::new(1500)), Nanos::from_micros(120));
        assert_eq!(Bytes::new(500_000).per(Nanos::from_millis(40)), rate);
    }

    /// Intermediate products above 64 bits stay exact.
    #[test]
    fn rate_product_beyond_64_bits_is_exact() {
        let rate = Rate::from_bytes_per_sec(12_500_000_000);
        assert_eq!(rate.over(Nanos::from_secs(10)), Bytes::new(125_000_000_000));
    }

    /// Subtracting a longer time gives zero, because intervals are never negative.
    #[test]
    fn nanos_subtraction_saturates_at_zero() {
        assert_eq!(Nanos::from_millis(1) - Nanos::from_millis(2), Nanos::ZERO);
    }
}
