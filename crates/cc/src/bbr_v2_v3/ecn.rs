//! The share of marked deliveries, round by round (Linux `tcp_bbr2.c` and `tcp_bbr.c` of the v3 branch).

use super::settings::Settings;
use crate::{Bytes, Nanos};

/// The estimator.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Marks {
    alpha: f64,
    /// Delivered, and delivered with a mark, in this round.
    delivered: Bytes,
    marked: Bytes,
    /// The path is short enough for marks to count; once it was, they count for good.
    pub(super) eligible: bool,
    /// The acknowledgement that was told last ended a round with a share above the threshold.
    pub(super) high: bool,
    /// Such rounds in a row.
    high_rounds: u32,
    /// A mark in the round that runs since losses and marks were last answered.
    pub(super) in_round: bool,
    /// A mark since the last cycle began.
    pub(super) in_cycle: bool,
}

impl Default for Marks {
    /// Everything was marked before anything is known, so that the first marks count in full.
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

    /// What a round with marks leaves of a bound.
    pub fn kept(&self, factor: f64) -> f64 {
        1.0 - self.alpha * factor
    }

    /// `acked` was delivered, `marked` of it with a mark. At the start of a round returns whether the one that ended had a
    /// share of marks above the threshold.
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

    /// Of what the running round has delivered, a share below the threshold is marked.
    #[inline]
    pub(super) fn few(&self, threshold: f64) -> bool {
        self.marked.as_f64() < threshold * self.delivered.as_f64()
    }

    /// Enough rounds in a row had a high share.
    pub(super) fn ends_startup(&self, settings: &Settings) -> bool {
        self.high_rounds >= settings.ecn_startup_rounds
    }
}
