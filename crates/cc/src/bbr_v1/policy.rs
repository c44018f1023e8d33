//! The hooks in which variants of BBR differ.

use super::model::Model;
use super::state::{PHASE_UP, State};
use crate::{Ack, Bytes, Feedback, Info, Nanos, Rate, ReceiverFeedback, Sent, Setup, Telemetry};

/// Number of send quanta that cwnd allows for: one in the sender's queue, one in the sender's offload engine and one at
/// the receiver.
const QUANTA: u64 = 3;

/// The response to the start of fast recovery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecoveryEntry {
    /// The new cwnd.
    pub cwnd: Bytes,
    /// Whether a round trip begins in which [`Policy::conserve`] sets cwnd, until the round trip or recovery ends.
    pub conserve: bool,
}

/// A variant of BBR. The default methods implement BBR v1; each may be overridden separately.
///
/// At each acknowledgement the core calls [`Policy::observe`] once, after it has updated the bandwidth filter
/// and before any decision, then the other methods as needed.
pub trait Policy: Clone + core::fmt::Debug + Send + Sync + 'static {
    /// Static description of the scheme.
    const INFO: Info;
    /// The feedback that the scheme expects from a receiver of datagrams.
    const FEEDBACK: Feedback = Feedback::Packets;
    /// Values that the parameter `literal` sets, where the paper prints values other than the defaults.
    const PRINTED: &'static [(&'static str, f64)] = &[];

    /// Creates the variant's state at the start of a connection.
    fn new(setup: &Setup) -> Self;

    /// An acknowledgement arrived. `Model::round_start` is current; min_rtt does not include this sample
    /// yet.
    #[inline]
    fn observe(&mut self, _ack: &Ack, _model: &Model) {}

    /// A packet was sent.
    #[inline]
    fn on_sent(&mut self, _sent: &Sent, _model: &Model) {}

    /// The receiver reports measurements.
    #[inline]
    fn on_receiver_feedback(&mut self, _report: &ReceiverFeedback, _model: &Model) {}

    /// The state changes to `to`; [`Model::state`] still returns the old state. Each phase of ProbeBW is a separate
    /// state.
    #[inline]
    fn on_transition(&mut self, _to: State, _model: &Model) {}

    /// min_rtt has expired; the model still has the old value.
    #[inline]
    fn on_min_rtt_expired(&mut self, _model: &Model) {}

    /// The pacing gain.
    #[inline]
    fn pacing_gain(&self, model: &Model) -> f64 {
        self.state_gain(model)
    }

    /// The pacing gain of the current state. Not meant to be overridden.
    #[inline]
    fn state_gain(&self, model: &Model) -> f64 {
        match model.state() {
            State::Startup => model.settings().high_gain,
            State::Drain => model.settings().drain_gain,
            // Behind a policer BBR does not probe: the policer would drop every probe.
            State::ProbeBw { phase, .. } if model.policed().is_none() => self.probe_gain(phase, model),
            State::ProbeBw { .. } | State::ProbeRtt { .. } => 1.0,
        }
    }

    /// The pacing gain of a phase of ProbeBW.
    #[inline]
    fn probe_gain(&self, phase: u8, model: &Model) -> f64 {
        model.settings().probe_gain(phase)
    }

    /// Whether a phase of ProbeBW that began at `since` is over.
    #[inline]
    fn phase_done(&self, _phase: u8, since: Nanos, ack: &Ack, model: &Model) -> bool {
        self.standard_phase_done(since, ack, model)
    }

    /// Whether a phase of ProbeBW is over in BBR v1. Not meant to be overridden.
    ///
    /// A phase lasts one min_rtt. A phase with a gain above 1 lasts longer, until inflight has reached gain x BDP or
    /// packets are lost. A phase with a gain below 1 ends early when inflight has fallen to the BDP.
    #[inline]
    fn standard_phase_done(&self, since: Nanos, ack: &Ack, model: &Model) -> bool {
        let full_length = model.lasted_min_rtt(since);
        let gain = self.pacing_gain(model);
        if gain > 1.0 {
            full_length && (!ack.lost.is_zero() || ack.inflight_before >= model.inflight_at(self, gain))
        } else if gain < 1.0 {
            full_length || ack.inflight_before <= model.inflight_at(self, 1.0)
        } else {
            full_length
        }
    }

    /// Whether Drain is over: inflight has fallen to the BDP.
    #[inline]
    fn drain_done(&self, model: &Model) -> bool {
        model.inflight() <= model.inflight_at(self, 1.0)
    }

    /// The bandwidth to use instead of `estimate` for pacing, for cwnd and wherever inflight is compared with a target.
    #[inline]
    fn bandwidth(&self, estimate: Rate, _model: &Model) -> Rate {
        estimate
    }

    /// The value to use as one BDP.
    #[inline]
    fn target_bdp(&self, bw: Rate, min_rtt: Nanos, _model: &Model) -> Bytes {
        bw.over(min_rtt)
    }

    /// The cwnd gain of ProbeBW.
    #[inline]
    fn probe_cwnd_gain(&self, model: &Model) -> f64 {
        model.settings().cwnd_gain
    }

    /// The cwnd gain.
    #[inline]
    fn cwnd_gain(&self, model: &Model) -> f64 {
        match model.state() {
            State::Startup | State::Drain => model.settings().high_gain,
            State::ProbeBw { .. } => self.probe_cwnd_gain(model),
            State::ProbeRtt { .. } => 1.0,
        }
    }

    /// cwnd in ProbeRTT, and the inflight at which its clock starts.
    #[inline]
    fn probe_rtt_cwnd(&self, model: &Model) -> Bytes {
        model.settings().min_window
    }

    /// Fast recovery begins. `window` is cwnd less the lost bytes.
    #[inline]
    fn enter_recovery(&mut self, _window: Bytes, ack: &Ack, _model: &Model) -> RecoveryEntry {
        RecoveryEntry { cwnd: ack.inflight + ack.acked, conserve: true }
    }

    /// cwnd during packet conservation, in which the sender sends as much as was delivered. `window` is cwnd
    /// less the lost bytes.
    #[inline]
    fn conserve(&mut self, window: Bytes, ack: &Ack, _model: &Model) -> Bytes {
        window.max(ack.inflight + ack.acked)
    }

    /// The pacing gain that replaces the state's pacing gain after [`Policy::conserve`] has set cwnd, until the next
    /// acknowledgement. It affects the pacing rate only.
    #[inline]
    fn conserving_gain(&self) -> Option<f64> {
        None
    }

    /// Recovery or loss repair ends. `window` is cwnd less the lost bytes. Returns the new cwnd.
    #[inline]
    fn leave_recovery(&mut self, window: Bytes, _ack: &Ack, model: &Model) -> Bytes {
        window.max(model.prior_cwnd())
    }

    /// Reports the variant's telemetry.
    fn telemetry(&self, _sink: Telemetry<'_>) {}
}

