//! Sender and receiver endpoint of a flow, for TCP and DCCP.

use narrows_cc::{Bytes, Nanos, Rate, Telemetry};
use narrows_packet::Packet;
use narrows_tcp::{AckOutcome, Receiver, ReceiverStats, Sender, SenderStats};

use crate::datagrams::{self, PayloadArena};

/// The sender endpoint of a flow.
#[derive(Debug)]
#[allow(clippy::large_enum_variant)] // the common one is large, and indirection would cost a cache miss per packet
pub enum SenderEndpoint {
    /// TCP, or a subflow of a multipath connection.
    Stream(Sender),
    /// DCCP.
    Datagrams(Box<datagrams::DatagramSender>),
}

/// The receiver endpoint of a flow.
#[derive(Debug)]
#[allow(clippy::large_enum_variant)]
pub enum ReceiverEndpoint {
    /// TCP, or a subflow of a multipath connection.
    Stream(Receiver),
    /// DCCP.
    Datagrams(Box<datagrams::DatagramReceiver>),
}

macro_rules! either {
    ($value:expr, $end:ident => $call:expr) => {
        match $value {
            Self::Stream($end) => $call,
            Self::Datagrams($end) => $call,
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
        }
    }

    /// Processes expired timers.
    #[inline]
    pub fn on_timer(&mut self, now: Nanos) {
        either!(self, end => end.on_timer(now));
    }

    /// Next packet to send, if one may leave now.
    #[inline]
    pub fn poll_transmit(&mut self, now: Nanos, arena: &mut PayloadArena) -> Option<Packet> {
        match self {
            Self::Stream(end) => end.poll_transmit(now),
            Self::Datagrams(end) => end.poll_transmit(now, arena),
        }
    }

    /// Time of the next timer.
    #[inline]
    pub fn deadline(&self) -> Nanos {
        either!(self, end => end.deadline())
    }

    /// Stops the application.
    pub fn stop(&mut self, now: Nanos) {
        either!(self, end => end.stop(now));
    }

    /// Counters.
    #[inline]
    pub fn stats(&self) -> &SenderStats {
        either!(self, end => end.stats())
    }

    /// Cache lines of this value that acknowledgements access.
    pub fn used_lines(&self) -> usize {
        let unused = match self {
            Self::Stream(end) => size_of_val(end) - end.used_bytes(),
            Self::Datagrams(_) => 0,
        };
        (size_of::<Self>() - unused).div_ceil(64)
    }

    /// Prefetches the memory that the next acknowledgement accesses.
    #[inline]
    pub fn prefetch(&self) {
        if let Self::Stream(end) = self {
            end.prefetch();
        }
    }

    /// Memory in bytes; for DCCP, its peak.
    pub fn memory(&self) -> usize {
        either!(self, end => end.memory())
    }

    /// Reports named internals of the scheme.
    pub fn telemetry(&self, sink: Telemetry<'_>) {
        match self {
            Self::Stream(end) => end.scheme().telemetry(sink),
            Self::Datagrams(end) => end.telemetry(sink),
        }
    }

    /// Data in flight.
    #[inline]
    pub fn inflight(&self) -> Bytes {
        either!(self, end => end.inflight())
    }

    /// Current congestion window.
    pub fn window(&self) -> Bytes {
        either!(self, end => end.window())
    }

    /// Current pacing rate in payload bytes per second.
    pub fn pacing_rate(&self) -> Option<Rate> {
        either!(self, end => end.pacing_rate())
    }

    /// Smoothed round-trip time; `None` before the first sample.
    pub fn srtt(&self) -> Option<Nanos> {
        either!(self, end => end.srtt())
    }

    /// Departure time of the first data packet.
    pub fn first_data_at(&self) -> Option<Nanos> {
        either!(self, end => end.first_data_at())
    }

    /// Completion time of a finite flow: for TCP, all data was acknowledged; for DCCP, which may lose
    /// datagrams, the peer confirmed the close.
    pub fn completed_at(&self) -> Option<Nanos> {
        either!(self, end => end.completed_at())
    }

    /// Datagrams dropped for lack of space in the send queue.
    pub fn unsent(&self) -> u64 {
        match self {
            Self::Stream(_) => 0,
            Self::Datagrams(end) => end.unsent(),
        }
    }

    /// Whether the endpoint has ended.
    pub fn is_closed(&self) -> bool {
        either!(self, end => end.is_closed())
    }
}

/// Subflows of a multipath connection use TCP.
impl AsRef<Sender> for SenderEndpoint {
    #[inline]
    fn as_ref(&self) -> &Sender {
        match self {
            Self::Stream(end) => end,
            Self::Datagrams(_) => unreachable!("subflows use TCP"),
        }
    }
}

impl AsMut<Sender> for SenderEndpoint {
    #[inline]
    fn as_mut(&mut self) -> &mut Sender {
        match self {
            Self::Stream(end) => end,
            Self::Datagrams(_) => unreachable!("subflows use TCP"),
        }
    }
}

impl AsMut<Receiver> for ReceiverEndpoint {
    #[inline]
    fn as_mut(&mut self) -> &mut Receiver {
        match self {
            Self::Stream(end) => end,
            Self::Datagrams(_) => unreachable!("subflows use TCP"),
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
        }
    }

    /// Processes expired timers.
    #[inline]
    pub fn on_timer(&mut self, now: Nanos) {
        either!(self, end => end.on_timer(now));
    }

    /// Next packet to send, if one may leave now.
    #[inline]
    pub fn poll_transmit(&mut self, now: Nanos, arena: &mut PayloadArena) -> Option<Packet> {
        match self {
            Self::Stream(end) => end.poll_transmit(now),
            Self::Datagrams(end) => end.poll_transmit(now, arena),
        }
    }

    /// Time of the next timer.
    #[inline]
    pub fn deadline(&self) -> Nanos {
        either!(self, end => end.deadline())
    }

    /// Counters.
    #[inline]
    pub fn stats(&self) -> &ReceiverStats {
        either!(self, end => end.stats())
    }

    /// Memory in bytes; for DCCP, its peak.
    pub fn memory(&self) -> usize {
        either!(self, end => end.memory())
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
            Self::Stream(_) => None,
            Self::Datagrams(end) => Some(end.arrivals()),
        }
    }
}
