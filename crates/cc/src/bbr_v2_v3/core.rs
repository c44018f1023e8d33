//! The steps of BBR v3, in the order of draft-ietf-ccwg-bbr-06.

use super::model::Model;
use super::policy::{Generation, Policy};
use super::settings::Settings;
use super::state::{State, Undo};
use crate::bbr_common::{ProbeRtt, common_core};
use crate::{
    Ack, Bytes, CongestionCause, CongestionControl, Control, IdleRestart, Info, Lost, Nanos, Phase, Rate, RateSample,
    RecoveryEntered, RecoveryLeft, Scheme, Setup, SpuriousLoss, Telemetry, Timeout, Value,
};

/// BBR v3 or v2 with the differences of policy `P`.
#[derive(Clone, Debug)]
pub struct BbrCore<P> {
    pub(super) model: Model,
    pub(super) policy: P,
}

/// The rate sample that stands in for an acknowledgement without one.
const NO_SAMPLE: RateSample = RateSample {
    rate: Rate::ZERO,
    delivered: Bytes::ZERO,
    interval: Nanos::ZERO,
    prior_delivered: Bytes::ZERO,
    tx_in_flight: Bytes::ZERO,
    lost: Bytes::ZERO,
    app_limited: false,
};

impl Model {
    /// The rate sample of an acknowledgement; all zero if the acknowledgement has no sample. Samples of ProbeRTT count
    /// as application-limited.
    #[inline]
    fn sample(&self, ack: &Ack) -> RateSample {
        ack.rate.map_or(NO_SAMPLE, |sample| RateSample {
            app_limited: sample.app_limited || self.is_probe_rtt_limited(sample.prior_delivered),
            ..sample
        })
    }
}

impl<P: Policy> BbrCore<P> {
    pub(super) const V2: bool = matches!(P::GENERATION, Generation::V2);

    common_core!();

    /// Changes the state; every transition goes through here.
    pub(super) fn transition(&mut self, to: State) {
        debug_assert!(self.model.state.may_become(to), "{:?} may not become {to:?}", self.model.state);
        debug_assert!(
            self.model.full_bw_reached || !(to.in_probe_bw() || to == State::Drain),
            "{to:?} before the bandwidth was found"
        );
        self.policy.on_transition(to, &self.model);
        self.model.state = to;
    }

    /// Implements UpdateACKAggregation of the draft.
    #[inline]
    fn update_aggregation(&mut self, ack: &Ack) {
        let model = &mut self.model;
        if !model.settings.extra_acked || ack.acked.is_zero() || ack.rate.is_none() {
            return;
        }
        let extra = model.epoch.excess(ack.now, ack.acked, model.bw, Bytes::MAX).min(model.cwnd);
        let window = if model.full_bw_reached { model.settings.extra_acked_window } else { 1 };
        model.extra_acked.update(window, model.round.count(), extra);
    }

    /// Implements SetCwnd of the draft.
    #[inline]
    fn set_cwnd(&mut self, ack: &Ack) {
        let model = &mut self.model;
        model.update_max_inflight();
        let mut window = model.cwnd;
        if !ack.acked.is_zero() {
            let grown = window + ack.acked;
            if model.full_bw_reached {
                window = grown.min(model.max_inflight);
            } else if window < model.max_inflight || ack.delivered < model.settings.initial_window {
                window = grown;
            }
            window = window.max(model.settings.min_window);
        }
        if let State::ProbeRtt { .. } = model.state {
            window = window.min(model.probe_rtt_cwnd());
        }
        model.cwnd = window.min(model.volume_bound());
    }
}

impl<P: Policy> Scheme for BbrCore<P> {
    const INFO: Info = P::INFO;

    fn new(setup: &Setup) -> Self {
        let mut model = Model::new(Settings::new(setup, Self::V2), setup.random.clone());
        model.start_pacing(Nanos::from_millis(1));
        Self { model, policy: P::new(setup) }
    }
}

