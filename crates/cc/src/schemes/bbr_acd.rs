//! # BBR-ACD (advanced congestion detection)
//!
//! BBR-ACD is BBR that tests on loss whether the path is congested. If RTTs indicate a queue, BBR-ACD halves cwnd. If
//! not, it treats the loss as random and does not respond at all, not even with BBR's packet conservation in the first
//! round trip of a recovery.
//!
//! ## Control law
//!
//! | symbol | meaning | unit |
//! |---|---|---|
//! | rtt, last | the newest RTT sample, and the previous sample | s |
//! | n | number of consecutive samples above min_rtt and similar to their predecessor | – |
//! | F | cwnd is being halved | flag |
//! | BDP₁ | BBR v1's target cwnd at gain 1: BDP and three send quanta, rounded up to even | B |
//!
//! ```text
//! every ACK that delivers data:
//!     n ← n + 1 if rtt > min_rtt and |rtt − last| ≤ 1 ms, else 0
//!     congestion := n ≥ 2 or rtt > 2 · min_rtt
//! the ACK that enters recovery:
//!     if congestion: F on, and a round trip begins
//! every ACK while F is on:
//!     cwnd ← max(4 segments, min(cwnd / 2, BDP₁))
//! a round trip begins, or recovery ends:
//!     F off; at the end of recovery cwnd ← max(cwnd, cwnd before recovery)
//! ```
//!
//! n ≥ 2 means three consecutive similar samples, of which only the first may equal min_rtt: the sign of a queue that
//! persists, or grows by less than 1 ms from one ACK to the next. Losses are subtracted from cwnd before all this, as
//! in BBR v1.
//!
//! ## States
//!
//! The states of BBR v1, with its gains and its pacing. Recovery differs:
//!
//! ```text
//!                     ┌─ congestion ──► F on: cwnd / 2, / 4, / 8 … 4 segments ── round trip over ──┐
//! recovery is entered ┤                                                                            ▼
//!                     └─ none ────────────────────────────────────► cwnd grows to its target as usual,
//!                                                                   recovery ends: cwnd from before
//! ```
//!
//! ## Life of a flow
//!
//! Every ACK of the round trip halves cwnd again: six ACKs bring a cwnd of 256 segments to 4. Inflight is then far
//! above cwnd, so nothing is sent until all data in flight has arrived. Then four segments go out, and their first ACK
//! ends the round trip. From then on cwnd doubles with each round trip until all losses are repaired; then the old cwnd
//! is restored in one step. So one recovery with congestion all but empties the pipe for several round trips. BDP₁
//! binds only if cwnd exceeds 2 BDP, as in Startup. Recovery without congestion has no packet conservation at all: cwnd
//! is reduced by the losses and grows to its target.
//!
//! ## References
//!
//! 1. I. Mahmud, G.-H. Kim, T. Lubna, Y.-Z. Cho, BBR-ACD: BBR with Advanced Congestion Detection, Electronics 2020,
//!    9(1), 136. The paper was not read; the authors' code is followed.
//! 2. `tcp_bbr.c` of github.com/imtiaztee/BBR-ACD-Linux-Kernel-Code, commit 30c7375c77de (Linux 4.14.64):
//!    read in full, and followed. An earlier version there (2a0565c9ccfd) repeats the test on every ACK of
//!    recovery, and its cap is 1/256 BDP by a fixed-point error.
//! 3. BBR v1: see `bbr`.
//!
//! ## Differences
//!
//! From BBR v1 as implemented here: the control law above, and no cwnd term for aggregated ACKs
//! (`extra_acked` is off by default: Linux 4.14 had none). With `detection = off` and `extra_acked = on` it is
//! BBR v1, event for event.
//!
//! From the authors' code:
//!
//! 1. This scheme follows the core where the core follows a later Linux. The pacing margin is 1 % (4.14 omits link
//!    headers from its pacing, with the same effect). Only the probing phase adds two segments, not all of ProbeBW. A
//!    delayed ACK does not replace an expired min_rtt.
//! 2. In the authors' code an unsigned subtraction wraps if the last sample was below 1 ms, so such samples never count
//!    as similar. In this scheme they may count as similar.
//! 3. BDP₁ uses the maximum delivery rate even behind a policer. There cwnd / 2 is lower than BDP₁ anyway.
//!
//! ## Known weaknesses
//!
//! * The similarity limit of 1 ms is coarse: where packets arrive every 0.1 ms, any queue that lasts for three ACKs
//!   counts as congestion, whether one packet long or a thousand. BBR's probe itself builds such a queue every eight
//!   round trips.
//! * Where RTTs jitter by more than 1 ms, only an RTT above 2 min_rtt indicates congestion. A buffer below 1 BDP never
//!   produces such an RTT.
//! * Each recovery empties the pipe. A second flow of the same kind then meets an idle link, measures nearly the whole
//!   rate of the link, and keeps that estimate for ten round trips. Two windows of 2 BDPs, each at almost the whole
//!   rate, overflow the buffer, and the next recovery empties the second flow's pipe. Two flows of 10 and 50 ms can
//!   thus lose packets for seconds where BBR v1 loses none.
//! * The bandwidth estimate and the restored cwnd are still BBR's, so most of BBR's losses remain.
//! * In deep buffers no packets are lost, so BBR-ACD acts as BBR v1.

