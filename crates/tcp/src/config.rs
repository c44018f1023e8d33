//! Connection settings as plain data.

use narrows_cc::Bytes;

/// Rules for the retransmission timer, the tail-loss probe and the reordering timer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TimerRules {
    /// Linux: RTO = srtt + max(4 rttvar, minimum), with Linux's filter of the variation. With one packet in flight, the
    /// tail-loss probe waits longer by the minimum RTO, otherwise by 2 ms. The reordering timer always waits longer by
    /// 2 ms.
    #[default]
    Linux,
    /// RFC 6298 and RFC 8985: RTO = max(srtt + max(4 rttvar, G), minimum), where G is the maximum acknowledgement
    /// delay. With one packet in flight, the tail-loss probe waits longer by this delay.
    Rfc,
}

/// Quantity that a reduction starts from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ReductionFrom {
    /// Linux: reductions start from cwnd; after a timeout cwnd becomes the data in flight plus one segment.
    #[default]
    Cwnd,
    /// RFC 5681: reductions start from FlightSize; after a timeout cwnd becomes one segment.
    Flight,
}

/// Scheduler: selects the subflow for new data.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Scheduler {
    /// The subflow with the lowest smoothed round-trip time among those whose windows are not full.
    #[default]
    LowestRtt,
    /// The next subflow whose window is not full, segment by segment.
    RoundRobin,
}

/// Settings of a connection over several subflows.
#[derive(Clone, Debug, PartialEq)]
pub struct ConnectionConfig {
    /// Selects the subflow for new data.
    pub scheduler: Scheduler,
    /// Number of subflows.
    pub subflows: usize,
    /// Whether congestion control is coupled: each scheme sees all subflows of the connection.
    pub coupled: bool,
    /// Payload bytes of a full segment.
    pub segment: u16,
    /// Receive buffer, the upper limit of the advertised window.
    pub receive_window: Bytes,
}
