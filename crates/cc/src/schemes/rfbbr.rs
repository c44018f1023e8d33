//! # RFBBR (RTT-fair BBR)
//!
//! RFBBR is BBR with a cwnd gain that depends on the state of the queue. BBR's inflight beyond one BDP waits in the
//! queue, and this excess grows with the flow's RTT, so flows with long RTTs win. RFBBR removes this excess as the
//! queue fills.
//!
//! The published rule could not be obtained. One line of another paper's comparison [2] is known: RFBBR improves RTT
//! fairness by setting the congestion window differently according to the state of the queue. The states, the
//! conditions for them and their cwnd are unknown. The law below is our reconstruction, chosen for faithfulness to that
//! line and not by its score: three states, distinguished by the only signs of a queue that a sender observes, and the
//! smallest change of BBR that gives each state its own cwnd.
//!
//! ## Control law
//!
//! | symbol | meaning | unit |
//! |---|---|---|
//! | s | minimum RTT sample of the round trip that has just ended: shows the standing queue | s |
//! | min_rtt | minimum RTT of the last 10 s | s |
//! | rtt_max | maximum RTT of the connection | s |
//! | f | (s − min_rtt) / (rtt_max − min_rtt) in [0, 1]; 0 before a queue was observed | – |
//!
//! ```text
//! at the start of each round trip:
//!     queue := empty if f ≤ 0.1, full if f ≥ 0.9, else building
//! cwnd gain of ProbeBW:
//!     2 (BBR's) while empty, 1.5 while building, 1 while full
//! ```
//!
//! ## States
//!
//! The states of BBR v1, with its pacing gains. ProbeBW also tracks the state of the queue:
//!
//! ```text
//!            f > 0.1                f ≥ 0.9
//!   empty ─────────────► building ───────────► full      judged once per round trip; any state may follow any
//!   h = 2 ◄───────────── h = 1.5  ◄─────────── h = 1
//!            f ≤ 0.1                f < 0.9
//! ```
//!
//! ## References
//!
//! 1. Sun, Jia, Zhang, Wang: RFBBR, IEEE SmartIoT 2020. Could not be obtained.
//! 2. The BBR-GC paper, section on related work: the line quoted above.
//! 3. BBR v1: see `bbr`.
//!
//! ## Differences
//!
//! From BBR v1 as implemented here: only the control law above. The authors' version of BBR is unknown, so the core's
//! defaults apply. With `building_gain = 2` and `full_gain = 2` it is BBR v1, event for event.
//!
//! Choices of our reconstruction:
//!
//! 1. s is the minimum sample of a round trip, not the newest: a burst or the flow's probe does not count as a queue.
//! 2. rtt_max never ages. Startup, which queues up to twice the BDP, usually sets it.
//! 3. Startup, Drain and ProbeRTT keep BBR's cwnd.
//!
//! ## Known weaknesses
//!
//! * The scheme does not know the buffer size, only the longest queue so far. A flow that never observed a full buffer
//!   considers a shorter queue full, and flows that started at different times judge the same queue differently.
//! * Beside loss-based flows in deep buffers the queue is nearly always full, so the flow limits itself to
//!   one BDP and gets less than BBR.
//! * With one BDP of inflight and a queue ahead, a flow gets less than its bandwidth. The bandwidth filter keeps the
//!   old maximum for ten round trips, but where the queue stays full for longer the estimate falls.

use crate::bbr_v1::{BbrCore, BufferFill, Model, Policy};
use crate::{Ack, Info, Param, Provenance, RecoveryStyle, RoundMin, Setup, Telemetry, Value, bbr_params};

/// The queue counts as empty up to this share of the longest queue observed, and as full from the share [`FULL`] on.
const EMPTY: f64 = 0.1;
const FULL: f64 = 0.9;

/// RFBBR.
pub type RfBbr = BbrCore<ByQueue>;

/// Sets the cwnd gain by the state of the queue.
#[derive(Clone, Debug)]
pub struct ByQueue {
    building_gain: f64,
    full_gain: f64,
    fill: BufferFill,
    rounds: RoundMin,
    /// The standing queue of the last round trip, as a share of the longest queue observed.
    standing: f64,
}

impl Policy for ByQueue {
    const INFO: Info = Info {
        name: "rfbbr",
        aliases: &[],
        summary: "BBR with a cwnd of 2, 1.5 or 1 BDP as the queue is empty, building or full",
        provenance: Provenance::Reconstruction,
        recovery: RecoveryStyle::Own,
        params: bbr_params![
            Param::ratio("building_gain", 1.5, (0.5, 10.0), "cwnd gain while the queue is building"),
            Param::ratio("full_gain", 1.0, (0.5, 10.0), "cwnd gain while the queue is full"),
        ],
    };

    fn new(setup: &Setup) -> Self {
        let number = |name| setup.params.number(name);
        Self {
            building_gain: number("building_gain"),
            full_gain: number("full_gain"),
            fill: BufferFill::default(),
            rounds: RoundMin::default(),
            standing: 0.0,
        }
    }

    #[inline]
    fn observe(&mut self, ack: &Ack, model: &Model) {
        self.rounds.on_ack(model.round_start(), ack.rtt);
        if model.round_start()
            && let Some((least, min_rtt)) = self.rounds.last().zip(model.min_rtt())
        {
            self.standing = self.fill.share(least, min_rtt);
        }
        if let Some(rtt) = ack.rtt {
            self.fill.observe(rtt);
        }
    }

    #[inline]
    fn probe_cwnd_gain(&self, model: &Model) -> f64 {
        if self.standing <= EMPTY {
            model.settings().cwnd_gain
        } else if self.standing < FULL {
            self.building_gain
        } else {
            self.full_gain
        }
    }

    fn telemetry(&self, sink: Telemetry<'_>) {
        sink("queue_share", Value::Number(self.standing));
        sink("rtt_max", Value::Time(self.fill.max_rtt()));
    }
}
