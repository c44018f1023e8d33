//! The state that results and observers read, the same for every kind of sender.

use narrows_cc::{Bytes, Nanos, Rate};
use narrows_tcp::{Sender, SenderStats};

/// The state of a sender at one time: its counters and current values.
#[derive(Clone, Copy, Debug, Default)]
pub struct SenderView {
    /// Counters.
    pub stats: SenderStats,
    /// Retransmission timeouts; `None` if a real host does not report them.
    pub timeouts: Option<u64>,
    /// Data in flight.
    pub inflight: Bytes,
    /// Congestion window; zero without a connection, `None` if a real host has not reported it.
    pub cwnd: Option<Bytes>,
    /// Pacing rate in payload bytes per second.
    pub pacing_rate: Option<Rate>,
    /// Smoothed round-trip time; `None` before the first sample.
    pub srtt: Option<Nanos>,
    /// Departure time of the first data packet.
    pub first_data_at: Option<Nanos>,
    /// Completion time of a finite flow. A TCP flow completes when all its data is acknowledged; a DCCP flow, which may
    /// lose datagrams, completes when the peer confirms the close.
    pub completed_at: Option<Nanos>,
    /// Whether the connection is closed, or will never open.
    pub closed: bool,
    /// Datagrams dropped for lack of space in the send queue.
    pub unsent: u64,
}

impl SenderView {
    /// A sender without a connection.
    pub(crate) fn idle(closed: bool) -> Self {
        Self { timeouts: Some(0), cwnd: Some(Bytes::ZERO), closed, ..Self::default() }
    }

    pub(crate) fn of_stream(end: &Sender) -> Self {
        Self {
            stats: *end.stats(),
            timeouts: Some(end.stats().timeouts),
            inflight: end.inflight(),
            cwnd: Some(end.window()),
            pacing_rate: end.pacing_rate(),
            srtt: end.srtt(),
            first_data_at: end.first_data_at(),
            completed_at: end.completed_at(),
            closed: end.is_closed(),
            unsent: 0,
        }
    }

    /// The view of a connection that has closed: only counters and times remain.
    pub(crate) fn ended(self) -> Self {
        Self { inflight: Bytes::ZERO, cwnd: Some(Bytes::ZERO), pacing_rate: None, srtt: None, ..self }
    }
}
