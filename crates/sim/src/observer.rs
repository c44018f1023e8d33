//! Observers of a run. The event loop passes events and samples to an observer, which writes files or draws
//! charts; the loop itself does no I/O.

use narrows_cc::{Bytes, Nanos, Phase, Telemetry};
use narrows_packet::Packet;
use narrows_tcp::{CaState, ReceiverStats, TcpInfo};

use crate::Link;
use crate::arena::PayloadArena;
use crate::ends::{ReceiverEndpoint, SenderEndpoint};
use crate::external::PacketReport;
use crate::metrics::Metrics;
use crate::sender_view::SenderView;

/// Kind of a packet event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PacketEvent {
    /// The packet left its sender.
    Send,
    /// The packet reached its receiver.
    Deliver,
    /// The network dropped the packet.
    Drop,
    /// An acknowledgement reached the sender.
    Ack,
}

impl PacketEvent {
    /// Name in traces.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Send => "send",
            Self::Deliver => "deliver",
            Self::Drop => "drop",
            Self::Ack => "ack",
        }
    }
}

/// Direction of a packet at a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Passage {
    /// The packet leaves the host: the sender's or, with [`narrows_packet::Flags::REVERSE`], the receiver's.
    Leaves,
    /// The packet arrives at the host.
    Arrives,
}

