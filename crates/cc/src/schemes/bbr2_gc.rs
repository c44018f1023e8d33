//! # BBR-GC over BBR v2
//!
//! BBR v2 with the pacing gains of BBR-GC. BBR v2 probes and drains at fixed gains. Here both gains follow the RTT
//! relative to the maximum RTT of the connection. With an RTT near the maximum, a flow hardly probes and drains deeply.
//! With an RTT far below the maximum, it probes hard and drains little.
//!
//! No paper defines this scheme. The authors of BBR-GC name the correction of BBR v2 as future work. We chose which
//! rules of BBR v2 stay: this choice is **our reconstruction** of that plan. The curves are those of the paper.
//!
//! ## Control law
//!
//! | symbol | meaning | unit |
//! |---|---|---|
//! | RTT | newest RTT sample | s |
//! | RTT_max | maximum sample of the connection | s |
//! | ω | RTT / RTT_max, in (0, 1] | – |
//! | P_up | pacing gain of ProbeBW_UP, instead of 1.25 | – |
//! | P_down | pacing gain of ProbeBW_DOWN, instead of 0.75 | – |
//!
//! ```text
//! P_up   = 1.5 − 0.5 · ω^0.25     in [1, 1.5]
//! P_down = 1 − 0.5 · ω^4          in [0.5, 1]
//! ```
//!
//! P_down is recomputed at every ACK of its state, P_up at every ACK with less than 1 BDP in flight, as in algorithm 1
//! of the paper. From 1 BDP on the probe keeps its gain; with `between=up`, P_up is recomputed there too. Everything
//! else is BBR v2.
//!
//! ## States
//!
//! The states and conditions of BBR v2. Only the gains of ProbeBW_UP and ProbeBW_DOWN differ.
//!
//! ## References
//!
//! 1. W. Pan, X. Li, H. Tan, J. Xu, X. Li, Improvement of RTT Fairness Problem in BBR Congestion Control
//!    Algorithm by Gamma Correction, Sensors 21(12), 4128, 2021: equations 10, 12 and 13; section 5 for the
//!    future work.
//! 2. BBR v2: see its page.
//!
//! ## Differences
//!
//! 1. The probing states end as in BBR v2, not by algorithm 1 of BBR-GC: BBR v2 has rules for loss and for inflight
//!    above 1.25 BDP, and the bounds that it learns in these states are its essence.
//! 2. BBR v1 drains for at most one min_rtt. BBR v2 drains until inflight is down to the BDP and leaves headroom. With
//!    P_down near 1, far from the maximum RTT, draining may last until the next probe is due.
//!
//! ## Known weaknesses
//!
//! * The weaknesses of BBR-GC: RTT_max may date from any earlier state of the path, and ω shows how full the path is,
//!   not whose packets fill it.
//! * A probe of BBR v2 ends when inflight reaches 1.25 BDP. With P_up near 1 that takes many round trips, or
//!   loss.

use crate::bbr_v2_v3::{BbrCore, Generation, PARAMS_V2};
use crate::gamma::{BETWEEN, Corrected, DOWN_AMPLITUDE, DOWN_GAMMA, GammaBase, RTT_MAX_WINDOW, UP_AMPLITUDE, UP_GAMMA};
use crate::{Info, Provenance, RecoveryStyle, merged_params};

/// BBR-GC over BBR v2.
pub type Bbr2Gc = BbrCore<Corrected<OverV2>>;

/// BBR v2 as the base of the gamma correction.
#[derive(Clone, Debug)]
pub struct OverV2;

impl GammaBase for OverV2 {
    const INFO: Info = Info {
        name: "bbr2-gc",
        aliases: &[],
        summary: "BBR v2 whose probing gains follow RTT / RTT_max by gamma correction (our reconstruction)",
        provenance: Provenance::Reconstruction,
        recovery: RecoveryStyle::Own,
        params: merged_params![PARAMS_V2, without "up_gain", "down_gain";
            UP_GAMMA,
            DOWN_GAMMA,
            UP_AMPLITUDE,
            DOWN_AMPLITUDE,
            RTT_MAX_WINDOW,
            BETWEEN,
        ],
    };
    const GENERATION: Generation = Generation::V2;
}
