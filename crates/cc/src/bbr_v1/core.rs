//! The steps of BBR, in the order of Linux `tcp_bbr.c`.

use super::aggregation::EPOCH_SEGMENTS;
use super::model::Model;
use super::policer::PolicerSample;
use super::policy::Policy;
use super::settings::{FULL_BW_GROWTH, FULL_BW_ROUNDS, Settings};
use super::state::{CYCLE_PHASES, State};
use crate::bbr_common::{ProbeRtt, common_core};
use crate::{
    Ack, Bytes, CongestionCause, CongestionControl, Control, Feedback, IdleRestart, Info, Lost, Nanos, Phase, Rate,
    RateSample, ReceiverFeedback, RecoveryEntered, RecoveryLeft, Scheme, Sent, Setup, SpuriousLoss, Telemetry, Timeout,
    Value,
};

/// BBR with the differences of policy `P`.
#[derive(Clone, Debug)]
pub struct BbrCore<P> {
    model: Model,
    policy: P,
}

impl<P: Policy> BbrCore<P> {
    common_core!();

    /// Changes the state; every transition goes through here.
    fn transition(&mut self, to: State) {
        debug_assert!(self.model.state.may_become(to), "{:?} may not become {to:?}", self.model.state);
        self.policy.on_transition(to, &self.model);
        self.model.state = to;
    }

    /// Enters ProbeBW in a random phase, but not in the draining phase. The random phase prevents flows from probing in
    /// synchrony.
    fn enter_probe_bw(&mut self) {
        let last = CYCLE_PHASES - 1;
        let drawn = self.model.random.below(u64::from(last)) as u8;
        let phase = (CYCLE_PHASES - drawn) % CYCLE_PHASES;
        self.transition(State::ProbeBw { phase, since: self.model.delivered_at });
    }

    /// Step 1: updates the round counter, the policer estimator and the bandwidth filter. Returns whether the rate
    /// sample was application-limited, or `None` without a sample.
    #[inline]
    fn update_bandwidth(&mut self, ack: &Ack) -> Option<bool> {
        let model = &mut self.model;
        model.round_start = false;
        let sample = ack.rate.as_ref()?;
        if model.round.on_ack(sample.prior_delivered, ack.delivered) {
            model.round_start = true;
            model.conserving = false;
        }
        let limited = model.is_limited(sample);
        self.sample_policer(!ack.lost.is_zero(), limited);
        let model = &mut self.model;
        // An application-limited sample is only a lower bound of the bandwidth, so it counts only if it is not below
        // the estimate.
        if !limited || sample.rate >= model.bw.get() {
            model.bw.update(model.settings.bw_window, model.round.count(), sample.rate);
        }
        Some(limited)
    }

    #[inline]
    fn sample_policer(&mut self, newly_lost: bool, app_limited: bool) {
        if !self.model.settings.lt_bw {
            return;
        }
        let sample = self.model.policer_sample(newly_lost, app_limited);
        if self.model.policer.sample(&sample) {
            self.enter_probe_bw();
        }
    }

    /// Step 2: updates the ACK aggregation estimator.
    #[inline]
    fn update_aggregation(&mut self, ack: &Ack) {
        let model = &mut self.model;
        if !model.settings.extra_acked || ack.acked.is_zero() || ack.rate.is_none() {
            return;
        }
        if model.round_start {
            model.aggregation.on_round();
        }
        let bw = model.bw();
        model.aggregation.sample(ack.now, ack.acked, bw, model.cwnd, model.settings.mss * EPOCH_SEGMENTS);
    }

    /// Step 3: advances the gain cycle.
    #[inline]
    fn update_cycle(&mut self, ack: &Ack) {
        if let State::ProbeBw { phase, since } = self.model.state
            && self.policy.phase_done(phase, since, ack, &self.model)
        {
            let phase = (phase + 1) % CYCLE_PHASES;
            self.transition(State::ProbeBw { phase, since: self.model.delivered_at });
        }
    }

