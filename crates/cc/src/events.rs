//! The events of a connection, each with `now`. A value unknown to the transport is `None`, never a sentinel.
//!
//! Events gain fields over time, so other crates build them with [`record!`](crate::record).

use crate::{Bytes, IdleRule, Nanos, Rate, RateSample};

/// The loss-recovery phase that the transport is in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Phase {
    /// No loss outstanding.
    #[default]
    Open,
    /// Fast recovery (RFC 6675, RFC 8985), or the window reduction after an ECN mark.
    Recovery,
    /// Repairing after a retransmission timeout.
    Loss,
}

/// An acknowledgement was processed.
#[derive(Clone, Copy, Debug, Default)]
#[non_exhaustive]
pub struct Ack {
    /// When it arrived.
    pub now: Nanos,
    /// Bytes newly known to be delivered, cumulatively or selectively; each byte counts once.
    pub acked: Bytes,
    /// Bytes by which the cumulative acknowledgement advanced; `None` if the transport acknowledges packet by
    /// packet, without a cumulative point that can lag behind.
    pub acked_cumulative: Option<Bytes>,
    /// Bytes newly declared lost while processing this acknowledgement.
    pub lost: Bytes,
    /// RTT of the most recently sent packet that is newly acknowledged, if that packet was sent only once.
    pub rtt: Option<Nanos>,
    /// The delivery-rate sample, if one could be taken.
    pub rate: Option<RateSample>,
    /// Data in flight before this acknowledgement was applied.
    pub inflight_before: Bytes,
    /// Data in flight after this acknowledgement was applied and losses were marked.
    pub inflight: Bytes,
    /// Newly delivered bytes that the feedback reports as marked congestion-experienced.
    pub ce: Bytes,
    /// All bytes ever delivered on this connection, this acknowledgement included.
    pub delivered: Bytes,
    /// cwnd, not the application, limited the data in flight when these packets were sent.
    pub cwnd_limited: bool,
    /// cwnd was full at some time in the last packet-timed round trip (Linux `is_cwnd_limited` outside slow
    /// start).
    pub cwnd_full: bool,
    /// The phase after this acknowledgement.
    pub phase: Phase,
    /// This acknowledgement begins a packet-timed round trip.
    pub round_start: bool,
    /// Packet-timed round trips since the connection began.
    pub round: u64,
    /// Smoothed RTT (RFC 6298); `None` before the first sample.
    pub srtt: Option<Nanos>,
    /// Minimum RTT of this connection; `None` before the first sample.
    pub min_rtt: Option<Nanos>,
}

impl Ack {
    /// Builds the event for the end of a handshake: an RTT sample before any data.
    pub fn of_handshake(now: Nanos, rtt: Nanos, srtt: Option<Nanos>, min_rtt: Option<Nanos>) -> Self {
        Self { now, rtt: Some(rtt), srtt, min_rtt, ..Self::default() }
    }

    /// The bytes by which a loss-based scheme may grow: all newly delivered bytes if the acknowledgement advanced
    /// cumulatively. Duplicate acknowledgements never raise cwnd (RFC 5681 section 3.2), and the bytes that they
    /// reported do not count again when the hole is filled.
    #[inline]
    pub fn creditable(&self) -> Bytes {
        if self.acked_cumulative.is_some_and(Bytes::is_zero) { Bytes::ZERO } else { self.acked }
    }
}

/// A packet was sent.
#[derive(Clone, Copy, Debug, Default)]
#[non_exhaustive]
pub struct Sent {
    /// When the packet was sent.
    pub now: Nanos,
    /// Its payload.
    pub bytes: Bytes,
    /// Data in flight after the transmission, this packet included.
    pub inflight: Bytes,
    /// The packet is a retransmission.
    pub retransmission: bool,
}

/// One packet was declared lost.
#[derive(Clone, Copy, Debug, Default)]
#[non_exhaustive]
pub struct Lost {
    /// When the packet was declared lost.
    pub now: Nanos,
    /// Its payload.
    pub bytes: Bytes,
    /// The packet's number in the order of first transmission. A retransmission keeps the number of the
    /// original, so packets with consecutive numbers carry consecutive data.
    pub packet: u64,
    /// When the packet was sent.
    pub sent_at: Nanos,
    /// Data in flight when the packet was sent, the packet included.
    pub tx_in_flight: Bytes,
    /// Bytes declared lost on this connection before the packet was sent.
    pub lost_at_send: Bytes,
    /// Bytes delivered on this connection before the packet was sent.
    pub delivered_at_send: Bytes,
    /// The sender was application-limited when the packet was sent.
    pub app_limited: bool,
    /// Bytes declared lost on this connection so far, this packet included.
    pub lost_total: Bytes,
    /// Data in flight without the packet.
    pub inflight: Bytes,
}

/// Why the transport entered recovery.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum CongestionCause {
    /// Packets were lost.
    #[default]
    Loss,
    /// Packets were marked (RFC 3168).
    Ecn,
}

