//! The seam to networks that state rates: an agent beside the sender asks for them and reads the answers, a responder beside
//! the receiver echoes or answers. TCP carries both and knows no protocol.

use std::fmt;

use narrows_cc::{Advice, Bytes, Limit, Nanos, Rate};
use narrows_packet::{ControlMessage, Packet, RawOption};

/// The constants of a sender that its agent needs when it is made.
#[derive(Clone, Copy, Debug)]
pub struct RateSetup {
    /// Payload bytes of a full segment.
    pub segment: u16,
    /// Header bytes of a packet with data, without the agent's option.
    pub data_header: u16,
    /// The rate of the sender's line in payload bytes per second, where its scheme knows it.
    pub line: Option<Rate>,
}

/// The state of a sender as its agent sees it.
#[derive(Clone, Copy, Debug)]
pub struct SenderView {
    /// The time.
    pub now: Nanos,
    /// The smoothed round-trip time, zero before the first sample.
    pub srtt: Nanos,
    /// The retransmission timeout.
    pub rto: Nanos,
    /// The congestion window of the scheme.
    pub cwnd: Bytes,
    /// Bytes of data packets that have left, headers included.
    pub wire_sent: u64,
    /// Bytes that the application has written and that have not left for the first time.
    pub backlog: u64,
    /// Losses are being repaired.
    pub repairing: bool,
    /// The handshake is over, and not everything is acknowledged.
    pub established: bool,
}

/// An event that concerns the agent of a sender.
#[derive(Clone, Copy, Debug)]
pub enum RateEvent<'a> {
    /// The handshake is over.
    Established,
    /// The application has written.
    Written,
    /// Sending is about to resume after a time with nothing outstanding.
    Resumed {
        /// How long nothing was sent.
        idle: Nanos,
    },
    /// A control message arrived.
    Message(&'a Packet),
    /// The deadline of the agent is reached.
    Timer,
    /// Everything is acknowledged.
    Completed,
}

/// The orders of an agent to its sender.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct RateOrders {
    /// Another limit beside the scheme's control.
    pub limit: Option<Limit>,
    /// Advice for the scheme.
    pub advice: Option<Advice>,
    /// Packets take this path from now on.
    pub path: Option<u8>,
    /// The message was not for this flow, or cannot be read.
    pub refused: bool,
}

/// The content of an acknowledgement for the agent.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct RateReply {
    /// Advice for the scheme.
    pub advice: Option<Advice>,
    /// It carries advice that is older than other advice, or forged.
    pub stale: bool,
}

/// The part of a sender that settles its rate with the network.
pub trait RateAgent: fmt::Debug {
    /// The option of a packet that leaves; `opens`: it is the SYN.
    fn option(&self, _sender: &SenderView, _opens: bool) -> Option<RawOption> {
        None
    }
    /// An acknowledgement arrives, before it is applied: `una` is the highest acknowledgement number so far, `nxt` that
    /// after everything sent. The sender follows the advice after it has applied the acknowledgement.
    fn on_acknowledgement(&mut self, _packet: &Packet, _una: u64, _nxt: u64) -> RateReply {
        RateReply::default()
    }
    /// An event beside acknowledgements.
    fn on_event(&mut self, _sender: &SenderView, event: RateEvent<'_>) -> RateOrders {
        RateOrders { refused: matches!(event, RateEvent::Message(_)), ..RateOrders::default() }
    }
    /// A control message waits to be sent.
    fn has_message(&self) -> bool {
        false
    }
    /// The next control message, and the path it takes.
    fn poll_message(&mut self, _sender: &SenderView) -> Option<(ControlMessage, u8)> {
        None
    }
    /// No data may leave.
    fn holds(&self) -> bool {
        false
    }
    /// The time of [`RateEvent::Timer`]; [`Nanos::MAX`] for never.
    fn deadline(&self) -> Nanos {
        Nanos::MAX
    }
    /// Bytes of memory it takes.
    fn memory(&self) -> usize;
}

/// The part of a receiver that takes part in settling the sender's rate.
pub trait RateResponder: fmt::Debug {
    /// A packet with an option arrives.
    fn on_option(&mut self, packet: &Packet);
    /// The option of the acknowledgement that leaves now.
    fn option(&mut self) -> Option<RawOption>;
    /// A control message arrives; whether it is for this flow.
    fn on_message(&mut self, packet: &Packet) -> bool;
    /// The next control message to the sender, and the path it takes.
    fn poll_message(&mut self) -> Option<(ControlMessage, u8)>;
    /// Bytes of memory it takes.
    fn memory(&self) -> usize;
}
