//! Log-linear histogram: 32 buckets per octave bound the error of quantiles to 1/64 (1.6 %). The histogram
//! allocates memory only for the octaves from the lowest to the highest value.

use alloc::boxed::Box;
use alloc::vec::Vec;

const SUB_BITS: u32 = 5;
const SUB: usize = 1 << SUB_BITS;

/// Counts `u64` values; count, sum, mean, minimum and maximum are exact.
///
/// Row 0 has one bucket for each value below 32. Row r ≥ 1 divides the values from 32·2^(r-1) to below 32·2^r
/// into 32 equal buckets. Only the rows from the lowest to the highest value are stored, 128 bytes each.
// Keep this type smaller than a cache line, because each of thousands of flows has a histogram.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Histogram {
    counts: Box<[u32]>,
    count: u64,
    sum_low: u64,
    min: u64,
    max: u64,
    /// The high part of the sum, in units of 2^64.
    sum_high: u32,
    first_bucket: u32,
}

impl Default for Histogram {
    fn default() -> Self {
        Self { counts: Box::default(), count: 0, sum_low: 0, min: u64::MAX, max: 0, sum_high: 0, first_bucket: 0 }
    }
}

#[inline]
const fn bucket_of(value: u64) -> u32 {
    // Setting bit 5 gives values below 32 a shift of zero. They stay in row 0, because their bit 5 is clear.
    let shift = 63 - SUB_BITS - (value | SUB as u64).leading_zeros();
    (shift << SUB_BITS) + (value >> shift) as u32
}

/// Midpoint of a bucket's values.
fn middle_of(bucket: u32) -> f64 {
    let row = bucket >> SUB_BITS;
    if row == 0 {
        return f64::from(bucket);
    }
    let shift = row - 1;
    let low = (u64::from(bucket & (SUB as u32 - 1)) + SUB as u64) << shift;
    low as f64 + ((1u64 << shift) - 1) as f64 / 2.0
}

impl Histogram {
    /// An empty histogram, without heap memory.
    pub fn new() -> Self {
        Self::default()
    }

    /// Prefetches the bucket of `value`.
    #[inline]
    pub fn prefetch(&self, value: u64) {
        if let Some(count) = self.counts.get(bucket_of(value).wrapping_sub(self.first_bucket) as usize) {
            crate::prefetch(count, 1);
        }
    }

    /// Counts one value. The counts of buckets saturate at 2^32 - 1.
    #[inline]
    pub fn record(&mut self, value: u64) {
        self.count += 1;
        let (sum, carry) = self.sum_low.overflowing_add(value);
        (self.sum_low, self.sum_high) = (sum, self.sum_high + u32::from(carry));
        self.min = self.min.min(value);
        self.max = self.max.max(value);
        let bucket = bucket_of(value);
        match self.counts.get_mut(bucket.wrapping_sub(self.first_bucket) as usize) {
            Some(count) => *count = count.saturating_add(1),
            None => {
                self.cover(bucket);
                self.counts[(bucket - self.first_bucket) as usize] = 1;
            }
        }
    }

    /// Extends the stored rows to include the row of `bucket`.
    #[cold]
    #[inline(never)]
    fn cover(&mut self, bucket: u32) {
        let row_start = bucket & !(SUB as u32 - 1);
        if self.counts.is_empty() {
            self.first_bucket = row_start;
        }
        let before = self.first_bucket.saturating_sub(row_start) as usize;
        let end = (row_start + SUB as u32).max(self.first_bucket + self.counts.len() as u32);
        let first = self.first_bucket.min(row_start);
        let mut counts = Vec::with_capacity((end - first) as usize);
        counts.resize(before, 0);
        counts.extend_from_slice(&self.counts);
        counts.resize((end - first) as usize, 0);
        self.counts = counts.into_boxed_slice();
        self.first_bucket = first;
    }

    /// Number of values.
    pub const fn count(&self) -> u64 {
        self.count
    }

    /// Exact sum of the values, which must be below 2^96.
    pub const fn sum(&self) -> u128 {
        (self.sum_high as u128) << 64 | self.sum_low as u128
    }

    /// Mean, exact up to rounding; zero when empty.
    pub fn mean(&self) -> f64 {
        if self.count == 0 { 0.0 } else { self.sum() as f64 / self.count as f64 }
    }

    /// Exact minimum; `None` when empty.
    pub fn min(&self) -> Option<u64> {
        (self.count > 0).then_some(self.min)
    }

    /// Exact maximum; `None` when empty.
    pub fn max(&self) -> Option<u64> {
        (self.count > 0).then_some(self.max)
    }

