//! The contract between a transport and a scheme: measurements in, control out, telemetry on a third path.
//!
//! Every event carries `now`. A value that the transport does not know is `None`, never a sentinel. The
//! [`Driver`](crate::Driver) calls the scheme; for one acknowledgement in this order:
//!
//! 1. [`CongestionControl::on_paths`], if the scheme is coupled;
//! 2. [`CongestionControl::on_receiver_feedback`], if the receiver reported measurements of its own;
//! 3. [`CongestionControl::on_lost`], once per packet newly declared lost;
//! 4. [`CongestionControl::on_recovery_entered`], [`CongestionControl::on_recovery_left`] or
//!    [`CongestionControl::on_spurious_loss`], if the phase changes;
//! 5. [`CongestionControl::on_ack`].
//!
//! The driver reads [`CongestionControl::control`] when an acknowledgement, a timeout or another decision point is
//! complete, and the transport enforces it.

use crate::{Bytes, IdleRule, Nanos, Param, Params, Paths, Random, Rate, RateSample};

/// The limits that the scheme sets on its transport.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Control {
    /// The congestion window: the most data that may be in flight.
    pub cwnd: Bytes,
    /// The pacing rate in payload bytes per second, or `None` to send as the window allows. A gap of `n /
    /// rate` follows a packet of `n` payload bytes.
    pub pacing_rate: Option<Rate>,
    /// The most data sent back to back when pacing; [`Bytes::MAX`]: as much as the transport's own rule
    /// allows. A transport may send less at once.
    pub burst: Bytes,
}

/// The loss-recovery phase of the transport.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// No loss outstanding.
    Open,
    /// Fast recovery (RFC 6675, RFC 8985), or the window reduction after an ECN mark.
    Recovery,
    /// Repairing after a retransmission timeout.
    Loss,
}

/// An acknowledgement was processed.
#[derive(Clone, Copy, Debug)]
pub struct Ack {
    /// When it arrived.
    pub now: Nanos,
    /// Bytes newly known to be delivered, cumulatively or selectively; each byte counts once.
    pub acked: Bytes,
    /// By how much the cumulative acknowledgement advanced; `None` where the transport acknowledges packet by
    /// packet, so that no cumulative point can lag behind.
    pub acked_cumulative: Option<Bytes>,
    /// Bytes newly declared lost while processing this acknowledgement.
    pub lost: Bytes,
    /// RTT of the most recently sent packet it newly acknowledges, if that was sent only once.
    pub rtt: Option<Nanos>,
    /// The delivery-rate sample, if one could be taken.
    pub rate: Option<RateSample>,
    /// Data in flight before this acknowledgement was applied.
    pub inflight_before: Bytes,
    /// Data in flight after it was applied and losses were marked.
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
    /// The end of a handshake: an RTT sample before any data.
    pub fn of_handshake(now: Nanos, rtt: Nanos, srtt: Option<Nanos>, min_rtt: Option<Nanos>) -> Self {
        Self {
            now,
            acked: Bytes::ZERO,
            acked_cumulative: None,
            lost: Bytes::ZERO,
            rtt: Some(rtt),
            rate: None,
            inflight_before: Bytes::ZERO,
            inflight: Bytes::ZERO,
            ce: Bytes::ZERO,
            delivered: Bytes::ZERO,
            cwnd_limited: false,
            cwnd_full: false,
            phase: Phase::Open,
            round_start: false,
            round: 0,
            srtt,
            min_rtt,
        }
    }

    /// The bytes by which a loss-based scheme may grow: all newly delivered bytes if the acknowledgement
    /// advanced cumulatively. Duplicates never raise cwnd (RFC 5681 section 3.2), and bytes that they
    /// delivered do not count again when the hole is filled.
    #[inline]
    pub fn creditable(&self) -> Bytes {
        if self.acked_cumulative.is_some_and(Bytes::is_zero) { Bytes::ZERO } else { self.acked }
    }
}

/// A packet left.
#[derive(Clone, Copy, Debug)]
pub struct Sent {
    /// When it left.
    pub now: Nanos,
    /// Its payload.
    pub bytes: Bytes,
    /// Data in flight, this packet included.
    pub inflight: Bytes,
    /// It is a retransmission.
    pub retransmission: bool,
}

/// One packet was declared lost.
#[derive(Clone, Copy, Debug)]
pub struct Lost {
    /// When it was declared.
    pub now: Nanos,
    /// Its payload.
    pub bytes: Bytes,
    /// The packet's number in the order of first transmission. A retransmission keeps the number of the
    /// original, so packets with consecutive numbers carry consecutive data.
    pub packet: u64,
    /// When it had left.
    pub sent_at: Nanos,
    /// Data in flight when it left, itself included.
    pub tx_in_flight: Bytes,
    /// Bytes declared lost on this connection before it left.
    pub lost_at_send: Bytes,
    /// Bytes delivered on this connection before it left.
    pub delivered_at_send: Bytes,
    /// The sender was application-limited when it left.
    pub app_limited: bool,
    /// Bytes declared lost on this connection so far, this packet included.
    pub lost_total: Bytes,
    /// Data in flight without it.
    pub inflight: Bytes,
}

