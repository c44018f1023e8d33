//! # BBR-A (advanced)
//!
//! BBR-ACD that also slows down: while it halves cwnd, it paces at 0.75 of the bandwidth, so that the few packets sent
//! do not add to the queue just detected.
//!
//! ## Control law
//!
//! The control law of `bbr-acd`, and
//!
//! ```text
//! every ACK that delivers data while F is on:  pacing rate ← 0.99 · 0.75 · bw
//! ```
//!
//! This pacing rate is set after cwnd and replaces the rate from the state's gain. The gain cycle still advances by the
//! state's gains. An ACK without an RTT sample ends the run of similar samples, but BBR-A keeps the last sample for the
//! next comparison (BBR-ACD discards that sample).
//!
//! ## States
//!
//! The states of BBR v1.
//!
//! ```text
//!                     ┌─ congestion ──► F on: cwnd / 2, / 4 … 4 segments, pacing 0.75 bw ── round over ──┐
//! recovery is entered ┤                                                                                  ▼
//!                     └─ none ──────────────────────────────────────────► cwnd grows to its target as usual
//! ```
//!
//! Every ACK of the round trip halves cwnd, down to 4 segments within a few ACKs, as described for `bbr-acd`. Until
//! that round trip is over, almost nothing may be sent, so the slower pacing affects only a few packets. In Startup the
//! lower gain has no effect, because the pacing rate never falls there.
//!
//! ## References
//!
//! 1. I. Mahmud, Y.-Z. Cho, BBR Advanced (BBR-A): Reduced retransmissions with improved fairness, ICT Express 6(4),
//!    2020 (the paper was not read; the authors' code is followed).
//! 2. `tcp_bbr.c` of github.com/imtiaztee/BBR-Advanced--BBR-A--Linux-Kernel-Code, commit 7510a2489f4d (Linux
//!    4.14.64): read in full, and followed.
//! 3. BBR v1: see `bbr`.
//!
//! ## Differences
//!
//! From BBR-ACD as implemented here: the control law above. From BBR v1: with `detection = off` and
//! `extra_acked = on` it is BBR v1, event for event. From the authors' code: the differences of `bbr-acd`.
//!
//! ## Known weaknesses
//!
//! The weaknesses of BBR-ACD. The lower pacing rate has little effect, because cwnd is always the tighter limit.

use super::bbr_acd::{Acd, BbrAcd};
use crate::bbr_v1::{BbrCore, Model, Policy, RecoveryEntry};
use crate::{Ack, Bytes, Info, Param, Provenance, Scheme, Setup, Telemetry, bbr_params};

/// BBR-A.
pub type BbrA = BbrCore<Advanced>;

/// Adds a lower pacing rate to BBR-ACD's recovery.
#[derive(Clone, Debug)]
pub struct Advanced {
    acd: Acd,
    detection: bool,
    gain: f64,
}

impl Policy for Advanced {
    const INFO: Info = Info {
        name: "bbr-a",
        aliases: &[],
        summary: "BBR-ACD that also paces at 0.75 of the bandwidth while it halves cwnd",
        provenance: Provenance::Verified,
        recovery: BbrAcd::INFO.recovery,
        params: bbr_params![
            Param::flag("detection", true, "recover by evidence of congestion; off: as BBR"),
            Param::ratio("congested_gain", 0.75, (0.1, 1.0), "pacing gain while cwnd is halved"),
            Param::flag("extra_acked", false, "cwnd term for aggregated ACKs"),
        ],
    };

    fn new(setup: &Setup) -> Self {
        let (detection, gain) = (setup.params.flag("detection"), setup.params.number("congested_gain"));
        Self { acd: Acd::new(setup), detection, gain }
    }

    #[inline]
    fn observe(&mut self, ack: &Ack, model: &Model) {
        let last = self.acd.last;
        self.acd.observe(ack, model);
        self.acd.last = self.acd.last.or(last);
    }

    fn on_min_rtt_expired(&mut self, model: &Model) {
        self.acd.on_min_rtt_expired(model);
    }

    fn enter_recovery(&mut self, window: Bytes, ack: &Ack, model: &Model) -> RecoveryEntry {
        self.acd.enter_recovery(window, ack, model)
    }

    fn conserve(&mut self, window: Bytes, ack: &Ack, model: &Model) -> Bytes {
        self.acd.conserve(window, ack, model)
    }

    fn conserving_gain(&self) -> Option<f64> {
        self.detection.then_some(self.gain)
    }

    fn telemetry(&self, sink: Telemetry<'_>) {
        self.acd.telemetry(sink);
    }
}
