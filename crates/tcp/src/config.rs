//! Connection settings as plain data.

use narrows_cc::{Bytes, Nanos};

/// Settings of a reliable stream. [`Default`] is TCP as deployed.
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
    /// Receive buffer, the upper limit of the advertised window.
    pub receive_window: Bytes,
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
    /// Classic ECN (RFC 3168).
    pub ecn: bool,
    /// With `ecn`: the receiver reports every mark (RFC 8257 section 3.2) instead of repeating the echo until
    /// CWR arrives. DCTCP and L4S schemes need it.
    pub ecn_precise: bool,
    /// With `ecn`: data leaves as ECT(1), the L4S identifier (RFC 9331), instead of ECT(0).
    pub ect1: bool,
    /// Largest back-to-back burst when pacing: one segment spaces every packet exactly.
    pub max_burst: Bytes,
}

impl Default for TcpConfig {
    fn default() -> Self {
        Self {
            segment: 1448,
            header: narrows_packet::HEADER_BYTES,
            initial_window: 10,
            ack_every: 2,
            ack_delay: Nanos::from_millis(40),
            receive_window: Bytes::new(64 << 20),
            min_rto: Nanos::from_millis(200),
            initial_rto: Nanos::from_secs(1),
            max_rto: Nanos::from_secs(120),
            sack: true,
            rack: true,
            tlp: true,
            ecn: false,
            ecn_precise: false,
            ect1: false,
            max_burst: Bytes::new(1448),
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
