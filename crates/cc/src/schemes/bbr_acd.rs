//! # BBR-ACD (advanced congestion detection)
//!
//! BBR that asks, when packets are lost, whether the path is congested. If round-trip times speak for a queue
//! it halves its window; if not, the loss was random and it does nothing at all, not even what BBR does in the
//! first round trip of a recovery.
//!
//! ## Control law
//!
//! | symbol | meaning | unit |
//! |---|---|---|
//! | rtt, last | the newest round-trip sample, and the one before it | s |
//! | n | how often in a row samples were alike and above min_rtt | – |
//! | F | window to be halved | flag |
//! | BDP₁ | the window BBR v1 would want at gain 1: BDP and three send quanta, rounded up to even | B |
//!
//! ```text
//! every acknowledgement that delivers data:
//!     n ← n + 1 if rtt > min_rtt and |rtt − last| ≤ 1 ms, else 0
//!     congestion := n ≥ 2 or rtt > 2 · min_rtt
//! the acknowledgement that enters recovery:
//!     if congestion: F on, and a round trip begins
//! every acknowledgement while F is on:
//!     window ← max(4 segments, min(window / 2, BDP₁))
//! a round trip begins, or recovery ends:
//!     F off; at the end of recovery window ← max(window, window from before)
//! ```
//!
//! n ≥ 2 means three like samples in a row, of which only the first may be at min_rtt: a queue that stands, or
//! grows by less than 1 ms from one acknowledgement to the next. Losses are taken from the window before all this,
//! as in BBR v1.
//!
//! ## States
//!
//! Those of BBR v1, with its gains and its pacing. What changes is recovery:
//!
//! ```text
//!                     ┌─ congestion ──► F on: window / 2, / 4, / 8 … 4 segments ── round trip over ──┐
//! recovery is entered ┤                                                                              ▼
//!                     └─ none ────────────────────────────────────► window grows to its target as ever,
//!                                                                   recovery ends: window from before
//! ```
//!
//! ## Life of a flow
//!
//! The halving is repeated by every acknowledgement of the round trip, not done once: six acknowledgements bring
//! a window of 256 segments to 4. As what is in flight is far above that, nothing is sent until all of it has
//! arrived; then four segments go out, and the first acknowledgement of them ends the round trip. From there the
//! window doubles with each round trip until all losses are repaired and the old window is back at once. So one
//! recovery with congestion all but empties the pipe for several round trips. BDP₁ binds only if the window
//! exceeds 2 BDP, as in Startup. In recovery without congestion there is no packet conservation at all: the
//! window less the losses, and growth to its target.
//!
//! ## References
//!
//! 1. I. Mahmud, G.-H. Kim, T. Lubna, Y.-Z. Cho, BBR-ACD: BBR with Advanced Congestion Detection, Electronics
//!    2020, 9(1), 136. Not read: the authors' code is followed.
//! 2. `tcp_bbr.c` of github.com/imtiaztee/BBR-ACD-Linux-Kernel-Code, commit 30c7375c77de (Linux 4.14.64): read
//!    in full, and followed. An earlier version there (2a0565c9ccfd) repeats the test on every acknowledgement of
//!    recovery, and its cap is 1/256 BDP by a slip of fixed point.
//! 3. BBR v1: see `bbr`.
//!
//! ## Differences
//!
//! From BBR v1 as it is here: the law above, and no window for aggregated acknowledgements (`extra_acked` is off
//! by default: Linux 4.14 had none). With `detection = 0` and `extra_acked = 1` it is BBR v1, event for event.
//!
//! From the authors' code:
//!
//! 1. What the core does as a later Linux does, here too: 1 % pacing margin (4.14 leaves link headers out of its
//!    pacing, with the same effect), two segments more only in the probing phase instead of all of ProbeBW, an
//!    acknowledgement held back does not replace an expired min_rtt.
//! 2. In the authors' code an unsigned subtraction wraps where the last sample was below 1 ms, so that samples
//!    there are never alike. Here they are.
//! 3. BDP₁ uses the greatest delivery rate also behind a policer, where half the window is lower anyway.
//!
//! ## Known weaknesses
//!
//! * 1 ms is much: where packets arrive every 0.1 ms any queue that lasts for three acknowledgements is
//!   congestion, one packet long or thousand. BBR's own probe builds one every eight round trips.
//! * Where RTTs jitter by more than 1 ms, only the doubled min_rtt shows congestion: never in buffers below 1 BDP.
//! * An emptied pipe per recovery. Beside another flow of its kind that one then meets an idle link, measures nearly
//!   all of it, and keeps that for ten round trips: two windows of 2 BDPs of almost the whole link overflow the
//!   buffer, and the next recovery empties the other pipe. Two flows of 10 and 50 ms can lose packets in this way for
//!   seconds where BBR v1 loses none.
//! * The bandwidth and the window that is restored stay BBR's, so most of the losses that come from them do, too.
//! * In deep buffers nothing is lost, and it is BBR v1.

