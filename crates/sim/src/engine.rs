//! The event loop: packets move from endpoints through links and propagation hops. A hop behind a FIFO queue costs one
//! event per packet.
//!
//! When a packet arrives at a FIFO link, the link returns its departure time. The packet then enters the delay line
//! behind the link immediately, and its next event is its arrival at the far end. All flows that leave a link with the
//! same propagation delay share a delay line, so the event queue holds one entry per line instead of one per packet.
//!
//! Path of a packet: a timer or an arriving acknowledgement calls `Engine::transmit`, which drains `poll_transmit` of
//! the sender (`ends.rs`; subflows take data from `connections`). `Engine::offer` passes each packet to the first link
//! of its route. Any link but a FIFO of constant rate (AQM, classes, router algorithm, capacity trace) keeps the packet
//! until a service event ends its transmission. At the end of a delay line, the packet is offered to the next link or
//! delivered to the receiver, whose acknowledgement takes the reverse route. An [`Observer`] sees each step.
//!
//! A source number is decoded into an `Event` once, then matched. The loop does no I/O and allocates nothing per
//! packet.

mod build;
mod connections;
mod event_sources;
mod inject;
mod ports;
mod routes;

use narrows_cc::Nanos;
use narrows_net::{DelayLine, Offer};
use narrows_packet::{Flags, Kind, Packet};
use narrows_scenario::Plan;
use narrows_scenario::result::RunResult;
use narrows_units::prefetch;

use self::connections::Connections;
use self::event_sources::{Event, Sources};
use self::routes::{Routes, Step};
use crate::Link;
use crate::arena::PayloadArena;
use crate::clock::{Clock, Tick};
use crate::control::ControlPlane;
use crate::datagrams::PacketLedger;
use crate::ends::{ReceiverEndpoint, SenderEndpoint};
use crate::event_queue::{EventQueue, SourceId};
use crate::metrics::Metrics;
use crate::observer::{FlowState, Flows, Observer, PacketEvent, Passage};

/// Prefetch distances in packets, in this order: of the packet itself, of entries indexed by its flow, of its
/// endpoint's state, and of memory that this state points to.
const FARTHEST: usize = 24;
const FARTHER: usize = 18;
const FAR: usize = 10;
const NEAR: usize = 4;
/// Number of flows whose state fits in the caches closest to the core. Up to this number, prefetching would only cost
/// instructions.
const CACHED_FLOWS: usize = 64;

/// A run in progress.
#[derive(Debug)]
pub struct Engine<O = ()> {
    now: Nanos,
    events: u64,
    hash: u64,
    queue: EventQueue,
    links: Vec<Link>,
    hops: Vec<PropagationHop>,
    senders: Vec<SenderEndpoint>,
    receivers: Vec<ReceiverEndpoint>,
    connections: Connections,
    /// Bytes of the datagram packets in the network.
    pub(crate) arena: PayloadArena,
    /// Packets and control messages that reached real hosts.
    delivered: Vec<(Nanos, Packet)>,
    steps: Vec<Step>,
    /// Distinct pairs of routes; `routes_of_flow` gives each flow's pair. Thousands of flows share a few pairs.
    routes: Vec<Routes>,
    routes_of_flow: Vec<u32>,
    /// Alternate paths of flows, in the order of path numbers from 1.
    alternates: Vec<Routes>,
    sources: Sources,
    clock: Clock,
    control: ControlPlane,
    metrics: Metrics,
    observer: O,
    plan: Plan,
}

/// Index that stands for "none".
const NONE: u32 = u32::MAX;

/// Propagation from a link to the next link or to endpoints.
#[derive(Debug)]
struct PropagationHop {
    line: DelayLine<Packet>,
    /// Whether the hop ends at endpoints.
    last: bool,
    /// Link at the far end whose router algorithm inspects packets on the reverse path, or `NONE`.
    returns: u32,
}

