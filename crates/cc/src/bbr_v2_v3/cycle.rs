//! The states of ProbeBW (section 5.3.3 of the draft).

use super::core::BbrCore;
use super::model::{Model, NO_BOUND};
use super::policy::Policy;
use super::state::{AckPhase, State};
use crate::{Ack, Bytes, Nanos, Phase, RateSample};

/// Maximum number of times that the growth of `inflight_long` per round doubles.
const MOST_UP_ROUNDS: u32 = 30;

impl<P: Policy> BbrCore<P> {
    /// Implements StartProbeBW_DOWN of the draft.
    pub(super) fn start_down(&mut self, now: Nanos) {
        let model = &mut self.model;
        model.reset_congestion_signals();
        model.probe_up_per_inc = NO_BOUND;
        model.pick_probe_wait();
        model.cycle_at = now;
        model.ack_phase = AckPhase::Stopping;
        model.restart_round();
        self.transition(State::Down);
    }

    /// Implements StartProbeBW_CRUISE of the draft.
    pub(super) fn start_cruise(&mut self) {
        if Self::V2 && self.model.inflight_short != NO_BOUND {
            self.model.inflight_short = self.model.inflight_short.min(self.model.inflight_long);
        }
        self.transition(State::Cruise);
    }

    /// StartProbeBW_REFILL. The next probe starts as if it had already grown for `up_rounds` rounds.
    pub(super) fn start_refill(&mut self, up_rounds: u32) {
        let model = &mut self.model;
        model.reset_short_term();
        model.probe_up_rounds = up_rounds;
        model.probe_up_acked = Bytes::ZERO;
        model.probe_precautionary = false;
        model.ok_probe_sample = false;
        model.ack_phase = AckPhase::Refilling;
        model.restart_round();
        self.transition(State::Refill);
    }

    /// Implements StartProbeBW_UP of the draft.
    fn start_up(&mut self, now: Nanos, sample: &RateSample) {
        let model = &mut self.model;
        model.probe_samples = true;
        model.ack_phase = AckPhase::Starting;
        model.restart_round();
        if Self::V2 {
            model.cycle_at = now;
        } else {
            model.full_bw.restart(sample.rate);
        }
        self.transition(State::Up);
        self.model.raise_slope();
    }

    /// Implements UpdateProbeBWCyclePhase of the draft.
    #[inline]
    pub(super) fn update_cycle(&mut self, ack: &Ack, sample: &RateSample) {
        if !self.model.full_bw_reached || self.adapt_long_term(ack, sample) {
            return;
        }
        let state = self.model.state;
        if state == State::Down && !self.probe_if_due(ack) && self.model.is_time_to_cruise(ack, Self::V2) {
            self.start_cruise();
        } else if state == State::Cruise {
            self.probe_if_due(ack);
        } else if state == State::Refill && self.model.round_start {
            // After one round of REFILL, samples reflect the full pipe.
            self.start_up(ack.now, sample);
        } else if state == State::Up && self.model.is_time_to_go_down(ack, sample, Self::V2) {
            self.model.probe_too_high = false;
            self.start_down(ack.now);
        }
    }

    /// Implements IsTimeToProbeBW of the draft.
    #[inline]
    fn probe_if_due(&mut self, ack: &Ack) -> bool {
        let model = &mut self.model;
        if model.settings.ecn && model.marks_have_ceased(ack) {
            // Starting from this slope, the first round of the probe raises inflight_long by about the share
            // `ecn_reprobe_gain`.
            let wanted = model.inflight_long.mul_f64(model.settings.ecn_reprobe_gain);
            let segments = (wanted.as_u64() / model.settings.mss.as_u64()).max(1);
            self.start_refill(segments.ilog2().min(MOST_UP_ROUNDS));
            return true;
        }
        let due = ack.now > model.cycle_at + model.probe_wait || model.is_reno_time(Self::V2);
        if due {
            self.start_refill(0);
        }
        due
    }

