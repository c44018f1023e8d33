//! # BBR v2
//!
//! The first BBR with bounds learnt from loss, of 2019, between v1 and v3. The model, the states, both time
//! scales of bounds and the formulas are those of BBR v3 (`bbr3`), whose page is the full account; this one
//! lists what is different. The core is the same code with another set of parameters and the rules below.
//!
//! ## Control law
//!
//! Symbols as in BBR v3. In the names of v2: inflight_hi = inflight_long, inflight_lo = inflight_short, bw_lo
//! = bw_short.
//!
//! | | v2 | v3 |
//! |---|---|---|
//! | pacing gain of Startup, Drain | 2.885, 1/2.885 | 2.77, 0.5 |
//! | window gain of Startup and Drain | 2.885 | 2 |
//! | pacing gain of DOWN | 0.75 | 0.9 |
//! | window gain of UP | 2 | 2.25 |
//! | losses that may end Startup, in a round | 8 acknowledgements that tell of one | 6 separate ranges |
//! | the bound they leave | BDP of max_bw | max(BDP, most data delivered in a round trip) |
//! | longest Drain | no limit | 3 rounds |
//! | aggregation term at most | bw × 100 ms | – |
//! | bounds cut by marks | inflight and bandwidth | inflight |
//! | growth of a probe when marks cease | off | half of inflight_long |
//!
//! ```text
//! UP ends   when a min_rtt has passed and inflight ≥ 1.25 max_bw · min_rtt + 2 segments   (v3: a plateau of three rounds)
//!           or when a flight was too high, or by precaution, as in v3
//! plateau   (Startup alone) judged by max_bw, not by the newest sample
//! too high  judged at acknowledgements too, by the flight of the newest packet they deliver
//! inflight  as it was before the acknowledgement, for the ends of UP and DOWN
//! ```
//!
//! ## States
//!
//! Those of BBR v3 with the same edges but for undoing: a spurious recovery restores the bounds and the
//! window, not the state. Entering CRUISE, inflight_short is cut to inflight_long if it is set. Entering
//! Drain, what was seen of losses and delivery in the running round is forgotten. A timeout outside of a
//! probe sets inflight_short to the window before it, so that the bound does not start from the timeout's
//! single segment. Segments that are acknowledged in UP while the window is not full add nothing to the
//! growth of inflight_long later.
//!
//! ## Life of a flow
//!
//! As in v3, but the probe is short: one to two round trips, until a quarter of a BDP is queued. So v2 alone
//! queues less, and where the buffer has a quarter of a BDP it never meets its end; but with others in the
//! queue inflight is at 1.25 BDP before the rate could grow, so a flow that has too little gains little by
//! probing. That is what v3's plateau and larger window gain in UP mend.
//!
//! ## References
//!
//! 1. Linux v2alpha, `net/ipv4/tcp_bbr2.c` of google/bbr, commit 0487ade5: read in full, and followed.
//! 2. draft-cardwell-iccrg-bbr-congestion-control-02, 7 March 2022: the text of v2; not followed where
//!    v2alpha differs.
//! 3. The references of BBR v3.
//!
//! ## Differences
//!
//! From Linux v2alpha:
//!
//! 1. Data is counted in bytes, gains and times are exact, where Linux has packets, multiples of 1/256 and
//!    jiffies.
//! 2. Inflight is not corrected for packets waiting in the pacer: the transport counts a packet when it
//!    leaves it.
//! 3. Until the pipe is full the window grows by the draft's rule: below max_inflight, or until an initial
//!    window was delivered; Linux has two initial windows of window instead.
//! 4. The send quantum is the draft's, 1 ms of pacing within what the transport bursts; v2alpha allows larger
//!    bursts at round-trip times below 3 ms.
//! 5. The aggregation filter is a maximum over 10 round trips (1 in Startup); Linux has two slots of 5.
//! 6. Acknowledgements that were held back may replace an expired minimum of the round-trip time; Linux
//!    recognises some of them.
//! 7. The shortcut for senders short of data is an optimisation and is left out.
//! 8. Precaution in probing is v2's already, though the draft counts it among what is new: v2alpha stops a
//!    probe at inflight_hi after one that was too high, and probes again at once if that was harmless. It is
//!    on here as there.
//! 9. Differences 1, 2, 6 and 11 of BBR v3.
//!
//! ## Known weaknesses
//!
//! * A flow that is short of its share stays so. With others in the queue inflight is at 1.25 BDP all the
//!   time, so a probe ends after one min_rtt, before its feedback, and everybody probes by the same ratio: of
//!   two flows in one BDP of buffer the one that came 10 s later still had a fifth of the other's rate after
//!   two minutes.
//! * DOWN at 0.75 yields more than a probe of 1.25 gains, against flows that do not yield.
//! * Those of BBR v3: random loss, the time to follow a falling bandwidth, ProbeRTT every 5 s.

use crate::bbr_v2_v3::{BbrCore, Generation, PARAMS_V2, Policy};
use crate::{Evidence, Info, RecoveryStyle, Setup};

/// BBR v2.
pub type Bbr2 = BbrCore<Alpha>;

/// BBR v2: every rule is the core's own.
#[derive(Clone, Debug)]
pub struct Alpha;

impl Policy for Alpha {
    const INFO: Info = Info {
        name: "bbr2",
        aliases: &["bbrv2"],
        summary: "BBR bounded by what loss showed to be too much (BBR v2, Linux v2alpha)",
        evidence: Evidence::Verified,
        recovery: RecoveryStyle::Own,
        params: PARAMS_V2,
    };
    const GENERATION: Generation = Generation::V2;

    fn new(_setup: &Setup) -> Self {
        Self
    }
}
