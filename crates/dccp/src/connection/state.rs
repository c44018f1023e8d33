//! Where a connection stands.
//!
//! ```text
//!  client                                        server
//!  REQUEST --Response--> PARTOPEN --any--> OPEN  LISTEN --Request--> RESPOND --Ack--> OPEN
//!  OPEN --close--> CLOSING --Reset--> TIMEWAIT --2 MSL--> CLOSED        (client, or a server that sends Close)
//!  OPEN --close--> CLOSEREQ --Close, answered by Reset--> CLOSED        (server)
//!  any  --Reset--> TIMEWAIT        any --Close, answered by Reset--> CLOSED        any --abort, limit--> CLOSED
//! ```

use narrows_cc::Nanos;

use crate::seq::Seq;
use crate::wire::Kind;

/// The states of RFC 4340 section 4.3.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum State {
    /// There is none any more.
    Closed,
    /// A server before the first packet.
    Listen,
    /// A client has asked.
    Request,
    /// A server has answered.
    Respond,
    /// A client has the answer, and does not know whether the server knows.
    PartOpen,
    /// Data flows.
    Open,
    /// A server has asked the client to close.
    CloseReq,
    /// Close is on its way.
    Closing,
    /// The other side has ended it; late packets die meanwhile.
    TimeWait,
}

impl State {
    /// Whether the connection can carry data.
    pub const fn is_open(self) -> bool {
        matches!(self, Self::PartOpen | Self::Open)
    }

    /// Whether it is over.
    pub const fn is_over(self) -> bool {
        matches!(self, Self::Closed | Self::TimeWait)
    }
}

/// What the application hears.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Event {
    /// Data can flow.
    Connected,
    /// A datagram arrived.
    Datagram(Vec<u8>),
    /// The connection is over: by the other side's Reset, with the code that it gave, or by ours.
    Closed {
        /// The reset code, as on the wire.
        code: u8,
    },
    /// The other side has said nothing for as long as the connection waits.
    PeerGone,
}

/// What one call of `poll_transmit` appended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Sent {
    /// Its type.
    pub kind: Kind,
    /// The ECN codepoint for the IP header: 0, or 2 (ECT(0)), or 1 (ECT(1)).
    pub ecn: u8,
    /// Bytes of application data.
    pub data: u16,
    /// The packet's number.
    pub seq: Seq,
}

/// Why a datagram was not taken.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum PushError {
    /// The queue is full.
    #[error("the queue is full")]
    Full,
    /// The connection takes no more data.
    #[error("the connection is closed or closing")]
    Closed,
    /// It is empty, or longer than the connection's datagrams are.
    #[error("a datagram has 1 to {0} bytes")]
    Length(u16),
}

/// Counters of one end.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Stats {
    /// Packets of all types sent.
    pub packets_sent: u64,
    /// Valid packets of all types received.
    pub packets_received: u64,
    /// Packets with data sent, and their payload.
    pub data_packets_sent: u64,
    /// Payload sent.
    pub bytes_sent: u64,
    /// Packets with data received, copies not counted.
    pub data_packets_received: u64,
    /// Payload received.
    pub bytes_received: u64,
    /// Payload known to have been received by the other side.
    pub bytes_delivered: u64,
    /// Packets with data known to have been received by the other side. With those lost and not late, those unanswered and those
    /// outstanding they are all that were sent, at any time.
    pub delivered_packets: u64,
    /// Packets with data taken for lost.
    pub lost_packets: u64,
    /// Those of them that turned out to be late only.
    pub late_packets: u64,
    /// Packets with data that were given up after a timeout of CCID 3, whose receivers report on data only: of the last ones nothing
    /// may be heard. Those of which something was heard later are taken off.
    pub unanswered_packets: u64,
    /// Packets with data that the other side reports as marked.
    pub marked_packets: u64,
    /// Acknowledgements without data sent.
    pub acks_sent: u64,
    /// Syncs sent because something was out of line.
    pub syncs_sent: u64,
    /// Packets dropped because their numbers lie outside the windows.
    pub out_of_window: u64,
    /// Packets dropped because they are none, are not for this connection, or have no place in its state.
    pub ignored: u64,
    /// Packets with data that came again.
    pub duplicates: u64,
    /// Timeouts.
    pub timeouts: u64,
    /// Times that losses made the scheme slow down.
    pub recoveries: u64,
    /// Times that marks did.
    pub ecn_reductions: u64,
    /// Recoveries that turned out to be needless.
    pub spurious_recoveries: u64,
    /// Departures that the pacer put off.
    pub paced_waits: u64,
    /// Datagrams that did not fit into the queue towards the network.
    pub send_drops: u64,
    /// Datagrams that did not fit into the queue towards the application.
    pub receive_drops: u64,
    /// Packets whose data did not have its checksum.
    pub corrupt_packets: u64,
    /// Packets with data that arrived, but of which the other side says that their data did not reach its application.
    pub dropped_there: u64,
    /// Packets in which the other side said that it has trouble keeping up.
    pub slow_reports: u64,
}

/// An interval that doubles from one repetition to the next, and when all of it ends.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Backoff {
    pub(super) at: Nanos,
    interval: Nanos,
    pub(super) until: Nanos,
}

impl Backoff {
    pub(super) const NEVER: Self = Self { at: Nanos::MAX, interval: Nanos::ZERO, until: Nanos::MAX };

    pub(super) fn begin(now: Nanos, interval: Nanos, limit: Nanos) -> Self {
        Self { at: now.saturating_add(interval), interval, until: now.saturating_add(limit) }
    }

    /// The time has come: the next interval is twice as long, 64 s at most (RFC 4340 section 8).
    pub(super) fn next(&mut self, now: Nanos) {
        self.interval = (self.interval * 2).min(Nanos::from_secs(64));
        self.at = now.saturating_add(self.interval);
    }

    pub(super) fn deadline(&self) -> Nanos {
        self.at.min(self.until)
    }
}

impl Backoff {
    /// What is repeated was sent for another reason: the interval begins anew.
    pub(super) fn push(&mut self, now: Nanos) {
        if self.at != Nanos::MAX {
            self.at = now.saturating_add(self.interval);
        }
    }
}
