//! Transmission times at a constant rate, without drift.

use narrows_units::{Nanos, Rate};

const NANOS_PER_SEC: u64 = 1_000_000_000;

/// Converts packet sizes into transmission times in whole nanoseconds and carries the remainder to the next packet. The
/// total time of any number of packets is thus exact, rounded down once.
#[derive(Clone, Debug)]
pub(crate) struct Transmitter {
    rate: u64,
    /// Remainder carried to the next packet: a fraction of a nanosecond in units of 1/rate.
    carry: u64,
    /// The last size. `whole` and `rest` are quotient and remainder of its transmission time in nanoseconds.
    size: u64,
    whole: u64,
    rest: u64,
}

impl Transmitter {
    pub(crate) const fn new(rate: Rate) -> Self {
        Self { rate: rate.as_bytes_per_sec(), carry: 0, size: 0, whole: 0, rest: 0 }
    }

    pub(crate) const fn rate(&self) -> Rate {
        Rate::from_bytes_per_sec(self.rate)
    }

    /// End of a transmission of `size` bytes that begins at `start`.
    #[inline]
    pub(crate) fn end(&mut self, start: Nanos, size: u64) -> Nanos {
        if size != self.size {
            self.divide(size);
        }
        self.carry += self.rest;
        let mut time = self.whole;
        if self.carry >= self.rate {
            self.carry -= self.rate;
            time += 1;
        }
        start.saturating_add(Nanos::from_nanos(time))
    }

    fn divide(&mut self, size: u64) {
        self.size = size;
        let product = size * NANOS_PER_SEC;
        // At rate zero no transmission ends.
        self.whole = product.checked_div(self.rate).unwrap_or(u64::MAX - 1);
        self.rest = product.checked_rem(self.rate).unwrap_or(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The total time of any number of packets is exact, rounded down once.
    #[test]
    fn transmission_times_sum_without_drift() {
        // 1500 bytes take 4 ms at 3 Mbit/s, 1200 ns at 10 Gbit/s, and a fractional number of nanoseconds at 7 B/s and
        // 999 983 B/s.
        for rate in [375_000, 1_250_000_000, 7, 999_983, 12_500_000_000] {
            let mut transmitter = Transmitter::new(Rate::from_bytes_per_sec(rate));
            let (mut now, mut bytes) = (Nanos::ZERO, 0u128);
            for n in 0..10_000u64 {
                let size = [1500, 1500, 52, 1499][n as usize % 4];
                now = transmitter.end(now, size);
                bytes += u128::from(size);
                let exact = bytes * 1_000_000_000 / u128::from(rate);
                assert_eq!(u128::from(now.as_nanos()), exact, "{rate} B/s, packet {n}");
            }
        }
    }

    /// At rate zero no transmission ends.
    #[test]
    fn transmission_at_rate_zero_never_ends() {
        let mut transmitter = Transmitter::new(Rate::ZERO);
        assert_eq!(transmitter.end(Nanos::from_secs(1), 1500), Nanos::MAX);
    }
}