    /// Step 4: the pipe is full when the bandwidth has not grown by a quarter for three consecutive round trips.
    #[inline]
    fn check_full_bw_reached(&mut self, app_limited: bool) {
        let model = &mut self.model;
        if model.full_bw_reached || !model.round_start || app_limited {
            return;
        }
        let bw = model.bw.get();
        if bw >= model.full_bw.mul_f64(FULL_BW_GROWTH) {
            model.full_bw = bw;
            model.full_bw_rounds = 0;
        } else {
            model.full_bw_rounds += 1;
            model.full_bw_reached = model.full_bw_rounds >= FULL_BW_ROUNDS;
        }
    }

    /// Step 5: from Startup to Drain when the pipe is full, and from Drain to ProbeBW when inflight is down
    /// to the BDP.
    #[inline]
    fn check_drain(&mut self) {
        if self.model.state == State::Startup && self.model.full_bw_reached {
            self.transition(State::Drain);
        }
        if self.model.state == State::Drain && self.policy.drain_done(&self.model) {
            self.enter_probe_bw();
        }
    }

    /// Step 6: updates the min_rtt filter, and enters ProbeRTT when min_rtt expires.
    #[inline]
    fn update_min_rtt(&mut self, ack: &Ack) {
        let window = self.model.settings.min_rtt_window;
        let expired = self.model.min_rtt.is_some_and(|(_, at)| ack.now - at > window);
        if expired {
            self.policy.on_min_rtt_expired(&self.model);
        }
        if let Some(rtt) = ack.rtt {
            let lower = self.model.min_rtt.is_none_or(|(least, _)| rtt <= least);
            if lower || expired && !may_be_delayed(ack, self.model.settings.mss) {
                self.model.min_rtt = Some((rtt, ack.now));
            }
        }
        let probing = matches!(self.model.state, State::ProbeRtt { .. });
        let allowed = !self.model.settings.probe_rtt_duration.is_zero() && !self.model.idle_restart;
        if expired && allowed && !probing {
            self.transition(State::ProbeRtt(ProbeRtt::ENTRY));
            // The transition precedes the save, as in Linux: in ProbeRTT a larger cwnd that was saved before is kept.
            self.model.save_cwnd();
            self.model.probe_rtt_limited = Some((ack.delivered, ack.delivered));
        }
        if let State::ProbeRtt(clock) = self.model.state {
            let window = self.policy.probe_rtt_cwnd(&self.model);
            self.continue_probe_rtt(ack, clock, window);
        }
        if !ack.acked.is_zero() {
            self.model.idle_restart = false;
        }
    }

    /// Leaves ProbeRTT if `end` has passed.
    fn leave_probe_rtt(&mut self, now: Nanos, end: Nanos) {
        if now <= end {
            return;
        }
        let model = &mut self.model;
        if let Some((_, at)) = &mut model.min_rtt {
            *at = now;
        }
        model.restore_window();
        if model.full_bw_reached {
            self.enter_probe_bw();
        } else {
            self.transition(State::Startup);
        }
    }

    /// Step 7: sets the pacing rate. Until the pipe is full, the pacing rate only rises.
    #[inline]
    fn set_pacing_rate(&mut self, srtt: Option<Nanos>, gain: f64) {
        let model = &mut self.model;
        if let Some(srtt) = model.first_srtt(srtt) {
            model.start_pacing(srtt);
        }
        let bw = self.policy.bandwidth(model.bw(), model);
        let rate = bw.mul_f64(gain * model.settings.pacing_share);
        if model.full_bw_reached || rate > model.pacing_rate {
            model.set_pacing_rate(rate);
        }
    }

    /// Step 8: sets cwnd.
    #[inline]
    fn set_cwnd(&mut self, ack: &Ack) {
        // If nothing was delivered, only the caps apply.
        if !ack.acked.is_zero() {
            let (window, final_) = self.recover_or_restore(ack);
            self.model.cwnd = if final_ { window } else { self.grow(window, ack) };
        }
        if let State::ProbeRtt { .. } = self.model.state {
            self.model.cwnd = self.model.cwnd.min(self.policy.probe_rtt_cwnd(&self.model));
        }
    }

