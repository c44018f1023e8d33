//! # Adaptive-BBR
//!
//! BBR whose probing and draining gains follow the state of the bottleneck's buffer. Where the buffer is empty
//! it probes as BBR does; the more of it is in use, the less it probes and the more it drains.
//!
//! The published rule could not be obtained. Known are two lines of other papers' summaries: it adjusts the
//! sending rate adaptively from the state of the link [2]; it derives the pacing gain dynamically from
//! information on the bottleneck's buffer, in place of fixed gains [3]. What that information is and how a gain
//! follows from it is not known. The law below is our reconstruction, chosen for faithfulness to those lines and
//! not by its score: the information is the share of the buffer that is in use, the gain a linear function of
//! it that is BBR's own at an empty buffer.
//!
//! ## Control law
//!
//! | symbol | meaning | unit |
//! |---|---|---|
//! | rtt | the newest round-trip sample when a phase of ProbeBW begins | s |
//! | min_rtt | least round-trip time of the last 10 s | s |
//! | rtt_max | greatest round-trip time of the connection | s |
//! | b | (rtt − min_rtt) / (rtt_max − min_rtt) in [0, 1]: the share of the buffer in use; 0 without any queue so far | – |
//!
//! ```text
//! gain of the probing phase  = 1.25 − 0.25 b     from 1.25 (empty) to 1   (full), never below 1
//! gain of the draining phase = 0.75 − 0.25 b     from 0.75 (empty) to 0.5 (full), never below 0.1
//! other phases: 1
//! ```
//!
//! b is taken when a phase begins and holds for it. The two gains move together, so that a cycle takes away more
//! than it adds where a queue stands: 0.25 · (b at its probe + b at its drain) BDPs of it, if phases last for
//! min_rtt.
//!
//! ## States
//!
//! Those of BBR v1.
//!
//! ```text
//! ProbeBW:  up at 1.25 − 0.25 b ──► down at 0.75 − 0.25 b ──► cruise at 1, six times ──┐
//!              ▲  b from the newest RTT     b from the newest RTT                      │
//!              └───────────────────────────────────────────────────────────────────────┘
//! ```
//!
//! The phases end as BBR's do: the probing one when inflight shows its gain, so earlier with a smaller one; the
//! draining one when inflight is down to the BDP.
//!
//! ## References
//!
//! 1. Yang et al., Adaptive-BBR, IEEE WCNC 2019. Could not be obtained.
//! 2. The BBR-GC paper, section on related work.
//! 3. A summary elsewhere that names the pacing gain and the buffer.
//! 4. BBR v1: see `bbr`.
//!
//! Not this scheme: github.com/OniricRain/BBRadaptive (phases of the cycle from the history of bandwidth), and
//! Ad-BBR (Future Internet 2025, 17, 189).
//!
//! ## Differences
//!
//! From BBR v1 as it is here: the law above, and no window for aggregated acknowledgements (`extra_acked` is off
//! by default: the BBR of early 2019 had none). With `sensitivity = 0` and `extra_acked = 1` it is BBR v1, event
//! for event.
//!
//! Choices of our reconstruction:
//!
//! 1. The newest sample, not a mean: the draining phase is to see what the probe before it has queued.
//! 2. rtt_max is never forgotten. Startup usually sets it: up to twice the BDP is queued there.
//! 3. Startup, Drain and ProbeRTT keep BBR's gains.
//!
//! ## Known weaknesses
//!
//! * The size of the buffer is not known, only the longest queue so far: flows that started at different times
//!   judge the same queue differently.
//! * Beside loss-based flows in deep buffers the queue is always long: the flow stops probing, and drains what
//!   others fill again.
//! * A flow that joins a standing queue takes min_rtt for larger and b for smaller than they are, and so probes more
//!   than those that were there.

use crate::bbr_v1::{BbrCore, BufferFill, Model, PHASE_DOWN, PHASE_UP, Policy, State};
use crate::{Ack, Evidence, Info, Param, RecoveryStyle, Setup, Telemetry, Value, bbr_params};

/// The least gain of the draining phase, as of BBR's parameter.
const LEAST_GAIN: f64 = 0.1;

/// Adaptive-BBR.
pub type AdaptiveBbr = BbrCore<Adaptive>;

/// Gains that fall as the buffer fills.
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
        evidence: Evidence::Reconstruction,
        recovery: RecoveryStyle::Own,
        params: bbr_params![
            Param::number("sensitivity", 0.25, (0.0, 1.0), "", "fall of the gains from empty to full buffer"),
            Param::flag("extra_acked", false, "window for aggregated acknowledgements"),
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
