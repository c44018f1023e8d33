//! The contract between a transport and a scheme: measurements in, control out, telemetry as a separate output.
//!
//! A scheme implements two traits: [`CongestionControl`], the events that it receives and the control that it sets, and
//! [`Scheme`], its constants and its constructor. For one acknowledgement, the [`Driver`](crate::Driver) calls the
//! scheme in this order:
//!
//! 1. [`CongestionControl::on_paths`], if the scheme is coupled;
//! 2. [`CongestionControl::on_receiver_feedback`], if the receiver reported measurements;
//! 3. [`CongestionControl::on_lost`], once per packet newly declared lost;
//! 4. [`CongestionControl::on_recovery_entered`], [`CongestionControl::on_recovery_left`] or
//!    [`CongestionControl::on_spurious_loss`], if the phase changes;
//! 5. [`CongestionControl::on_ack`].
//!
//! The driver reads [`CongestionControl::control`] when an acknowledgement, a timeout or another decision point is
//! complete, and the transport enforces it.

use crate::{
    Ack, Bytes, IdleRestart, Lost, Nanos, Param, Params, Paths, Random, Rate, RateAdvice, ReceiverFeedback,
    RecoveryEntered, RecoveryLeft, Sent, SpuriousLoss, Timeout,
};

/// Builds a record of a type that gains fields over time, like a struct literal: `record!(Ack { acked, ..base })`.
/// Omitted fields come from the base, or from [`Default`].
#[macro_export]
macro_rules! record {
    ($Type:path { $($field:ident $(: $value:expr)?),+ $(,)? }) => {
        $crate::record!($Type { $($field $(: $value)?,)+ ..<$Type>::default() })
    };
    ($Type:path { $($field:ident $(: $value:expr)?,)+ ..$base:expr }) => {{
        let mut record: $Type = $base;
        $($crate::record!(@set record $field $($value)?);)+
        record
    }};
    (@set $record:ident $field:ident $value:expr) => { $record.$field = $value };
    (@set $record:ident $field:ident) => { $record.$field = $field };
}

/// The limits that the scheme sets on its transport.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct Control {
    /// The congestion window: the most data that may be in flight.
    pub cwnd: Bytes,
    /// The pacing rate in payload bytes per second, or `None` to send as cwnd allows. At pacing rate `r`, a gap of `n /
    /// r` follows a packet of `n` payload bytes.
    pub pacing_rate: Option<Rate>,
    /// The most data sent back to back when pacing; [`Bytes::MAX`]: as much as the transport's rule allows. A transport
    /// may send smaller bursts.
    pub burst: Bytes,
}

impl Control {
    /// A congestion window without pacing.
    pub const fn unpaced(cwnd: Bytes) -> Self {
        Self { cwnd, pacing_rate: None, burst: Bytes::MAX }
    }

    /// A congestion window with a pacing rate.
    pub const fn paced(cwnd: Bytes, rate: Rate) -> Self {
        Self { cwnd, pacing_rate: Some(rate), burst: Bytes::MAX }
    }
}

/// The component that sets cwnd during recovery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecoveryStyle {
    /// The transport: proportional rate reduction (RFC 6937) towards the cwnd that the scheme set on entry.
    Prr,
    /// The scheme: the transport enforces the scheme's cwnd unchanged.
    Own,
}

/// How well the published definition of a scheme is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Provenance {
    /// Taken from the primary text or the authors' code.
    Verified,
    /// Our reconstruction: the published rule could not be obtained.
    Reconstruction,
    /// A tool of the workshop, not a published scheme.
    Tool,
}

impl Provenance {
    /// The word printed in lists of schemes.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Verified => "verified",
            Self::Reconstruction => "reconstruction",
            Self::Tool => "tool",
        }
    }
}

/// The feedback that a scheme expects from a receiver of datagrams, which acknowledges packet by packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Feedback {
    /// The packets that arrived.
    Packets,
    /// The packets that arrived, each counted as a full-sized packet (RFC 4341).
    CountedPackets,
    /// Loss events and the receive rate, once per round trip (RFC 5348).
    LossEvents,
    /// The packets that arrived, and the share lost in the last ten seconds.
    LossShare,
}