/// Amounts that depend on the variant as well as on the model.
impl Model {
    /// The target cwnd at bandwidth `bw`, computed as in Linux: `gain` times the policy's BDP, plus `extra`
    /// and three send quanta, rounded up to an even number of segments, plus two segments while probing up.
    #[inline]
    pub(super) fn target<P: Policy>(&self, policy: &P, bw: Rate, gain: f64, extra: Bytes) -> Bytes {
        let data = match self.min_rtt {
            Some((min_rtt, _)) => policy.target_bdp(bw, min_rtt, self).mul_f64(gain),
            None => self.settings.initial_window,
        };
        let mss = self.settings.mss.as_u64();
        let mut segments = (data + extra).as_u64().div_ceil(mss) + QUANTA * self.quantum_segments;
        segments += segments & 1;
        if let State::ProbeBw { phase: PHASE_UP, .. } = self.state {
            segments += 2;
        }
        Bytes::new(segments * mss)
    }

    /// The inflight of `gain` BDPs at the maximum delivery rate, with which inflight is compared to decide whether
    /// Drain or a phase of ProbeBW is over.
    #[inline]
    pub fn inflight_at<P: Policy>(&self, policy: &P, gain: f64) -> Bytes {
        self.target(policy, policy.bandwidth(self.max_bw(), self), gain, Bytes::ZERO)
    }
}
