//! The state of BBR v3 (its model of the path, and its controls) and the formulas over it.

use super::ecn::Marks;
use super::max_bw::MaxBw;
use super::settings::{QUANTUM_BYTES, QUANTUM_SEGMENTS, QUANTUM_TIME, Settings};
use super::signals::{FullBw, LossCount};
use super::state::{AckPhase, State, Undo};
use crate::bbr_common::{FlowState, common_model};
use crate::bbr_v1::Epoch;
use crate::{Bytes, Nanos, Random, Rate, WindowedMax};

/// A bound that is not set: the draft's infinity.
pub(super) const NO_RATE_BOUND: Rate = Rate::MAX;
/// A bound that is not set: the draft's infinity.
pub(super) const NO_BOUND: Bytes = Bytes::MAX;

/// The bounds from before a loss.
#[derive(Clone, Copy, Debug)]
pub(super) struct Saved {
    pub(super) bw_short: Rate,
    pub(super) inflight_short: Bytes,
    pub(super) inflight_long: Bytes,
}

/// The state of a flow of BBR v3 or v2. Policies read this state; only [`BbrCore`](super::BbrCore) changes it.
#[derive(Clone, Debug)]
pub struct Model {
    pub(super) flow: FlowState,
    pub(super) settings: Settings,
    pub(super) state: State,
    pub(super) ack_phase: AckPhase,

    // Rates.
    pub(super) max_bw: MaxBw,
    pub(super) bw_short: Rate,
    /// Set by marks if `ecn_bw` is on; by default it is on in v2 only.
    pub(super) bw_long: Rate,
    /// The minimum of `max_bw`, `bw_short` and `bw_long` as of the last acknowledgement.
    pub(super) bw: Rate,
    pub(super) bw_latest: Rate,
    pub(super) full_bw: FullBw,

    // Volumes.
    pub(super) inflight_long: Bytes,
    pub(super) inflight_short: Bytes,
    pub(super) inflight_latest: Bytes,
    pub(super) epoch: Epoch,
    pub(super) extra_acked: WindowedMax<Bytes>,

    // The minimum RTT of the last 5 s, and the time of its measurement; `flow` has the minimum of the last 10 s.
    pub(super) probe_rtt_min: Option<(Nanos, Nanos)>,
    pub(super) probe_rtt_expired: bool,

    // The cycle.
    pub(super) cycle_at: Nanos,
    pub(super) probe_wait: Nanos,
    pub(super) rounds_since_probe: u64,
    pub(super) probe_up_rounds: u32,
    pub(super) probe_up_acked: Bytes,
    pub(super) probe_up_per_inc: Bytes,
    /// Arriving acknowledgements are for data sent in a probe: losses may lower `inflight_long` once per probe.
    pub(super) probe_samples: bool,
    pub(super) ok_probe_sample: bool,
    pub(super) probe_too_high: bool,
    pub(super) probe_precautionary: bool,
    pub(super) drain_start_round: u64,

    // Loss and marks.
    pub(super) loss_round_delivered: Bytes,
    pub(super) loss_round_start: bool,
    pub(super) loss_in_round: bool,
    pub(super) loss_in_cycle: bool,
    pub(super) losses: LossCount,
    pub(super) marks: Marks,
    pub(super) undo_state: Option<Undo>,
    pub(super) saved: Saved,
    /// The state from before the current recovery is saved.
    pub(super) has_saved: bool,
    /// When an event other than an acknowledgement last began a loss round. Data delivered by the acknowledgement that
    /// revealed this event belongs to the previous round.
    pub(super) loss_round_at: Option<Nanos>,
    /// Like `loss_round_at`, for round trips: when an event other than an acknowledgement last began one.
    pub(super) round_at: Option<Nanos>,

    pub(super) cwnd_full: bool,

    // Controls.
    pub(super) max_inflight: Bytes,
    pub(super) quantum: Bytes,
}

common_model!(Model, Settings, State);