impl<O: Observer> Engine<O> {
    /// Runs until virtual time `until`, or the end of the run if that is earlier.
    pub fn run_until(&mut self, until: Nanos) {
        self.run_slice(until, u64::MAX);
    }

    /// Like [`Engine::run_until`], for at most `events` events. Returns whether it reached `until`.
    pub fn run_slice(&mut self, until: Nanos, events: u64) -> bool {
        let until = until.min(self.plan.duration);
        let last = self.events.saturating_add(events);
        while self.events < last {
            let (at, source) = match self.queue.pop() {
                Some((at, source)) if at <= until => (at, source),
                later => {
                    if let Some((at, source)) = later {
                        self.queue.schedule(source, at);
                    }
                    self.now = until;
                    return true;
                }
            };
            self.now = at;
            self.events += 1;
            self.mix(at.as_nanos() ^ (u64::from(source) << 48));
            match self.sources.decode(source) {
                Event::Propagation(hop) => self.on_propagation(hop),
                Event::Service(link) => self.on_service(link),
                Event::SenderTimer(flow) => self.on_sender_timer(flow),
                Event::ReceiverTimer(flow) => {
                    self.receivers[flow as usize].on_timer(at);
                    self.acknowledge(flow, Nanos::MAX);
                }
                Event::Clock => self.on_clock(),
                Event::Control => self.on_control(),
                Event::Connection(connection) => self.on_connection(connection as usize),
            }
        }
        false
    }

    /// Virtual time reached.
    pub fn now(&self) -> Nanos {
        self.now
    }

    /// Mixes one word into the hash of the run.
    #[inline]
    fn mix(&mut self, word: u64) {
        self.hash = (self.hash.rotate_left(5) ^ word).wrapping_mul(0x517c_c1b7_2722_0a95);
    }

    #[inline]
    fn on_sender_timer(&mut self, flow: u32) {
        if let Some(connection) = self.connections.of(flow) {
            self.on_subflow_timer(connection, flow as usize);
        } else {
            if matches!(self.senders[flow as usize], SenderEndpoint::Waiting(_)) {
                self.open(flow as usize);
            }
            self.senders[flow as usize].on_timer(self.now);
            self.note(flow, O::processed);
            self.transmit(flow);
        }
    }

    /// The head of a delay line arrives at the far end.
    #[inline]
    fn on_propagation(&mut self, index: u32) {
        let PropagationHop { line, last, returns } = &mut self.hops[index as usize];
        let (last, returns) = (*last, *returns);
        let Some(&(mut packet)) = line.peek(0) else { return };
        line.advance();
        self.queue.schedule(index, line.next());
        if returns != NONE && packet.flags.has(Flags::REVERSE) {
            self.on_return(returns, &mut packet);
        }
        if last {
            if self.senders.len() > CACHED_FLOWS {
                self.prefetch(index);
            }
            self.deliver(&packet);
        } else {
            self.pass_on(packet);
        }
    }

    /// Prefetches the endpoints of the packets that leave a delay line next; see [`narrows_units::prefetch`].
    #[inline]
    fn prefetch(&self, hop: SourceId) {
        let line = &self.hops[hop as usize].line;
        line.prefetch(FARTHEST);
        if let Some(packet) = line.peek(FARTHER) {
            let flow = packet.flow as usize;
            prefetch(&self.routes_of_flow[flow], 1);
            if packet.flags.has(Flags::REVERSE) {
                prefetch(&self.senders[flow], 1);
                self.queue.prefetch(self.sources.sender(packet.flow));
            } else {
                prefetch(&self.receivers[flow], 1);
            }
        }
        if let Some(packet) = line.peek(FAR) {
            let flow = packet.flow as usize;
            if packet.flags.has(Flags::REVERSE) {
                self.senders[flow].prefetch();
                self.metrics.prefetch(flow);
            } else {
                self.receivers[flow].prefetch();
            }
        }
        if let Some(packet) = line.peek(NEAR) {
            let flow = packet.flow as usize;
            if packet.flags.has(Flags::REVERSE) {
                self.senders[flow].prefetch_records(packet);
                self.metrics.prefetch_counts(flow);
            } else {
                self.receivers[flow].prefetch_ranges(packet);
            }
        }
    }

