//! # Adaptive-BBR
//!
//! BBR whose probing and draining gains follow the state of the bottleneck's buffer. With an empty buffer it
//! probes as BBR does. The fuller the buffer, the less it probes and the more it drains.
//!
//! The published rule could not be obtained. Two lines in summaries by other papers are known: Adaptive-BBR adjusts the
//! sending rate to the state of the link [2], and derives the pacing gain dynamically from information on the
//! bottleneck's buffer, in place of fixed gains [3]. Neither that information nor its mapping to a gain is known. The
//! law below is our reconstruction, chosen for faithfulness to those lines and not by its score: the information is the
//! share of the buffer in use, and the gain is a linear function of that share, equal to BBR's gain at an empty buffer.
//!
//! ## Control law
//!
//! | symbol | meaning | unit |
//! |---|---|---|
//! | rtt | the newest RTT sample when a phase of ProbeBW begins | s |
//! | min_rtt | minimum RTT of the last 10 s | s |
//! | rtt_max | maximum RTT of the connection | s |
//! | b | (rtt − min_rtt) / (rtt_max − min_rtt) in [0, 1]: the share of the buffer in use; 0 before any queue | – |
//!
//! ```text
//! gain of the probing phase  = 1.25 − 0.25 b     from 1.25 (empty) to 1   (full), never below 1
//! gain of the draining phase = 0.75 − 0.25 b     from 0.75 (empty) to 0.5 (full), never below 0.1
//! other phases: 1
//! ```
//!
//! b is sampled when a phase begins and applies to the whole phase. The two gains move together, so with a standing
//! queue, and phases of one min_rtt, a cycle removes more data than it adds: the difference is 0.25 · (b of its probing
//! phase + b of its draining phase) BDPs.
//!
//! ## States
//!
//! The states of BBR v1.
//!
//! ```text
//! ProbeBW:  up at 1.25 − 0.25 b ──► down at 0.75 − 0.25 b ──► cruise at 1, six times ──┐
//!              ▲  b from the newest RTT     b from the newest RTT                      │
//!              └───────────────────────────────────────────────────────────────────────┘
//! ```
//!
//! The phases end as in BBR. The probing phase ends when inflight reaches the gain times the BDP, and thus earlier with
//! a smaller gain. The draining phase ends when inflight is down to the BDP.
//!
//! ## References
//!
//! 1. Yang et al., Adaptive-BBR, IEEE WCNC 2019. Could not be obtained.
//! 2. The BBR-GC paper, section on related work.
//! 3. Another paper's summary, which mentions the pacing gain and the buffer.
//! 4. BBR v1: see `bbr`.
//!
//! Two other schemes have similar names: github.com/OniricRain/BBRadaptive (phases of the cycle from the history of
//! bandwidth), and Ad-BBR (Future Internet 2025, 17, 189).
//!
//! ## Differences
//!
//! From BBR v1 as implemented here: the control law above, and no cwnd term for aggregated ACKs
//! (`extra_acked` is off by default: the BBR of early 2019 had none). With `sensitivity = 0` and
//! `extra_acked = on` it is BBR v1, event for event.
//!
//! Choices of our reconstruction:
//!
//! 1. rtt is the newest sample, not a mean: the draining phase must see the queue built by the preceding probe.
//! 2. rtt_max never ages. Startup, which queues up to twice the BDP, usually sets it.
//! 3. Startup, Drain and ProbeRTT keep BBR's gains.
//!
//! ## Known weaknesses
//!
//! * The scheme does not know the buffer size, only the longest queue so far. Flows that started at different times
//!   judge the same queue differently.
//! * Beside loss-based flows in deep buffers the queue is always long: the flow stops probing, and drains a
//!   queue that others refill.
//! * A flow that joins a standing queue overestimates min_rtt and underestimates b, and so probes more than
//!   the flows that were there first.

use crate::bbr_v1::{BbrCore, BufferFill, Model, PHASE_DOWN, PHASE_UP, Policy, State};
use crate::{Ack, Info, Param, Provenance, RecoveryStyle, Setup, Telemetry, Value, bbr_params};

/// Minimum gain of the draining phase, equal to the minimum that BBR's gain parameter accepts.
const LEAST_GAIN: f64 = 0.1;

/// Adaptive-BBR.
pub type AdaptiveBbr = BbrCore<Adaptive>;

/// Lowers the gains as the buffer fills.
#[derive(Clone, Debug)]
pub struct Adaptive {
    sensitivity: f64,
    fill: BufferFill,
    /// The share of the buffer in use when this phase began.
    share: f64,
}

impl Policy for Adaptive {
    const INFO: Info = Info {
        name: "adaptive-bbr",
        aliases: &[],
        summary: "BBR that probes less and drains more as the bottleneck's buffer fills",
        provenance: Provenance::Reconstruction,
        recovery: RecoveryStyle::Own,
        params: bbr_params![
            Param::ratio("sensitivity", 0.25, (0.0, 1.0), "gain decrease from empty to full buffer"),
            Param::flag("extra_acked", false, "cwnd term for aggregated ACKs"),
        ],
    };

    fn new(setup: &Setup) -> Self {
        let sensitivity = setup.params.number("sensitivity");
        Self { sensitivity, fill: BufferFill::default(), share: 0.0 }
    }

    #[inline]
    fn observe(&mut self, ack: &Ack, _model: &Model) {
        if let Some(rtt) = ack.rtt {
            self.fill.observe(rtt);
        }
    }

    fn on_transition(&mut self, to: State, model: &Model) {
        if let State::ProbeBw { .. } = to
            && let Some((rtt, min_rtt)) = model.latest_rtt().zip(model.min_rtt())
        {
            self.share = self.fill.share(rtt, min_rtt);
        }
    }

    #[inline]
    fn probe_gain(&self, phase: u8, model: &Model) -> f64 {
        let gain = model.settings().probe_gain(phase);
        let fall = self.sensitivity * self.share;
        match phase {
            PHASE_UP => (gain - fall).max(1.0),
            PHASE_DOWN => (gain - fall).max(LEAST_GAIN),
            _ => gain,
        }
    }

    fn telemetry(&self, sink: Telemetry<'_>) {
        sink("buffer_share", Value::Number(self.share));
        sink("rtt_max", Value::Time(self.fill.max_rtt()));
    }
}
