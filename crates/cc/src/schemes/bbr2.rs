//! # BBR v2
//!
//! The first BBR (2019) with bounds learnt from loss, between v1 and v3. BBR v3 (`bbr3`) has the same model, states,
//! formulas and time scales of bounds; the page of v3 describes them in full. This page lists the differences. Both
//! versions share the code of the core; v2 has other parameters and the rules below.
//!
//! ## Control law
//!
//! Symbols as in BBR v3. The names in v2 differ: inflight_hi is inflight_long, inflight_lo is inflight_short, and bw_lo
//! is bw_short.
//!
//! | | v2 | v3 |
//! |---|---|---|
//! | pacing gain of Startup, Drain | 2.885, 1/2.885 | 2.77, 0.5 |
//! | cwnd gain of Startup and Drain | 2.885 | 2 |
//! | pacing gain of DOWN | 0.75 | 0.9 |
//! | cwnd gain of UP | 2 | 2.25 |
//! | losses in a round that may end Startup | 8 ACKs that report loss | 6 separate ranges |
//! | the bound set when losses end Startup | BDP of max_bw | max(BDP, maximum data delivered in a round trip) |
//! | longest Drain | no limit | 3 rounds |
//! | aggregation term at most | bw × 100 ms | – |
//! | bounds cut by marks | inflight and bandwidth | inflight |
//! | growth of a probe when marks cease | off | half of inflight_long |
//!
//! ```text
//! UP ends   when a min_rtt has passed and inflight ≥ 1.25 max_bw · min_rtt + 2 segments
//!           (v3: a plateau of three rounds), or when a flight was too high, or by precaution, as in v3
//! plateau   (Startup alone) judged by max_bw, not by the newest sample
//! too high  judged at ACKs too, by the flight of the newest packet they deliver
//! inflight  as it was before the ACK, for the ends of UP and DOWN
//! ```
//!
//! ## States
//!
//! The states and edges of BBR v3, except for undo: a spurious recovery restores the bounds and cwnd, not the state. On
//! entering CRUISE, inflight_short, if set, is cut to inflight_long. On entering Drain, the losses and deliveries of
//! the current round are discarded. A timeout outside a probe sets inflight_short to the previous cwnd, so that the
//! bound does not start from the timeout's single segment. Segments acknowledged in UP while cwnd is not full do not
//! count towards later growth of inflight_long.
//!
//! ## Life of a flow
//!
//! As in v3, but the probe is short: one to two round trips, until a quarter of a BDP is queued. A v2 flow alone on a
//! link therefore queues less, and never fills a buffer of a quarter of a BDP. Beside other flows, inflight reaches
//! 1.25 BDP before the rate can grow, so a flow below its fair share gains little by probing. v3 fixes this with its
//! plateau and larger cwnd gain in UP.
//!
//! ## References
//!
//! 1. Linux v2alpha, `net/ipv4/tcp_bbr2.c` of google/bbr, commit 0487ade5: read in full, and followed.
//! 2. draft-cardwell-iccrg-bbr-congestion-control-02, 7 March 2022: the specification of v2; not followed where v2alpha
//!    differs.
//! 3. The references of BBR v3.
//!
//! ## Differences
//!
//! From Linux v2alpha:
//!
//! 1. This scheme counts data in bytes and uses exact gains and times. Linux counts packets and uses gains in multiples
//!    of 1/256 and times in jiffies.
//! 2. Inflight is not corrected for packets waiting in the pacer: the transport counts a packet when it
//!    leaves the pacer.
//! 3. Until the pipe is full, cwnd grows by the draft's rule: below max_inflight, or until an initial window
//!    was delivered. Linux allows a cwnd of two initial windows instead.
//! 4. The send quantum is the draft's: 1 ms of pacing, within the transport's burst limit. v2alpha allows
//!    larger bursts at RTTs below 3 ms.
//! 5. The aggregation filter is a maximum over 10 round trips (1 in Startup). Linux has two slots of 5 round trips
//!    each.
//! 6. The RTT sample of a delayed ACK may replace an expired minimum RTT. Linux recognises some delayed ACKs and
//!    ignores their samples.
//! 7. Linux's shortcut for application-limited senders is an optimisation; this scheme omits it.
//! 8. Precaution in probing already exists in v2, although the draft lists it as new: v2alpha stops a probe at
//!    inflight_hi if the previous probe was too high, and probes again at once if the stopped probe was harmless.
//!    Precaution is on here, as in v2alpha.
//! 9. Differences 1, 2, 6 and 11 of BBR v3 apply here too.
//!
//! ## Known weaknesses
//!
//! * A flow below its fair share stays below. Beside other flows, inflight is at 1.25 BDP all the time, so a probe
//!   ends after one min_rtt, before its feedback arrives, and all flows probe by the same ratio. Of two flows
//!   in one BDP of buffer, the one that started 10 s later still had a fifth of the other's rate after two
//!   minutes.
//! * Against flows that do not yield, DOWN at 0.75 yields more bandwidth than a probe at 1.25 gains.
//! * The weaknesses of BBR v3: random loss, the time to follow a falling bandwidth, ProbeRTT every 5 s.

use crate::bbr_v2_v3::{BbrCore, Generation, PARAMS_V2, Policy};
use crate::{Info, Provenance, RecoveryStyle, Setup};

/// BBR v2.
pub type Bbr2 = BbrCore<Alpha>;

/// The policy of BBR v2: it changes no rule of the core.
#[derive(Clone, Debug)]
pub struct Alpha;

impl Policy for Alpha {
    const INFO: Info = Info {
        name: "bbr2",
        aliases: &["bbrv2"],
        summary: "BBR with inflight bounds learnt from loss (BBR v2, Linux v2alpha)",
        provenance: Provenance::Verified,
        recovery: RecoveryStyle::Own,
        params: PARAMS_V2,
    };
    const GENERATION: Generation = Generation::V2;

    fn new(_setup: &Setup) -> Self {
        Self
    }
}
