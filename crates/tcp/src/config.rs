//! Connection settings as plain data.

use narrows_cc::{Bytes, IdleRule, Nanos, PrrBound};

/// Rules of the timers: retransmission, tail-loss probe, reordering.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TimerRules {
    /// Linux: RTO = srtt + max(4 rttvar, minimum), with its own filter of the variation; a probe waits for
    /// the minimum RTO more if one packet is in flight, else for 2 ms; so does the reordering timer.
    #[default]
    Linux,
    /// RFC 6298 and RFC 8985: RTO = max(srtt + max(4 rttvar, G), minimum), where G is the longest
    /// acknowledgement delay; a probe of one packet waits for that delay more.
    Rfc,
}

/// Quantity that a reduction starts from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ReductionFrom {
    /// Linux: cwnd; after a timeout cwnd becomes the data in flight plus one segment.
    #[default]
    Cwnd,
    /// RFC 5681: FlightSize; after a timeout cwnd becomes one segment.
    Flight,
}

/// Settings of a reliable stream. [`Default`] is TCP as Linux deploys it.
#[derive(Clone, Debug, PartialEq)]
pub struct TcpConfig {
    /// Payload bytes of a full segment.
    pub segment: u16,
    /// Header bytes of every packet, options without SACK included.
    pub header: u16,
    /// Initial window in segments (RFC 6928: 10).
    pub initial_window: u32,
    /// Full segments per acknowledgement (RFC 5681: 2). 1 acknowledges every packet.
    pub ack_every: u32,
    /// Longest delay of an acknowledgement (Linux: 40 ms).
    pub ack_delay: Nanos,
    /// Largest receive buffer, the upper limit of the advertised window.
    pub receive_window: Bytes,
    /// The receive buffer follows what the application reads per round trip (Linux `tcp_rcv_space_adjust`), otherwise it
    /// is as large as `receive_window` from the start.
    pub receive_autotuning: bool,
    /// Least retransmission timeout (Linux: 200 ms).
    pub min_rto: Nanos,
    /// Retransmission timeout before the first sample (RFC 6298: 1 s).
    pub initial_rto: Nanos,
    /// Greatest retransmission timeout (Linux: 120 s).
    pub max_rto: Nanos,
    /// Selective acknowledgements; without them recovery is NewReno's (RFC 6582).
    pub sack: bool,
    /// Time-based loss detection (RFC 8985), otherwise RFC 6675. Needs `sack`.
    pub rack: bool,
    /// Tail-loss probes (RFC 8985 section 7). Needs `rack`.
    pub tlp: bool,
    /// Timestamps (RFC 7323): RTT samples and spurious reductions are recognised by their echo.
    pub timestamps: bool,
    /// Classic ECN (RFC 3168).
    pub ecn: bool,
    /// With `ecn`: the receiver reports every mark (RFC 8257 section 3.2) instead of repeating the echo until
    /// CWR arrives. DCTCP and L4S schemes need it.
    pub ecn_precise: bool,
    /// With `ecn`: data leaves as ECT(1), the L4S identifier (RFC 9331), instead of ECT(0).
    pub ect1: bool,
    /// Largest back-to-back burst when pacing: one segment spaces every packet exactly.
    pub max_burst: Bytes,
    /// Send in bursts of the size that Linux gives a TSO packet (`tcp_tso_autosize`): the data of about 1 ms
    /// at the pacing rate, at least two segments; unpaced senders wait for room for such a burst
    /// (`tcp_tso_should_defer`). Otherwise bursts follow the scheme, and unpaced packets leave one by one.
    pub tso: bool,
    /// Acknowledgements that a receiver sends without delay at the start and after an idle time (Linux: 16).
    pub quick_acks: u32,
    /// The receiver acknowledges every packet that lets its window grow, by two segments each (Linux `tcp_grow_window`). A
    /// window with a fixed buffer grows by a quarter of it at first.
    pub quick_growth: bool,
    /// The receiver holds acknowledgements of out-of-order data for up to 5 % of the RTT, at most 1 ms, after
    /// the first three (Linux `tcp_comp_sack_delay_ns`).
    pub sack_compression: bool,
    /// The receiving host hands over packets that arrive within this time as one (GRO); zero: one by one.
    pub gro: Nanos,
    /// Rules of the timers.
    pub timers: TimerRules,
    /// Bound of proportional rate reduction.
    pub prr: PrrBound,
    /// Quantity that a reduction starts from.
    pub reduction_from: ReductionFrom,
    /// cwnd after an idle time.
    pub idle: IdleRule,
    /// Timestamps give RTT samples when retransmitted data is acknowledged, which end the timer's back-off.
    pub timestamp_rtt: bool,
    /// RACK's RTT is that of the last packet that an acknowledgement delivers (Linux), not of the newest one
    /// (RFC 8985).
    pub rack_rtt_last: bool,
    /// A duplicate that the receiver reports counts as delivered (Linux).
    pub dsack_delivered: bool,
    /// After reordering, cwnd grows on SACKs too (Linux `tcp_may_raise_cwnd`).
    pub grow_on_sack: bool,
}

