//! Observers of a run. The event loop passes events and samples to an observer, which writes files or draws
//! charts; the loop itself does no I/O.

use narrows_cc::{Bytes, Nanos, Rate, Telemetry};
use narrows_packet::Packet;
use narrows_tcp::TcpInfo;

use crate::Link;
use crate::arena::PayloadArena;

use crate::ends::{ReceiverEndpoint, SenderEndpoint};
use crate::metrics::Metrics;

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

/// Observes a run. All methods do nothing by default; `()` observes nothing at no cost.
pub trait Observer {
    /// Called at each packet event; for drops, `link` is the dropping link.
    #[inline]
    fn packet(&mut self, now: Nanos, event: PacketEvent, link: Option<u32>, packet: &Packet) {
        let _ = (now, event, link, packet);
    }

    /// Called for each packet that leaves or reaches a host, acknowledgements and control messages included.
    /// `arena` has the bytes of datagrams.
    #[inline]
    fn passage(&mut self, now: Nanos, passage: Passage, packet: &Packet, arena: &PayloadArena) {
        let _ = (now, passage, packet, arena);
    }

    /// Called at each sample time; see [`narrows_scenario::TracePlan::samples`].
    #[inline]
    fn sample(&mut self, state: State<'_>) {
        let _ = state;
    }

    /// Called at the end of the warm-up, before the counters of links are reset.
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
    fn passage(&mut self, now: Nanos, passage: Passage, packet: &Packet, arena: &PayloadArena) {
        (**self).passage(now, passage, packet, arena);
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

/// Observes if there is an observer.
impl<O: Observer> Observer for Option<O> {
    #[inline]
    fn packet(&mut self, now: Nanos, event: PacketEvent, link: Option<u32>, packet: &Packet) {
        if let Some(own) = self {
            own.packet(now, event, link, packet);
        }
    }

    #[inline]
    fn passage(&mut self, now: Nanos, passage: Passage, packet: &Packet, arena: &PayloadArena) {
        if let Some(own) = self {
            own.passage(now, passage, packet, arena);
        }
    }

    fn sample(&mut self, state: State<'_>) {
        if let Some(own) = self {
            own.sample(state);
        }
    }

    fn before_reset(&mut self, now: Nanos, links: &mut [Link]) {
        if let Some(own) = self {
            own.before_reset(now, links);
        }
    }
}

/// Two observers see the same run, the first one first.
impl<A: Observer, B: Observer> Observer for (A, B) {
    #[inline]
    fn packet(&mut self, now: Nanos, event: PacketEvent, link: Option<u32>, packet: &Packet) {
        self.0.packet(now, event, link, packet);
        self.1.packet(now, event, link, packet);
    }

    #[inline]
    fn passage(&mut self, now: Nanos, passage: Passage, packet: &Packet, arena: &PayloadArena) {
        self.0.passage(now, passage, packet, arena);
        self.1.passage(now, passage, packet, arena);
    }

    fn sample(&mut self, state: State<'_>) {
        let State { now, senders, receivers, metrics, links } = state;
        self.0.sample(State { now, senders, receivers, metrics, links: &mut *links });
        self.1.sample(State { now, senders, receivers, metrics, links });
    }

    fn before_reset(&mut self, now: Nanos, links: &mut [Link]) {
        self.0.before_reset(now, links);
        self.1.before_reset(now, links);
    }
}

/// The state of all flows and links at one time.
#[derive(Debug)]
pub struct State<'a> {
    pub(crate) now: Nanos,
    pub(crate) senders: &'a [SenderEndpoint],
    pub(crate) receivers: &'a [ReceiverEndpoint],
    pub(crate) metrics: &'a Metrics,
    pub(crate) links: &'a mut [Link],
}

impl State<'_> {
    /// Virtual time.
    pub fn now(&self) -> Nanos {
        self.now
    }

    /// All flows, by number.
    pub fn flows(&self) -> impl ExactSizeIterator<Item = FlowState<'_>> {
        (0..self.senders.len()).map(|flow| FlowState {
            sender: &self.senders[flow],
            receiver: &self.receivers[flow],
            last_rtt: self.metrics.last_rtt(flow),
        })
    }

    /// All links by number, including those without a row in the results. Reading a link may settle its
    /// counters.
    pub fn links(&mut self) -> &mut [Link] {
        self.links
    }
}

/// The state of one flow.
#[derive(Clone, Copy, Debug)]
pub struct FlowState<'a> {
    sender: &'a SenderEndpoint,
    receiver: &'a ReceiverEndpoint,
    last_rtt: Nanos,
}

impl FlowState<'_> {
    /// The congestion window; `None` if a real host has not reported it.
    pub fn cwnd(&self) -> Option<Bytes> {
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

    /// Latest and smoothed round-trip time; `None` before the first sample.
    pub fn rtt(&self) -> Option<(Nanos, Nanos)> {
        self.sender.srtt().filter(|_| !self.last_rtt.is_zero()).map(|srtt| (self.last_rtt, srtt))
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

    /// Totals of the sender so far, named as `ss -ti` does: payload bytes and data packets sent, both with
    /// retransmissions, then retransmitted payload bytes and packets.
    pub fn totals(&self) -> [(&'static str, u64); 4] {
        let stats = self.sender.stats();
        [
            ("bytes_sent", stats.bytes_sent),
            ("data_segs_out", stats.data_packets_sent),
            ("bytes_retrans", stats.bytes_retransmitted),
            ("retrans_total", stats.retransmits),
        ]
    }

    /// The sender's `TCP_INFO` once the connection is established; `None` for datagrams. It visits every
    /// outstanding packet.
    pub fn info(&self) -> Option<TcpInfo> {
        match self.sender {
            SenderEndpoint::Stream(sender) => sender.established_at().map(|_| sender.info()),
            SenderEndpoint::Foreign(sender) => sender.info(),
            _ => None,
        }
    }

    /// Reports named internals of the scheme.
    pub fn telemetry(&self, sink: Telemetry<'_>) {
        self.sender.telemetry(sink);
    }
}
