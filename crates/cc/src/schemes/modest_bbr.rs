//! # Modest BBR
//!
//! BBR that sends less when it has to retransmit. BBR takes no notice of loss, so where a buffer holds less
//! than BBR keeps in flight it goes on losing packets, and loss-based flows yield to it. Modest BBR answers a
//! round trip with retransmissions by reckoning with less bandwidth than it measured, until it probes next.
//!
//! The published rule could not be obtained. Known, from the abstract [1]: it is BBR, it responds to
//! retransmissions by sending less aggressively, and with CUBIC beside it the overall throughput was 7.1 %
//! better than BBR's. Known from another paper's comparison [2]: it is considerably fairer to CUBIC than BBR,
//! but only above 1 BDP of buffer. How far it holds back, for how long and when it recovers is not known; the
//! law below is our reconstruction: the simplest form of that statement, chosen before it was ever run.
//!
//! ## Control law
//!
//! | symbol | meaning | unit |
//! |---|---|---|
//! | r | bytes retransmitted / bytes sent in the round trip that has just ended | – |
//! | m | share of the measured bandwidth to reckon with; 1 at the start | – |
//!
//! ```text
//! a round trip with retransmissions ends:  m ← max(floor, m · (1 − response · r)),  floor 0.75, response 0.5
//! ProbeBW's phase at gain 1.25 begins:     m ← 1
//! ```
//!
//! Wherever BBR v1 uses its bandwidth bw - pacing rate, window, tests of inflight - it uses m · bw here. What
//! the filter holds, and with it the search for the full pipe, is left as it is.
//!
//! ## States
//!
//! Those of BBR v1, with its gains.
//!
//! ```text
//! Startup ──► Drain ──► ProbeBW: up (m ← 1), down, cruise × 6 ──┐
//!                          ▲      └ m falls with each round ┘   │
//!                          └───────────────────────────────────┘   ProbeRTT as ever
//! ```
//!
//! ## References
//!
//! 1. Y. Zhang, L. Cui, F. P. Tso, Modest BBR: Enabling Better Fairness for BBR Congestion Control, ISCC 2018,
//!    pp. 646–651: abstract only (repository.lboro.ac.uk, item 9404081).
//! 2. The BBR-CWS paper: Electronics 2020, 9(5), 862: its highlights, where Modest BBR is one of the compared
//!    schemes.
//! 3. BBR v1: see `bbr`.
//!
//! ## Differences
//!
//! From BBR v1 as it is here:
//!
//! 1. The law above.
//! 2. No window for aggregated acknowledgements (`extra_acked` is off by default): the BBR of 2018 had none.
//!
//! Choices of our reconstruction, where more than one reading was possible:
//!
//! 3. Cuts of several round trips multiply, and the floor bounds their product.
//! 4. What counts is when a packet was sent again, not when it was declared lost.
//! 5. The rule holds in every state. In Startup it restrains only the window: pacing never falls there.
//!
//! With `response = 0` and `extra_acked = 1` it is BBR v1, event for event.
//!
//! ## Known weaknesses
//!
//! * It cannot tell random loss from congestion, and holds back for either.
//! * A share of 0.75 for the rest of the cycle is the most it yields: in a buffer far below 1 BDP the window is
//!   still up to 1.5 BDP, so losses go on.
//! * The cuts are taken back once in eight round trips, however many packets were lost.
//! * Everything BBR v1 suffers from in deep buffers, where nothing is retransmitted.

use crate::bbr_v1::{BbrCore, Model, PHASE_UP, Policy, State};
use crate::{
    Ack, Bytes, Evidence, Info, Param, Rate, RecoveryStyle, Sent, Setup, Telemetry, Value, bbr_params,
};

/// Modest BBR.
pub type ModestBbr = BbrCore<Modest>;

/// Less bandwidth after retransmissions.
#[derive(Clone, Debug)]
pub struct Modest {
    response: f64,
    floor: f64,
    /// Sent, and sent again, in this round trip.
    sent: Bytes,
    repeated: Bytes,
    /// The share of the bandwidth to reckon with.
    share: f64,
}

impl Policy for Modest {
    const INFO: Info = Info {
        name: "modest-bbr",
        aliases: &[],
        summary: "BBR that reckons with less bandwidth after a round trip with retransmissions",
        evidence: Evidence::Reconstruction,
        recovery: RecoveryStyle::Own,
        params: bbr_params![
            Param::number("response", 0.5, (0.0, 1.0), "", "cut of the bandwidth per share retransmitted"),
            Param::number("floor", 0.75, (0.1, 1.0), "", "least share of the bandwidth to reckon with"),
            Param::flag("extra_acked", false, "window for aggregated acknowledgements"),
        ],
    };

    fn new(setup: &Setup) -> Self {
        let number = |name| setup.params.number(name);
        let (response, floor) = (number("response"), number("floor"));
        Self { response, floor, sent: Bytes::ZERO, repeated: Bytes::ZERO, share: 1.0 }
    }

    #[inline]
    fn on_sent(&mut self, sent: &Sent, _model: &Model) {
        self.sent += sent.bytes;
        if sent.retransmission {
            self.repeated += sent.bytes;
        }
    }

    #[inline]
    fn observe(&mut self, _ack: &Ack, model: &Model) {
        if model.round_start() {
            if !self.repeated.is_zero() {
                let r = self.repeated.as_f64() / self.sent.as_f64();
                self.share = (self.share * (1.0 - self.response * r)).max(self.floor);
            }
            (self.sent, self.repeated) = (Bytes::ZERO, Bytes::ZERO);
        }
    }

    fn on_transition(&mut self, to: State, _model: &Model) {
        if let State::ProbeBw { phase: PHASE_UP, .. } = to {
            self.share = 1.0;
        }
    }

    #[inline]
    fn bandwidth(&self, estimate: Rate, _model: &Model) -> Rate {
        estimate.mul_f64(self.share)
    }

    fn telemetry(&self, sink: Telemetry<'_>) {
        sink("bandwidth_share", Value::Number(self.share));
    }
}
