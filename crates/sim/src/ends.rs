//! Sender and receiver endpoint of a flow, for TCP and DCCP.
//!
//! An endpoint takes a few bytes before the flow starts. The event loop opens it at its start, and replaces it
//! by its counters when a TCP connection has closed: a run may have many more flows in total than at a time.

use std::sync::LazyLock;

use narrows_cc::{Bytes, Nanos, Rate, Telemetry};
use narrows_packet::Packet;
use narrows_tcp::{AckOutcome, Receiver, ReceiverStats, Sender, SenderStats};

use crate::arena::PayloadArena;
use crate::datagrams;
use crate::foreign::{ForeignReceiver, ForeignSender};

/// The sender endpoint of a flow.
#[derive(Debug)]
pub enum SenderEndpoint {
    /// The flow starts at this time.
    Waiting(Nanos),
    /// TCP, or a subflow of a multipath connection.
    Stream(Box<Sender>),
    /// DCCP.
    Datagrams(Box<datagrams::DatagramSender>),
    /// What remains of a TCP connection that has closed.
    Ended(Box<EndedSender>),
    /// A real host.
    Foreign(Box<dyn ForeignSender>),
}

/// The receiver endpoint of a flow.
#[derive(Debug)]
pub enum ReceiverEndpoint {
    /// The flow has not started.
    Waiting,
    /// TCP, or a subflow of a multipath connection.
    Stream(Box<Receiver>),
    /// DCCP.
    Datagrams(Box<datagrams::DatagramReceiver>),
    /// What remains of a TCP connection that has closed. It ignores packets that are still in the network.
    Ended(Box<EndedReceiver>),
    /// A real host.
    Foreign(Box<dyn ForeignReceiver>),
}

/// What remains of a sender.
#[derive(Debug)]
pub struct EndedSender {
    stats: SenderStats,
    first_data_at: Option<Nanos>,
    completed_at: Option<Nanos>,
    memory: usize,
}

/// What remains of a receiver.
#[derive(Debug)]
pub struct EndedReceiver {
    stats: ReceiverStats,
    memory: usize,
}

/// Counters of a flow that has not started.
static NOTHING_SENT: LazyLock<SenderStats> = LazyLock::new(SenderStats::default);
static NOTHING_RECEIVED: LazyLock<ReceiverStats> = LazyLock::new(ReceiverStats::default);

/// Calls an open endpoint; otherwise the value.
macro_rules! open {
    ($value:expr, $end:ident => $call:expr, $otherwise:expr) => {
        match $value {
            Self::Stream($end) => $call,
            Self::Datagrams($end) => $call,
            Self::Waiting { .. } | Self::Ended(_) | Self::Foreign(_) => $otherwise,
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
            Self::Foreign(end) => end.on_received(now, packet, arena.bytes(packet)),
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
            Self::Waiting { .. } | Self::Ended(_) | Self::Foreign(_) => None,
        }
    }

    /// Time of the next timer.
    #[inline]
    pub fn deadline(&self) -> Nanos {
        match self {
            Self::Waiting(start) => *start,
            Self::Stream(end) => end.deadline(),
            Self::Datagrams(end) => end.deadline(),
            Self::Ended(_) | Self::Foreign(_) => Nanos::MAX,
        }
    }

    /// Stops the application; a flow that has not started never starts.
    pub fn stop(&mut self, now: Nanos) {
        match self {
            Self::Waiting(start) => *start = Nanos::MAX,
            Self::Stream(end) => end.stop(now),
            Self::Datagrams(end) => end.stop(now),
            Self::Foreign(end) => end.stop(now),
            Self::Ended(_) => {}
        }
    }

    /// Replaces a TCP sender that has closed for good by its counters; returns whether it did.
    #[inline]
    pub fn retire(&mut self) -> bool {
        let Self::Stream(end) = self else { return false };
        if !end.is_finished() {
            return false;
        }
        *self = Self::Ended(Box::new(EndedSender {
            stats: *end.stats(),
            first_data_at: end.first_data_at(),
            completed_at: end.completed_at(),
            memory: end.memory(),
        }));
        true
    }

    /// Counters.
    #[inline]
    pub fn stats(&self) -> &SenderStats {
        match self {
            Self::Waiting(_) => &NOTHING_SENT,
            Self::Stream(end) => end.stats(),
            Self::Datagrams(end) => end.stats(),
            Self::Ended(end) => &end.stats,
            Self::Foreign(end) => end.stats(),
        }
    }

    /// Retransmission timeouts; `None` if a host does not count them.
    pub fn timeouts(&self) -> Option<u64> {
        match self {
            Self::Foreign(end) => end.timeouts(),
            _ => Some(self.stats().timeouts),
        }
    }

    /// Whether it is a real host.
    pub const fn is_foreign(&self) -> bool {
        matches!(self, Self::Foreign(_))
    }

    /// See [`Sender::used_lines`].
    pub fn used_lines(&self) -> usize {
        if let Self::Stream(end) = self { end.used_lines() } else { 0 }
    }

    /// Prefetches what acknowledgements access in the sender; see [`Sender::prefetch`].
    #[inline]
    pub fn prefetch(&self, lines: usize) {
        if let Self::Stream(end) = self {
            end.prefetch(lines);
        }
    }

    /// Prefetches what `packet` accesses besides; see [`Sender::prefetch_records`].
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
            Self::Foreign(_) => 0,
        }
    }

    /// Reports named internals of the scheme.
    pub fn telemetry(&self, sink: Telemetry<'_>) {
        match self {
            Self::Stream(end) => end.scheme().telemetry(sink),
            Self::Datagrams(end) => end.telemetry(sink),
            Self::Foreign(end) => end.telemetry(sink),
            Self::Waiting(_) | Self::Ended(_) => {}
        }
    }

    /// Data in flight.
    #[inline]
    pub fn inflight(&self) -> Bytes {
        match self {
            Self::Foreign(end) => end.inflight(),
            _ => open!(self, end => end.inflight(), Bytes::ZERO),
        }
    }

    /// Current congestion window; zero without a connection, `None` if a host has not reported it.
    pub fn window(&self) -> Option<Bytes> {
        match self {
            Self::Foreign(end) => end.window(),
            _ => Some(open!(self, end => end.window(), Bytes::ZERO)),
        }
    }

    /// Current pacing rate in payload bytes per second.
    pub fn pacing_rate(&self) -> Option<Rate> {
        match self {
            Self::Foreign(end) => end.pacing_rate(),
            _ => open!(self, end => end.pacing_rate(), None),
        }
    }

    /// Smoothed round-trip time; `None` before the first sample.
    pub fn srtt(&self) -> Option<Nanos> {
        match self {
            Self::Foreign(end) => end.srtt(),
            _ => open!(self, end => end.srtt(), None),
        }
    }

    /// Departure time of the first data packet.
    pub fn first_data_at(&self) -> Option<Nanos> {
        match self {
            Self::Waiting(_) => None,
            Self::Stream(end) => end.first_data_at(),
            Self::Datagrams(end) => end.first_data_at(),
            Self::Ended(end) => end.first_data_at,
            Self::Foreign(end) => end.first_data_at(),
        }
    }

    /// Completion time of a finite flow: for TCP, all data was acknowledged; for DCCP, which may lose
    /// datagrams, the peer confirmed the close.
    pub fn completed_at(&self) -> Option<Nanos> {
        match self {
            Self::Waiting(_) => None,
            Self::Stream(end) => end.completed_at(),
            Self::Datagrams(end) => end.completed_at(),
            Self::Ended(end) => end.completed_at,
            Self::Foreign(end) => end.completed_at(),
        }
    }

    /// Datagrams dropped for lack of space in the send queue.
    pub fn unsent(&self) -> u64 {
        match self {
            Self::Datagrams(end) => end.unsent(),
            _ => 0,
        }
    }

    /// Whether the endpoint has ended.
    pub fn is_closed(&self) -> bool {
        match self {
            Self::Waiting(start) => *start == Nanos::MAX,
            Self::Stream(end) => end.is_closed(),
            Self::Datagrams(end) => end.is_closed(),
            Self::Foreign(end) => end.completed_at().is_some(),
            Self::Ended(_) => true,
        }
    }
}

