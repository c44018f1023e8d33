//! Interface to explicit-rate protocols: an agent at the sender requests rates and reads the replies, a responder at
//! the receiver echoes or answers requests. TCP carries requests and replies without knowing the protocol.

use std::fmt;

use narrows_cc::{Advice, Bytes, Limit, Nanos, Rate};
use narrows_packet::{ControlMessage, Packet, RawOption};

/// Constants of a sender passed to its agent's constructor.
#[derive(Clone, Copy, Debug)]
pub struct RateSetup {
    /// Payload bytes of a full segment.
    pub segment: u16,
    /// Header bytes of a packet with data, without the agent's option.
    pub data_header: u16,
    /// Line rate of the sender in payload bytes per second, if the scheme knows it.
    pub line: Option<Rate>,
}

/// Sender state visible to its agent.
#[derive(Clone, Copy, Debug)]
pub struct SenderView {
    /// The current time.
    pub now: Nanos,
    /// The smoothed round-trip time; `None` before the first sample.
    pub srtt: Option<Nanos>,
    /// The retransmission timeout.
    pub rto: Nanos,
    /// The congestion window of the scheme.
    pub cwnd: Bytes,
    /// Bytes of data packets sent, headers included.
    pub wire_sent: u64,
    /// Bytes written by the application and not yet sent for the first time.
    pub backlog: u64,
    /// Whether loss recovery is in progress.
    pub repairing: bool,
    /// Whether the connection is established: the handshake is over, and not all data is acknowledged.
    pub established: bool,
}

/// An event for the agent of a sender.
#[derive(Clone, Copy, Debug)]
pub enum RateEvent<'a> {
    /// The handshake is over.
    Established,
    /// The application has written data.
    Written,
    /// Sending resumes after a time with nothing outstanding.
    Resumed {
        /// Length of the idle time.
        idle: Nanos,
    },
    /// A control message arrived.
    Message(&'a Packet),
    /// The agent's deadline has passed.
    Timer,
    /// All data is acknowledged.
    Completed,
}

/// Instructions of an agent to its sender.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct RateOrders {
    /// A limit in addition to the scheme's control.
    pub limit: Option<Limit>,
    /// Advice for the scheme.
    pub advice: Option<Advice>,
    /// Number of the path that all packets take from now on.
    pub path: Option<u8>,
    /// Whether the message was refused: it is for another flow or malformed.
    pub refused: bool,
}

/// Information for the sender that the agent found in an acknowledgement.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct RateReply {
    /// Advice for the scheme.
    pub advice: Option<Advice>,
    /// Whether the advice was ignored because it is outdated or forged.
    pub stale: bool,
}

/// Sender side of an explicit-rate protocol.
pub trait RateAgent: fmt::Debug {
    /// Option of an outgoing packet; `opens`: whether the packet is the SYN.
    fn option(&self, _sender: &SenderView, _opens: bool) -> Option<RawOption> {
        None
    }
    /// Reads an acknowledgement before the sender applies it. `una` is SND.UNA, `nxt` is SND.NXT. The advice
    /// takes effect after the acknowledgement.
    fn on_acknowledgement(&mut self, _packet: &Packet, _una: u64, _nxt: u64) -> RateReply {
        RateReply::default()
    }
    /// Handles an event other than an acknowledgement.
    fn on_event(&mut self, _sender: &SenderView, event: RateEvent<'_>) -> RateOrders {
        RateOrders { refused: matches!(event, RateEvent::Message(_)), ..RateOrders::default() }
    }
    /// Whether a control message waits to be sent.
    fn has_message(&self) -> bool {
        false
    }
    /// Next control message and its path.
    fn poll_message(&mut self, _sender: &SenderView) -> Option<(ControlMessage, u8)> {
        None
    }
    /// Whether data is blocked.
    fn blocks_data(&self) -> bool {
        false
    }
    /// The time of [`RateEvent::Timer`]; [`Nanos::MAX`] for never.
    fn deadline(&self) -> Nanos {
        Nanos::MAX
    }
    /// Bytes of allocated memory.
    fn memory(&self) -> usize;
}

/// Receiver side of an explicit-rate protocol.
pub trait RateResponder: fmt::Debug {
    /// Reads the option of an arriving packet.
    fn on_option(&mut self, packet: &Packet);
    /// Option of the acknowledgement that is sent next.
    fn option(&mut self) -> Option<RawOption>;
    /// Handles a control message; returns whether the message is for this flow.
    fn on_message(&mut self, packet: &Packet) -> bool;
    /// Next control message to the sender and its path.
    fn poll_message(&mut self) -> Option<(ControlMessage, u8)>;
    /// Bytes of allocated memory.
    fn memory(&self) -> usize;
}