    /// A packet reaches the next link of its route.
    fn pass_on(&mut self, mut packet: Packet) {
        packet.hop += 1;
        let step = self.step_of(&packet);
        self.offer(step, &packet);
    }

    /// A packet reaches its endpoint.
    #[inline]
    fn deliver(&mut self, packet: &Packet) {
        self.mix(packet.digest());
        self.observer.passage(self.now, Passage::Arrives, packet, &self.arena);
        match packet.kind() {
            Kind::External => self.delivered.push((self.now, *packet)),
            // A process on the real host reads the message.
            Kind::Message if self.senders[packet.flow as usize].is_external() => {
                self.delivered.push((self.now, *packet));
                return;
            }
            _ => {}
        }
        let flow = packet.flow;
        if let Some(connection) = self.connections.of(flow) {
            self.deliver_to(connection, packet);
            return;
        }
        if packet.flags.has(Flags::REVERSE) {
            self.observer.packet(self.now, PacketEvent::Ack, None, packet);
            let outcome = self.senders[flow as usize].on_packet(self.now, packet, &mut self.arena);
            if let Some(rtt) = outcome.rtt {
                self.metrics.on_rtt(flow, rtt);
            }
            self.note(flow, O::processed);
            self.transmit(flow);
            if self.senders[flow as usize].retire() {
                self.receivers[flow as usize].retire();
                self.queue.schedule(self.sources.receiver(flow), Nanos::MAX);
            }
        } else {
            self.observer.packet(self.now, PacketEvent::Deliver, None, packet);
            let receiver = &mut self.receivers[flow as usize];
            let deadline = receiver.deadline();
            receiver.on_packet(self.now, packet, &mut self.arena);
            self.acknowledge(flow, deadline);
        }
    }

    /// Offers a packet to the link of a step.
    #[inline]
    fn offer(&mut self, step: Step, packet: &Packet) {
        if self.links[step.link as usize].next_service() <= self.now {
            self.serve_due(step.link as usize);
        }
        let link = &mut self.links[step.link as usize];
        match link.offer(self.now, packet) {
            Offer::Departs { at, lost: false } => self.propagate(step.hop, at, packet),
            Offer::Departs { lost: true, .. } | Offer::Dropped(_) => self.note_drop(step.link, packet),
            Offer::Queued | Offer::Consumed => {
                let next = link.next_service();
                self.collect(step.link as usize);
                self.queue.schedule(self.sources.service(step.link), next);
            }
        }
    }

    #[inline]
    fn propagate(&mut self, hop: u32, departs: Nanos, packet: &Packet) {
        let line = &mut self.hops[hop as usize].line;
        if line.push(departs, packet) {
            self.queue.schedule(hop, line.next());
        }
    }

    /// Sends all packets that a sender may send now and sets its timer.
    #[inline]
    fn transmit(&mut self, flow: u32) {
        while let Some(packet) = self.senders[flow as usize].poll_transmit(self.now, &mut self.arena) {
            self.observer.packet(self.now, PacketEvent::Send, None, &packet);
            self.observer.passage(self.now, Passage::Leaves, &packet, &self.arena);
            self.offer(self.step_of(&packet), &packet);
        }
        let sender = &self.senders[flow as usize];
        self.metrics.on_transmitted(self.now, flow, sender);
        self.queue.schedule(self.sources.sender(flow), sender.deadline());
        self.note(flow, O::transmitted);
    }