impl<P: Policy> CongestionControl for BbrCore<P> {
    fn on_ack(&mut self, ack: &Ack) {
        let model = &mut self.model;
        model.flow.on_ack(ack);
        model.cwnd_full = ack.cwnd_full;
        let sample = model.sample(ack);
        self.update_latest(ack, &sample);
        self.update_congestion(ack, &sample);
        self.update_aggregation(ack);
        self.policy.observe(ack, &self.model);
        if Self::V2 {
            self.check_startup_loss(ack, &sample);
        }
        self.check_full_bw(&sample);
        self.check_startup_done(ack, &sample);
        self.check_drain_done(ack);
        self.update_cycle(ack, &sample);
        self.update_min_rtt(ack);
        self.check_probe_rtt(ack);
        self.advance_latest(&sample);

        let model = &mut self.model;
        model.bw = model.max_bw.get().min(model.bw_short).min(model.bw_long);
        if let Some(srtt) = model.first_srtt(ack.srtt) {
            model.start_pacing(srtt);
        }
        let gain = self.policy.pacing_gain(&self.model);
        self.model.pace(gain);
        self.set_cwnd(ack);
        self.model.has_saved &= self.model.phase != Phase::Open;
    }

    fn on_lost(&mut self, event: &Lost) {
        self.note_loss(event);
    }

    fn on_recovery_entered(&mut self, event: &RecoveryEntered) {
        if event.cause == CongestionCause::Ecn {
            self.model.only_marked = true;
            return;
        }
        self.save_state();
        self.model.phase = Phase::Recovery;
    }

    fn on_recovery_left(&mut self, _event: &RecoveryLeft) {
        let model = &mut self.model;
        if model.phase != Phase::Open {
            model.restore_window();
        }
        model.phase = Phase::Open;
        model.only_marked = false;
    }

    fn on_timeout(&mut self, event: &Timeout) {
        self.save_state();
        let model = &mut self.model;
        if Self::V2 {
            model.full_bw.restart(Rate::ZERO);
            if !model.state.probes_bandwidth() {
                // The short-term bound must not start from the timeout's cwnd of a single segment.
                model.inflight_short = model.inflight_short.min(model.prior_cwnd);
            }
        }
        model.flow.collapse(event, model.settings.mss);
    }

    fn on_spurious_loss(&mut self, event: &SpuriousLoss) {
        if self.model.settings.undo {
            self.undo(event.now);
        }
        self.model.phase = Phase::Open;
        self.model.only_marked = false;
    }

    fn on_idle_restart(&mut self, event: &IdleRestart) {
        self.restart_from_idle(event);
    }

    #[inline]
    fn control(&self) -> Control {
        Control { cwnd: self.model.cwnd, pacing_rate: Some(self.model.pacing_rate), burst: self.model.burst() }
    }

    fn telemetry(&self, sink: Telemetry<'_>) {
        let model = &self.model;
        let mut flag = |name, on: bool| sink(name, Value::Number(if on { 1.0 } else { 0.0 }));
        flag("full_bw_now", model.full_bw.now);
        flag("full_bw_reached", model.full_bw_reached);
        flag("idle_restart", model.idle_restart);
        flag("probe_too_high", model.probe_too_high);
        flag("probe_precautionary", model.probe_precautionary);
        sink("state", Value::State(model.state.name()));
        sink("ack_phase", Value::State(model.ack_phase.name()));
        match model.undo_state {
            Some(Undo::Startup) => sink("undo_state", Value::State(State::Startup.name())),
            Some(Undo::Up) => sink("undo_state", Value::State(State::Up.name())),
            None => {}
        }
        sink("bw_estimate", Value::Rate(model.bw));
        sink("max_bw", Value::Rate(model.max_bw.get()));
        if let Some(rate) = model.bw_short() {
            sink("bw_short", Value::Rate(rate));
        }
        if let Some(bytes) = model.inflight_long() {
            sink("inflight_long", Value::Bytes(bytes));
        }
        if let Some(bytes) = model.inflight_short() {
            sink("inflight_short", Value::Bytes(bytes));
        }
        if let Some(rtt) = model.min_rtt() {
            sink("min_rtt", Value::Time(rtt));
        }
        sink("extra_acked", Value::Bytes(model.extra_acked()));
        sink("max_inflight", Value::Bytes(model.max_inflight));
        sink("pacing_gain", Value::Number(self.policy.pacing_gain(model)));
        sink("cwnd_gain", Value::Number(model.cwnd_gain()));
        sink("full_bw", Value::Rate(model.full_bw.base));
        sink("full_bw_count", Value::Number(f64::from(model.full_bw.count)));
        sink("round", Value::Number(model.round.count() as f64));
        sink("rounds_since_probe_up", Value::Number(model.rounds_since_probe as f64));
        sink("probe_wait", Value::Time(model.probe_wait));
        if model.settings.ecn {
            sink("ecn_alpha", Value::Number(model.marks.alpha()));
        }
        self.policy.telemetry(sink);
    }
}
