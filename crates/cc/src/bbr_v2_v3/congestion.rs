//! Response to loss and marks, and its undo (sections 5.5.10 and 5.5.11 of the draft).

use super::core::BbrCore;
use super::model::{NO_BOUND, NO_RATE_BOUND, Saved};
use super::policy::Policy;
use super::state::{State, Undo};
use crate::{Ack, Bytes, Lost, Nanos, Phase, Rate, RateSample};

impl<P: Policy> BbrCore<P> {
    /// Implements UpdateLatestDeliverySignals of the draft.
    #[inline]
    pub(super) fn update_latest(&mut self, ack: &Ack, sample: &RateSample) {
        let model = &mut self.model;
        model.loss_round_start = false;
        if model.loss_round_at.take() == Some(ack.now) {
            model.loss_round_delivered = ack.delivered;
        }
        if ack.rate.is_none() {
            return;
        }
        model.bw_latest = model.bw_latest.max(sample.rate);
        model.inflight_latest = model.inflight_latest.max(sample.delivered);
        if sample.prior_delivered >= model.loss_round_delivered {
            model.loss_round_delivered = ack.delivered;
            model.loss_round_start = true;
        }
    }

    /// Implements AdvanceLatestDeliverySignals of the draft.
    #[inline]
    pub(super) fn advance_latest(&mut self, sample: &RateSample) {
        let model = &mut self.model;
        if model.loss_round_start {
            model.bw_latest = sample.rate;
            model.inflight_latest = sample.delivered;
            model.losses = Default::default();
        }
    }

    /// UpdateCongestionSignals: updates the bandwidth filter, and once per loss round the short-term bounds.
    #[inline]
    pub(super) fn update_congestion(&mut self, ack: &Ack, sample: &RateSample) {
        let model = &mut self.model;
        model.round_start = false;
        if model.round_at.take() == Some(ack.now) {
            model.round.restart(ack.delivered);
        }
        if ack.rate.is_some() {
            if model.round.on_ack(sample.prior_delivered, ack.delivered) {
                model.round_start = true;
                model.rounds_since_probe = model.rounds_since_probe.saturating_add(1);
            }
            // An application-limited sample is only a lower bound of the bandwidth, so it counts only if it is not
            // below the estimate.
            if !sample.app_limited || sample.rate >= model.max_bw.get() {
                model.max_bw.update(sample.rate);
            }
        }
        if model.settings.ecn {
            let (round_start, min_rtt) = (model.round_start, model.min_rtt());
            model.marks.on_ack((ack.acked, ack.ce), round_start, min_rtt, &model.settings);
        }
        if model.loss_round_start {
            if !model.state.probes_bandwidth() && (model.loss_in_round || model.marks.in_round) {
                self.adapt_lower_bounds();
            }
            self.model.loss_in_round = false;
            self.model.marks.in_round = false;
        }
    }

    /// AdaptLowerBoundsFromCongestion: lowers the short-term bounds, except during probes.
    fn adapt_lower_bounds(&mut self) {
        let model = &mut self.model;
        let (beta, max_bw) = (model.settings.beta, model.max_bw.get());
        let marked = model.marks.in_round && model.marks.eligible && model.settings.ecn_factor > 0.0;
        if !marked && !model.loss_in_round {
            return;
        }
        if model.inflight_short == NO_BOUND {
            model.inflight_short = model.cwnd;
        }
        if model.bw_short == NO_RATE_BOUND && (model.loss_in_round || model.settings.ecn_bw) {
            model.bw_short = max_bw;
        }
        let (mut marked_inflight, mut marked_bw) = (NO_BOUND, NO_RATE_BOUND);
        if marked {
            let kept = model.marks.kept(model.settings.ecn_factor);
            marked_inflight = model.inflight_short.mul_f64(kept);
            if model.settings.ecn_bw {
                marked_bw = model.bw_short.mul_f64(kept);
            }
        }
        if model.loss_in_round {
            model.bw_short = model.bw_latest.max(model.bw_short.mul_f64(beta));
            model.inflight_short = model.inflight_latest.max(model.inflight_short.mul_f64(beta));
        }
        model.inflight_short = model.inflight_short.min(marked_inflight);
        model.bw_short = model.bw_short.min(marked_bw).max(Rate::from_bytes_per_sec(1));
    }

