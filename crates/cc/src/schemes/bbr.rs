//! # BBR v1
//!
//! BBR models the path by its bandwidth and its propagation delay, and does not treat loss as a sign of congestion. It
//! estimates both from the stream of ACKs, paces at the bandwidth and keeps inflight near their product. Both cannot be
//! measured at the same time (the bandwidth requires a queue, the delay an empty one), so BBR probes for them in turn.
//!
//! ## Control law
//!
//! | symbol | meaning | unit |
//! |---|---|---|
//! | bw | maximum delivery rate of the last 10 round trips; behind a policer, the long-term rate | B/s |
//! | min_rtt | minimum RTT of the last 10 s | s |
//! | BDP | bw × min_rtt | B |
//! | g, h | pacing gain, cwnd gain: functions of the state | – |
//! | extra | maximum excess of acknowledged over expected data in 5 to 10 round trips, at most bw × 100 ms | B |
//! | q | send quantum: the data sent in 2⁻¹⁰ s, at least 2 segments (1 below 1.2 Mbit/s), at most 64 kB and the transport's burst limit | B |
//!
//! ```text
//! pacing rate = 0.99 · g · bw
//! cwnd        = h · BDP + extra + 3q, in whole segments, rounded up to even, + 2 segments while probing up
//! ```
//!
//! Until the pipe is full, the pacing rate never falls and cwnd never shrinks to its target. Afterwards cwnd is
//! min(cwnd + acked, target). Outside recovery cwnd is at least 4 segments.
//!
//! ## States
//!
//! ```text
//!          3 rounds without 25 % growth          inflight ≤ BDP            ┌─┐ one min_rtt each:
//! Startup ─────────────────────────────► Drain ────────────────► ProbeBW ◄─┘ │ g = 1.25, 0.75, 1 × 6
//! g = h = 2.885                          g = 1/2.885             h = 2    ───┘
//!   │ ▲                                  h = 2.885                 │ ▲
//!   │ │                                    │                       │ │
//!   │ │         min_rtt is 10 s old        │                       │ │
//!   ▼ │ pipe not yet full                  ▼                       ▼ │ pipe full
//! ProbeRTT  g = h = 1, cwnd ≤ 4 segments: once inflight is down to that, for 200 ms and one round
//! ```
//!
//! The phase at gain 1.25 lasts at least one min_rtt, and then until inflight reaches 1.25 BDP or a packet is
//! lost. The phase at 0.75 ends early when inflight is down to the BDP. ProbeBW starts at a random phase,
//! never at 0.75.
//!
//! ## Life of a flow
//!
//! The handshake yields the first RTT sample: pacing starts at 2.885 windows per round trip. The delivery rate doubles
//! each round until it meets the bottleneck. Three more rounds confirm this rate and leave up to two BDPs of queue,
//! which Drain removes. From then on, one round trip in eight probes for a quarter more bandwidth. If more bandwidth is
//! available, the filter adopts the higher rate at once and keeps it for ten rounds. If not, the next phase removes the
//! queue. After 10 s without a sample as low as min_rtt, inflight falls to four segments for 200 ms, so that every flow
//! on the path can see its true delay.
//!
//! Loss: on entering recovery, cwnd becomes inflight + acked, and for one round the flow sends as much as was
//! delivered. Afterwards cwnd may double per round, and at the end the previous cwnd is restored. bw does not change,
//! and neither does the pacing rate. A timeout sets cwnd to the remaining inflight plus one segment. A policer is
//! suspected after two intervals of 4 to 16 rounds with lost/delivered ≥ 50/256 and rates within 1/8 (or 4 kbit/s) of
//! each other. Then bw is the mean of the two rates for 48 rounds of ProbeBW, without probing. On restarting from idle,
//! ProbeBW paces at bw without gain until the first ACK.
//!
//! ## References
//!
//! 1. Linux `net/ipv4/tcp_bbr.c`, commit 02dc96ef6c25 (5.x: with ack aggregation and departure-time pacing):
//!    read in full, and followed.
//! 2. N. Cardwell et al., BBR: Congestion-Based Congestion Control, ACM Queue 14(5), 2016.
//! 3. draft-cardwell-iccrg-bbr-congestion-control-00, 2017.
//! 4. T. Flach et al., An Internet-Wide Analysis of Traffic Policing, SIGCOMM 2016.
//!
//! References 2 to 4 are background. Where they differ from 1, we follow 1.
//!
//! ## Differences from Linux
//!
//! 1. This scheme counts data in bytes; Linux counts packets. The target cwnd is still a whole, even number of
//!    segments. This scheme rounds up the sum of the BDP and the aggregation term, not each separately.
//! 2. Gains are exact (2.885, 1/2.885); Linux uses multiples of 1/256. Times are in ns; Linux uses µs and jiffies.
//! 3. Inflight is not corrected for packets waiting in the pacer: the transport counts a packet when it
//!    leaves the pacer.
//! 4. Where Linux uses ten packets (cwnd before any RTT sample, growth at the start), this scheme uses the configured
//!    initial window.
//! 5. In ProbeRTT, Linux marks the connection application-limited. A scheme cannot do this, so samples of packets sent
//!    from the start of ProbeRTT until its last flight is delivered count as application-limited here. Linux's mark
//!    covers the same samples.
//! 6. An ACK delayed by the receiver must not replace an expired minimum RTT. Linux and this scheme recognise such an
//!    ACK when it acknowledges a lone packet below full size. This scheme needs a rate sample to know that the packet
//!    was alone. Neither recognises a delayed ACK of a full-size packet.
//! 7. The age of min_rtt counts from its first sample, not from the creation of the connection.
//! 8. A response to ECN marks does not count as recovery (Linux has a separate state for it), but a loss during that
//!    response does.
//!
//! ## Known weaknesses
//!
//! * Flows with long RTTs win: the data queued per probe grows with the RTT, and the limit of two BDPs favours the flow
//!   with the larger BDP.
//! * Buffers below about one BDP: 2 BDP of inflight overflow them, and loss does not slow BBR down.
//!   Loss-based flows starve.
//! * Deep buffers: 2 BDP is a cap, so loss-based flows take more than their share.
//! * Many flows together keep a standing queue of about one BDP, because each flow's maximum filter overestimates its
//!   share of the bandwidth.
//! * Every 10 s the throughput drops for 200 ms.

use crate::bbr_v1::{BbrCore, PARAMS, Policy};
use crate::{Info, Provenance, RecoveryStyle, Setup};

/// BBR v1.
pub type Bbr = BbrCore<Standard>;

/// The policy of BBR v1: it changes no rule of the core.
#[derive(Clone, Debug)]
pub struct Standard;

impl Policy for Standard {
    const INFO: Info = Info {
        name: "bbr",
        aliases: &[],
        summary: "paces at the measured bandwidth, keeps inflight near the BDP (BBR v1, as in Linux)",
        provenance: Provenance::Verified,
        recovery: RecoveryStyle::Own,
        params: PARAMS,
    };

    fn new(_setup: &Setup) -> Self {
        Self
    }
}
