//! Endpoints of a flow outside the simulator: real hosts, connected by the simulated network.
//!
//! The caller that drives the run carries the packets: [`Engine::inject`] takes packets that leave a host, and
//! [`Engine::take_delivered`] returns packets that reach a host. An endpoint observes these packets and reports the
//! state of the flow. The bytes of real packets are stored in the arena that DCCP uses. Links, routes, metrics, traces
//! and captures treat real and simulated packets alike, and events are ordered by exact times, however late the caller
//! is.
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
    /// The packet was sent.
    Sent {
        /// Number of packets that the sender reported as sent before this one.
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

/// The sending endpoint of a flow on a real host.
pub trait ExternalSender: Debug + Send {
    /// A packet with these bytes leaves the host.
    fn on_sent(&mut self, now: Nanos, packet: &Packet, bytes: &[u8]);
    /// A packet with these bytes reaches the host.
    fn on_received(&mut self, now: Nanos, packet: &Packet, bytes: &[u8]) -> AckOutcome;
    /// Called at the time at which the flow stops.
    fn stop(&mut self, now: Nanos);
    /// Counters as far as they can be read from packets, and the latest values that the host has reported.
    fn view(&self) -> SenderView;
    /// See [`SenderView::inflight`]; read after every packet.
    fn inflight(&self) -> Bytes;
    /// See [`SenderView::completed_at`].
    fn completed_at(&self) -> Option<Nanos>;
    /// Latest `TCP_INFO` of the host.
    fn info(&self) -> Option<TcpInfo>;
    /// Latest internals of the scheme that the host has reported.
    fn telemetry(&self, sink: Telemetry<'_>);
    /// Number of earlier reports, and the host's reports on its packets between the two latest events, oldest first.
    /// `None` if numbers and acknowledgements can be read from the packets themselves.
    fn reports(&self) -> Option<(u64, &[PacketReport])> {
        None
    }
}

/// The receiving endpoint of a flow on a real host.
pub trait ExternalReceiver: Debug + Send {
    /// A packet with these bytes leaves the host.
    fn on_sent(&mut self, now: Nanos, packet: &Packet, bytes: &[u8]);
    /// A packet with these bytes reaches the host.
    fn on_received(&mut self, now: Nanos, packet: &Packet, bytes: &[u8]);
    /// Counters, as far as they can be read from packets.
    fn stats(&self) -> &ReceiverStats;
}
