//! Observers of a run. The event loop passes events and samples to an observer, which writes files or draws
//! charts; the loop itself does no I/O.

use narrows_cc::{Bytes, Nanos, Phase, Rate, Telemetry};
use narrows_packet::Packet;
use narrows_tcp::{CaState, TcpInfo};

use crate::Link;
use crate::arena::PayloadArena;

use crate::ends::{ReceiverEndpoint, SenderEndpoint};
use crate::foreign::PacketReport;
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

    /// Called when a sender has processed an acknowledgement or a timer, before it sends.
    #[inline]
    fn processed(&mut self, now: Nanos, flow: u32, flows: Flows<'_>) {
        let _ = (now, flow, flows);
    }

    /// Called when a sender has sent all packets that it may send now; for real hosts, after every packet.
    #[inline]
    fn transmitted(&mut self, now: Nanos, flow: u32, flows: Flows<'_>) {
        let _ = (now, flow, flows);
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
    fn processed(&mut self, now: Nanos, flow: u32, flows: Flows<'_>) {
        (**self).processed(now, flow, flows);
    }

    #[inline]
    fn transmitted(&mut self, now: Nanos, flow: u32, flows: Flows<'_>) {
        (**self).transmitted(now, flow, flows);
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

    #[inline]
    fn processed(&mut self, now: Nanos, flow: u32, flows: Flows<'_>) {
        if let Some(own) = self {
            own.processed(now, flow, flows);
        }
    }

    #[inline]
    fn transmitted(&mut self, now: Nanos, flow: u32, flows: Flows<'_>) {
        if let Some(own) = self {
            own.transmitted(now, flow, flows);
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

    #[inline]
    fn processed(&mut self, now: Nanos, flow: u32, flows: Flows<'_>) {
        self.0.processed(now, flow, flows);
        self.1.processed(now, flow, flows);
    }

    #[inline]
    fn transmitted(&mut self, now: Nanos, flow: u32, flows: Flows<'_>) {
        self.0.transmitted(now, flow, flows);
        self.1.transmitted(now, flow, flows);
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
        let flows = Flows { senders: self.senders, receivers: self.receivers, metrics: self.metrics };
        (0..self.senders.len()).map(move |flow| flows.get(flow as u32))
    }

    /// All links by number, including those without a row in the results. Reading a link may settle its
    /// counters.
    pub fn links(&mut self) -> &mut [Link] {
        self.links
    }
}

/// The state of all flows at one time. An observer that reads none of it costs nothing.
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
}

/// What loss detection and recovery keep of a flow. Values that a transport or host does not show are `None`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RecoveryState {
    /// Mean deviation of the round-trip time.
    pub rtt_variation: Option<Nanos>,
    /// Minimum round-trip time.
    pub min_rtt: Option<Nanos>,
    /// Slow-start threshold; `None` also before slow start has ended.
    pub ssthresh: Option<Bytes>,
    /// Consecutive expiries of the retransmission timer.
    pub timeouts: Option<u32>,
    /// Whether lost packets are being repaired, or the window is being reduced for a mark.
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

    /// Whether the sender is a real host.
    pub fn is_foreign(&self) -> bool {
        self.sender.is_foreign()
    }

    /// Data packets declared lost so far; a real host does not report them.
    pub fn lost_packets(&self) -> u64 {
        self.sender.stats().lost_packets
    }

    /// First sequence numbers of the packets declared lost and not yet retransmitted, lowest first; none for
    /// datagrams and real hosts. It visits every outstanding packet.
    pub fn lost(&self) -> impl Iterator<Item = u64> {
        let sender = if let SenderEndpoint::Stream(sender) = self.sender { Some(sender) } else { None };
        sender.into_iter().flat_map(|sender| sender.lost())
    }

    /// What the sender on a real host said of its packets between the two latest events, oldest first, and how many
    /// reports came before. `None` if the packets themselves show it.
    pub fn reports(&self) -> Option<(u64, &[PacketReport])> {
        if let SenderEndpoint::Foreign(sender) = self.sender { sender.reports() } else { None }
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
                    timeouts: Some(sender.consecutive_timeouts()),
                    recovering: Some(sender.phase() != Phase::Open),
                }
            }
            SenderEndpoint::Foreign(sender) => {
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