use super::bbr::Standard;
use crate::bbr_v1::{BbrCore, Model, Policy, RecoveryEntry};
use crate::{Ack, Bytes, Info, Nanos, Param, Provenance, RecoveryStyle, Setup, Telemetry, Value, bbr_params};

/// Samples that differ by at most this are similar.
const SIMILAR: Nanos = Nanos::from_millis(1);

/// BBR-ACD.
pub type BbrAcd = BbrCore<Acd>;

/// Halves cwnd in a recovery that begins with evidence of congestion.
#[derive(Clone, Debug)]
pub struct Acd {
    detection: bool,
    /// The last RTT sample. While it is `None`, the next sample does not count as similar.
    pub(super) last: Option<Nanos>,
    /// Number of consecutive samples above min_rtt and similar to the previous one.
    similar: u64,
}

impl Acd {
    fn congestion(&self, ack: &Ack, model: &Model) -> bool {
        let doubled = ack.rtt.zip(model.min_rtt()).is_some_and(|(rtt, min_rtt)| rtt > min_rtt * 2);
        self.similar >= 2 || doubled
    }
}

impl Policy for Acd {
    const INFO: Info = Info {
        name: "bbr-acd",
        aliases: &[],
        summary: "BBR that halves cwnd on loss if RTTs indicate congestion",
        provenance: Provenance::Verified,
        recovery: RecoveryStyle::Own,
        params: bbr_params![
            Param::flag("detection", true, "recover by evidence of congestion; off: as BBR"),
            Param::flag("extra_acked", false, "cwnd term for aggregated ACKs"),
        ],
    };

    fn new(setup: &Setup) -> Self {
        Self { detection: setup.params.flag("detection"), last: None, similar: 0 }
    }

    #[inline]
    fn observe(&mut self, ack: &Ack, model: &Model) {
        if ack.acked.is_zero() {
            return;
        }
        let above = ack.rtt.zip(model.min_rtt()).is_some_and(|(rtt, min_rtt)| rtt > min_rtt);
        let near = ack.rtt.zip(self.last).is_some_and(|(a, b)| a.max(b) - a.min(b) <= SIMILAR);
        self.similar = if above && near { self.similar + 1 } else { 0 };
        self.last = ack.rtt;
    }

    /// The current sample becomes the minimum, so it is not above the minimum.
    fn on_min_rtt_expired(&mut self, _model: &Model) {
        self.similar = 0;
    }

    fn enter_recovery(&mut self, window: Bytes, ack: &Ack, model: &Model) -> RecoveryEntry {
        if !self.detection {
            return Standard.enter_recovery(window, ack, model);
        }
        RecoveryEntry { cwnd: window, conserve: self.congestion(ack, model) }
    }

    fn conserve(&mut self, window: Bytes, ack: &Ack, model: &Model) -> Bytes {
        if !self.detection {
            return Standard.conserve(window, ack, model);
        }
        (window / 2).min(model.inflight_at(self, 1.0)).max(model.settings().min_window)
    }

    fn telemetry(&self, sink: Telemetry<'_>) {
        sink("alike_samples", Value::Number(self.similar as f64));
    }
}