/// Why the transport entered recovery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CongestionCause {
    /// Packets were lost.
    Loss,
    /// Packets were marked (RFC 3168).
    Ecn,
}

/// Fast recovery (or the reduction after a mark) begins, at most once per window of data. Exception: if every
/// mark is reported, a loss during the reduction after a mark begins a fast recovery of its own.
#[derive(Clone, Copy, Debug)]
pub struct RecoveryEntered {
    /// When.
    pub now: Nanos,
    /// Why.
    pub cause: CongestionCause,
    /// The amount that a reduction starts from: cwnd (Linux), or the data outstanding when congestion was
    /// detected, lost packets included (FlightSize, RFC 5681).
    pub flight_size: Bytes,
    /// Data in flight after losses were taken out (pipe, RFC 6675).
    pub inflight: Bytes,
    /// Bytes newly delivered by the acknowledgement that began it.
    pub acked: Bytes,
    /// All bytes ever delivered.
    pub delivered: Bytes,
}

/// All data outstanding when recovery (or loss repair) began is acknowledged.
#[derive(Clone, Copy, Debug)]
pub struct RecoveryLeft {
    /// When.
    pub now: Nanos,
    /// Data in flight.
    pub inflight: Bytes,
    /// All bytes ever delivered.
    pub delivered: Bytes,
}

/// The retransmission timer expired.
#[derive(Clone, Copy, Debug)]
pub struct Timeout {
    /// When.
    pub now: Nanos,
    /// The amount that a reduction starts from: cwnd, or the data outstanding when it expired (RFC 5681).
    pub flight_size: Bytes,
    /// Data in flight that cwnd keeps room for: what is left after losses were marked (Linux), or none (RFC
    /// 5681).
    pub inflight: Bytes,
    /// All bytes ever delivered.
    pub delivered: Bytes,
    /// Expiries in a row without an acknowledgement of new data, this one included.
    pub consecutive: u32,
}

impl Timeout {
    /// cwnd after the timeout: room for one segment beside the data still in flight (Linux `tcp_enter_loss`).
    /// If all data is lost, it is the loss window of RFC 5681, one segment.
    pub fn restart_window(&self, mss: Bytes) -> Bytes {
        self.inflight + mss
    }
}

/// The last reduction was unnecessary: the packets declared lost were only late.
#[derive(Clone, Copy, Debug)]
pub struct SpuriousLoss {
    /// When it was detected.
    pub now: Nanos,
    /// Data in flight.
    pub inflight: Bytes,
    /// All bytes ever delivered.
    pub delivered: Bytes,
    /// The phase that was entered without need.
    pub phase: Phase,
}

/// Advice of the network, in payload bytes per second.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Advice {
    /// Send at this rate. Zero cannot be followed.
    Rate(Rate),
    /// The network no longer assigns a rate: send as the scheme decides by itself.
    Withdrawn,
    /// Change the rate by this many bytes per second; negative: slow down.
    Change(f64),
}

/// The network advises how fast to send. Advice is untrusted: never stall on any value.
///
/// Advice that rides on an acknowledgement follows its [`CongestionControl::on_ack`].
#[derive(Clone, Copy, Debug)]
pub struct RateAdvice {
    /// When it arrived.
    pub now: Nanos,
    /// The advice.
    pub advice: Advice,
}

/// Measurements of the receiver, beyond acknowledgements. An absent item was not reported.
///
/// The transport calls [`CongestionControl::on_receiver_feedback`] before [`CongestionControl::on_ack`] of
/// the same packet. Feedback is untrusted: never stall on any value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ReceiverFeedback {
    /// When it arrived.
    pub now: Nanos,
    /// RTT of the packet that it acknowledges, less the time that the receiver delayed it.
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

impl ReceiverFeedback {
    /// Nothing reported.
    pub const fn empty(now: Nanos) -> Self {
        Self {
            now,
            rtt: None,
            receive_rate: None,
            loss_event_rate: None,
            loss_rate: None,
            data_limited: false,
            new_loss_event: false,
            dropped: 0,
            slow: false,
        }
    }
}

/// Sending resumes after nothing was in flight. See [`IdleRestart::outlasts_rto`].
#[derive(Clone, Copy, Debug)]
pub struct IdleRestart {
    /// When.
    pub now: Nanos,
    /// Time since the last transmission.
    pub idle: Nanos,
    /// The retransmission timeout in force, if the transport has one; RFC 5681 restarts from the initial
    /// window after an idle of this length.
    pub rto: Option<Nanos>,
    /// All bytes ever delivered.
    pub delivered: Bytes,
    /// The application, not the network, caused the idle time.
    pub app_limited: bool,
    /// Rule for cwnd after the idle time.
    pub rule: IdleRule,
}

/// The component that sets cwnd during recovery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecoveryStyle {
    /// The transport: proportional rate reduction (RFC 6937) towards the cwnd that the scheme set on entry.
    Prr,
    /// The scheme: its cwnd is enforced as it is.
    Own,
}