impl Model {
    pub(super) fn new(settings: Settings, random: Random) -> Self {
        let cwnd = settings.initial_window;
        let saved = Saved { bw_short: Rate::ZERO, inflight_short: Bytes::ZERO, inflight_long: Bytes::ZERO };
        Self {
            flow: FlowState::new(cwnd, random),
            quantum: settings.mss,
            settings,
            state: State::Startup,
            ack_phase: AckPhase::Init,
            max_bw: MaxBw::default(),
            bw_short: NO_RATE_BOUND,
            bw_long: NO_RATE_BOUND,
            bw: Rate::ZERO,
            bw_latest: Rate::ZERO,
            full_bw: FullBw::default(),
            inflight_long: NO_BOUND,
            inflight_short: NO_BOUND,
            inflight_latest: Bytes::ZERO,
            epoch: Epoch::default(),
            extra_acked: WindowedMax::new(0, Bytes::ZERO),
            probe_rtt_min: None,
            probe_rtt_expired: false,
            cycle_at: Nanos::ZERO,
            probe_wait: Nanos::ZERO,
            rounds_since_probe: 0,
            probe_up_rounds: 0,
            probe_up_acked: Bytes::ZERO,
            probe_up_per_inc: NO_BOUND,
            probe_samples: false,
            ok_probe_sample: false,
            probe_too_high: false,
            probe_precautionary: false,
            drain_start_round: 0,
            loss_round_delivered: Bytes::ZERO,
            loss_round_start: false,
            loss_in_round: false,
            loss_in_cycle: false,
            losses: LossCount::default(),
            marks: Marks::default(),
            undo_state: None,
            saved,
            has_saved: false,
            loss_round_at: None,
            round_at: None,
            cwnd_full: false,
            max_inflight: cwnd,
        }
    }

    /// Relation of the arriving acknowledgements to a probe.
    #[inline]
    pub fn ack_phase(&self) -> AckPhase {
        self.ack_phase
    }
    /// The maximum delivery rate of this and the previous cycle.
    #[inline]
    pub fn max_bw(&self) -> Rate {
        self.max_bw.get()
    }
    /// The bandwidth estimate: [`Model::max_bw`] within its bounds.
    #[inline]
    pub fn bw(&self) -> Rate {
        self.bw
    }
    /// The short-term bound on the bandwidth, if set.
    #[inline]
    pub fn bw_short(&self) -> Option<Rate> {
        (self.bw_short != NO_RATE_BOUND).then_some(self.bw_short)
    }
    /// The long-term bound on inflight, if set.
    #[inline]
    pub fn inflight_long(&self) -> Option<Bytes> {
        (self.inflight_long != NO_BOUND).then_some(self.inflight_long)
    }
    /// The short-term bound on inflight, if set.
    #[inline]
    pub fn inflight_short(&self) -> Option<Bytes> {
        (self.inflight_short != NO_BOUND).then_some(self.inflight_short)
    }
    /// The plateau detector.
    #[inline]
    pub fn full_bw(&self) -> FullBw {
        self.full_bw
    }
    /// The smoothed share of marked deliveries.
    #[inline]
    pub fn ecn_alpha(&self) -> f64 {
        self.marks.alpha()
    }

    /// The cwnd gain.
    #[inline]
    pub fn cwnd_gain(&self) -> f64 {
        let settings = &self.settings;
        match self.state {
            State::Startup | State::Drain => settings.startup_cwnd_gain,
            State::Up => settings.up_cwnd_gain,
            State::Down | State::Cruise | State::Refill => settings.cwnd_gain,
            State::ProbeRtt { .. } => settings.probe_rtt_gain,
        }
    }

    /// `gain` BDPs at bandwidth `bw`; before any RTT sample, the initial window.
    #[inline]
    fn bdp_multiple(&self, bw: Rate, gain: f64) -> Bytes {
        match self.min_rtt {
            Some((min_rtt, _)) => bw.over(min_rtt).mul_f64(gain),
            None => self.settings.initial_window,
        }
    }

    /// The bandwidth-delay product of [`Model::bw`].
    #[inline]
    pub fn bdp(&self) -> Bytes {
        self.bdp_multiple(self.bw, 1.0)
    }

    /// The term for ACK aggregation in cwnd.
    #[inline]
    pub fn extra_acked(&self) -> Bytes {
        let extra = self.extra_acked.get();
        match self.settings.extra_acked_cap {
            Some(cap) => extra.min(self.bw.over(cap)),
            None => extra,
        }
    }

    /// QuantizationBudget: raises `data` to cover the bursts of sender and receiver, and adds two segments while
    /// probing up.
    #[inline]
    fn quantised(&self, data: Bytes) -> Bytes {
        let budget = self.quantum.mul_f64(self.settings.offload_quanta);
        let data = data.max(budget).max(self.settings.min_window);
        if self.state == State::Up { data + self.settings.mss * 2 } else { data }
    }

    /// The inflight of `gain` BDPs at bandwidth `bw`, with the quantization budget.
    #[inline]
    pub fn inflight_at(&self, bw: Rate, gain: f64) -> Bytes {
        self.quantised(self.bdp_multiple(bw, gain))
    }

    /// Implements UpdateMaxInflight of the draft.
    #[inline]
    pub(super) fn update_max_inflight(&mut self) {
        let data = self.bdp_multiple(self.bw, self.cwnd_gain()) + self.extra_acked();
        self.max_inflight = self.quantised(data);
    }

    /// Target inflight: the smaller of the BDP and cwnd.
    #[inline]
    pub(super) fn target_inflight(&self, v2: bool) -> Bytes {
        let bdp = if v2 { self.inflight_at(self.bw, 1.0) } else { self.bdp() };
        bdp.min(self.cwnd)
    }