/// Subflows of a multipath connection use TCP.
impl AsRef<Sender> for SenderEndpoint {
    #[inline]
    fn as_ref(&self) -> &Sender {
        match self {
            Self::Stream(end) => end,
            _ => unreachable!("subflows use TCP"),
        }
    }
}

impl AsMut<Sender> for SenderEndpoint {
    #[inline]
    fn as_mut(&mut self) -> &mut Sender {
        match self {
            Self::Stream(end) => end,
            _ => unreachable!("subflows use TCP"),
        }
    }
}

impl AsMut<Receiver> for ReceiverEndpoint {
    #[inline]
    fn as_mut(&mut self) -> &mut Receiver {
        match self {
            Self::Stream(end) => end,
            _ => unreachable!("subflows use TCP"),
        }
    }
}

impl ReceiverEndpoint {
    /// Processes an arriving packet.
    #[inline]
    pub fn on_packet(&mut self, now: Nanos, packet: &Packet, arena: &mut PayloadArena) {
        match self {
            Self::Stream(end) => _ = end.on_packet(now, packet),
            Self::Datagrams(end) => end.on_packet(now, packet, arena),
            Self::Foreign(end) => end.on_received(now, packet, arena.bytes(packet)),
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
            Self::Waiting { .. } | Self::Ended(_) | Self::Foreign(_) => None,
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
            Self::Ended(end) => &end.stats,
            Self::Foreign(end) => end.stats(),
        }
    }

    /// Memory in bytes; for DCCP, its peak.
    pub fn memory(&self) -> usize {
        match self {
            Self::Waiting => 0,
            Self::Stream(end) => end.memory(),
            Self::Datagrams(end) => end.memory(),
            Self::Ended(end) => end.memory,
            Self::Foreign(_) => 0,
        }
    }

    /// Restarts the measurement of datagram delays.
    pub fn clear_delays(&mut self) {
        if let Self::Datagrams(end) = self {
            end.clear_delays();
        }
    }

    /// Received datagrams; `None` for TCP.
    pub fn datagrams(&self) -> Option<&datagrams::Arrivals> {
        match self {
            Self::Datagrams(end) => Some(end.arrivals()),
            _ => None,
        }
    }

    /// Replaces a TCP receiver by its counters: its sender has closed for good.
    pub fn retire(&mut self) {
        if let Self::Stream(end) = self {
            *self = Self::Ended(Box::new(EndedReceiver { stats: *end.stats(), memory: end.memory() }));
        }
    }

    /// Prefetches what the next packet accesses in the endpoint.
    #[inline]
    pub fn prefetch(&self) {
        if let Self::Stream(end) = self {
            end.prefetch();
        }
    }

    /// Prefetches what `packet` accesses besides; see [`Receiver::prefetch_ranges`].
    #[inline]
    pub fn prefetch_ranges(&self, packet: &Packet) {
        if let Self::Stream(end) = self {
            end.prefetch_ranges(packet);
        }
    }
}