/// Fast recovery (or the reduction after a mark) begins, at most once per window of data. Exception: if every mark is
/// reported, a loss during the reduction after a mark begins a separate fast recovery.
#[derive(Clone, Copy, Debug, Default)]
#[non_exhaustive]
pub struct RecoveryEntered {
    /// When recovery began.
    pub now: Nanos,
    /// Why recovery began.
    pub cause: CongestionCause,
    /// The amount that a reduction starts from: cwnd (Linux), or the data outstanding when congestion was
    /// detected, lost packets included (FlightSize, RFC 5681).
    pub flight_size: Bytes,
    /// Data in flight, without the packets declared lost (pipe, RFC 6675).
    pub inflight: Bytes,
    /// Bytes newly delivered by the acknowledgement that began recovery.
    pub acked: Bytes,
    /// All bytes ever delivered.
    pub delivered: Bytes,
}

/// All data outstanding when recovery (or loss repair) began is acknowledged.
#[derive(Clone, Copy, Debug, Default)]
#[non_exhaustive]
pub struct RecoveryLeft {
    /// When recovery ended.
    pub now: Nanos,
    /// Data in flight.
    pub inflight: Bytes,
    /// All bytes ever delivered.
    pub delivered: Bytes,
}

/// The retransmission timer expired.
#[derive(Clone, Copy, Debug, Default)]
#[non_exhaustive]
pub struct Timeout {
    /// When the timer expired.
    pub now: Nanos,
    /// The amount that a reduction starts from: cwnd, or the data outstanding when the timer expired (RFC 5681).
    pub flight_size: Bytes,
    /// Data still counted as in flight: the data not declared lost (Linux), or none (RFC 5681).
    pub inflight: Bytes,
    /// All bytes ever delivered.
    pub delivered: Bytes,
    /// Consecutive expiries without an acknowledgement of new data, this one included.
    pub consecutive: u32,
}

impl Timeout {
    /// cwnd after the timeout: the data still in flight plus one segment (Linux `tcp_enter_loss`). If all data is lost,
    /// that is the loss window of RFC 5681, one segment.
    pub fn restart_window(&self, mss: Bytes) -> Bytes {
        self.inflight + mss
    }
}

/// The last reduction was unnecessary: the packets declared lost were only delayed.
#[derive(Clone, Copy, Debug, Default)]
#[non_exhaustive]
pub struct SpuriousLoss {
    /// When it was detected.
    pub now: Nanos,
    /// Data in flight.
    pub inflight: Bytes,
    /// All bytes ever delivered.
    pub delivered: Bytes,
    /// The phase that was entered unnecessarily.
    pub phase: Phase,
}

/// Advice of the network, in payload bytes per second.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[non_exhaustive]
pub enum Advice {
    /// Send at this rate. A rate of zero cannot be followed.
    Rate(Rate),
    /// The network no longer assigns a rate: the scheme decides by itself.
    #[default]
    Withdrawn,
    /// Change the rate by this many bytes per second; negative: slow down.
    Change(f64),
}

/// The network advises how fast to send. Advice is untrusted: never stall on any value.
///
/// Advice carried by an acknowledgement is delivered after
/// [`CongestionControl::on_ack`](crate::CongestionControl::on_ack) for that acknowledgement.
#[derive(Clone, Copy, Debug, Default)]
#[non_exhaustive]
pub struct RateAdvice {
    /// When it arrived.
    pub now: Nanos,
    /// The advice.
    pub advice: Advice,
}

/// Measurements of the receiver, beyond acknowledgements. An absent item was not reported.
///
/// The transport calls [`CongestionControl::on_receiver_feedback`](crate::CongestionControl::on_receiver_feedback) before [`CongestionControl::on_ack`](crate::CongestionControl::on_ack) of
/// the same packet. Feedback is untrusted: never stall on any value.
#[derive(Clone, Copy, Debug, PartialEq, Default)]
#[non_exhaustive]
pub struct ReceiverFeedback {
    /// When it arrived.
    pub now: Nanos,
    /// RTT of the packet that the feedback acknowledges, less the receiver's delay.
    pub rtt: Option<Nanos>,
    /// The rate at which payload arrived since the previous report (RFC 5348 `X_recv`).
    pub receive_rate: Option<Rate>,
    /// Loss events per packet (RFC 5348 `p`), 0 to 1; 0: no loss event yet.
    pub loss_event_rate: Option<f64>,
    /// The share of packets lost in the last ten seconds, 0 to 1.
    pub loss_rate: Option<f64>,
    /// The sender was data-limited for the whole interval that the report covers (RFC 5348 section 8.2.1).
    pub data_limited: bool,
    /// The interval that the report covers saw a new loss event.
    pub new_loss_event: bool,
    /// Packets newly reported as dropped for lack of receive buffer (RFC 4340 section 11.7: Drop Code 2).
    pub dropped: u64,
    /// The receiver cannot keep up (RFC 4340 section 11.6: Slow Receiver).
    pub slow: bool,
}

/// Sending resumes after a time with nothing in flight. See [`IdleRestart::outlasts_rto`].
#[derive(Clone, Copy, Debug, Default)]
#[non_exhaustive]
pub struct IdleRestart {
    /// When sending resumes.
    pub now: Nanos,
    /// Time since the last transmission.
    pub idle: Nanos,
    /// The retransmission timeout in force, if the transport has one; RFC 5681 restarts from the initial window after a
    /// longer idle time.
    pub rto: Option<Nanos>,
    /// All bytes ever delivered.
    pub delivered: Bytes,
    /// The application, not the network, caused the idle time.
    pub app_limited: bool,
    /// The rule that sets cwnd after the idle time.
    pub rule: IdleRule,
}
