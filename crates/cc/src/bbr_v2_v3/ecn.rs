//! The share of marked deliveries per round (Linux `tcp_bbr2.c` and `tcp_bbr.c` of the v3 branch).

use super::settings::Settings;
use crate::{Bytes, Nanos};

/// The estimator of the share of marked deliveries.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Marks {
    alpha: f64,
    /// Bytes delivered in this round.
    delivered: Bytes,
    /// Bytes delivered with a mark in this round.
    marked: Bytes,
    /// Marks count: set once min_rtt has been short enough, and never cleared.
    pub(super) eligible: bool,
    /// The last acknowledgement ended a round with at least the threshold share of marks.
    pub(super) high: bool,
    /// Consecutive rounds with at least the threshold share of marks.
    high_rounds: u32,
    /// A mark arrived since the last response to losses and marks.
    pub(super) in_round: bool,
    /// A mark arrived since the last cycle began.
    pub(super) in_cycle: bool,
}

impl Default for Marks {
    /// alpha starts at 1, so that the first marks count in full.
    fn default() -> Self {
        Self {
            alpha: 1.0,
            delivered: Bytes::ZERO,
            marked: Bytes::ZERO,
            eligible: false,
            high: false,
            high_rounds: 0,
            in_round: false,
            in_cycle: false,
        }
    }
}

impl Marks {
    /// The smoothed share of marked deliveries, 0 to 1.
    pub fn alpha(&self) -> f64 {
        self.alpha
    }

    /// The share of a bound kept after a round with marks.
    pub fn kept(&self, factor: f64) -> f64 {
        1.0 - self.alpha * factor
    }

    /// Counts `acked` bytes delivered, `marked` of them with a mark. At the start of a round, returns whether the
    /// previous round had at least the threshold share of marks.
    #[inline]
    pub fn on_ack(
        &mut self,
        (acked, marked): (Bytes, Bytes),
        round_start: bool,
        min_rtt: Option<Nanos>,
        settings: &Settings,
    ) -> bool {
        self.delivered += acked;
        self.marked += marked;
        self.in_round |= !marked.is_zero();
        self.in_cycle |= !marked.is_zero();
        self.high = false;
        if !round_start || self.delivered.is_zero() {
            return false;
        }
        self.eligible |= min_rtt.is_some_and(|rtt| rtt <= settings.ecn_max_rtt);
        let share = self.marked.as_f64() / self.delivered.as_f64();
        let gain = settings.ecn_alpha_gain;
        self.alpha = ((1.0 - gain) * self.alpha + gain * share).min(1.0);
        self.delivered = Bytes::ZERO;
        self.marked = Bytes::ZERO;
        self.high = self.eligible && share >= settings.ecn_thresh;
        self.high_rounds = if self.high { self.high_rounds + 1 } else { 0 };
        self.high
    }

    /// Whether the share of marks in the current round is below the threshold.
    #[inline]
    pub(super) fn few(&self, threshold: f64) -> bool {
        self.marked.as_f64() < threshold * self.delivered.as_f64()
    }

    /// Whether enough consecutive rounds had a high share of marks to end Startup.
    pub(super) fn ends_startup(&self, settings: &Settings) -> bool {
        self.high_rounds >= settings.ecn_startup_rounds
    }
}
