//! The end of Startup, and the end of Drain (sections 5.3.1 and 5.3.2 of the draft).

use super::core::BbrCore;
use super::policy::Policy;
use super::state::{State, Undo};
use crate::{Ack, Phase, RateSample};

impl<P: Policy> BbrCore<P> {
    /// Updates the plateau detector. The detector runs in every state, but only Startup and ProbeBW_UP use its result.
    /// In v2 the detector runs in Startup only, on the filtered rate.
    #[inline]
    pub(super) fn check_full_bw(&mut self, sample: &RateSample) {
        let model = &mut self.model;
        let done = if Self::V2 { model.full_bw_reached } else { model.full_bw.now };
        if done || !model.round_start || sample.app_limited {
            return;
        }
        let rate = if Self::V2 { model.max_bw.get() } else { sample.rate };
        model.full_bw.round(rate, model.settings.full_bw_growth, model.settings.full_bw_rounds);
        model.full_bw_reached |= model.full_bw.now;
    }

    /// Implements CheckStartupDone of the draft.
    #[inline]
    pub(super) fn check_startup_done(&mut self, ack: &Ack, sample: &RateSample) {
        if !Self::V2 {
            self.check_startup_loss(ack, sample);
        }
        if self.model.state == State::Startup && self.model.full_bw_reached {
            if Self::V2 {
                self.model.reset_congestion_signals();
            }
            self.model.drain_start_round = self.model.round.count();
            self.transition(State::Drain);
        }
    }

    /// Ends Startup if too much was lost in a whole round trip in recovery, in enough separate ranges (v2: on enough
    /// acknowledgements), or if enough rounds had a high share of marks. Without selective acknowledgements one loss in
    /// recovery is enough, because the transport cannot detect more losses per round trip.
    #[inline]
    pub(super) fn check_startup_loss(&mut self, ack: &Ack, sample: &RateSample) {
        let model = &mut self.model;
        if model.state != State::Startup || model.full_bw_reached {
            return;
        }
        if Self::V2 && !ack.lost.is_zero() {
            model.losses.events = model.losses.events.saturating_add(1);
        }
        let enough = model.settings.startup_losses;
        let loss = if enough == 0 || model.phase != Phase::Recovery {
            false
        } else if model.settings.sack {
            model.loss_round_start
                && model.losses.events >= enough
                && model.is_too_high(sample.lost, sample.tx_in_flight)
        } else {
            !ack.lost.is_zero() || model.losses.events > 0
        };
        let marks = model.settings.ecn && model.marks.ends_startup(&model.settings);
        if loss || marks {
            model.full_bw_reached = true;
            model.full_bw.now = true;
            model.inflight_long = if Self::V2 {
                model.inflight_at(model.max_bw.get(), 1.0)
            } else {
                model.bdp().max(model.inflight_latest)
            };
            if loss {
                model.undo_state = Some(Undo::Startup);
            }
        }
    }

    /// Implements CheckDrainDone of the draft.
    #[inline]
    pub(super) fn check_drain_done(&mut self, ack: &Ack) {
        let model = &self.model;
        if model.state != State::Drain {
            return;
        }
        let bw = if Self::V2 { model.max_bw.get() } else { model.bw };
        let too_long =
            model.settings.drain_rounds.is_some_and(|rounds| model.round.count() > model.drain_start_round + rounds);
        if model.inflight <= model.inflight_at(bw, 1.0) || too_long {
            self.start_down(ack.now);
        }
    }
}
