//! Seeded random streams, one per named component, so that a new component never changes the draws of another.

use rand_core::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

/// A reproducible random stream (xoshiro256++), equal on every machine.
#[derive(Clone, Debug)]
pub struct Random(Xoshiro256PlusPlus);

impl Random {
    /// Stream of the component `name` with the number `index`, in a run with the seed `seed`.
    pub fn stream(seed: u64, name: &str, index: u64) -> Self {
        // FNV-1a over name, seed and index gives unrelated streams.
        let mut hash = 0xcbf2_9ce4_8422_2325_u64;
        let bytes = name.bytes().chain(seed.to_le_bytes()).chain(index.to_le_bytes());
        for byte in bytes {
            hash = (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
        Self(Xoshiro256PlusPlus::seed_from_u64(hash))
    }

    /// Next 64 random bits.
    #[inline]
    pub fn bits(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// Uniformly distributed in [0, 1), with 53 random bits.
    #[inline]
    pub fn unit(&mut self) -> f64 {
        (self.bits() >> 11) as f64 * (1.0 / (1u64 << 53) as f64)
    }

    /// Uniformly distributed in 0..n, for n ≥ 1 (multiply-shift; the bias is below n / 2^64).
    #[inline]
    pub fn below(&mut self, n: u64) -> u64 {
        ((u128::from(self.bits()) * u128::from(n)) >> 64) as u64
    }

    /// `true` with probability `p`. Draws nothing if `p` is at most 0 or at least 1.
    #[inline]
    pub fn chance(&mut self, p: f64) -> bool {
        if p <= 0.0 {
            false
        } else if p >= 1.0 {
            true
        } else {
            self.unit() < p
        }
    }

    /// Exponentially distributed with the given mean.
    pub fn exponential(&mut self, mean: f64) -> f64 {
        -mean * libm::log(1.0 - self.unit())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Streams with the same name, seed and index repeat; streams that differ in one of these differ.
    #[test]
    fn random_stream_depends_on_name_seed_and_index() {
        let first = |seed, name, index| Random::stream(seed, name, index).bits();
        assert_eq!(first(1, "loss", 0), first(1, "loss", 0));
        assert_ne!(first(1, "loss", 0), first(1, "loss", 1));
        assert_ne!(first(1, "loss", 0), first(2, "loss", 0));
        assert_ne!(first(1, "loss", 0), first(1, "jitter", 0));
    }

    /// Sample means match the means of the distributions.
    #[test]
    fn random_means_match_their_distributions() {
        let mut random = Random::stream(7, "test", 0);
        let n = 100_000;
        let hits = (0..n).filter(|_| random.chance(0.1)).count();
        assert!((hits as f64 / n as f64 - 0.1).abs() < 0.005, "{hits}");
        let mean: f64 = (0..n).map(|_| random.exponential(3.0)).sum::<f64>() / n as f64;
        assert!((mean - 3.0).abs() < 0.05, "{mean}");
    }
}
