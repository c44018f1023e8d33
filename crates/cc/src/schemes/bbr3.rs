//! # BBR v3
//!
//! Like BBR v1, BBR v3 models the path by a bandwidth and a propagation delay and keeps inflight near their product.
//! Unlike v1, it limits inflight by bounds learnt from loss, at two time scales: the inflight that a bandwidth probe
//! showed to be too high (long-term, kept across cycles), and the amount delivered in a round with losses between
//! probes (short-term, forgotten at the next probe). It probes every two to three seconds instead of every eight round
//! trips, and leaves headroom below the long-term bound for others.
//!
//! ## Control law
//!
//! | symbol | meaning | unit |
//! |---|---|---|
//! | max_bw | maximum delivery rate of the current and the previous cycle of ProbeBW | B/s |
//! | bw_short | short-term bound on the rate, infinite while unset | B/s |
//! | bw | min(max_bw, bw_short) | B/s |
//! | min_rtt | minimum RTT of the last 10 s | s |
//! | BDP | bw × min_rtt | B |
//! | g, h | pacing gain, cwnd gain: functions of the state | – |
//! | inflight_long | long-term bound on inflight, infinite while unset | B |
//! | inflight_short | short-term bound on inflight, infinite while unset | B |
//! | extra | maximum excess of acknowledged over expected data in 10 round trips (1 in Startup) | B |
//! | q | send quantum: the data sent in 1 ms, at least 2 segments, at most 64 kB and the transport's burst limit | B |
//! | θ, β | loss threshold 2 %; minimum share of a bound that remains after a round with loss, 0.7 | – |
//!
//! ```text
//! pacing rate  = 0.99 · g · bw                                (never lowered until the pipe has been full)
//! max_inflight = max(h · BDP + extra, 3q, 4 segments)         + 2 segments in UP
//! cwnd         = min(cwnd + acked, max_inflight, cap), at least 4 segments
//! ```
//!
//! | state | g | h | bw_short | cap on cwnd |
//! |---|---|---|---|---|
//! | Startup | 2.77 | 2 | unset | – |
//! | Drain | 0.5 | 2 | applies | inflight_short |
//! | ProbeBW_DOWN | 0.9 | 2 | applies | min(inflight_long, inflight_short) |
//! | ProbeBW_CRUISE | 1 | 2 | applies | min(0.85 inflight_long, inflight_short) |
//! | ProbeBW_REFILL | 1 | 2 | unset | inflight_long |
//! | ProbeBW_UP | 1.25 | 2.25 | unset | inflight_long |
//! | ProbeRTT | 1 | 0.5 | applies | min(0.5 BDP, 0.85 inflight_long, inflight_short) |
//!
//! A flight is *too high* if more than θ of the data that was in flight when a packet left has since been lost. If that
//! packet was sent in a probe (samples taken from the end of REFILL until one round after UP), the bound becomes the
//! inflight at which losses reached θ. In the formula, `inflight` is the data in flight and `lost` the data lost since,
//! both without that packet:
//!
//! ```text
//! inflight_long = max(inflight + (θ · inflight − lost) / (1 − θ), β · min(BDP, cwnd))        once per probe
//! ```
//!
//! In any state, a flight above the bound that was not too high raises the bound to its size. In UP, while cwnd is full
//! and at the bound, the bound grows by 1, 2, 4, 8 … segments per round.
//!
//! Outside Startup, REFILL and UP, the short-term bounds change at the end of each round in which a loss was
//! detected (starting from max_bw and cwnd where unset):
//!
//! ```text
//! bw_short       = max(maximum delivery rate of the round,          β · bw_short)
//! inflight_short = max(maximum data delivered in one of its flights, β · inflight_short)
//! ```
//!
//! ## States
//!
//! ```text
//!            full pipe                  inflight ≤ BDP
//!            or loss                    or 3 rounds
//!  ┌─────────┐       ┌───────┐                      ┌──────┐ headroom, no queue ┌────────┐
//!  │ Startup ├──────►│ Drain ├─────────────────────►│ DOWN ├───────────────────►│ CRUISE │
//!  └──▲──────┘       └───────┘                      └─▲──┬─┘                    └───┬────┘
//!     │                                               │  │ time to probe            │ time to probe
//!     │                                 plateau, loss,│  └───────────┐  ┌───────────┘
//!     │                                 or precaution │              ▼  ▼
//!     │ pipe not yet full                          ┌──┴─┐ one round ┌────────┐
//!     │                                            │ UP │◄──────────┤ REFILL │
//!     │                                            └────┘           └────────┘
//!  ┌──┴───────┐  200 ms and one round at half the BDP
//!  │ ProbeRTT ├──────────────────────────────────────► DOWN, and CRUISE at once
//!  └──────────┘◄── any state, when no lower round trip was seen for 5 s
//! ```
//!
//! * Full pipe, in Startup and UP: in three round trips, not application-limited, the rate did not grow by a quarter.
//!   In UP, rounds do not count while cwnd is full and at inflight_long: in these rounds the bound, not the path,
//!   limits the rate.
//! * Loss in Startup: over a whole round in recovery, more than θ was lost, in at least six separate ranges
//!   of the stream. Then inflight_long = max(BDP, maximum data delivered in a round trip). Without SACK, one
//!   loss in recovery is enough, in Startup and in a probe.
//! * Headroom: inflight is at least 15 %, and at least a segment, below inflight_long. No queue: inflight ≤
//!   max_bw × min_rtt.
//! * Time to probe: 2 s plus a random part of 1 s after DOWN began; or earlier, after one round for each packet of the
//!   BDP (or of cwnd, if smaller), at most 63, counted from 0 or 1 at random. A Reno flow of the same BDP takes about
//!   as long to grow between its losses.
//! * Precaution: after a probe that was too high, the next probe ends as soon as inflight reaches inflight_long. If no
//!   flight has been too high one round later, REFILL and UP follow at once, without precaution.
//!
//! ## Life of a flow
//!
//! Startup doubles the rate per round trip. Three rounds without growth, or loss, end Startup with about a BDP of
//! queue, which Drain removes within a round. The flow cruises 1 % below its bandwidth. After two to three seconds,
//! REFILL fills the pipe to the level known to be safe, and UP sends a quarter more. If the buffer is large enough, the
//! plateau ends UP after three to four round trips, with a queue of up to 1.25 BDP, the maximum its cwnd gain allows.
//! In a smaller buffer, loss ends UP and sets the bound. DOWN removes the queue and creates headroom. One round after
//! UP, the filter drops the cycle before the last. If bandwidth has become free, the first UP observes a growing rate
//! and continues.
//!
//! Losses between probes lower the short-term bounds by at most 30 % per round, and not below the amount delivered: 1 %
//! of random loss lowers the rate by about 1 % per round, and the next REFILL restores the rate. Every 5 s without a
//! lower RTT sample, cwnd is half the BDP for 200 ms and a round.
//!
//! In recovery only the bounds reduce cwnd; at the end of recovery the previous cwnd is restored. A timeout sets cwnd
//! to one segment. A spurious recovery is undone: cwnd and bounds return to at least their former values, and if it
//! ended Startup or a probe, Startup or REFILL follow.
//!
//! ## Marks
//!
//! The draft specifies no response to ECN. With `ecn` on, the response is that of Linux v3, meant for marks at a
//! shallow threshold (DCTCP, L4S) on paths with min_rtt ≤ 5 ms. Per round α ← 15/16 α + 1/16 (share of marked
//! deliveries), from 1. Outside probes, a round with a mark multiplies inflight_short by (1 − α/3). In a probe, a round
//! with at least half of its deliveries marked counts as too high; the bound then follows from the data in flight when
//! the round's newest packet left. Two rounds with that share end Startup. When marks cease after a cycle with marks
//! and no loss, the next probe starts at once and grows by half of inflight_long in its first round.
//!
//! ## References
//!
//! 1. N. Cardwell, I. Swett, J. Beshay (eds.), BBR Congestion Control, draft-ietf-ccwg-bbr-06, 6 July 2026: read in
//!    full, and followed. Appendix A contains 22 example cases, which are implemented as tests
//!    (`crates/cc/tests/bbr_v3_draft_cases`).
//! 2. The working copy of the editors after draft-06 (`draft-ietf-ccwg-bbr.md`, commit 007dbe1f): read; see difference
//!    12.
//! 3. Linux v3, `net/ipv4/tcp_bbr.c` of google/bbr, branch v3: its constants and its short-term bounds were
//!    read. The rest of the response to marks is that of v2alpha (`tcp_bbr2.c`, commit 0487ade5, read in
//!    full).
//! 4. RFC 8985 (RACK-TLP): why losses are judged by the flight of the lost packet.
//!
//! ## Differences
//!
//! From the draft:
//!
//! 1. Undo state is saved once per recovery. The pseudocode saves it again at the first loss of every round and on
//!    entering recovery. The loss that ends a probe resets the round, so the save at the next loss would overwrite the
//!    state saved before the first loss, which contradicts section 5.5.11.1 and case A.18.
//! 2. A loss event precedes the processing of the ACK that revealed it. If the loss begins a round, the data delivered
//!    by this ACK belongs to the previous round, as in Linux.
//! 3. Initial pacing is set when the first smoothed RTT is known, at 2.77 initial windows per round trip.
//! 4. On restarting from idle, the aggregation epoch begins with nothing acknowledged, as in Linux. The draft moves
//!    only the epoch's start, so all earlier acknowledged data would count as excess.
//! 5. The number of rounds to wait is the BDP in packets, rounded up, so that a flow with a BDP below one packet does
//!    not probe at every ACK.
//! 6. In ProbeRTT, the draft marks the connection application-limited. A scheme cannot do this, so samples of packets
//!    sent from the start of ProbeRTT until its last flight is delivered count as application-limited.
//! 7. Startup's exit by loss also sets full_bw_now: this follows case A.2, not the text of section 5.3.1.3.
//! 8. A cycle whose filter slot received no sample does not advance the filter. The filter has exactly two slots.
//! 9. The send quantum is limited to the transport's burst limit. This also limits the three quanta of max_inflight.
//! 10. Ranges of lost data: a lost packet that extends the last lost range at either end is not counted
//!     again.
//! 11. In a probe, too, this scheme measures the share of marks over a round, and a share of half is too high. Linux
//!     judges rounds only in Startup; in a probe Linux judges every sample by the marks during its flight. There a
//!     share above half is too high in v3, and a share of half in v2alpha.
//! 12. ProbeRTT begins after 5 s without a lower sample, as in draft-06. The later working copy has one filter of 10 s
//!     for ProbeRTT and min_rtt, and sets the cwnd of ProbeRTT to half the BDP at the expired min_rtt.
//!     `probe_rtt_interval=10` comes close.
//! 13. Case A.6 requires that inflight_long is updated 'appropriately' although samples are application-limited. The
//!     pseudocode, which we follow, does not update it at all.
//! 14. In the table of section 5.6.1 inflight_long bounds Drain too. In the pseudocode of section 5.6.4.7, which we
//!     follow, only inflight_short does.
//! 15. Section 3.7 requires a response to marks where packets are sent as ECN-capable. With `ecn` off, this scheme
//!     ignores marks, even if the transport sends its packets as ECN-capable.
//!
//! Linux v3 differs from the draft, and so from this scheme, in these numbers: Drain 1/2.885, DOWN 0.91,
//! aggregation over 5 to 10 rounds and at most 100 ms of bandwidth. All of them are parameters.
//!
//! ## Known weaknesses
//!
//! * Random loss between probes reduces the rate by its share in every round trip: with 1 % over 50 to 60 rounds the
//!   flow uses four fifths of the link on average. Above 2 % every probe is too high, and the rate collapses.
//! * max_bw, a maximum over two cycles, follows a falling bandwidth only after two probes, which take four to six
//!   seconds.
//! * A probe in a deep buffer queues up to 1.25 BDP for three to four round trips.
//! * Beside one CUBIC flow at 100 Mbit/s and 40 ms, BBR v3 takes twice CUBIC's rate in a buffer of half a BDP, nearly
//!   four times in one BDP, and about the same in five BDPs. In ten BDPs CUBIC takes twice the rate of BBR v3 (means
//!   over two minutes).
//! * Long-RTT flows still win where flows share a queue, because inflight follows the BDP.
//! * With `ecn`, marks of an AQM that spaces them out (CoDel) seem to cease at every pause, and each pause starts a
//!   probe: the queue is longer than without `ecn`. `ecn_reprobe_gain=0` prevents that. With a marking step at a short
//!   queue, for which this response is designed, the queue is shorter with `ecn`.
//! * Every 5 s cwnd is halved for 200 ms even on an otherwise unused path: samples equal to the minimum do
//!   not postpone it.

use crate::bbr_v2_v3::{BbrCore, Generation, PARAMS, Policy};
use crate::{Info, Provenance, RecoveryStyle, Setup};

/// BBR v3.
pub type Bbr3 = BbrCore<Draft>;

/// The policy of BBR v3: it changes no rule of the core.
#[derive(Clone, Debug)]
pub struct Draft;

impl Policy for Draft {
    const INFO: Info = Info {
        name: "bbr3",
        aliases: &["bbrv3"],
        summary: "BBR with inflight bounds learnt from loss and cautious probes (BBR v3, IETF draft)",
        provenance: Provenance::Verified,
        recovery: RecoveryStyle::Own,
        params: PARAMS,
    };
    const GENERATION: Generation = Generation::V3;

    fn new(_setup: &Setup) -> Self {
        Self
    }
}
