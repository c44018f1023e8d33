//! # BBQ
//!
//! BBR v1 that probes for at most 3 ms when it sees a queue. Per probe, a BBR flow injects 0.25 · bw ·
//! min_rtt beyond its bandwidth. The longer the RTT, the more it injects, and so the larger its share of the
//! queue, which determines its share of the bandwidth. BBQ limits the duration of the probe, so that all
//! flows inject for the same time.
//!
//! BBQ's test for a queue and the treatment of BBR's condition for the end of a probe are **our reconstruction**. The
//! text of the paper could not be obtained. The rest is known:
//!
//! | fact | source |
//! |---|---|
//! | the excess per probe (proportional to the RTT) gives long-RTT flows their advantage | the paper's abstract |
//! | the probe's duration is capped, at 3 ms, only while queueing is detected | readers of the paper's second version |
//! | 'an upper limit on the span of detection cycle' that shortens it for long-RTT flows | the BBR-GC paper, section 4 |
//! | the test for a queue: our reconstruction | – |
//!
//! ## Control law
//!
//! | symbol | meaning | unit |
//! |---|---|---|
//! | α | maximum length of a probe while there is a queue: 3 ms | s |
//! | θ | excess of RTT over min_rtt that counts as a queue: 0.1 (our reconstruction) | – |
//! | L | length of the phase at gain 1.25 | s |
//! | RTT_round | minimum sample of the last whole round trip | s |
//!
//! ```text
//! queue  = RTT_round > (1 + θ) · min_rtt, when the phase at gain 1.25 begins
//! L      = min(α, min_rtt) if queue, else BBR's: min_rtt and until inflight has reached 1.25 BDP
//! excess = 0.25 · bw · L
//! ```
//!
//! A flow with min_rtt ≤ 3 ms therefore behaves as BBR, and so does any flow that detects no queue.
//!
//! ## States
//!
//! The states of BBR. Only the phase at gain 1.25 may end earlier. The phase at 0.75 keeps BBR's length: until inflight
//! is down to the BDP, at most one min_rtt.
//!
//! ## References
//!
//! 1. S. Ma, J. Jiang, W. Wang, B. Li, Fairness of Congestion-Based Congestion Control: Experimental
//!    Evaluation and Analysis, arXiv 1706.09115, 2017: abstract, and reports by readers of the text.
//! 2. W. Pan et al., Sensors 21(12), 4128, 2021 (BBR-GC), which compares BBR-GC with BBQ: section 4.
//! 3. BBR v1: see its page.
//!
//! ## Differences
//!
//! 1. The test for a queue is ours. It uses the minimum RTT of the last whole round, so a single delayed ACK does not
//!    count as a queue. The test requires an RTT 10 % above min_rtt, which exceeds the noise of pacing. It runs once
//!    per cycle, when the probe begins.
//! 2. While the cap is in force, a probe ends with the first ACK after α, regardless of inflight. Under BBR's
//!    condition that inflight reaches 1.25 BDP, the cap could not shorten a probe.
//! 3. Whether the paper also shortens the phase at 0.75 is unknown. Here it is not shortened.
//!
//! Two flows of 10 and 50 ms on 100 Mbit/s with a deep buffer get 38 and 60 Mbit/s on average over 60 s. With θ = 0.02
//! they get 44 and 54 Mbit/s; with θ = 0.3 they get 13 and 85. Against flows of 80 and 100 ms the test with θ = 0.1
//! misses one queue in ten, and the resulting full-length probes take most of the bandwidth (against the flow of 100
//! ms: 12 and 86 Mbit/s; with θ = 0.02, 29 and 69).
//!
//! ## Known weaknesses
//!
//! * cwnd still allows two BDPs, and a longer min_rtt means a larger BDP, so flows with long RTTs keep an advantage.
//! * A queue that lasts longer than 10 s and that ProbeRTT does not empty becomes part of min_rtt and is not detected.
//! * A queue below a tenth of the RTT is not detected: in a buffer of 0.1 BDP, BBQ behaves as BBR.
//! * Where few packets arrive within 3 ms, a capped probe lasts until the next ACK, so its length is the gap between
//!   ACKs.

use crate::bbr_v1::{BbrCore, Model, PHASE_UP, Policy, State};
use crate::{Ack, Info, Nanos, Param, Provenance, RecoveryStyle, RoundMin, Setup, bbr_params};

/// BBQ.
pub type Bbq = BbrCore<CappedProbe>;

/// Limits the duration of a probe.
#[derive(Clone, Debug)]
pub struct CappedProbe {
    alpha: Nanos,
    queue_ratio: f64,
    rounds: RoundMin,
    /// Whether the duration of the current probe is limited to `alpha`.
    capped: bool,
}

impl Policy for CappedProbe {
    const INFO: Info = Info {
        name: "bbq",
        aliases: &[],
        summary: "BBR v1 that probes for at most 3 ms while it sees a queue",
        provenance: Provenance::Reconstruction,
        recovery: RecoveryStyle::Own,
        params: bbr_params![
            Param::number("alpha", 3.0, (0.1, 1e4), "ms", "longest probe while there is a queue"),
            Param::ratio(
                "theta",
                0.1,
                (0.0, 10.0),
                "excess of a round's minimum RTT over min_rtt that counts as a queue (our reconstruction)"
            ),
        ],
    };

    fn new(setup: &Setup) -> Self {
        Self {
            alpha: Nanos::from_secs_f64(setup.params.number("alpha") / 1e3),
            queue_ratio: 1.0 + setup.params.number("theta"),
            rounds: RoundMin::default(),
            capped: false,
        }
    }

    #[inline]
    fn observe(&mut self, ack: &Ack, model: &Model) {
        self.rounds.on_ack(model.round_start(), ack.rtt);
    }

    #[inline]
    fn on_transition(&mut self, to: State, model: &Model) {
        if let (State::ProbeBw { phase: PHASE_UP, .. }, Some(min_rtt)) = (to, model.min_rtt()) {
            let queue = self.rounds.last().is_some_and(|rtt| rtt > min_rtt.mul_f64(self.queue_ratio));
            self.capped = queue && min_rtt > self.alpha;
        }
    }

    #[inline]
    fn phase_done(&self, phase: u8, since: Nanos, ack: &Ack, model: &Model) -> bool {
        if phase == PHASE_UP && self.capped && model.policed().is_none() {
            return model.delivered_at() - since > self.alpha;
        }
        self.standard_phase_done(since, ack, model)
    }
}
