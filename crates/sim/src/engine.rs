//! The event loop: packets move from endpoints through links and over wires, one event per hop where the queue is a FIFO.
//!
//! A link answers an arriving packet at once with its departure time where that is already certain; the packet then goes
//! straight onto the wire behind the link, and the next event is its arrival at the far end. Wires are shared by all flows
//! that leave a link for the same distance, so that the event queue holds a few heads instead of one entry per packet.

mod build;
mod connections;
mod ports;
mod routes;
mod sources;

use narrows_cc::{Bytes, Nanos, Rate, Telemetry};
use narrows_net::{DelayLine, Offer};
use narrows_packet::{Flags, Packet};
use narrows_scenario::Plan;
use narrows_scenario::result::RunResult;
use narrows_units::prefetch;

use self::connections::Connections;
use self::routes::{Routes, Step};
use self::sources::{Event, Sources};
use crate::Link;
use crate::clock::{Clock, Tick};
use crate::control::ControlPlane;
use crate::datagrams::{Account, Bodies};
use crate::ends::{Origin, Target};
use crate::metrics::Metrics;
use crate::observer::{Observer, PacketEvent, State};
use crate::queue::{EventQueue, SourceId};

/// How many packets ahead a packet itself is asked for, the state of its endpoint, and the memory behind that.
const FARTHEST: usize = 16;
const FAR: usize = 10;
const NEAR: usize = 4;
/// Cache lines of a sender that an acknowledgement touches.
const SENDER_LINES: usize = size_of::<Origin>().div_ceil(64);

/// A run in progress.
#[derive(Debug)]
pub struct Engine<O = ()> {
    now: Nanos,
    events: u64,
    hash: u64,
    queue: EventQueue,
    links: Vec<Link>,
    wires: Vec<PropagationHop>,
    senders: Vec<Origin>,
    receivers: Vec<Target>,
    connections: Connections,
    /// What datagram packets under way consist of.
    pub(crate) bodies: Bodies,
    steps: Vec<Step>,
    routes: Vec<Routes>,
    /// The other ways of flows that have some, in the order of paths from 1.
    others: Vec<Routes>,
    sources: Sources,
    clock: Clock,
    control: ControlPlane,
    metrics: Metrics,
    observer: O,
    plan: Plan,
}

/// No link.
const NONE: u32 = u32::MAX;

/// A wire to the next link or to endpoints.
#[derive(Debug)]
struct PropagationHop {
    wire: DelayLine<Packet>,
    /// It ends at endpoints.
    last: bool,
    /// The link whose router algorithm stands where it ends and wants to see what comes back.
    returns: u32,
}

impl<O: Observer> Engine<O> {
    /// Runs until virtual time `until`, or the end of the run if that is earlier.
    pub fn run_until(&mut self, until: Nanos) {
        self.run_slice(until, u64::MAX);
    }

