//! What a connection is made of, as plain data.

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
    /// The longest an acknowledgement is held back (Linux: 40 ms).
    pub ack_delay: Nanos,
    /// The receiver's buffer, and so the largest window it advertises.
    pub receive_window: Bytes,
    /// Least retransmission timeout (Linux: 200 ms).
    pub min_rto: Nanos,
    /// Retransmission timeout before the first sample (RFC 6298: 1 s).
    pub initial_rto: Nanos,
    /// Greatest retransmission timeout (Linux: 120 s).
    pub max_rto: Nanos,
    /// Selective acknowledgements; without them recovery is NewReno's (RFC 6582).
    pub sack: bool,
    /// Time-based loss detection (RFC 8985); without it losses are found by RFC 6675. Needs `sack`.
    pub rack: bool,
    /// Tail-loss probes (RFC 8985 section 7). Needs `rack`.
    pub tlp: bool,
    /// Classic ECN (RFC 3168).
    pub ecn: bool,
    /// With `ecn`: the receiver reports every mark (RFC 8257 section 3.2) instead of repeating the report until the sender
    /// has answered. DCTCP and L4S schemes need it.
    pub ecn_precise: bool,
    /// With `ecn`: data is sent as ECT(1), the mark of L4S (RFC 9331), instead of ECT(0).
    pub ect1: bool,
    /// The most that leaves back to back when pacing: one segment spaces every packet exactly.
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

/// Which subflow new data takes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Scheduler {
    /// That of the least smoothed round-trip time among those with room in their windows.
    #[default]
    LowestRtt,
    /// The next one with room, segment by segment.
    RoundRobin,
}

/// Settings of a connection over several subflows.
#[derive(Clone, Debug, PartialEq)]
pub struct ConnectionConfig {
    /// Which subflow new data takes.
    pub scheduler: Scheduler,
    /// How many subflows it has.
    pub subflows: usize,
    /// Subflows are shown to each other's schemes.
    pub coupled: bool,
    /// Payload bytes of a full segment.
    pub segment: u16,
    /// The receiver's buffer, and so the largest window that it advertises.
    pub receive_window: Bytes,
}