    /// The long-term bound less the headroom for other flows (at least one segment); never below four
    /// segments.
    #[inline]
    pub fn inflight_with_headroom(&self) -> Bytes {
        let bound = self.inflight_long;
        if bound == NO_BOUND {
            return NO_BOUND;
        }
        let headroom = bound.mul_f64(self.settings.headroom).max(self.settings.mss);
        (bound - headroom).max(self.settings.min_window)
    }

    /// Whether the loss of `lost` bytes out of `inflight` bytes in flight exceeds the threshold (IsInflightTooHigh).
    #[inline]
    pub fn is_too_high(&self, lost: Bytes, inflight: Bytes) -> bool {
        !lost.is_zero() && (!self.settings.sack || lost.as_f64() > inflight.as_f64() * self.settings.loss_thresh)
    }

    /// The inflight at which losses reached the threshold (InflightAtLoss), for a lost packet of `size`. `inflight`:
    /// data in flight when the packet was sent, the packet included. `lost`: bytes lost since the packet was sent, the
    /// packet included. `clamped`, as in v2: the result is at least the inflight before the packet, even if earlier
    /// losses exceeded the threshold.
    pub fn inflight_at_loss(&self, size: Bytes, inflight: Bytes, lost: Bytes, clamped: bool) -> Bytes {
        let threshold = self.settings.loss_thresh;
        let inflight_before = (inflight - size).as_f64();
        let lost_before = (lost - size).as_f64();
        let prefix = (threshold * inflight_before - lost_before) / (1.0 - threshold);
        Bytes::from_f64(inflight_before + if clamped { prefix.max(0.0) } else { prefix })
    }

    /// The state's upper bound on inflight (BoundCwndForModel), never below four segments.
    #[inline]
    pub fn volume_bound(&self) -> Bytes {
        let bound = match self.state {
            State::Down | State::Refill | State::Up => self.inflight_long,
            State::Cruise | State::ProbeRtt { .. } => self.inflight_with_headroom(),
            State::Startup | State::Drain => NO_BOUND,
        };
        bound.min(self.inflight_short).max(self.settings.min_window)
    }

    /// cwnd in ProbeRTT, and the inflight at which its clock starts.
    #[inline]
    pub fn probe_rtt_cwnd(&self) -> Bytes {
        self.bdp_multiple(self.bw, self.settings.probe_rtt_gain).max(self.settings.min_window)
    }

    /// Sets the initial pacing rate, before any bandwidth sample (InitPacingRate).
    pub(super) fn start_pacing(&mut self, rtt: Nanos) {
        let rate = self.settings.initial_window.per(rtt);
        self.set_pacing_rate(rate.mul_f64(self.settings.startup_gain));
    }

    /// Implements SetPacingRateWithGain of the draft.
    #[inline]
    pub(super) fn pace(&mut self, gain: f64) {
        let rate = self.bw.mul_f64(gain * self.settings.pacing_share);
        if self.full_bw_reached || rate > self.pacing_rate {
            self.set_pacing_rate(rate);
        }
    }

    /// Sets the pacing rate and the send quantum (SetSendQuantum).
    pub(super) fn set_pacing_rate(&mut self, rate: Rate) {
        let Some(rate) = self.flow.change_pacing_rate(rate) else { return };
        let settings = &self.settings;
        let segments = settings.quantum.unwrap_or_else(|| {
            let bytes = rate.over(QUANTUM_TIME).as_u64().min(QUANTUM_BYTES);
            (bytes / settings.mss.as_u64()).max(QUANTUM_SEGMENTS)
        });
        self.quantum = settings.mss * segments;
    }

    /// The send quantum.
    #[inline]
    pub fn send_quantum(&self) -> Bytes {
        self.quantum
    }

    /// The most data to send back to back: the send quantum if it is fixed; otherwise the transport's rule decides,
    /// which gives the same amount except at RTTs of a few milliseconds.
    #[inline]
    pub(super) fn burst(&self) -> Bytes {
        if self.settings.quantum.is_some() { self.quantum } else { Bytes::MAX }
    }

    /// Implements ResetShortTermModel of the draft.
    pub(super) fn reset_short_term(&mut self) {
        self.bw_short = NO_RATE_BOUND;
        self.inflight_short = NO_BOUND;
    }

    /// Implements ResetCongestionSignals of the draft.
    pub(super) fn reset_congestion_signals(&mut self) {
        self.loss_in_round = false;
        self.loss_in_cycle = false;
        self.marks.in_round = false;
        self.marks.in_cycle = false;
        self.bw_latest = Rate::ZERO;
        self.inflight_latest = Bytes::ZERO;
    }
}
