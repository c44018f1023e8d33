//! Ends of a flow outside the simulator: real hosts, joined by the simulated network.
//!
//! The owner of the run carries the packets: [`Engine::inject`] takes those that leave a host, and
//! [`Engine::take_delivered`] returns those that reach one. An end observes them and reports the state of the flow.
//! Bytes of real packets wait in the arena of the datagrams. Links, routes, metrics, traces and captures do not know
//! the difference, and the order of events follows exact times, however late the caller is.
//!
//! [`Engine::inject`]: crate::Engine::inject
//! [`Engine::take_delivered`]: crate::Engine::take_delivered

use std::fmt::Debug;

use narrows_cc::{Bytes, Nanos, Telemetry};
use narrows_packet::Packet;
use narrows_tcp::{AckOutcome, ReceiverStats, TcpInfo};

pub use crate::sender_view::SenderView;

/// A sender's report on one of its packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PacketReport {
    /// The packet left.
    Sent {
        /// Its number: earlier packets, as reported by the sender.
        number: u64,
        /// Its size, with the IP header.
        size: Bytes,
        /// Payload in bytes, as far as known.
        payload: Bytes,
    },
    /// The packet is acknowledged.
    Acknowledged(u64),
    /// The packet is declared lost.
    Lost(u64),
}

/// The sending end of a flow on a real host.
pub trait ExternalSender: Debug + Send {
    /// A packet with these bytes leaves the host.
    fn on_sent(&mut self, now: Nanos, packet: &Packet, bytes: &[u8]);
    /// A packet with these bytes reaches the host.
    fn on_received(&mut self, now: Nanos, packet: &Packet, bytes: &[u8]) -> AckOutcome;
    /// The time at which the flow stops.
    fn stop(&mut self, now: Nanos);
    /// Counters as far as packets show them, and the latest values that the host has reported.
    fn view(&self) -> SenderView;
    /// See [`SenderView::inflight`]; read after every packet.
    fn inflight(&self) -> Bytes;
    /// See [`SenderView::completed_at`].
    fn completed_at(&self) -> Option<Nanos>;
    /// Latest `TCP_INFO` of the host.
    fn info(&self) -> Option<TcpInfo>;
    /// Latest internals of the scheme that the host has reported.
    fn telemetry(&self, sink: Telemetry<'_>);
    /// Reports of the host on its packets between the two latest events, oldest first, and the number of earlier
    /// reports. `None` if numbers and acknowledgements of its packets are readable.
    fn reports(&self) -> Option<(u64, &[PacketReport])> {
        None
    }
}

/// The receiving end of a flow on a real host.
pub trait ExternalReceiver: Debug + Send {
    /// A packet with these bytes leaves the host.
    fn on_sent(&mut self, now: Nanos, packet: &Packet, bytes: &[u8]);
    /// A packet with these bytes reaches the host.
    fn on_received(&mut self, now: Nanos, packet: &Packet, bytes: &[u8]);
    /// Counters, as far as packets show them.
    fn stats(&self) -> &ReceiverStats;
}