    /// Implements HandleLostPacket of the draft.
    pub(super) fn note_loss(&mut self, lost: &Lost) {
        let model = &mut self.model;
        if !Self::V2 {
            model.losses.add_range(lost);
        }
        if model.only_marked {
            // The response to marks becomes loss recovery.
            model.only_marked = false;
            self.save_state();
            self.model.phase = Phase::Recovery;
        }
        let model = &mut self.model;
        if !model.loss_in_round {
            model.loss_round_delivered = model.delivered;
            model.loss_round_at = Some(lost.now);
            self.save_state();
        }
        let model = &mut self.model;
        model.loss_in_round = true;
        model.loss_in_cycle = true;
        let since = lost.lost_total - lost.lost_at_send;
        if model.probe_samples && model.is_too_high(since, lost.tx_in_flight) {
            let inflight = model.inflight_at_loss(lost.bytes, lost.tx_in_flight, since, Self::V2);
            let limited = lost.app_limited || model.is_probe_rtt_limited(lost.delivered_at_send);
            if model.state == State::Up {
                model.round_at = Some(lost.now);
            }
            self.handle_too_high(lost.now, inflight, limited);
        }
    }

    /// HandleInflightTooHigh: a probe with `inflight` in flight had too many losses or marks. Called once per probe.
    pub(super) fn handle_too_high(&mut self, now: Nanos, inflight: Bytes, limited: bool) {
        let model = &mut self.model;
        model.probe_too_high = true;
        model.probe_samples = false;
        if !limited {
            let least = model.target_inflight(Self::V2).mul_f64(model.settings.beta);
            model.inflight_long = inflight.max(least);
            if model.settings.ecn && model.settings.ecn_bw && model.marks.eligible && !model.ok_probe_sample {
                let bound = if model.bw_long == NO_RATE_BOUND { model.max_bw.get() } else { model.bw_long };
                model.bw_long = bound.mul_f64(model.marks.kept(model.settings.ecn_factor));
            }
        }
        if model.state == State::Up {
            model.undo_state = Some(Undo::Up);
            self.start_down(now);
        }
    }

    /// SaveStateUponLoss, at most once per recovery: a second save, after the loss that ended a probe, would overwrite
    /// the state from before that loss.
    pub(super) fn save_state(&mut self) {
        let model = &mut self.model;
        model.save_cwnd();
        if model.has_saved {
            return;
        }
        model.undo_state = None;
        model.saved = Saved {
            bw_short: model.bw_short,
            inflight_short: model.inflight_short,
            inflight_long: model.inflight_long,
        };
        model.has_saved = true;
    }

    /// Implements HandleSpuriousLossDetection of the draft.
    pub(super) fn undo(&mut self, now: Nanos) {
        let model = &mut self.model;
        model.restore_window();
        model.loss_in_round = false;
        model.full_bw.restart(Rate::ZERO);
        model.bw_short = model.bw_short.max(model.saved.bw_short);
        model.inflight_short = model.inflight_short.max(model.saved.inflight_short);
        model.inflight_long = model.inflight_long.max(model.saved.inflight_long);
        let (state, undo) = (model.state, model.undo_state.take());
        if Self::V2 {
            return;
        }
        let in_probe_rtt = matches!(state, State::ProbeRtt { .. });
        match undo {
            Some(Undo::Startup) if state != State::Startup => {
                self.model.full_bw_reached = false;
                if !in_probe_rtt {
                    self.transition(State::Startup);
                }
            }
            Some(Undo::Up) if state != State::Up && !in_probe_rtt => {
                self.model.round_at = Some(now);
                self.start_refill(0);
            }
            _ => {}
        }
    }
}
