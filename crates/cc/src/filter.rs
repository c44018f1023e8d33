//! Windowed extrema in constant space (Kathleen Nichols' algorithm, as Linux `win_minmax.c`).
//!
//! Three best samples are kept, each newer than the one before it, so the extremum over the window is known within a
//! quarter window of its true age, whatever the number of samples.

macro_rules! windowed {
    ($Name:ident, $better_or_equal:tt, $what:literal) => {
        #[doc = concat!("The ", $what, " of the samples in a sliding window. Window and times share one unit of the")]
        /// caller's choice (nanoseconds, round trips).
        #[derive(Clone, Copy, Debug)]
        pub struct $Name<T> {
            best: [(u64, T); 3],
        }

        impl<T: Copy + PartialOrd> $Name<T> {
            /// A filter that holds one sample.
            pub fn new(at: u64, value: T) -> Self {
                Self { best: [(at, value); 3] }
            }

            #[doc = concat!("The ", $what, ".")]
            #[inline]
            pub fn get(&self) -> T {
                self.best[0].1
            }

            /// Forgets everything but this sample.
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
                    // The best sample left the window: the second best takes its place, and the new one may do for third.
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
