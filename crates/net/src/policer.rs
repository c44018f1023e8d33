//! The policer: a token bucket that drops packets for which it lacks tokens.

use narrows_units::{Bytes, Nanos};

use crate::config::Policer;

const NANOS_PER_SEC: u64 = 1_000_000_000;

/// Token bucket of a policer. Tokens are counted in units of 10^-9 byte, without rounding errors.
#[derive(Clone, Debug)]
pub struct TokenBucket {
    rate: u64,
    full: u64,
    tokens: u64,
    filled_at: Nanos,
}

impl TokenBucket {
    /// Creates a full bucket.
    pub const fn new(policer: &Policer) -> Self {
        let full = policer.burst.as_u64().saturating_mul(NANOS_PER_SEC);
        Self { rate: policer.rate.as_bytes_per_sec(), full, tokens: full, filled_at: Nanos::ZERO }
    }

    /// Returns whether a packet of this size passes; if so, spends the tokens for it.
    #[inline]
    pub fn passes(&mut self, now: Nanos, size: Bytes) -> bool {
        let elapsed = (now - self.filled_at).as_nanos();
        // If the product saturates, the bucket is full anyway.
        self.tokens = self.tokens.saturating_add(self.rate.saturating_mul(elapsed)).min(self.full);
        self.filled_at = now.max(self.filled_at);
        let needed = size.as_u64().saturating_mul(NANOS_PER_SEC);
        let passes = needed <= self.tokens;
        if passes {
            self.tokens -= needed;
        }
        passes
    }
}

#[cfg(test)]
mod tests {
    use narrows_units::Rate;

    use super::*;

    /// A policer passes the burst, then exactly the rate.
    #[test]
    fn policer_passes_burst_then_exact_rate() {
        // 8 Mbit/s is 1000 bytes per millisecond. Ten packets of 1000 bytes arrive at once, and the burst of 4000 bytes
        // passes four of them. Then one packet arrives every 0.5 ms for one second, and every second packet passes,
        // because its 1000 tokens are available exactly at its arrival.
        let policer = Policer { rate: Rate::from_mbit_per_sec(8.0), burst: Bytes::new(4_000) };
        let mut bucket = TokenBucket::new(&policer);
        let size = Bytes::new(1_000);
        let at_once = (0..10).filter(|_| bucket.passes(Nanos::ZERO, size)).count();
        assert_eq!(at_once, 4);
        let passed = (1..=2_000).filter(|n| bucket.passes(Nanos::from_micros(n * 500), size)).count();
        assert_eq!(passed, 1_000);
        assert!(!bucket.passes(Nanos::from_nanos(1_000_999_999), size));
        assert!(bucket.passes(Nanos::from_nanos(1_001_000_000), size));
    }

    /// Tokens never exceed the burst.
    #[test]
    fn policer_tokens_never_exceed_the_burst() {
        let policer = Policer { rate: Rate::from_mbit_per_sec(40_000.0), burst: Bytes::new(3_000) };
        let mut bucket = TokenBucket::new(&policer);
        let late = Nanos::from_secs(100_000);
        let passed = (0..10).filter(|_| bucket.passes(late, Bytes::new(1_500))).count();
        assert_eq!(passed, 2);
        assert!(!bucket.passes(late + Nanos::from_secs(1), Bytes::new(3_001)));
    }
}