use super::bbr::Standard;
use crate::bbr_v1::{BbrCore, Model, Policy, RecoveryEntry};
use crate::{Ack, Bytes, Evidence, Info, Nanos, Param, RecoveryStyle, Setup, Telemetry, Value, bbr_params};

/// Samples that differ by no more are alike.
const ALIKE: Nanos = Nanos::from_millis(1);

/// BBR-ACD.
pub type BbrAcd = BbrCore<Acd>;

/// Recovery by evidence of congestion.
#[derive(Clone, Debug)]
pub struct Acd {
    detection: bool,
    /// The last round-trip sample. `None` is like nothing.
    pub(super) last: Option<Nanos>,
    /// How often in a row samples were alike and above the least.
    alike: u64,
}

impl Acd {
    fn congestion(&self, ack: &Ack, model: &Model) -> bool {
        let doubled = ack.rtt.zip(model.min_rtt()).is_some_and(|(rtt, min_rtt)| rtt > min_rtt * 2);
        self.alike >= 2 || doubled
    }
}

impl Policy for Acd {
    const INFO: Info = Info {
        name: "bbr-acd",
        aliases: &[],
        summary: "BBR that halves its window on loss if round-trip times tell of congestion",
        evidence: Evidence::Verified,
        recovery: RecoveryStyle::Own,
        params: bbr_params![
            Param::flag("detection", true, "recovery by evidence of congestion; off: BBR's own"),
            Param::flag("extra_acked", false, "window for aggregated acknowledgements"),
        ],
    };

    fn new(setup: &Setup) -> Self {
        Self { detection: setup.params.flag("detection"), last: None, alike: 0 }
    }

    #[inline]
    fn observe(&mut self, ack: &Ack, model: &Model) {
        if ack.acked.is_zero() {
            return;
        }
        let above = ack.rtt.zip(model.min_rtt()).is_some_and(|(rtt, min_rtt)| rtt > min_rtt);
        let near = ack.rtt.zip(self.last).is_some_and(|(a, b)| a.max(b) - a.min(b) <= ALIKE);
        self.alike = if above && near { self.alike + 1 } else { 0 };
        self.last = ack.rtt;
    }

    /// The present sample becomes the minimum, so it is not above it.
    fn on_min_rtt_expired(&mut self, _model: &Model) {
        self.alike = 0;
    }

    fn enter_recovery(&mut self, window: Bytes, ack: &Ack, model: &Model) -> RecoveryEntry {
        if !self.detection {
            return Standard.enter_recovery(window, ack, model);
        }
        RecoveryEntry { window, conserve: self.congestion(ack, model) }
    }

    fn conserve(&mut self, window: Bytes, ack: &Ack, model: &Model) -> Bytes {
        if !self.detection {
            return Standard.conserve(window, ack, model);
        }
        (window / 2).min(model.inflight_at(self, 1.0)).max(model.settings().min_window)
    }

    fn telemetry(&self, sink: Telemetry<'_>) {
        sink("alike_samples", Value::Number(self.alike as f64));
    }
}