/// The largest TSO packet of Linux: 64 KiB less room for headers (`GSO_LEGACY_MAX_SIZE`, `MAX_TCP_HEADER`).
pub const MAX_TSO: Bytes = Bytes::new(65_536 - 1 - 320);

impl Default for TcpConfig {
    fn default() -> Self {
        Self {
            segment: 1448,
            header: narrows_packet::HEADER_BYTES,
            initial_window: 10,
            ack_every: 2,
            ack_delay: Nanos::from_millis(40),
            receive_window: Bytes::new(64 << 20),
            receive_autotuning: true,
            min_rto: Nanos::from_millis(200),
            initial_rto: Nanos::from_secs(1),
            max_rto: Nanos::from_secs(120),
            sack: true,
            rack: true,
            tlp: true,
            timestamps: true,
            ecn: false,
            ecn_precise: false,
            ect1: false,
            max_burst: MAX_TSO,
            tso: true,
            quick_acks: 16,
            quick_growth: true,
            sack_compression: true,
            gro: Nanos::ZERO,
            timers: TimerRules::Linux,
            prr: PrrBound::Linux,
            reduction_from: ReductionFrom::Cwnd,
            idle: IdleRule::Linux,
            timestamp_rtt: true,
            rack_rtt_last: true,
            dsack_delivered: true,
            grow_on_sack: true,
        }
    }
}

impl TcpConfig {
    /// TCP by the letter of the RFCs where Linux differs: single packets when pacing, delayed acknowledgements
    /// from the first segment on, RFC 6298 and RFC 8985 timers, reductions from FlightSize (RFC 5681), the
    /// initial window after idle, and no credit for duplicates or SACKed data in growth.
    pub fn rfc() -> Self {
        let linux = Self::default();
        Self {
            max_burst: Bytes::new(u64::from(linux.segment)),
            tso: false,
            quick_acks: 0,
            quick_growth: false,
            receive_autotuning: false,
            sack_compression: false,
            timers: TimerRules::Rfc,
            prr: PrrBound::Rfc9937,
            reduction_from: ReductionFrom::Flight,
            idle: IdleRule::Rfc5681,
            rack_rtt_last: false,
            dsack_delivered: false,
            grow_on_sack: false,
            ..linux
        }
    }
}

/// Scheduler: selects the subflow for new data.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Scheduler {
    /// The subflow with the least smoothed round-trip time among those with room in their windows.
    #[default]
    LowestRtt,
    /// The next subflow with room, segment by segment.
    RoundRobin,
}

/// Settings of a connection over several subflows.
#[derive(Clone, Debug, PartialEq)]
pub struct ConnectionConfig {
    /// Selects the subflow for new data.
    pub scheduler: Scheduler,
    /// Number of subflows.
    pub subflows: usize,
    /// Coupled congestion control: each scheme sees all subflows of the connection.
    pub coupled: bool,
    /// Payload bytes of a full segment.
    pub segment: u16,
    /// Receive buffer, the upper limit of the advertised window.
    pub receive_window: Bytes,
}
