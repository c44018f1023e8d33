//! Connection settings as plain data.

use narrows_cc::Bytes;

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
