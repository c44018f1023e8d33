//! Sender and receiver endpoint of a flow, for TCP and DCCP.
//!
//! An endpoint takes a few bytes before the flow starts. The event loop opens the endpoint when the flow starts, and
//! replaces a TCP endpoint by its counters when the connection has closed: a run may have many more flows in total than
//! at any one time. Endpoints are boxed for this reason; the boxes slow runs of ten thousand flows by about a tenth.
//! The fields are ordered by use: a packet accesses five cache lines of a receiver, and an acknowledgement about 20
//! cache lines of a sender.

use std::sync::LazyLock;

use narrows_cc::{Bytes, Nanos, Telemetry};
use narrows_packet::Packet;
use narrows_tcp::multipath::HasSender;
use narrows_tcp::{AckOutcome, Receiver, ReceiverStats, Sender};

use crate::arena::PayloadArena;
use crate::datagrams::{Arrivals, DatagramReceiver, DatagramSender};
use crate::external::{ExternalReceiver, ExternalSender};
use crate::sender_view::SenderView;

/// The sender endpoint of a flow.
#[derive(Debug)]
pub enum SenderEndpoint {
    /// The flow starts at this time.
    Waiting(Nanos),
    /// TCP, or a subflow of a multipath connection.
    Stream(Box<Sender>),
    /// DCCP.
    Datagrams(Box<DatagramSender>),
    /// A closed TCP connection.
    Ended(Box<Ended<SenderView>>),
    /// A real host.
    External(Box<dyn ExternalSender>),
}

/// The receiver endpoint of a flow.
#[derive(Debug)]
pub enum ReceiverEndpoint {
    /// The flow has not started.
    Waiting,
    /// TCP, or a subflow of a multipath connection.
    Stream(Box<Receiver>),
    /// DCCP.
    Datagrams(Box<DatagramReceiver>),
    /// A closed TCP connection. It ignores packets that are still in the network.
    Ended(Box<Ended<ReceiverStats>>),
    /// A real host.
    External(Box<dyn ExternalReceiver>),
}

/// A closed endpoint: its counters, and its memory in bytes.
#[derive(Debug)]
pub struct Ended<T> {
    counters: T,
    memory: usize,
}

/// Counters of a flow that has not started.
static NOTHING_RECEIVED: LazyLock<ReceiverStats> = LazyLock::new(ReceiverStats::default);

/// Evaluates `$call` on an open TCP or DCCP endpoint, and `$otherwise` on any other.
macro_rules! open {
    ($value:expr, $end:ident => $call:expr, $otherwise:expr) => {
        match $value {
            Self::Stream($end) => $call,
            Self::Datagrams($end) => $call,
            Self::Waiting { .. } | Self::Ended(_) | Self::External(_) => $otherwise,
        }
    };
}

impl SenderEndpoint {
    /// Processes an arriving packet.
    #[inline]
    pub fn on_packet(&mut self, now: Nanos, packet: &Packet, arena: &mut PayloadArena) -> AckOutcome {
        match self {
            Self::Stream(end) => end.on_packet(now, packet),
            Self::Datagrams(end) => end.on_packet(now, packet, arena),
            Self::External(end) => end.on_received(now, packet, arena.bytes(packet)),
            Self::Waiting(_) | Self::Ended(_) => AckOutcome::default(),
        }
    }

    /// Processes expired timers.
    #[inline]
    pub fn on_timer(&mut self, now: Nanos) {
        open!(self, end => end.on_timer(now), ());
    }

    /// Next packet to send, if one may leave now.
    #[inline]
    pub fn poll_transmit(&mut self, now: Nanos, arena: &mut PayloadArena) -> Option<Packet> {
        match self {
            Self::Stream(end) => end.poll_transmit(now),
            Self::Datagrams(end) => end.poll_transmit(now, arena),
            Self::Waiting { .. } | Self::Ended(_) | Self::External(_) => None,
        }
    }

    /// Time of the next timer.
    #[inline]
    pub fn deadline(&self) -> Nanos {
        match self {
            Self::Waiting(start) => *start,
            Self::Stream(end) => end.deadline(),
            Self::Datagrams(end) => end.deadline(),
            Self::Ended(_) | Self::External(_) => Nanos::MAX,
        }
    }

    /// Stops the application; a flow that has not started never starts.
    pub fn stop(&mut self, now: Nanos) {
        match self {
            Self::Waiting(start) => *start = Nanos::MAX,
            Self::Stream(end) => end.stop(now),
            Self::Datagrams(end) => end.stop(now),
            Self::External(end) => end.stop(now),
            Self::Ended(_) => {}
        }
    }

    /// Replaces a TCP sender that has closed for good by its counters; returns whether the sender was replaced.
    #[inline]
    pub fn retire(&mut self) -> bool {
        let Self::Stream(end) = self else { return false };
        if !end.is_finished() {
            return false;
        }
        *self = Self::Ended(Box::new(Ended { counters: SenderView::of_stream(end).ended(), memory: end.memory() }));
        true
    }

    /// The sender's counters and current values. [`SenderEndpoint::inflight`], needed at every packet, and
    /// [`SenderEndpoint::completed_at`], needed at every bin, read one value without building a view.
    pub fn view(&self) -> SenderView {
        match self {
            Self::Waiting(start) => SenderView::idle(*start == Nanos::MAX),
            Self::Stream(end) => SenderView::of_stream(end),
            Self::Datagrams(end) => end.view(),
            Self::Ended(end) => end.counters,
            Self::External(end) => end.view(),
        }
    }

