//! The long-term bandwidth estimator, which detects token-bucket policers (Linux `tcp_bbr.c`; Flach et al.,
//! SIGCOMM 2016).
//!
//! A policer lets a burst pass and then drops everything above its rate. Two consecutive intervals with heavy loss and
//! the same goodput indicate a policer. BBR then uses that goodput as its bandwidth for some time, without probing.

use crate::{Bytes, Nanos, Rate};

/// Minimum length of an interval in round trips.
const INTERVAL_ROUNDS: u32 = 4;
/// Maximum length of an interval in round trips; a longer interval is abandoned.
const INTERVAL_ROUNDS_MAX: u32 = 4 * INTERVAL_ROUNDS;
/// Minimum ratio of lost to delivered data for an interval to indicate a policer: 50/256, about 20 %.
const LOSS: (u64, u64) = (50, 256);
/// Two intervals agree if their rates differ by at most the first rate divided by this number …
const AGREE_PART: u64 = 8;
/// … or by no more than 4 kbit/s.
const AGREE_RATE: Rate = Rate::from_bits_per_sec(4_000);
/// Round trips of ProbeBW for which the long-term rate is used.
const USE_ROUNDS: u32 = 48;

/// Input to the estimator at an acknowledgement or timeout.
#[derive(Clone, Copy, Debug)]
pub struct PolicerSample {
    /// When data was last delivered.
    pub delivered_at: Nanos,
    /// All bytes ever delivered.
    pub delivered: Bytes,
    /// All bytes ever declared lost.
    pub lost: Bytes,
    /// This event declared packets lost.
    pub newly_lost: bool,
    /// The sender was application-limited.
    pub app_limited: bool,
    /// A round trip begins.
    pub round_start: bool,
    /// The state is ProbeBW.
    pub in_probe_bw: bool,
}

/// The estimator.
#[derive(Clone, Copy, Debug, Default)]
pub struct Policer {
    sampling: bool,
    in_use: bool,
    rate: Rate,
    since: Nanos,
    delivered: Bytes,
    lost: Bytes,
    rounds: u32,
}

impl Policer {
    /// The rate of the policer, while BBR uses this rate.
    #[inline]
    pub fn rate(&self) -> Option<Rate> {
        if self.in_use { Some(self.rate) } else { None }
    }

    /// Feeds a sample. Returns `true` if the use of the long-term rate ends now.
    #[inline]
    pub fn sample(&mut self, e: &PolicerSample) -> bool {
        if self.in_use {
            if e.in_probe_bw && e.round_start {
                self.rounds += 1;
                if self.rounds >= USE_ROUNDS {
                    self.reset(e);
                    return true;
                }
            }
            return false;
        }
        if !self.sampling {
            // Sampling starts at the first loss, which shows that the bucket is empty: rates measured before it would
            // be too high.
            if !e.newly_lost {
                return false;
            }
            self.restart(e);
            self.sampling = true;
        }
        self.continue_interval(e);
        false
    }

    fn continue_interval(&mut self, e: &PolicerSample) {
        if e.app_limited {
            return self.reset(e);
        }
        self.rounds += u32::from(e.round_start);
        if self.rounds < INTERVAL_ROUNDS {
            return;
        }
        if self.rounds > INTERVAL_ROUNDS_MAX {
            return self.reset(e);
        }
        // An interval ends with a loss, which shows that the bucket is empty again.
        if !e.newly_lost {
            return;
        }
        let lost = e.lost - self.lost;
        let delivered = e.delivered - self.delivered;
        let elapsed = e.delivered_at - self.since;
        let heavy = lost.as_u64() * LOSS.1 >= delivered.as_u64() * LOSS.0;
        if delivered.is_zero() || !heavy || elapsed < Nanos::from_millis(1) {
            return;
        }
        self.end_interval(delivered.per(elapsed), e);
    }

    fn end_interval(&mut self, rate: Rate, e: &PolicerSample) {
        if !self.rate.is_zero() {
            let difference = if rate > self.rate { rate - self.rate } else { self.rate - rate };
            if difference * AGREE_PART <= self.rate || difference <= AGREE_RATE {
                self.rate = (rate + self.rate) / 2;
                self.in_use = true;
                self.rounds = 0;
                return;
            }
        }
        self.rate = rate;
        self.restart(e);
    }

    /// Begins a new interval.
    fn restart(&mut self, e: &PolicerSample) {
        self.since = e.delivered_at;
        self.delivered = e.delivered;
        self.lost = e.lost;
        self.rounds = 0;
    }

    /// Resets the estimator and begins a new interval.
    pub fn reset(&mut self, e: &PolicerSample) {
        *self = Self::default();
        self.restart(e);
    }
}