    /// Returns cwnd moved towards its target, by at most the data delivered.
    #[inline]
    fn grow(&self, window: Bytes, ack: &Ack) -> Bytes {
        let model = &self.model;
        let bw = self.policy.bandwidth(model.bw(), model);
        let target = model.target(&self.policy, bw, self.policy.cwnd_gain(model), model.extra_acked());
        let grown = window + ack.acked;
        let window = if model.full_bw_reached {
            grown.min(target)
        } else if window < target || ack.delivered < model.settings.initial_window {
            grown
        } else {
            window
        };
        window.max(model.settings.min_window)
    }

    /// Returns cwnd after the response to loss and recovery, and whether this cwnd is final (no growth follows).
    #[inline]
    fn recover_or_restore(&mut self, ack: &Ack) -> (Bytes, bool) {
        let model = &mut self.model;
        let mut window = model.cwnd;
        if !ack.lost.is_zero() {
            window = (window - ack.lost).max(model.settings.mss);
        }
        // BBR v1 does not treat a response to marks as recovery.
        let phase = if model.only_marked && ack.phase == Phase::Recovery { Phase::Open } else { ack.phase };
        let before = model.phase;
        if phase == Phase::Recovery && before != Phase::Recovery {
            let entry = self.policy.enter_recovery(window, ack, model);
            window = entry.cwnd;
            model.conserving = entry.conserve;
            if entry.conserve {
                model.round.restart(ack.delivered);
            }
        } else if phase == Phase::Open && before != Phase::Open {
            window = self.policy.leave_recovery(window, ack, model);
            model.conserving = false;
        }
        model.phase = phase;
        if model.conserving {
            let window = self.policy.conserve(window, ack, model);
            if let Some(gain) = self.policy.conserving_gain() {
                self.set_pacing_rate(ack.srtt, gain);
            }
            return (window, true);
        }
        (window, false)
    }
}

/// Whether the receiver may have delayed this acknowledgement: the acknowledgement covers one packet below full size,
/// and no other packet was in flight. The RTT sample of such an acknowledgement must not replace an expired minimum.
fn may_be_delayed(ack: &Ack, mss: Bytes) -> bool {
    let lone = ack.rate.is_some_and(|sample| sample.delivered == ack.acked);
    lone && ack.acked < mss
        && ack.acked_cumulative.is_none_or(|cumulative| cumulative == ack.acked)
        && ack.phase == Phase::Open
        && ack.ce.is_zero()
}

impl Model {
    /// Whether the application or ProbeRTT limited the sample, so that it may be below the bandwidth.
    #[inline]
    pub fn is_limited(&self, sample: &RateSample) -> bool {
        sample.app_limited || self.is_probe_rtt_limited(sample.prior_delivered)
    }

    #[inline]
    fn policer_sample(&self, newly_lost: bool, app_limited: bool) -> PolicerSample {
        PolicerSample {
            delivered_at: self.delivered_at,
            delivered: self.delivered,
            lost: self.lost,
            newly_lost,
            app_limited,
            round_start: self.round_start,
            in_probe_bw: self.in_probe_bw(),
        }
    }

    /// Sets the initial pacing rate, before any bandwidth sample: cwnd / RTT times the gain of Startup.
    fn start_pacing(&mut self, rtt: Nanos) {
        let gain = self.settings.high_gain * self.settings.pacing_share;
        self.set_pacing_rate(self.cwnd.per(rtt).mul_f64(gain));
    }
}

impl<P: Policy> Scheme for BbrCore<P> {
    const INFO: Info = P::INFO;
    const FEEDBACK: Feedback = P::FEEDBACK;

    fn new(setup: &Setup) -> Self {
        let setup = &Setup { params: setup.params.as_printed(P::PRINTED), ..setup.clone() };
        let mut model = Model::new(Settings::new(setup), setup.random.clone());
        model.start_pacing(Nanos::from_millis(1));
        Self { model, policy: P::new(setup) }
    }
}