    /// Reports an event of a sender to the observer.
    #[inline]
    fn note(&mut self, flow: u32, event: impl FnOnce(&mut O, Nanos, u32, Flows<'_>)) {
        let flows = Flows { senders: &self.senders, receivers: &self.receivers, metrics: &self.metrics };
        event(&mut self.observer, self.now, flow, flows);
    }

    /// Sends all packets that a receiver may send now, and sets its timer if the deadline differs from `before`.
    #[inline]
    fn acknowledge(&mut self, flow: u32, before: Nanos) {
        while let Some(mut packet) = self.receivers[flow as usize].poll_transmit(self.now, &mut self.arena) {
            if let Some(connection) = self.connections.of(flow) {
                self.connections.all[connection].receiver.complete(&mut packet);
            }
            self.observer.passage(self.now, Passage::Leaves, &packet, &self.arena);
            self.offer(self.step_of(&packet), &packet);
        }
        let deadline = self.receivers[flow as usize].deadline();
        if deadline != before {
            self.queue.schedule(self.sources.receiver(flow), deadline);
        }
    }

    /// Processes the clock events that are due: end of warm-up, bins, samples, application stops.
    fn on_clock(&mut self) {
        while let Some(tick) = self.clock.take(self.now) {
            match tick {
                Tick::Warm => {
                    self.observer.before_reset(self.now, &mut self.links);
                    for link in &mut self.links {
                        link.reset_stats(self.now);
                    }
                    self.metrics.on_warm(self.now, &self.senders, &mut self.receivers);
                    self.connections.on_warm(self.now, &self.plan);
                }
                Tick::Bin => self.metrics.on_bin(self.now, &self.senders, &self.receivers),
                Tick::Sample => {
                    let flows = Flows { senders: &self.senders, receivers: &self.receivers, metrics: &self.metrics };
                    self.observer.sample(self.now, flows, &mut self.links);
                }
                Tick::Stop(flow) => {
                    let index = flow as usize;
                    self.metrics.on_stop(flow, &self.senders[index], &self.receivers[index]);
                    if let Some(connection) = self.connections.of(flow) {
                        self.stop_connection(connection);
                    } else {
                        self.senders[index].stop(self.now);
                        self.transmit(flow);
                    }
                }
            }
        }
        self.queue.schedule(self.sources.clock(), self.clock.next());
    }

    /// Ends the run and returns its measurements.
    pub fn finish(self) -> RunResult {
        self.finish_with_observer().0
    }

    /// Like [`Engine::finish`]; also returns the observer.
    pub fn finish_with_observer(mut self) -> (RunResult, O) {
        self.run_until(self.plan.duration);
        let Self { now, events, hash, mut links, senders, receivers, connections, metrics, plan, observer, .. } = self;
        links.iter_mut().for_each(|link| link.settle(now));
        let mut result = metrics.finish(&plan, now, (events, hash), &links, &senders, &receivers);
        connections.report(&plan, now, &mut result);
        (result, observer)
    }

    /// The observer.
    pub fn observer(&self) -> &O {
        &self.observer
    }

    /// The state of a flow, by its number.
    pub fn flow(&self, flow: usize) -> FlowState<'_> {
        Flows { senders: &self.senders, receivers: &self.receivers, metrics: &self.metrics }.get(flow as u32)
    }

    /// A link, by its number.
    pub fn link(&self, index: usize) -> &Link {
        &self.links[index]
    }

    /// Ledger of the datagrams of all flows.
    pub fn packet_ledger(&self) -> PacketLedger {
        let mut ledger = PacketLedger { in_network: self.arena.data_packets(), ..PacketLedger::default() };
        for (flow, ends) in self.senders.iter().zip(&self.receivers).enumerate() {
            if let (SenderEndpoint::Datagrams(sender), ReceiverEndpoint::Datagrams(receiver)) = ends {
                sender.add_to_ledger(&mut ledger);
                ledger.arrived += receiver.arrived();
                ledger.dropped += self.metrics.drops(flow);
            }
        }
        ledger
    }

    /// Distinct data packets delivered so far.
    pub fn delivered_packets(&self) -> u64 {
        self.receivers.iter().map(|r| r.stats().data_packets).sum()
    }
}

/// Runs a plan to its end, unobserved.
pub fn run(plan: Plan) -> RunResult {
    Engine::new(plan).finish()
}