    /// The `q`-quantile (nearest rank), within 1/64 of its value; exact for `q` of zero and one. Zero when
    /// empty.
    pub fn quantile(&self, q: f64) -> f64 {
        if self.count == 0 {
            return 0.0;
        }
        if q <= 0.0 {
            return self.min as f64;
        }
        if q >= 1.0 {
            return self.max as f64;
        }
        // Smallest integer rank that is at least q · count.
        let exact = q * self.count as f64;
        let rank = exact as u64 + u64::from(exact > (exact as u64) as f64);
        let mut seen = 0;
        for (offset, &count) in self.counts.iter().enumerate() {
            seen += u64::from(count);
            if seen >= rank {
                return middle_of(self.first_bucket + offset as u32).clamp(self.min as f64, self.max as f64);
            }
        }
        self.max as f64
    }

    /// Adds the counts of `other`.
    pub fn merge(&mut self, other: &Self) {
        if other.count == 0 {
            return;
        }
        self.cover(bucket_of(other.min));
        self.cover(bucket_of(other.max));
        let offset = (other.first_bucket - self.first_bucket) as usize;
        for (mine, theirs) in self.counts[offset..].iter_mut().zip(&other.counts) {
            *mine = mine.saturating_add(*theirs);
        }
        self.count += other.count;
        let sum = self.sum() + other.sum();
        (self.sum_low, self.sum_high) = (sum as u64, (sum >> 64) as u32);
        self.min = self.min.min(other.min);
        self.max = self.max.max(other.max);
    }

    /// Removes all values but keeps the memory.
    pub fn clear(&mut self) {
        self.counts.fill(0);
        (self.count, self.min, self.max) = (0, u64::MAX, 0);
        (self.sum_low, self.sum_high) = (0, 0);
    }

    /// Heap memory in bytes.
    pub fn memory(&self) -> usize {
        size_of_val(&*self.counts)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Buckets are contiguous, and the midpoint of each bucket is within 1/64 of the values in the bucket.
    #[test]
    fn histogram_bucket_midpoint_is_within_1_64() {
        let mut last = 0;
        for value in (0..5_000u64).chain((13..64).flat_map(|bit| [(1 << bit) - 1, 1 << bit, (1 << bit) + 1])) {
            let bucket = bucket_of(value);
            assert!(bucket == last || bucket == last + 1 || value >= 5_000, "{value}");
            last = bucket;
            let error = (middle_of(bucket) - value as f64).abs();
            assert!(error <= value as f64 / 64.0, "{value}: {}", middle_of(bucket));
        }
        assert_eq!(bucket_of(u64::MAX), 60 * SUB as u32 - 1);
    }

    /// Values of one octave need one row of 128 bytes; an empty histogram needs no heap memory.
    #[test]
    fn histogram_of_one_octave_takes_one_row() {
        let mut histogram = Histogram::new();
        assert_eq!(histogram.memory(), 0);
        // Values from 40 ms to 62 ms lie between 2^25 and 2^26 nanoseconds.
        (40..=62).for_each(|ms| histogram.record(ms * 1_000_000));
        assert_eq!(histogram.memory(), 128);
        assert_eq!(size_of::<Histogram>(), 56);
    }

    /// A cleared histogram has neither minimum nor maximum; its quantiles and mean are zero.
    #[test]
    fn histogram_cleared_has_no_extremes() {
        let mut histogram = Histogram::new();
        histogram.record(7);
        histogram.clear();
        assert_eq!((histogram.min(), histogram.max(), histogram.count()), (None, None, 0));
        assert_eq!((histogram.quantile(0.5), histogram.mean()), (0.0, 0.0));
    }

    proptest! {
        /// Quantiles are within 3 % of those of the sorted values, and merging equals recording all values in
        /// one histogram.
        #[test]
        fn histogram_quantiles_and_merge_match_sorted_values(
            mut left in prop::collection::vec(1u64..1 << 40, 1..200),
            right in prop::collection::vec(0u64..1 << 20, 0..200),
            q in 0.0..=1.0f64,
        ) {
            let (mut one, mut other, mut both) = (Histogram::new(), Histogram::new(), Histogram::new());
            left.iter().for_each(|&v| { one.record(v); both.record(v); });
            right.iter().for_each(|&v| { other.record(v); both.record(v); });
            one.merge(&other);
            prop_assert_eq!(&one, &both);
            left.extend(right);
            left.sort_unstable();
            let rank = ((q * left.len() as f64).ceil() as usize).clamp(1, left.len());
            let exact = left[rank - 1] as f64;
            prop_assert!((both.quantile(q) - exact).abs() <= 0.03 * exact, "{} against {exact}", both.quantile(q));
            prop_assert_eq!((both.min(), both.max()), (left.first().copied(), left.last().copied()));
            prop_assert_eq!(both.count(), left.len() as u64);
            let mean = left.iter().sum::<u64>() as f64 / left.len() as f64;
            prop_assert!((both.mean() - mean).abs() <= 1e-9 * mean + 1e-9);
        }
    }
}