    /// AdaptLongTermModel: tracks the acknowledgements of a probe, and raises `inflight_long` if that is
    /// safe. Returns whether REFILL has begun.
    #[inline]
    fn adapt_long_term(&mut self, ack: &Ack, sample: &RateSample) -> bool {
        let model = &self.model;
        if model.marks.high && model.probe_samples {
            // Too large a share of marked deliveries in a round shows that inflight was too high in the probe, like too
            // many losses in a flight.
            let state = model.state;
            self.handle_too_high(ack.now, sample.tx_in_flight, sample.app_limited);
            if self.model.state != state {
                return false;
            }
        }
        let model = &mut self.model;
        if model.round_start {
            match model.ack_phase {
                AckPhase::Starting => model.ack_phase = AckPhase::Feedback,
                AckPhase::Stopping => {
                    model.probe_samples = false;
                    model.ack_phase = AckPhase::Init;
                    if model.state.in_probe_bw() {
                        if !sample.app_limited {
                            model.max_bw.advance();
                        }
                        if model.probe_precautionary && !model.probe_too_high {
                            // The cautious probe reached inflight_long without too many losses or marks, so the next
                            // probe goes beyond inflight_long.
                            self.start_refill(0);
                            return true;
                        }
                    }
                }
                _ => {}
            }
        }
        let model = &mut self.model;
        if model.is_too_high(sample.lost, sample.tx_in_flight) {
            if Self::V2 && model.probe_samples {
                self.handle_too_high(ack.now, sample.tx_in_flight, sample.app_limited);
            }
            return false;
        }
        model.ok_probe_sample |= model.probe_samples && model.marks.few(model.settings.ecn_thresh);
        if model.bw_long < sample.rate {
            model.bw_long = sample.rate;
        }
        if model.inflight_long == NO_BOUND {
            return false;
        }
        if sample.tx_in_flight > model.inflight_long {
            model.inflight_long = sample.tx_in_flight;
        }
        if model.state == State::Up {
            model.probe_upward(ack.acked, Self::V2);
        }
        false
    }
}

impl Model {
    /// Implements PickProbeWait of the draft.
    fn pick_probe_wait(&mut self) {
        let settings = &self.settings;
        self.rounds_since_probe = self.flow.random.below(settings.probe_rounds_random + 1);
        self.probe_wait = settings.probe_wait + settings.probe_wait_random.mul_f64(self.flow.random.unit());
    }

    /// RaiseInflightLongtermSlope: 1, 2, 4 … segments per round.
    fn raise_slope(&mut self) {
        let growth = 1u64 << self.probe_up_rounds;
        self.probe_up_rounds = (self.probe_up_rounds + 1).min(MOST_UP_ROUNDS);
        self.probe_up_per_inc = (self.cwnd / growth).max(self.settings.mss);
    }

    /// ProbeInflightLongtermUpward: raises `inflight_long` only while cwnd is full and not below `inflight_long`: this
    /// shows that the bound is safe.
    #[inline]
    fn probe_upward(&mut self, acked: Bytes, v2: bool) {
        if !self.cwnd_full || self.cwnd < self.inflight_long {
            if v2 {
                self.probe_up_acked = Bytes::ZERO;
            }
            return;
        }
        self.probe_up_acked += acked;
        if self.probe_up_acked >= self.probe_up_per_inc {
            let steps = self.probe_up_acked.as_u64() / self.probe_up_per_inc.as_u64();
            self.probe_up_acked -= self.probe_up_per_inc * steps;
            self.inflight_long += self.settings.mss * steps;
        }
        if self.round_start {
            self.raise_slope();
        }
    }

    /// IsRenoCoexistenceProbeTime: a Reno flow with this BDP loses one packet every N rounds, where N is the BDP in
    /// packets.
    #[inline]
    fn is_reno_time(&self, v2: bool) -> bool {
        let most = self.settings.probe_rounds;
        let since = self.rounds_since_probe;
        since >= most || since >= self.target_inflight(v2).as_u64().div_ceil(self.settings.mss.as_u64())
    }

    /// Implements IsTimeToGoDown of the draft.
    #[inline]
    fn is_time_to_go_down(&mut self, ack: &Ack, sample: &RateSample, v2: bool) -> bool {
        let inflight = if v2 { ack.inflight_before } else { self.inflight };
        if self.settings.precaution && self.probe_too_high && inflight >= self.inflight_long {
            self.probe_precautionary = true;
            return true;
        }
        if v2 {
            // The probe ends when the queue reaches a quarter of the BDP. Measuring the queue takes a round trip.
            let gain = self.settings.up_inflight_gain;
            let elapsed = self.min_rtt().is_some_and(|rtt| ack.now > self.cycle_at + rtt);
            return elapsed && inflight >= self.inflight_at(self.max_bw.get(), gain);
        }
        if self.cwnd_full && self.cwnd >= self.inflight_long {
            // While inflight_long limits the rate, a plateau of the rate does not show that the path is full.
            self.full_bw.restart(sample.rate);
            return false;
        }
        self.full_bw.now
    }

    /// IsTimeToCruise: whether inflight leaves headroom and the queue is drained.
    #[inline]
    fn is_time_to_cruise(&self, ack: &Ack, v2: bool) -> bool {
        let inflight = if v2 { ack.inflight_before } else { self.inflight };
        inflight <= self.inflight_with_headroom() && inflight <= self.inflight_at(self.max_bw.get(), 1.0)
    }

    /// Whether marks have ceased: this cycle had marks and no loss, and the transport has completed its
    /// response.
    fn marks_have_ceased(&self, ack: &Ack) -> bool {
        self.settings.ecn_reprobe_gain > 0.0
            && self.marks.eligible
            && self.marks.in_cycle
            && !self.loss_in_cycle
            && ack.phase == Phase::Open
            && ack.ce.is_zero()
    }
}
