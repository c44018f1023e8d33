//! Token buckets, counted in 10^-9 byte: a rate of n bytes per second yields exactly n tokens per nanosecond,
//! without rounding.

use narrows_units::{Bytes, Nanos, Rate};

const PER_BYTE: u64 = 1_000_000_000;

/// A bucket. While the bucket is not in debt, one packet may overdraw it, as in Linux.
#[derive(Clone, Debug)]
pub(super) struct Bucket {
    rate: u64,
    full: i64,
    tokens: i64,
}

fn units(bytes: u64) -> i64 {
    i64::try_from(bytes.saturating_mul(PER_BYTE)).unwrap_or(i64::MAX)
}

impl Bucket {
    /// Creates a full bucket.
    pub(super) fn new(rate: Rate, depth: Bytes) -> Self {
        let full = units(depth.as_u64());
        Self { rate: rate.as_bytes_per_sec(), full, tokens: full }
    }

    /// Adds the tokens of `elapsed`, up to the depth.
    #[inline]
    pub(super) fn fill(&mut self, elapsed: Nanos) {
        let room = self.full.abs_diff(self.tokens);
        let arrived = u128::from(self.rate) * u128::from(elapsed.as_nanos());
        self.tokens = self.tokens.saturating_add_unsigned(arrived.min(u128::from(room)) as u64);
    }

    /// Takes the tokens for `bytes`; the bucket goes into debt if it holds fewer.
    #[inline]
    pub(super) fn spend(&mut self, bytes: u64) {
        self.tokens = self.tokens.saturating_sub(units(bytes));
    }

    /// Whether the tokens cover `bytes`.
    #[inline]
    pub(super) fn covers(&self, bytes: u64) -> bool {
        self.tokens >= units(bytes)
    }

    /// Time until the debt is paid.
    #[inline]
    pub(super) fn until_paid(&self) -> Nanos {
        if self.tokens >= 0 {
            return Nanos::ZERO;
        }
        // At rate zero debts are never paid.
        match self.rate {
            0 => Nanos::MAX,
            rate => Nanos::from_nanos(self.tokens.unsigned_abs().div_ceil(rate)),
        }
    }

    /// Sets rate and depth. Keeps the tokens up to the new depth.
    pub(super) fn set(&mut self, rate: Rate, depth: Bytes) {
        self.rate = rate.as_bytes_per_sec();
        self.full = units(depth.as_u64());
        self.tokens = self.tokens.min(self.full);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Tokens arrive exactly at any rate.
    #[test]
    fn tokens_arrive_exactly_at_any_rate() {
        // The rates are 3 B/s, 12.5 MB/s, 125 GB/s and a prime number of B/s. Each step is a prime number of
        // nanoseconds.
        for rate in [3, 12_500_000, 125_000_000_000, 999_983] {
            let mut bucket = Bucket::new(Rate::from_bytes_per_sec(rate), Bytes::new(2_000_000));
            bucket.spend(2_000_000);
            let step = 7_919;
            let steps = (1_000_000 * PER_BYTE / rate / step).min(100_000);
            (0..steps).for_each(|_| bucket.fill(Nanos::from_nanos(step)));
            assert_eq!(bucket.tokens, (rate * steps * step) as i64, "{rate}");
        }
    }

    /// A debt is paid to the nanosecond, and tokens never exceed the depth.
    #[test]
    fn debt_is_paid_to_the_nanosecond_depth_caps_tokens() {
        let mut bucket = Bucket::new(Rate::from_bytes_per_sec(3), Bytes::new(10));
        bucket.spend(11);
        assert_eq!(bucket.until_paid(), Nanos::from_nanos(333_333_334));
        bucket.fill(Nanos::from_nanos(333_333_333));
        assert_eq!(bucket.until_paid(), Nanos::from_nanos(1));
        bucket.fill(Nanos::from_nanos(1));
        assert_eq!((bucket.tokens, bucket.until_paid()), (2, Nanos::ZERO));
        bucket.fill(Nanos::MAX);
        assert!(bucket.covers(10) && !bucket.covers(11));
    }

    /// A change of rate creates no tokens and keeps the tokens that fit into the new depth.
    #[test]
    fn rate_change_keeps_tokens_that_fit() {
        let mut bucket = Bucket::new(Rate::from_bytes_per_sec(1_000), Bytes::new(100));
        bucket.spend(30);
        bucket.set(Rate::from_bytes_per_sec(9_000), Bytes::new(900));
        assert_eq!(bucket.tokens, units(70));
        bucket.set(Rate::ZERO, Bytes::new(20));
        assert_eq!(bucket.tokens, units(20));
        bucket.spend(60);
        bucket.set(Rate::MAX, Bytes::new(u64::MAX));
        assert_eq!(bucket.tokens, -units(40));
        assert_eq!(bucket.until_paid(), Nanos::from_nanos(1));
    }

    /// Extreme rates and depths cause no integer overflow.
    #[test]
    fn extreme_values_do_not_overflow() {
        let mut endless = Bucket::new(Rate::MAX, Bytes::new(u64::MAX));
        (0..100).for_each(|_| endless.spend(u64::MAX));
        assert_eq!(endless.tokens, i64::MIN);
        endless.fill(Nanos::MAX);
        assert!(endless.covers(1_000_000_000));
        let mut still = Bucket::new(Rate::ZERO, Bytes::ZERO);
        still.spend(1);
        still.fill(Nanos::MAX);
        assert_eq!(still.until_paid(), Nanos::MAX);
    }
}