/// The congestion notification that a scheme needs, unless the connection sets another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum EcnNeed {
    /// None; any mark counts as a loss.
    Nothing,
    /// The share of marked bytes ([`Ack::ce`]): feedback of every mark (RFC 8257 section 3.2).
    Precise,
    /// As [`EcnNeed::Precise`], with data sent as ECT(1) (RFC 9331).
    L4s,
}

/// Static description of a scheme.
#[derive(Debug)]
#[non_exhaustive]
pub struct Info {
    /// The registered name.
    pub name: &'static str,
    /// Other accepted names.
    pub aliases: &'static [&'static str],
    /// Summary in one line.
    pub summary: &'static str,
    /// How well the scheme's definition is known.
    pub provenance: Provenance,
    /// The component that sets cwnd during recovery.
    pub recovery: RecoveryStyle,
    /// The scheme's parameters.
    pub params: &'static [Param],
}

impl Info {
    /// A verified scheme without aliases and parameters, under proportional rate reduction.
    pub const fn new(name: &'static str, summary: &'static str) -> Self {
        Self {
            name,
            aliases: &[],
            summary,
            provenance: Provenance::Verified,
            recovery: RecoveryStyle::Prr,
            params: &[],
        }
    }
}

/// Inputs to the constructor of a scheme.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Setup {
    /// The segment size: payload bytes of a full packet.
    pub mss: Bytes,
    /// The initial window (RFC 6928: ten segments).
    pub initial_window: Bytes,
    /// The transport has selective acknowledgements, so it can detect more than one loss per round trip.
    pub sack: bool,
    /// The scheme's random stream.
    pub random: Random,
    /// Parameter values, already checked against [`Info::params`].
    pub params: Params,
}

impl Setup {
    /// A setup with an initial window of ten segments and selective acknowledgements.
    pub fn new(mss: Bytes, params: Params, random: Random) -> Self {
        Self { mss, initial_window: mss * 10, sack: true, random, params }
    }

    /// Sets an initial window of `segments`.
    pub fn with_window(self, segments: impl Into<u64>) -> Self {
        Self { initial_window: self.mss * segments.into(), ..self }
    }

    /// Sets whether the transport has selective acknowledgements.
    pub fn with_sack(self, sack: bool) -> Self {
        Self { sack, ..self }
    }
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

/// Events of a connection, and the resulting control. The module documentation gives the order of calls.
pub trait CongestionControl {
    /// A packet was sent.
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
    /// The last reduction of cwnd was unnecessary.
    fn on_spurious_loss(&mut self, _event: &SpuriousLoss) {}
    /// The network advises a rate.
    fn on_rate_advice(&mut self, _event: &RateAdvice) {}
    /// The receiver reports measurements.
    fn on_receiver_feedback(&mut self, _event: &ReceiverFeedback) {}
    /// Receives all subflows of the connection, this one included, before every acknowledgement is processed. The view
    /// stays valid until the next call.
    fn on_paths(&mut self, _paths: &Paths) {}
    /// Sending resumes after an idle time.
    fn on_idle_restart(&mut self, _event: &IdleRestart) {}

    /// The rate of the sender's link in payload bytes per second, if configured: the transport requests no higher rate.
    fn line_rate(&self) -> Option<Rate> {
        None
    }
    /// The control now in force.
    fn control(&self) -> Control;
    /// Reports named, typed internal values for traces.
    fn telemetry(&self, _sink: Telemetry<'_>) {}
}

/// A congestion control scheme: constants and construction.
pub trait Scheme: CongestionControl + Clone + Send + Sync + 'static {
    /// Static description of the scheme.
    const INFO: Info;
    /// The congestion notification that the scheme needs.
    const ECN: EcnNeed = EcnNeed::Nothing;
    /// The protocol by which the scheme negotiates a rate with the network, if any: a transport that implements the
    /// protocol delivers the network's responses as [`RateAdvice`].
    const RATE_PROTOCOL: Option<&'static str> = None;
    /// The feedback that the scheme expects from a receiver of datagrams.
    const FEEDBACK: Feedback = Feedback::Packets;
    /// Whether cwnd depends on the sibling subflows of the connection, which a multipath transport passes to
    /// [`CongestionControl::on_paths`]. Without such calls the scheme runs as a single flow.
    const COUPLED: bool = false;

    /// A scheme at the start of a connection.
    fn new(setup: &Setup) -> Self;
}
