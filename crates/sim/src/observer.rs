//! What a run shows of itself while it goes on. The event loop calls an observer and does nothing else with what it shows:
//! files, charts and windows of a browser are the observer's.

use narrows_cc::{Bytes, Nanos, Rate, Telemetry};
use narrows_packet::Packet;

use crate::Link;

use crate::ends::{Origin, Target};
use crate::metrics::Metrics;

/// What happened to a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PacketEvent {
    /// It left its sender.
    Send,
    /// It reached its receiver.
    Deliver,
    /// The network lost it.
    Drop,
    /// An acknowledgement reached the sender.
    Ack,
}

impl PacketEvent {
    /// Its name in traces.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Send => "send",
            Self::Deliver => "deliver",
            Self::Drop => "drop",
            Self::Ack => "ack",
        }
    }
}

/// Sees a run. Every method does nothing by default, and `()` sees nothing, at no cost.
pub trait Observer {
    /// A packet event; a drop names the link.
    #[inline]
    fn packet(&mut self, now: Nanos, event: PacketEvent, link: Option<u32>, packet: &Packet) {
        let _ = (now, event, link, packet);
    }

    /// A sample is due; see [`narrows_scenario::TracePlan::samples`].
    #[inline]
    fn sample(&mut self, state: State<'_>) {
        let _ = state;
    }

    /// The warm-up ends: the counters of links begin again after this call.
    #[inline]
    fn before_reset(&mut self, now: Nanos, links: &mut [Link]) {
        let _ = (now, links);
    }
}

impl Observer for () {}

impl<O: Observer> Observer for &mut O {
    #[inline]
    fn packet(&mut self, now: Nanos, event: PacketEvent, link: Option<u32>, packet: &Packet) {
        (**self).packet(now, event, link, packet);
    }

    #[inline]
    fn sample(&mut self, state: State<'_>) {
        (**self).sample(state);
    }

    #[inline]
    fn before_reset(&mut self, now: Nanos, links: &mut [Link]) {
        (**self).before_reset(now, links);
    }
}

/// The state of all flows and links at one time.
#[derive(Debug)]
pub struct State<'a> {
    pub(crate) now: Nanos,
    pub(crate) senders: &'a [Origin],
    pub(crate) receivers: &'a [Target],
    pub(crate) metrics: &'a Metrics,
    pub(crate) links: &'a mut [Link],
}

impl State<'_> {
    /// The virtual time.
    pub fn now(&self) -> Nanos {
        self.now
    }

    /// All flows, in their order.
    pub fn flows(&self) -> impl ExactSizeIterator<Item = FlowState<'_>> {
        (0..self.senders.len()).map(|flow| FlowState {
            sender: &self.senders[flow],
            receiver: &self.receivers[flow],
            last_rtt: self.metrics.last_rtt(flow),
        })
    }

    /// All links; those that results do not show, too. To read one may settle its counters.
    pub fn links(&mut self) -> &mut [Link] {
        self.links
    }
}

/// The state of one flow.
#[derive(Clone, Copy, Debug)]
pub struct FlowState<'a> {
    sender: &'a Origin,
    receiver: &'a Target,
    last_rtt: Nanos,
}

impl FlowState<'_> {
    /// The congestion window.
    pub fn cwnd(&self) -> Bytes {
        self.sender.window()
    }

    /// Data in flight.
    pub fn inflight(&self) -> Bytes {
        self.sender.inflight()
    }

    /// The pacing rate, in payload bytes per second.
    pub fn pacing_rate(&self) -> Option<Rate> {
        self.sender.pacing_rate()
    }

    /// The newest sample of the round-trip time and the smoothed one, if there was a sample.
    pub fn rtt(&self) -> Option<(Nanos, Nanos)> {
        (!self.last_rtt.is_zero()).then(|| (self.last_rtt, self.sender.srtt()))
    }

    /// Payload bytes that arrived in order so far.
    pub fn bytes_in_order(&self) -> u64 {
        self.receiver.stats().bytes_in_order
    }

    /// IP bytes that arrived so far.
    pub fn bytes_received(&self) -> u64 {
        self.receiver.stats().bytes_received
    }

    /// Retransmissions so far.
    pub fn retransmits(&self) -> u64 {
        self.sender.stats().retransmits
    }

    /// Named internals of its scheme.
    pub fn telemetry(&self, sink: Telemetry<'_>) {
        self.sender.telemetry(sink);
    }
}
