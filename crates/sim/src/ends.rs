//! The two ends of a flow, whatever its transport: where data comes from, and where it goes.

use narrows_cc::{Bytes, Nanos, Rate, Telemetry};
use narrows_dccp::Connection;
use narrows_packet::Packet;
use narrows_tcp::{AckOutcome, Receiver, ReceiverStats, Sender, SenderStats};

use crate::datagrams::{self, Bodies};

/// Where the data of a flow comes from.
#[derive(Debug)]
#[allow(clippy::large_enum_variant)] // the common one is large, and indirection would cost a cache miss per packet
pub enum Origin {
    /// The sender of a reliable stream.
    Stream(Sender),
    /// The sending end of a connection that carries datagrams.
    Datagrams(Box<datagrams::Origin>),
}

/// Where the data of a flow goes.
#[derive(Debug)]
#[allow(clippy::large_enum_variant)]
pub enum Target {
    /// The receiver of a reliable stream.
    Stream(Receiver),
    /// The receiving end of a connection that carries datagrams.
    Datagrams(Box<datagrams::Target>),
}

macro_rules! either {
    ($value:expr, $end:ident => $call:expr) => {
        match $value {
            Self::Stream($end) => $call,
            Self::Datagrams($end) => $call,
        }
    };
}

impl Origin {
    /// A packet arrives.
    #[inline]
    pub fn on_packet(&mut self, now: Nanos, packet: &Packet, bodies: &mut Bodies) -> AckOutcome {
        match self {
            Self::Stream(end) => end.on_packet(now, packet),
            Self::Datagrams(end) => end.on_packet(now, packet, bodies),
        }
    }

    /// Its deadline is reached.
    #[inline]
    pub fn on_timer(&mut self, now: Nanos) {
        either!(self, end => end.on_timer(now));
    }

    /// The next packet to leave, if there is one now.
    #[inline]
    pub fn poll_transmit(&mut self, now: Nanos, bodies: &mut Bodies) -> Option<Packet> {
        match self {
            Self::Stream(end) => end.poll_transmit(now),
            Self::Datagrams(end) => end.poll_transmit(now, bodies),
        }
    }

    /// When it wants to act next.
    #[inline]
    pub fn deadline(&self) -> Nanos {
        either!(self, end => end.deadline())
    }

    /// Its application stops.
    pub fn stop(&mut self, now: Nanos) {
        either!(self, end => end.stop(now));
    }

    /// What it did.
    #[inline]
    pub fn stats(&self) -> &SenderStats {
        either!(self, end => end.stats())
    }

    /// Asks for the memory that the next acknowledgement will touch.
    #[inline]
    pub fn prefetch(&self) {
        if let Self::Stream(end) = self {
            end.prefetch();
        }
    }

    /// Bytes of memory it takes.
    pub fn memory(&self) -> usize {
        either!(self, end => end.memory())
    }

    /// Named internals of its scheme.
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

    /// The window in force.
    pub fn window(&self) -> Bytes {
        either!(self, end => end.window())
    }

    /// The pacing rate in force, in payload bytes per second.
    pub fn pacing_rate(&self) -> Option<Rate> {
        either!(self, end => end.pacing_rate())
    }

    /// Smoothed round-trip time, zero before the first sample.
    pub fn srtt(&self) -> Nanos {
        either!(self, end => end.srtt())
    }

    /// When its first data packet left.
    pub fn first_data_at(&self) -> Option<Nanos> {
        either!(self, end => end.first_data_at())
    }

    /// When a flow with an end of its own had reached it: all data of a stream was acknowledged, or a connection of datagrams,
    /// which may have lost some, was closed by the other side's word.
    pub fn completed_at(&self) -> Option<Nanos> {
        either!(self, end => end.completed_at())
    }

    /// Datagrams of the application that found no room.
    pub fn unsent(&self) -> u64 {
        match self {
            Self::Stream(_) => 0,
            Self::Datagrams(end) => end.unsent(),
        }
    }

    /// It sends nothing more.
    pub fn is_closed(&self) -> bool {
        either!(self, end => end.is_closed())
    }
}

/// Subflows of a connection are reliable streams.
impl AsRef<Sender> for Origin {
    #[inline]
    fn as_ref(&self) -> &Sender {
        match self {
            Self::Stream(end) => end,
            Self::Datagrams(_) => unreachable!("a subflow is a stream"),
        }
    }
}

impl AsMut<Sender> for Origin {
    #[inline]
    fn as_mut(&mut self) -> &mut Sender {
        match self {
            Self::Stream(end) => end,
            Self::Datagrams(_) => unreachable!("a subflow is a stream"),
        }
    }
}

impl AsMut<Receiver> for Target {
    #[inline]
    fn as_mut(&mut self) -> &mut Receiver {
        match self {
            Self::Stream(end) => end,
            Self::Datagrams(_) => unreachable!("a subflow is a stream"),
        }
    }
}

impl Target {
    /// A packet arrives.
    #[inline]
    pub fn on_packet(&mut self, now: Nanos, packet: &Packet, bodies: &mut Bodies) {
        match self {
            Self::Stream(end) => _ = end.on_packet(now, packet),
            Self::Datagrams(end) => end.on_packet(now, packet, bodies),
        }
    }

    /// Its deadline is reached.
    #[inline]
    pub fn on_timer(&mut self, now: Nanos) {
        either!(self, end => end.on_timer(now));
    }

    /// The next packet to leave, if there is one now.
    #[inline]
    pub fn poll_transmit(&mut self, now: Nanos, bodies: &mut Bodies) -> Option<Packet> {
        match self {
            Self::Stream(end) => end.poll_transmit(now),
            Self::Datagrams(end) => end.poll_transmit(now, bodies),
        }
    }

    /// When it wants to act next.
    #[inline]
    pub fn deadline(&self) -> Nanos {
        either!(self, end => end.deadline())
    }

    /// What it saw and did.
    #[inline]
    pub fn stats(&self) -> &ReceiverStats {
        either!(self, end => end.stats())
    }

    /// Bytes of memory it takes.
    pub fn memory(&self) -> usize {
        either!(self, end => end.memory())
    }

    /// Delays of datagrams are measured anew.
    pub fn clear_delays(&mut self) {
        if let Self::Datagrams(end) = self {
            end.clear_delays();
        }
    }

    /// What it measured of datagrams.
    pub fn datagrams(&self) -> Option<&datagrams::Arrivals> {
        match self {
            Self::Stream(_) => None,
            Self::Datagrams(end) => Some(end.arrivals()),
        }
    }
}

/// The most bytes that a connection had: one that is closed has given them back. What a packet adds is little, so not every
/// packet is looked at.
#[derive(Debug, Default)]
pub(crate) struct Peak(pub(crate) usize);

impl Peak {
    pub(crate) fn see(&mut self, connection: &Connection) {
        self.0 = self.0.max(connection.memory());
    }

    /// After so many packets; 0 is the last occasion.
    pub(crate) fn look(&mut self, connection: &Connection, packets: u64) {
        if packets.is_power_of_two() || packets.is_multiple_of(1_024) {
            self.see(connection);
        }
    }
}
