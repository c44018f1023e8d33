//! # Modest BBR
//!
//! Modest BBR is BBR that sends less when it has to retransmit. BBR ignores loss, so it keeps losing packets where the
//! buffer is smaller than the queue that BBR builds, and loss-based flows yield to BBR. After a round trip with
//! retransmissions, Modest BBR uses less bandwidth than it measured, until its next probe.
//!
//! The published rule could not be obtained. The abstract [1] states that Modest BBR is based on BBR and responds to
//! retransmissions by sending less aggressively, and that beside CUBIC the overall throughput was 7.1 % better than
//! BBR's. Another paper's comparison [2] states that Modest BBR is considerably fairer to CUBIC than BBR, but only
//! above 1 BDP of buffer. The depth and duration of the backoff and the time of its end are unknown. The law below is
//! our reconstruction: the simplest rule that agrees with these statements, chosen before the first simulation.
//!
//! ## Control law
//!
//! | symbol | meaning | unit |
//! |---|---|---|
//! | r | bytes retransmitted / bytes sent in the round trip that has just ended | – |
//! | m | share of the measured bandwidth in use; 1 at the start | – |
//!
//! ```text
//! a round trip with retransmissions ends:  m ← max(floor, m · (1 − response · r)),  floor 0.75, response 0.5
//! ProbeBW's phase at gain 1.25 begins:     m ← 1
//! ```
//!
//! Wherever BBR v1 uses its bandwidth bw (pacing rate, cwnd, tests of inflight), Modest BBR uses m · bw. The
//! bandwidth filter, and with it the full-pipe test, is unchanged.
//!
//! ## States
//!
//! The states of BBR v1, with its gains.
//!
//! ```text
//! Startup ──► Drain ──► ProbeBW: up (m ← 1), down, cruise × 6 ──┐
//!                          ▲      └ m falls with each round ┘   │
//!                          └───────────────────────────────────┘   ProbeRTT as in BBR v1
//! ```
//!
//! ## References
//!
//! 1. Y. Zhang, L. Cui, F. P. Tso, Modest BBR: Enabling Better Fairness for BBR Congestion Control, ISCC
//!    2018, pp. 646–651: abstract only (repository.lboro.ac.uk, item 9404081).
//! 2. The BBR-CWS paper, Electronics 2020, 9(5), 862: the highlights, where Modest BBR is one of the compared schemes.
//! 3. BBR v1: see `bbr`.
//!
//! ## Differences
//!
//! From BBR v1 as implemented here:
//!
//! 1. The control law above.
//! 2. No cwnd term for aggregated ACKs (`extra_acked` is off by default): the BBR of 2018 had none.
//!
//! Choices of our reconstruction, where the sources allow more than one interpretation:
//!
//! 3. Cuts of several round trips multiply, and the floor bounds their product.
//! 4. A packet counts when it is retransmitted, not when it is declared lost.
//! 5. The rule holds in every state. In Startup it restrains only cwnd, because pacing never falls there.
//!
//! With `response = 0` and `extra_acked = on` it is BBR v1, event for event.
//!
//! ## Known weaknesses
//!
//! * It cannot distinguish random loss from congestion, and backs off for either.
//! * It yields at most a quarter of the bandwidth, and only for the rest of the cycle. In a buffer far below 1 BDP cwnd
//!   is still up to 1.5 BDP, so losses continue.
//! * The next probe, one round trip in eight, reverts the cuts, regardless of the number of lost packets.
//! * After a cut to 0.75 within the phase at gain 1.25 the flow paces at 0.94 of the bandwidth and never reaches the
//!   inflight that ends the phase: the phase lasts until ProbeRTT, and the estimate decays. At 20 Mbit/s, 40 ms and 1
//!   BDP flows of two of five seeds repair Startup's losses in that phase and get 15.5 Mbit/s over 15 s; the flows of
//!   the other seeds get 19.0 Mbit/s.
//! * In deep buffers nothing is retransmitted, so all of BBR v1's weaknesses there remain.

use crate::bbr_v1::{BbrCore, Model, PHASE_UP, Policy, State};
use crate::{Ack, Bytes, Info, Param, Provenance, Rate, RecoveryStyle, Sent, Setup, Telemetry, Value, bbr_params};

/// Modest BBR.
pub type ModestBbr = BbrCore<Modest>;

/// Uses only a share of the measured bandwidth after retransmissions.
#[derive(Clone, Debug)]
pub struct Modest {
    response: f64,
    floor: f64,
    /// Bytes sent in this round trip.
    sent: Bytes,
    /// Retransmitted bytes among the bytes sent in this round trip.
    retransmitted: Bytes,
    /// m: the share of the measured bandwidth in use.
    share: f64,
}

impl Policy for Modest {
    const INFO: Info = Info {
        name: "modest-bbr",
        aliases: &[],
        summary: "BBR that uses less bandwidth after a round trip with retransmissions",
        provenance: Provenance::Reconstruction,
        recovery: RecoveryStyle::Own,
        params: bbr_params![
            Param::ratio("response", 0.5, (0.0, 1.0), "bandwidth cut per share of bytes retransmitted"),
            Param::ratio("floor", 0.75, (0.1, 1.0), "minimum share of the measured bandwidth in use"),
            Param::flag("extra_acked", false, "cwnd term for aggregated ACKs"),
        ],
    };

    fn new(setup: &Setup) -> Self {
        let number = |name| setup.params.number(name);
        let (response, floor) = (number("response"), number("floor"));
        Self { response, floor, sent: Bytes::ZERO, retransmitted: Bytes::ZERO, share: 1.0 }
    }

    #[inline]
    fn on_sent(&mut self, sent: &Sent, _model: &Model) {
        self.sent += sent.bytes;
        if sent.retransmission {
            self.retransmitted += sent.bytes;
        }
    }

    #[inline]
    fn observe(&mut self, _ack: &Ack, model: &Model) {
        if model.round_start() {
            if !self.retransmitted.is_zero() {
                let r = self.retransmitted.as_f64() / self.sent.as_f64();
                self.share = (self.share * (1.0 - self.response * r)).max(self.floor);
            }
            (self.sent, self.retransmitted) = (Bytes::ZERO, Bytes::ZERO);
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
