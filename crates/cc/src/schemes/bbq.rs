//! # BBQ
//!
//! BBR v1 that probes for at most 3 ms where there is a queue. What a BBR flow injects per probe beyond its
//! bandwidth is 0.25 · bw · min_rtt: the longer the RTT, the more, and so the larger the share of the queue, which
//! decides the share of the bandwidth. BBQ cuts the probe's duration, so that all flows inject for the same time.
//!
//! The test by which BBQ recognises a queue is **our reconstruction**, and so is what becomes of BBR's own condition
//! for the end of a probe; the text of the paper could not be obtained. The rest is known:
//!
//! | what | from |
//! |---|---|
//! | the excess per probe, proportional to the RTT, is what makes long flows win | the paper's abstract |
//! | the probe's duration is capped, at 3 ms, only while queueing is detected | readers of the paper's second version |
//! | 'an upper limit on the span of detection cycle' that shortens it for long flows | the BBR-GC paper, section 4 |
//! | the test for a queue: our reconstruction | – |
//!
//! ## Control law
//!
//! | symbol | meaning | unit |
//! |---|---|---|
//! | α | the longest probe where there is a queue: 3 ms | s |
//! | θ | excess of RTT over min_rtt that is a queue: 0.1 (our reconstruction) | – |
//! | L | length of the phase at gain 1.25 | s |
//! | RTT_round | least sample of the last whole round trip | s |
//!
//! ```text
//! queue  = RTT_round > (1 + θ) · min_rtt, when the phase at gain 1.25 begins
//! L      = min(α, min_rtt) if queue, else BBR's: min_rtt and until inflight has reached 1.25 BDP
//! excess = 0.25 · bw · L
//! ```
//!
//! So a flow with min_rtt ≤ 3 ms, and any flow that sees no queue, is BBR.
//!
//! ## States
//!
//! BBR's; only the phase at gain 1.25 may end earlier. The phase at 0.75 keeps BBR's length: until inflight is down to
//! the BDP, at most one min_rtt.
//!
//! ## References
//!
//! 1. S. Ma, J. Jiang, W. Wang, B. Li, Fairness of Congestion-Based Congestion Control: Experimental Evaluation and
//!    Analysis, arXiv 1706.09115, 2017: abstract, and what readers of the text report.
//! 2. W. Pan et al., Sensors 21(12), 4128, 2021 (BBR-GC), which compares itself with BBQ: section 4.
//! 3. BBR v1: see its page.
//!
//! ## Differences
//!
//! 1. The test for a queue is ours: the least round trip of the last whole round, so that a single late
//!    acknowledgement is no queue, and 10 % above min_rtt, more than the noise of pacing. It is made once per cycle,
//!    when the probe begins.
//! 2. While the cap is in force a probe ends with the first acknowledgement after α, whatever inflight: with BBR's
//!    condition, that inflight shows 1.25 BDP, the cap could not shorten a probe.
//! 3. Whether the phase at 0.75 is cut as well is not known; it is not.
//!
//! Two flows of 10 and 50 ms on 100 Mbit/s with a deep buffer get 38 and 60 Mbit/s in the mean of 60 s; with θ = 0.02
//! 44 and 54, with θ = 0.3 13 and 85. Against flows of 80 and 100 ms the test at 10 % misses one queue in ten, and
//! those few whole probes take most of the bandwidth (12 and 86 Mbit/s against 100 ms; 29 and 69 with θ = 0.02).
//!
//! ## Known weaknesses
//!
//! * The window still allows two BDPs of a longer min_rtt, so long flows keep an advantage.
//! * Where the queue stands for longer than 10 s and ProbeRTT does not empty it, min_rtt contains it, and it is not
//!   seen.
//! * A queue below a tenth of the RTT is not seen: in a buffer of 0.1 BDP BBQ is BBR.
//! * With few packets per 3 ms the probe ends with the next acknowledgement, and probes are as long as those are
//!   apart.

use crate::bbr_v1::{BbrCore, Model, PHASE_UP, Policy, State};
use crate::{Ack, Evidence, Info, Nanos, Param, RecoveryStyle, RoundMin, Setup, bbr_params};

/// BBQ.
pub type Bbq = BbrCore<CappedProbe>;

/// A probe of limited duration.
#[derive(Clone, Debug)]
pub struct CappedProbe {
    alpha: Nanos,
    queue_ratio: f64,
    rounds: RoundMin,
    /// The running probe is capped.
    capped: bool,
}

impl Policy for CappedProbe {
    const INFO: Info = Info {
        name: "bbq",
        aliases: &[],
        summary: "BBR v1 that probes for at most 3 ms where it sees a queue",
        evidence: Evidence::Reconstruction,
        recovery: RecoveryStyle::Own,
        params: bbr_params![
            Param::number("alpha", 3.0, (0.1, 1e4), "ms", "the longest probe where there is a queue"),
            Param::number(
                "theta",
                0.1,
                (0.0, 10.0),
                "",
                "a queue is seen where a round's least RTT exceeds min_rtt by this share (our reconstruction)"
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