    /// As [`Engine::run_until`], but for `events` events at the most; whether it got to the end of the slice.
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
                Event::Wire(wire) => self.on_wire(wire),
                Event::Service(link) => self.on_service(link),
                Event::SenderTimer(flow) => self.on_sender_timer(flow),
                Event::ReceiverTimer(flow) => {
                    self.receivers[flow as usize].on_timer(at);
                    self.acknowledge(flow);
                }
                Event::Clock => self.on_clock(),
                Event::Control => self.on_control(),
                Event::Connection(connection) => self.on_connection(connection as usize),
            }
        }
        false
    }

    /// How far it got in virtual time.
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
            self.senders[flow as usize].on_timer(self.now);
            self.transmit(flow);
        }
    }

    /// The head of a wire arrives at its far end.
    #[inline]
    fn on_wire(&mut self, index: u32) {
        let PropagationHop { wire, last, returns } = &mut self.wires[index as usize];
        let (last, returns) = (*last, *returns);
        let Some(&(mut packet)) = wire.peek(0) else { return };
        wire.advance();
        self.queue.schedule(index, wire.next());
        if returns != NONE && packet.flags.has(Flags::REVERSE) {
            self.on_return(returns, &mut packet);
        }
        if last {
            self.prefetch(index);
            self.deliver(&packet);
        } else {
            self.pass_on(packet);
        }
    }

    /// Asks for the endpoints that the next packets of a wire belong to; see [`narrows_units::prefetch`].
    #[inline]
    fn prefetch(&self, wire: SourceId) {
        let wire = &self.wires[wire as usize].wire;
        wire.prefetch(FARTHEST);
        if let Some(packet) = wire.peek(FAR) {
            let flow = packet.flow as usize;
            if packet.flags.has(Flags::REVERSE) {
                prefetch(&self.senders[flow], SENDER_LINES);
                prefetch(&self.routes[flow], 1);
                self.metrics.prefetch(flow);
            } else {
                prefetch(&self.receivers[flow], size_of::<Target>().div_ceil(64));
                prefetch(&self.routes[flow], 1);
            }
        }
        if let Some(packet) = wire.peek(NEAR)
            && packet.flags.has(Flags::REVERSE)
        {
            self.senders[packet.flow as usize].prefetch();
            self.metrics.prefetch_counts(packet.flow as usize);
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
        let flow = packet.flow;
        if let Some(connection) = self.connections.of(flow) {
            self.deliver_to(connection, packet);
            return;
        }
        if packet.flags.has(Flags::REVERSE) {
            self.observer.packet(self.now, PacketEvent::Ack, None, packet);
            let outcome = self.senders[flow as usize].on_packet(self.now, packet, &mut self.bodies);
            if let Some(rtt) = outcome.rtt {
                self.metrics.on_rtt(flow, rtt);
            }
            self.transmit(flow);
        } else {
            self.observer.packet(self.now, PacketEvent::Deliver, None, packet);
            self.receivers[flow as usize].on_packet(self.now, packet, &mut self.bodies);
            self.acknowledge(flow);
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
            Offer::Departs { at, lost: false } => self.fly(step.wire, at, packet),
            Offer::Departs { lost: true, .. } | Offer::Dropped(_) => self.note_drop(step.link, packet),
            Offer::Queued | Offer::Consumed => {
                let next = link.next_service();
                self.collect(step.link as usize);
                self.queue.schedule(self.sources.service(step.link), next);
            }
        }
    }

    #[inline]
    fn fly(&mut self, wire: u32, departs: Nanos, packet: &Packet) {
        let slot = &mut self.wires[wire as usize].wire;
        if slot.push(departs, packet) {
            self.queue.schedule(wire, slot.next());
        }
    }

    /// Sends what a sender has to send and sets its timer.
    #[inline]
    fn transmit(&mut self, flow: u32) {
        while let Some(packet) = self.senders[flow as usize].poll_transmit(self.now, &mut self.bodies) {
            self.observer.packet(self.now, PacketEvent::Send, None, &packet);
            self.offer(self.step_of(&packet), &packet);
        }
        let sender = &self.senders[flow as usize];
        self.metrics.on_transmitted(self.now, flow, sender);
        self.queue.schedule(self.sources.sender(flow), sender.deadline());
    }

    /// Sends what a receiver has to send and sets its timer.
    #[inline]
    fn acknowledge(&mut self, flow: u32) {
        while let Some(mut packet) = self.receivers[flow as usize].poll_transmit(self.now, &mut self.bodies) {
            if let Some(connection) = self.connections.of(flow) {
                self.connections.all[connection].sink.complete(&mut packet);
            }
            self.offer(self.step_of(&packet), &packet);
        }
        let deadline = self.receivers[flow as usize].deadline();
        self.queue.schedule(self.sources.receiver(flow), deadline);
    }

    /// The clock of the run itself: end of warm-up, bins, samples, applications that stop.
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
                Tick::Sample => self.observer.sample(State {
                    now: self.now,
                    senders: &self.senders,
                    receivers: &self.receivers,
                    metrics: &self.metrics,
                    links: &mut self.links,
                }),
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
    pub fn finish(mut self) -> RunResult {
        self.run_until(self.plan.duration);
        let Self { now, events, hash, mut links, senders, receivers, connections, metrics, plan, .. } = self;
        links.iter_mut().for_each(|link| link.settle(now));
        let mut result = metrics.finish(&plan, now, (events, hash), &links, &senders, &receivers);
        connections.report(&plan, now, &mut result);
        result
    }

    /// The observer.
    pub fn observer(&self) -> &O {
        &self.observer
    }

    /// The window now in force for a flow.
    pub fn window(&self, flow: usize) -> Bytes {
        self.senders[flow].window()
    }

    /// The pacing rate now in force for a flow, in payload bytes per second.
    pub fn pacing_rate(&self, flow: usize) -> Option<Rate> {
        self.senders[flow].pacing_rate()
    }

    /// Named internals of a flow's scheme.
    pub fn telemetry(&self, flow: usize, sink: Telemetry<'_>) {
        self.senders[flow].telemetry(sink);
    }

    /// A link.
    pub fn link(&self, index: usize) -> &Link {
        &self.links[index]
    }

    /// Payload that a flow has delivered in order so far.
    pub fn delivered(&self, flow: usize) -> Bytes {
        Bytes::new(self.receivers[flow].stats().bytes_in_order)
    }

    /// What has become of the datagrams of all flows.
    pub fn account(&self) -> Account {
        let mut account = Account { under_way: self.bodies.under_way(), ..Account::default() };
        for (flow, ends) in self.senders.iter().zip(&self.receivers).enumerate() {
            if let (Origin::Datagrams(sender), Target::Datagrams(receiver)) = ends {
                sender.account(&mut account);
                account.arrived += receiver.arrived();
                account.dropped += self.metrics.drops(flow);
            }
        }
        account
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