/// How well the published definition of a scheme is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Provenance {
    /// Read in the primary text or the authors' code.
    Verified,
    /// Our reconstruction: the published rule could not be obtained.
    Reconstruction,
    /// A tool of the workshop, not a published scheme.
    Tool,
}

/// The feedback that a scheme expects from a receiver of datagrams, which acknowledges packet by packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Feedback {
    /// The packets that arrived.
    Packets,
    /// The packets that arrived, each counted as a full one (RFC 4341).
    CountedPackets,
    /// Loss events and the receive rate, once per round trip (RFC 5348).
    LossEvents,
    /// The packets that arrived, and the share lost in the last ten seconds.
    LossShare,
}

/// The congestion notification that a scheme needs, unless the connection sets another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EcnNeed {
    /// None: a mark, if there is one, counts as a loss.
    Nothing,
    /// The share of marked bytes ([`Ack::ce`]): feedback of every mark (RFC 8257 section 3.2).
    Precise,
    /// The same, and data sent as ECT(1) (RFC 9331).
    L4s,
}

/// Facts about a scheme.
#[derive(Debug)]
pub struct Info {
    /// The registered name.
    pub name: &'static str,
    /// Other accepted names.
    pub aliases: &'static [&'static str],
    /// One line.
    pub summary: &'static str,
    /// How well its definition is known.
    pub provenance: Provenance,
    /// The component that sets cwnd during recovery.
    pub recovery: RecoveryStyle,
    /// Its parameters.
    pub params: &'static [Param],
}

/// Inputs to the constructor of a scheme.
#[derive(Clone, Debug)]
pub struct Setup {
    /// The segment size: payload bytes of a full packet.
    pub mss: Bytes,
    /// The initial window (RFC 6928: ten segments).
    pub initial_window: Bytes,
    /// The transport has selective acknowledgements, so it can detect more than one loss per round trip.
    pub sack: bool,
    /// The scheme's own random stream.
    pub random: Random,
    /// Parameter values, already checked against [`Info::params`].
    pub params: Params,
}

/// The value of one telemetry item.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Value {
    /// A rate.
    Rate(Rate),
    /// An amount of data.
    Bytes(Bytes),
    /// A time or interval.
    Time(Nanos),
    /// A dimensionless number.
    Number(f64),
    /// The name of a state.
    State(&'static str),
}

/// Telemetry sink: called once per named item.
pub type Telemetry<'a> = &'a mut dyn FnMut(&'static str, Value);

/// A congestion control scheme. The module documentation gives the order of calls.
pub trait CongestionControl {
    /// Facts about the scheme.
    const INFO: Info;
    /// The congestion notification it needs.
    const ECN: EcnNeed = EcnNeed::Nothing;
    /// The protocol by which it negotiates a rate with the network, if any: a transport that implements the
    /// protocol delivers the network's responses as [`RateAdvice`].
    const RATE_PROTOCOL: Option<&'static str> = None;
    /// The feedback it expects from a receiver of datagrams.
    const FEEDBACK: Feedback = Feedback::Packets;
    /// Its cwnd depends on the sibling subflows of its connection, which a multipath transport passes to
    /// [`CongestionControl::on_paths`]. Without such calls the scheme runs as a single flow.
    const COUPLED: bool = false;
    /// Bytes at the end of the scheme that few acknowledgements access: a transport with thousands of connections need
    /// not prefetch them.
    const UNUSED_BYTES: usize = 0;

    /// A scheme at the start of a connection.
    fn new(setup: &Setup) -> Self;

    /// A packet left.
    fn on_sent(&mut self, _event: &Sent) {}
    /// An acknowledgement was processed.
    fn on_ack(&mut self, event: &Ack);
    /// One packet was declared lost.
    fn on_lost(&mut self, _event: &Lost) {}
    /// Recovery begins.
    fn on_recovery_entered(&mut self, event: &RecoveryEntered);
    /// Recovery ends.
    fn on_recovery_left(&mut self, _event: &RecoveryLeft) {}
    /// The retransmission timer expired.
    fn on_timeout(&mut self, event: &Timeout);
    /// The last reduction was unnecessary.
    fn on_spurious_loss(&mut self, _event: &SpuriousLoss) {}
    /// The network advises a rate.
    fn on_rate_advice(&mut self, _event: &RateAdvice) {}
    /// The receiver reports measurements.
    fn on_receiver_feedback(&mut self, _event: &ReceiverFeedback) {}
    /// All subflows of the connection, this one included, before every acknowledgement is processed. The view
    /// stays valid until the next call.
    fn on_paths(&mut self, _paths: &Paths) {}
    /// Sending resumes after an idle time.
    fn on_idle_restart(&mut self, _event: &IdleRestart) {}

    /// The rate of the sender's own link in payload bytes per second, if configured: the transport requests
    /// no more.
    fn line_rate(&self) -> Option<Rate> {
        None
    }
    /// The control now in force.
    fn control(&self) -> Control;
    /// Named, typed internals for traces.
    fn telemetry(&self, _sink: Telemetry<'_>) {}
}