impl<P: Policy> CongestionControl for BbrCore<P> {
    #[inline]
    fn on_sent(&mut self, event: &Sent) {
        self.policy.on_sent(event, &self.model);
    }

    fn on_receiver_feedback(&mut self, event: &ReceiverFeedback) {
        self.policy.on_receiver_feedback(event, &self.model);
    }

    fn on_ack(&mut self, ack: &Ack) {
        let model = &mut self.model;
        model.flow.on_ack(ack);
        if !ack.acked.is_zero() || model.delivered_at.is_zero() {
            model.delivered_at = ack.now;
        }
        let app_limited = self.update_bandwidth(ack).unwrap_or(false);
        self.update_aggregation(ack);
        self.policy.observe(ack, &self.model);
        self.update_cycle(ack);
        self.check_full_bw_reached(app_limited);
        self.check_drain();
        self.update_min_rtt(ack);
        let gain = self.policy.pacing_gain(&self.model);
        self.set_pacing_rate(ack.srtt, gain);
        self.set_cwnd(ack);
    }

    fn on_lost(&mut self, event: &Lost) {
        self.model.lost = event.lost_total;
        self.model.only_marked = false;
    }

    fn on_recovery_entered(&mut self, event: &RecoveryEntered) {
        self.model.save_cwnd();
        self.model.only_marked = event.cause == CongestionCause::Ecn;
    }

    fn on_recovery_left(&mut self, _event: &RecoveryLeft) {
        self.model.only_marked = false;
    }

    fn on_timeout(&mut self, event: &Timeout) {
        let model = &mut self.model;
        // If recovery precedes the timeout, cwnd is already saved. In a series of timeouts the largest saved cwnd is
        // kept.
        if model.phase != Phase::Recovery {
            model.save_cwnd();
        }
        model.flow.collapse(event, model.settings.mss);
        model.full_bw = Rate::ZERO;
        // For the policer estimator a timeout is a loss at the end of a round.
        model.round_start = true;
        self.sample_policer(true, false);
    }

    fn on_spurious_loss(&mut self, _event: &SpuriousLoss) {
        // The next round trip sets a new reference rate (`full_bw`) and restarts the count of rounds without growth.
        let model = &mut self.model;
        model.full_bw = Rate::ZERO;
        let sample = model.policer_sample(false, false);
        model.policer.reset(&sample);
    }

    fn on_idle_restart(&mut self, event: &IdleRestart) {
        let model = &mut self.model;
        let probe_rtt_limited = model.probe_rtt_limited.is_some_and(|(_, until)| event.delivered <= until);
        if !event.app_limited && !probe_rtt_limited {
            return;
        }
        model.idle_restart = true;
        model.aggregation.restart(event.now);
        match model.state {
            // The pipe is empty: pacing at the estimated bandwidth fills it, and a higher rate would only build a
            // queue.
            State::ProbeBw { .. } => self.set_pacing_rate(None, 1.0),
            State::ProbeRtt(ProbeRtt { until: Some(end), .. }) => self.leave_probe_rtt(event.now, end),
            _ => {}
        }
    }

    #[inline]
    fn control(&self) -> Control {
        Control { cwnd: self.model.cwnd, pacing_rate: Some(self.model.pacing_rate), burst: self.model.burst() }
    }

    fn telemetry(&self, sink: Telemetry<'_>) {
        let model = &self.model;
        sink("state", Value::State(model.state.name()));
        sink("bw_estimate", Value::Rate(model.bw()));
        if let Some(rtt) = model.min_rtt() {
            sink("min_rtt", Value::Time(rtt));
        }
        sink("pacing_gain", Value::Number(self.policy.pacing_gain(model)));
        sink("cwnd_gain", Value::Number(self.policy.cwnd_gain(model)));
        sink("full_bw", Value::Rate(model.full_bw));
        sink("extra_acked", Value::Bytes(model.extra_acked()));
        sink("lt_bw", Value::Rate(model.policed().unwrap_or(Rate::ZERO)));
        sink("round", Value::Number(model.round() as f64));
        self.policy.telemetry(sink);
    }
}