    /// Whether the sender is a real host.
    pub const fn is_external(&self) -> bool {
        matches!(self, Self::External(_))
    }

    /// Prefetches the state that acknowledgements access; see [`Sender::prefetch`].
    #[inline]
    pub fn prefetch(&self) {
        if let Self::Stream(end) = self {
            end.prefetch();
        }
    }

    /// Prefetches further memory that `packet` accesses; see [`Sender::prefetch_records`].
    #[inline]
    pub fn prefetch_records(&self, packet: &Packet) {
        if let Self::Stream(end) = self {
            end.prefetch_records(packet);
        }
    }

    /// Memory in bytes; for DCCP, its peak.
    pub fn memory(&self) -> usize {
        match self {
            Self::Waiting(_) => 0,
            Self::Stream(end) => end.memory(),
            Self::Datagrams(end) => end.memory(),
            Self::Ended(end) => end.memory,
            Self::External(_) => 0,
        }
    }

    /// Reports named internals of the scheme.
    pub fn telemetry(&self, sink: Telemetry<'_>) {
        match self {
            Self::Stream(end) => end.scheme().telemetry(sink),
            Self::Datagrams(end) => end.telemetry(sink),
            Self::External(end) => end.telemetry(sink),
            Self::Waiting(_) | Self::Ended(_) => {}
        }
    }

    /// Data in flight.
    #[inline]
    pub fn inflight(&self) -> Bytes {
        match self {
            Self::External(end) => end.inflight(),
            _ => open!(self, end => end.inflight(), Bytes::ZERO),
        }
    }

    /// See [`SenderView::completed_at`].
    #[inline]
    pub fn completed_at(&self) -> Option<Nanos> {
        match self {
            Self::Waiting(_) => None,
            Self::Stream(end) => end.completed_at(),
            Self::Datagrams(end) => end.completed_at(),
            Self::Ended(end) => end.counters.completed_at,
            Self::External(end) => end.completed_at(),
        }
    }
}

/// Subflows of a multipath connection use TCP.
impl HasSender for SenderEndpoint {
    #[inline]
    fn sender(&self) -> &Sender {
        let Self::Stream(end) = self else { unreachable!("subflows use TCP") };
        end
    }

    #[inline]
    fn sender_mut(&mut self) -> &mut Sender {
        let Self::Stream(end) = self else { unreachable!("subflows use TCP") };
        end
    }
}

impl ReceiverEndpoint {
    /// Processes an arriving packet.
    #[inline]
    pub fn on_packet(&mut self, now: Nanos, packet: &Packet, arena: &mut PayloadArena) {
        match self {
            Self::Stream(end) => _ = end.on_packet(now, packet),
            Self::Datagrams(end) => end.on_packet(now, packet, arena),
            Self::External(end) => end.on_received(now, packet, arena.bytes(packet)),
            Self::Waiting | Self::Ended(_) => {}
        }
    }

    /// Processes expired timers.
    #[inline]
    pub fn on_timer(&mut self, now: Nanos) {
        open!(self, end => end.on_timer(now), ());
    }

    /// Next packet to send, if one may leave now.
    #[inline]
    pub fn poll_transmit(&mut self, now: Nanos, arena: &mut PayloadArena) -> Option<Packet> {
        match self {
            Self::Stream(end) => end.poll_transmit(now),
            Self::Datagrams(end) => end.poll_transmit(now, arena),
            Self::Waiting { .. } | Self::Ended(_) | Self::External(_) => None,
        }
    }

    /// Time of the next timer.
    #[inline]
    pub fn deadline(&self) -> Nanos {
        open!(self, end => end.deadline(), Nanos::MAX)
    }

    /// Counters.
    #[inline]
    pub fn stats(&self) -> &ReceiverStats {
        match self {
            Self::Waiting => &NOTHING_RECEIVED,
            Self::Stream(end) => end.stats(),
            Self::Datagrams(end) => end.stats(),
            Self::Ended(end) => &end.counters,
            Self::External(end) => end.stats(),
        }
    }

    /// Memory in bytes; for DCCP, its peak.
    pub fn memory(&self) -> usize {
        match self {
            Self::Waiting => 0,
            Self::Stream(end) => end.memory(),
            Self::Datagrams(end) => end.memory(),
            Self::Ended(end) => end.memory,
            Self::External(_) => 0,
        }
    }

    /// Restarts the measurement of datagram delays.
    pub fn clear_delays(&mut self) {
        if let Self::Datagrams(end) = self {
            end.clear_delays();
        }
    }

    /// Received datagrams; `None` for TCP.
    pub fn datagrams(&self) -> Option<&Arrivals> {
        match self {
            Self::Datagrams(end) => Some(end.arrivals()),
            _ => None,
        }
    }

    /// Replaces a TCP receiver by its counters. Called when the flow's sender has closed for good.
    pub fn retire(&mut self) {
        if let Self::Stream(end) = self {
            *self = Self::Ended(Box::new(Ended { counters: *end.stats(), memory: end.memory() }));
        }
    }

    /// Prefetches the state that packets access; see [`Receiver::prefetch`].
    #[inline]
    pub fn prefetch(&self) {
        if let Self::Stream(end) = self {
            end.prefetch();
        }
    }

    /// Prefetches further memory that `packet` accesses; see [`Receiver::prefetch_ranges`].
    #[inline]
    pub fn prefetch_ranges(&self, packet: &Packet) {
        if let Self::Stream(end) = self {
            end.prefetch_ranges(packet);
        }
    }
}