/// Declares the events of a run: the trait, and its implementations that forward events to other observers.
macro_rules! events {
    ($($(#[$doc:meta])* $event:ident($($argument:ident: $Type:ty),+);)+) => {
        /// Observes a run. All methods do nothing by default; `()` observes nothing at no cost.
        pub trait Observer {
            $($(#[$doc])*
            #[inline]
            fn $event(&mut self, $($argument: $Type),+) {
                let _ = ($($argument,)+);
            })+
        }

        impl<O: Observer> Observer for &mut O {
            $(#[inline]
            fn $event(&mut self, $($argument: $Type),+) {
                (**self).$event($($argument),+);
            })+
        }

        /// Forwards events to the observer, if there is one.
        impl<O: Observer> Observer for Option<O> {
            $(#[inline]
            fn $event(&mut self, $($argument: $Type),+) {
                if let Some(observer) = self {
                    observer.$event($($argument),+);
                }
            })+
        }

        /// Forwards each event to two observers in order.
        impl<A: Observer, B: Observer> Observer for (A, B) {
            $(#[inline]
            fn $event(&mut self, $($argument: $Type),+) {
                self.0.$event($($argument),+);
                self.1.$event($($argument),+);
            })+
        }
    };
}

events! {
    /// Called at each packet event; for drops, `link` is the dropping link.
    packet(now: Nanos, event: PacketEvent, link: Option<u32>, packet: &Packet);
    /// Called for each packet that leaves or reaches a host, acknowledgements and control messages included.
    /// `arena` stores the bytes of DCCP packets and of real hosts' packets.
    passage(now: Nanos, passage: Passage, packet: &Packet, arena: &PayloadArena);
    /// Called when a sender has processed an acknowledgement or a timer, before it sends.
    processed(now: Nanos, flow: u32, flows: Flows<'_>);
    /// Called when a sender has sent all packets that it may send now; for real hosts, after every packet.
    transmitted(now: Nanos, flow: u32, flows: Flows<'_>);
    /// Called at each sample time; see [`narrows_scenario::TracePlan::samples`]. `links` holds all links by number,
    /// including those without a row in the results; they are mutable because reading a link may update its counters.
    sample(now: Nanos, flows: Flows<'_>, links: &mut [Link]);
    /// Called at the end of the warm-up, before the counters of links are reset.
    before_reset(now: Nanos, links: &mut [Link]);
}

impl Observer for () {}

/// The state of all flows at one time. It is computed when read, so it costs nothing if unread.
#[derive(Clone, Copy, Debug)]
pub struct Flows<'a> {
    pub(crate) senders: &'a [SenderEndpoint],
    pub(crate) receivers: &'a [ReceiverEndpoint],
    pub(crate) metrics: &'a Metrics,
}

impl<'a> Flows<'a> {
    /// A flow, by its number.
    pub fn get(self, flow: u32) -> FlowState<'a> {
        let flow = flow as usize;
        FlowState {
            sender: &self.senders[flow],
            receiver: &self.receivers[flow],
            last_rtt: self.metrics.last_rtt(flow),
        }
    }

    /// All flows, by number.
    pub fn iter(self) -> impl ExactSizeIterator<Item = FlowState<'a>> {
        (0..self.senders.len()).map(move |flow| self.get(flow as u32))
    }
}

/// State of loss detection and recovery. Values that a transport or host does not show are `None`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RecoveryState {
    /// Mean deviation of the round-trip time.
    pub rtt_variation: Option<Nanos>,
    /// Minimum round-trip time.
    pub min_rtt: Option<Nanos>,
    /// Slow-start threshold; also `None` before slow start has ended for the first time.
    pub ssthresh: Option<Bytes>,
    /// Consecutive expiries of the retransmission timer.
    pub timeouts: Option<u32>,
    /// Whether the sender retransmits lost packets or reduces its congestion window in response to an ECN mark.
    pub recovering: Option<bool>,
}

/// The state of one flow.
#[derive(Clone, Copy, Debug)]
pub struct FlowState<'a> {
    sender: &'a SenderEndpoint,
    receiver: &'a ReceiverEndpoint,
    last_rtt: Nanos,
}

impl FlowState<'_> {
    /// The sender.
    pub fn sender(&self) -> SenderView {
        self.sender.view()
    }

    /// Counters of the receiver.
    pub fn receiver(&self) -> &ReceiverStats {
        self.receiver.stats()
    }

    /// Latest and smoothed round-trip time, given the sender's view; `None` before the first sample.
    pub fn rtt(&self, sender: &SenderView) -> Option<(Nanos, Nanos)> {
        sender.srtt.filter(|_| !self.last_rtt.is_zero()).map(|srtt| (self.last_rtt, srtt))
    }

    /// The sender's `TCP_INFO` once the connection is established; `None` for datagrams. The call visits every
    /// outstanding packet.
    pub fn info(&self) -> Option<TcpInfo> {
        match self.sender {
            SenderEndpoint::Stream(sender) => sender.established_at().map(|_| sender.info()),
            SenderEndpoint::External(sender) => sender.info(),
            _ => None,
        }
    }

    /// Whether the sender is a real host.
    pub fn is_external(&self) -> bool {
        self.sender.is_external()
    }

    /// First sequence numbers of the packets declared lost and not yet retransmitted, lowest first; none for
    /// datagrams and real hosts. The iterator visits every outstanding packet.
    pub fn lost(&self) -> impl Iterator<Item = u64> {
        let sender = if let SenderEndpoint::Stream(sender) = self.sender { Some(sender) } else { None };
        sender.into_iter().flat_map(|sender| sender.lost())
    }

    /// See [`ExternalSender::reports`](crate::external::ExternalSender::reports).
    pub fn reports(&self) -> Option<(u64, &[PacketReport])> {
        if let SenderEndpoint::External(sender) = self.sender { sender.reports() } else { None }
    }

    /// State of loss detection and recovery.
    pub fn recovery(&self) -> RecoveryState {
        match self.sender {
            SenderEndpoint::Stream(sender) => {
                let (rtt_variation, min_rtt) = sender.rtt_spread();
                RecoveryState {
                    rtt_variation,
                    min_rtt,
                    ssthresh: sender.ssthresh(),
                    timeouts: Some(sender.timeouts_in_a_row()),
                    recovering: Some(sender.phase() != Phase::Open),
                }
            }
            SenderEndpoint::External(sender) => {
                sender.info().map_or_else(RecoveryState::default, |info| RecoveryState {
                    rtt_variation: info.rttvar,
                    min_rtt: info.min_rtt,
                    ssthresh: info.ssthresh,
                    timeouts: Some(info.timeouts),
                    recovering: Some(info.ca_state >= CaState::Cwr),
                })
            }
            _ => RecoveryState::default(),
        }
    }

    /// Reports named internals of the scheme.
    pub fn telemetry(&self, sink: Telemetry<'_>) {
        self.sender.telemetry(sink);
    }
}
