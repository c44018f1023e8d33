//! Connection states, events, counters and the back-off timer.
//!
//! ```text
//!  client                                        server
//!  REQUEST --Response--> PARTOPEN --any--> OPEN  LISTEN --Request--> RESPOND --Ack--> OPEN
//!  OPEN --close--> CLOSING --Reset--> TIMEWAIT --2 MSL--> CLOSED   (client, or server that sends Close)
//!  OPEN --close--> CLOSEREQ --Close, then sends Reset--> CLOSED    (server)
//!  any --Reset--> TIMEWAIT     any --Close, then sends Reset--> CLOSED     any --abort, limit--> CLOSED
//! ```

use narrows_cc::Nanos;

use crate::seq::Seq;
use crate::wire::Kind;

/// Connection states (RFC 4340 section 4.3).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum State {
    /// No connection.
    Closed,
    /// Server waiting for a Request.
    Listen,
    /// Client that sent a Request.
    Request,
    /// Server that sent a Response.
    Respond,
    /// Client that received the Response; the server may not yet know this.
    PartOpen,
    /// Data transfer.
    Open,
    /// Server that requested the client to close.
    CloseReq,
    /// Close sent.
    Closing,
    /// The peer ended the connection; the endpoint waits until late packets have expired.
    TimeWait,
}

impl State {
    /// Whether the connection can carry data.
    pub const fn is_open(self) -> bool {
        matches!(self, Self::PartOpen | Self::Open)
    }

    /// Whether the connection has ended.
    pub const fn is_over(self) -> bool {
        matches!(self, Self::Closed | Self::TimeWait)
    }
}

/// Event for the application.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Event {
    /// The connection can carry data.
    Connected,
    /// A datagram arrived.
    Datagram(Vec<u8>),
    /// The connection ended, by a Reset from either endpoint.
    Closed {
        /// Reset code on the wire.
        code: u8,
    },
    /// The peer sent nothing until the connection timed out.
    PeerGone,
}

/// The packet that one `poll_transmit` call appended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Sent {
    /// Packet type.
    pub kind: Kind,
    /// ECN codepoint for the IP header: 0, 2 (ECT(0)) or 1 (ECT(1)).
    pub ecn: u8,
    /// Bytes of application data.
    pub data: u16,
    /// Sequence number.
    pub seq: Seq,
}

/// Reason for rejecting a datagram.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum PushError {
    /// The queue is full.
    #[error("the queue is full")]
    Full,
    /// The connection takes no more data.
    #[error("the connection is closed or closing")]
    Closed,
    /// The datagram is empty or exceeds the maximum size.
    #[error("a datagram has 1 to {0} bytes")]
    Length(u16),
}

/// Counters of one endpoint.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Stats {
    /// Packets sent, of all types.
    pub packets_sent: u64,
    /// Valid packets received, of all types.
    pub packets_received: u64,
    /// Data packets sent.
    pub data_packets_sent: u64,
    /// Payload bytes sent.
    pub bytes_sent: u64,
    /// Data packets received, without duplicates.
    pub data_packets_received: u64,
    /// Payload bytes received.
    pub bytes_received: u64,
    /// Payload bytes acknowledged.
    pub bytes_delivered: u64,
    /// Data packets acknowledged. Sent = delivered + lost − late + unanswered + in flight, at any time.
    pub delivered_packets: u64,
    /// Data packets declared lost.
    pub lost_packets: u64,
    /// Lost packets that were acknowledged later.
    pub late_packets: u64,
    /// At the end of the connection: packets that a timeout declared lost and no report covered; they may have arrived.
    pub unreported_losses: u64,
    /// Data packets given up after a CCID 3 timeout. CCID 3 receivers report only on data, so the last
    /// packets may never be acknowledged. Packets acknowledged later are subtracted.
    pub unanswered_packets: u64,
    /// Data packets acknowledged as ECN marked.
    pub marked_packets: u64,
    /// Acks sent without data.
    pub acks_sent: u64,
    /// Syncs sent, after invalid packets or timeouts.
    pub syncs_sent: u64,
    /// Packets dropped for sequence or acknowledgement numbers outside the windows.
    pub out_of_window: u64,
    /// Packets dropped because they are malformed, misaddressed, or unexpected in the state.
    pub ignored: u64,
    /// Duplicate data packets.
    pub duplicates: u64,
    /// Data packets older than the history of arrivals: duplicates, or too late. They are not delivered.
    pub too_late: u64,
    /// Timeouts.
    pub timeouts: u64,
    /// Reductions after losses.
    pub recoveries: u64,
    /// Reductions after ECN marks.
    pub ecn_reductions: u64,
    /// Recoveries found spurious.
    pub spurious_recoveries: u64,
    /// Packets delayed by the pacer.
    pub paced_waits: u64,
    /// Datagrams dropped for lack of space in the send queue.
    pub send_drops: u64,
    /// Datagrams dropped for lack of space in the receive queue.
    pub receive_drops: u64,
    /// Packets that failed their Data Checksum.
    pub corrupt_packets: u64,
    /// Data packets that the peer received but dropped before its application (Data Dropped).
    pub dropped_by_peer: u64,
    /// Packets received with Slow Receiver.
    pub slow_reports: u64,
}

/// A timer with exponential back-off and a limit.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Backoff {
    pub(super) at: Nanos,
    interval: Nanos,
    pub(super) until: Nanos,
}

impl Backoff {
    pub(super) const NEVER: Self = Self { at: Nanos::MAX, interval: Nanos::ZERO, until: Nanos::MAX };

    pub(super) fn start(now: Nanos, interval: Nanos, limit: Nanos) -> Self {
        Self { at: now.saturating_add(interval), interval, until: now.saturating_add(limit) }
    }

    /// Schedules the next time and doubles the interval, up to 64 s (RFC 4340 section 8).
    pub(super) fn back_off(&mut self, now: Nanos) {
        self.interval = (self.interval * 2).min(Nanos::from_secs(64));
        self.at = now.saturating_add(self.interval);
    }

    pub(super) fn deadline(&self) -> Nanos {
        self.at.min(self.until)
    }
}

impl Backoff {
    /// Restarts the interval after another transmission.
    pub(super) fn restart(&mut self, now: Nanos) {
        if self.at != Nanos::MAX {
            self.at = now.saturating_add(self.interval);
        }
    }
}
