//! # BBR-A (advanced)
//!
//! BBR-ACD that also slows down: while its window is being halved it paces at 0.75 of the bandwidth, so that what
//! little it sends then does not meet the queue it has just detected.
//!
//! ## Control law
//!
//! That of `bbr-acd`, and
//!
//! ```text
//! every acknowledgement while F is on (delivering data):  pacing rate ← 0.99 · 0.75 · bw
//! ```
//!
//! after the window was set, in place of the state's gain; the gain cycle goes on by its own gains. An
//! acknowledgement without a round-trip sample ends the row of like samples, but the last sample is kept to
//! compare the next one with (BBR-ACD forgets it).
//!
//! ## States
//!
//! Those of BBR v1.
//!
//! ```text
//!                     ┌─ congestion ──► F on: window / 2, / 4 … 4 segments, pacing 0.75 bw ── round over ──┐
//! recovery is entered ┤                                                                                    ▼
//!                     └─ none ──────────────────────────────────────────► window grows to its target as ever
//! ```
//!
//! The window is halved by every acknowledgement of the round trip, down to 4 segments within a few of them: what
//! `bbr-acd` says of this holds here. Until that round trip is over next to nothing may be sent, so that the
//! slower pacing concerns a handful of packets. In Startup it changes nothing, as the pacing rate never falls
//! there.
//!
//! ## References
//!
//! 1. I. Mahmud, Y.-Z. Cho, BBR Advanced (BBR-A): Reduced retransmissions with improved fairness, ICT Express
//!    6(4), 2020. Not read: the authors' code is followed.
//! 2. `tcp_bbr.c` of github.com/imtiaztee/BBR-Advanced--BBR-A--Linux-Kernel-Code, commit 7510a2489f4d
//!    (Linux 4.14.64): read in full, and followed.
//! 3. BBR v1: see `bbr`.
//!
//! ## Differences
//!
//! From BBR-ACD as it is here: the law above. From BBR v1: with `detection = 0` and `extra_acked = 1` it is that,
//! event for event. From the authors' code: those of `bbr-acd`.
//!
//! ## Known weaknesses
//!
//! Those of BBR-ACD. The pacing it adds can hardly show, as the window is the tighter limit throughout.

use super::bbr_acd::{Acd, BbrAcd};
use crate::bbr_v1::{BbrCore, Model, Policy, RecoveryEntry};
use crate::{Ack, Bytes, CongestionControl, Evidence, Info, Param, Setup, Telemetry, bbr_params};

/// BBR-A.
pub type BbrA = BbrCore<Advanced>;

/// BBR-ACD's recovery, paced down.
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
        summary: "BBR-ACD that also paces at 0.75 of the bandwidth while it halves its window",
        evidence: Evidence::Verified,
        recovery: BbrAcd::INFO.recovery,
        params: bbr_params![
            Param::flag("detection", true, "recovery by evidence of congestion; off: BBR's own"),
            Param::number("congested_gain", 0.75, (0.1, 1.0), "", "pacing gain while the window is halved"),
            Param::flag("extra_acked", false, "window for aggregated acknowledgements"),
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
