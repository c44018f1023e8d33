//! Windowed extrema in constant space (Kathleen Nichols' algorithm, as in Linux `win_minmax.c`).
//!
//! The filter keeps three samples, each newer than the previous sample and no better. The first sample is the result.
//! The second and the third are standbys that replace the result when it leaves the window. The second is renewed when
//! a quarter of the window has passed without a better sample, the third when half of the window has. Guarantees:
//!
//! * The result is a sample that was fed and is never older than the window, so it never beats the true
//!   extremum.
//! * No sample newer than the result is better.
//! * The result is the true extremum if that extremum was the best sample of the window when it was fed. The filter may
//!   drop a sample that was worse than an older one on arrival before the older one expires: the price of constant
//!   space.
//!
//! Times must not decrease. Ties go to the newer sample.

macro_rules! windowed {
    ($Name:ident, $better_or_equal:tt, $what:literal) => {
        #[doc = concat!("The ", $what, " of the samples in a sliding window. Window and times share one unit of the")]
        /// caller's choice (nanoseconds, round trips).
        #[derive(Clone, Copy, Debug)]
        pub struct $Name<T> {
            best: [(u64, T); 3],
        }

        impl<T: Copy + PartialOrd> $Name<T> {
            /// A filter with one sample.
            pub fn new(at: u64, value: T) -> Self {
                Self { best: [(at, value); 3] }
            }

            #[doc = concat!("The ", $what, ".")]
            #[inline]
            pub fn get(&self) -> T {
                self.best[0].1
            }

            /// Discards all samples but this one.
            pub fn reset(&mut self, at: u64, value: T) {
                *self = Self::new(at, value);
            }

            #[doc = concat!("Feeds a sample taken `at` and returns the ", $what, " over the last `window`.")]
            #[inline]
            pub fn update(&mut self, window: u64, at: u64, value: T) -> T {
                let sample = (at, value);
                if value $better_or_equal self.best[0].1 || at - self.best[2].0 > window {
                    self.reset(at, value);
                    return value;
                }
                if value $better_or_equal self.best[1].1 {
                    self.best[1] = sample;
                    self.best[2] = sample;
                } else if value $better_or_equal self.best[2].1 {
                    self.best[2] = sample;
                }
                let age = at - self.best[0].0;
                if age > window {
                    // The best sample left the window: the second best replaces it, and the new sample
                    // becomes the third.
                    self.best = [self.best[1], self.best[2], sample];
                    if at - self.best[0].0 > window {
                        self.best = [self.best[1], self.best[2], sample];
                    }
                } else if self.best[1].0 == self.best[0].0 && age > window / 4 {
                    self.best[1] = sample;
                    self.best[2] = sample;
                } else if self.best[2].0 == self.best[1].0 && age > window / 2 {
                    self.best[2] = sample;
                }
                self.best[0].1
            }
        }
    };
}

windowed!(WindowedMax, >=, "maximum");
windowed!(WindowedMin, <=, "minimum");

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    extern crate std;
    use std::vec::Vec;

    const WINDOW: u64 = 100;

    /// The best sample stays the result until it leaves the window; then the standbys become the result in order.
    #[test]
    fn filter_standbys_follow_in_order() {
        let mut filter = WindowedMax::new(0, 90);
        // The sample 70 at time 26 is the first in the second quarter; the sample 60 at time 51 is the first in the
        // second half.
        for (at, value, max) in [(10, 80, 90), (26, 70, 90), (30, 65, 90), (51, 60, 90), (100, 50, 90)] {
            assert_eq!(filter.update(WINDOW, at, value), max, "at {at}");
        }
        assert_eq!(filter.update(WINDOW, 101, 40), 70, "90 has left; 80 came too early to be a standby");
        assert_eq!(filter.update(WINDOW, 126, 40), 70);
        assert_eq!(filter.update(WINDOW, 127, 30), 60);
        assert_eq!(filter.update(WINDOW, 128, 60), 60, "of equal samples the newer one wins");
        assert_eq!(filter.update(WINDOW, 228, 10), 60);
        assert_eq!(filter.update(WINDOW, 229, 5), 10);
        assert_eq!(filter.update(WINDOW, 1_000, 1), 1, "all three have left");
    }

    /// The best sample and the first standby may expire together.
    #[test]
    fn filter_two_standbys_may_leave_at_once() {
        let mut filter = WindowedMax::new(0, 90);
        for (at, value) in [(26, 80), (51, 70)] {
            filter.update(WINDOW, at, value);
        }
        assert_eq!(filter.update(WINDOW, 140, 10), 70, "90 of 0 and 80 of 26 are too old");
    }

    /// The minimum mirrors the maximum.
    #[test]
    fn filter_minimum_mirrors_maximum() {
        let mut filter = WindowedMin::new(0, 10);
        for (at, value, min) in [(26, 30, 10), (51, 40, 10), (101, 60, 30), (127, 70, 40), (128, 35, 35)] {
            assert_eq!(filter.update(WINDOW, at, value), min, "at {at}");
        }
    }

    /// All samples as (time, value).
    fn samples() -> impl Strategy<Value = Vec<(u64, u32)>> {
        let step = prop_oneof![4 => 0u64..5, 2 => 5u64..40, 1 => 40u64..120];
        let value = prop_oneof![0u32..8, 0u32..1_000];
        prop::collection::vec((step, value), 1..200).prop_map(|steps| {
            let mut now = 0;
            steps
                .into_iter()
                .map(|(step, value)| {
                    now += step;
                    (now, value)
                })
                .collect()
        })
    }

    /// The newest of the best samples of `fed` within the window that ends at the last sample.
    fn exact(fed: &[(u64, u32)]) -> (u64, u32) {
        let now = fed.last().unwrap().0;
        *fed.iter().filter(|s| now - s.0 <= WINDOW).max_by_key(|s| (s.1, s.0)).unwrap()
    }

    proptest! {
        /// Each result is a sample in the window that no newer sample beats, and is exact where promised.
        #[test]
        fn filter_answers_are_unbeaten_samples_of_the_window(all in samples()) {
            let mut max = WindowedMax::new(all[0].0, all[0].1);
            let mut min = WindowedMin::new(all[0].0, u32::MAX - all[0].1);
            for n in 1..=all.len() {
                let (now, value) = all[n - 1];
                let answer = max.update(WINDOW, now, value);
                prop_assert_eq!(answer, max.get());
                prop_assert_eq!(u32::MAX - answer, min.update(WINDOW, now, u32::MAX - value), "mirror images");

                // The newest sample with that value is in the window, and no later sample is better.
                let (at, _) = *all[..n].iter().rfind(|s| s.1 == answer).expect("a sample that was fed");
                prop_assert!(now - at <= WINDOW);
                let first = all[..n].iter().rposition(|s| s.1 == answer).unwrap();
                prop_assert!(all[first..n].iter().all(|s| s.1 <= answer));

                let (_, extremum) = exact(&all[..n]);
                prop_assert!(answer <= extremum);
                let index = all[..n].iter().rposition(|s| *s == exact(&all[..n])).unwrap();
                if exact(&all[..=index]).1 == extremum {
                    prop_assert_eq!(answer, extremum);
                }
            }
        }
    }
}
