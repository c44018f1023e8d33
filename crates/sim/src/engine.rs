//! The event loop: packets move from endpoints through links and over wires, one event per hop where the queue is a FIFO.
//!
//! A link answers an arriving packet at once with its departure time where that is already certain; the packet then goes
//! straight onto the wire behind the link, and the next event is its arrival at the far end. Wires are shared by all flows
//! that leave a link for the same distance, so that the event queue holds a few heads instead of one entry per packet.

use narrows_cc::{Bytes, Nanos, Random, Rate, Setup};
use narrows_endpoint::{App, Receiver, Sender};
use narrows_net::allocator::Outgoing;
use narrows_net::{Flags, Link, Offer, Packet, Wire, prefetch};

use crate::clock::{Clock, Tick};
use crate::control::{ControlPlane, Notice};
use crate::metrics::Metrics;
use crate::queue::{EventQueue, SourceId};
use crate::recorder::{PacketEvent, Recorder};
use crate::result::RunResult;
use crate::spec::{Hop, Spec, Way};

/// How many packets ahead a packet itself is asked for, the state of its endpoint, and the memory behind that.
const FARTHEST: usize = 16;
const FAR: usize = 10;
const NEAR: usize = 4;
/// Cache lines of a sender that an acknowledgement touches.
const SENDER_LINES: usize = size_of::<Sender>().div_ceil(64);

/// One step of a route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Step {
    link: u32,
    wire: u32,
}

/// Where a route begins in the list of steps.
type Route = u32;

/// The way of a flow's data and the way of its acknowledgements.
#[derive(Clone, Copy, Debug)]
struct Routes {
    forward: Route,
    reverse: Route,
    /// Where its other ways begin in the list of those.
    others: u32,
}

/// A run in progress.
#[derive(Debug)]
pub struct Engine {
    now: Nanos,
    events: u64,
    hash: u64,
    queue: EventQueue,
    links: Vec<Link>,
    wires: Vec<Distance>,
    senders: Vec<Sender>,
    receivers: Vec<Receiver>,
    steps: Vec<Step>,
    routes: Vec<Routes>,
    /// The other ways of flows that have some, in the order of paths from 1.
    others: Vec<Routes>,
    sources: Sources,
    clock: Clock,
    control: ControlPlane,
    metrics: Metrics,
    recorder: Recorder,
    spec: Spec,
}

/// Where each kind of event source begins: wires first, then links, senders, receivers, the clock and the control plane.
#[derive(Clone, Copy, Debug)]
struct Sources {
    links: SourceId,
    senders: SourceId,
    receivers: SourceId,
    clock: SourceId,
    control: SourceId,
}

/// No link.
const NONE: u32 = u32::MAX;

/// A wire, and whether it ends at endpoints.
#[derive(Debug)]
struct Distance {
    wire: Wire,
    last: bool,
    /// The link whose allocator stands where it ends and wants to see what comes back.
    returns: u32,
}

/// A wire before it is built: the link before it, the propagation delay, whether it ends at endpoints.
type WireKey = (usize, Nanos, bool);

fn intern(
    steps: &mut Vec<Step>,
    wires: &mut Vec<WireKey>,
    known: &mut Vec<(Vec<Step>, Route)>,
    hops: &[Hop],
) -> Route {
    let route: Vec<Step> = hops
        .iter()
        .enumerate()
        .map(|(i, hop)| {
            let key = (hop.link, hop.delay, i + 1 == hops.len());
            // Most flows share a few wires, so look among the newest first.
            let wire = wires.iter().rposition(|w| *w == key).unwrap_or_else(|| {
                wires.push(key);
                wires.len() - 1
            });
            Step { link: hop.link as u32, wire: wire as u32 }
        })
        .collect();
    if let Some((_, same)) = known.iter().rev().take(64).find(|(r, _)| *r == route) {
        return *same;
    }
    let made = steps.len() as Route;
    steps.extend_from_slice(&route);
    known.push((route, made));
    made
}

impl Engine {
    /// Builds the network and the endpoints of a run; nothing moves yet.
    pub fn new(spec: Spec, recorder: Recorder) -> Self {
        let (mut steps, mut wire_keys, mut known) = (Vec::new(), Vec::new(), Vec::new());
        let mut others: Vec<Routes> = Vec::new();
        let routes: Vec<Routes> = spec
            .flows
            .iter()
            .map(|flow| {
                let mut way = |way: &Way, others| Routes {
                    forward: intern(&mut steps, &mut wire_keys, &mut known, &way.forward),
                    reverse: intern(&mut steps, &mut wire_keys, &mut known, &way.reverse),
                    others,
                };
                let first = way(&flow.way, others.len() as u32);
                others.extend(flow.others.iter().map(|other| way(other, NONE)));
                first
            })
            .collect();
        let random = |name, index: usize| Random::stream(spec.seed, name, index as u64);
        let links: Vec<Link> =
            spec.links.iter().enumerate().map(|(i, l)| Link::new(&l.config, random("link", i))).collect();
        let mut returns = vec![NONE; links.len()];
        for (i, link) in links.iter().enumerate() {
            if let Some(opposite) = spec.links[i].opposite
                && link.allocator().is_some_and(|allocator| allocator.wants_returns())
            {
                returns[opposite] = i as u32;
            }
        }
        let wires: Vec<Distance> = wire_keys
            .iter()
            .enumerate()
            .map(|(i, &(wire_link, delay, last))| {
                let link = &spec.links[wire_link];
                let mut wire = Wire::new(delay, link.jitter, link.reordering, random("wire", i));
                if let Some(delays) = &link.delay_trace {
                    wire = wire.following(delays.clone(), random("wire", i));
                }
                Distance { wire, last, returns: returns[wire_link] }
            })
            .collect();
        let senders: Vec<Sender> = spec
            .flows
            .iter()
            .enumerate()
            .map(|(i, flow)| {
                let mss = Bytes::new(u64::from(flow.tcp.segment));
                let scheme = flow.scheme.build(&Setup {
                    mss,
                    initial_window: mss * u64::from(flow.tcp.initial_window),
                    max_burst: flow.tcp.max_burst,
                    sack: flow.tcp.sack,
                    random: random("scheme", i),
                    params: flow.params.clone(),
                });
                let app = App::new(flow.app, random("app", i), flow.start);
                Sender::new(i as u32, flow.tcp.clone(), scheme, app, flow.start)
            })
            .collect();
        let receivers = spec.flows.iter().enumerate().map(|(i, f)| Receiver::new(i as u32, &f.tcp)).collect();

        let first_sender = (wires.len() + links.len()) as SourceId;
        let flows = senders.len() as SourceId;
        let sources = Sources {
            links: wires.len() as SourceId,
            senders: first_sender,
            receivers: first_sender + flows,
            clock: first_sender + 2 * flows,
            control: first_sender + 2 * flows + 1,
        };
        let mut queue = EventQueue::new(sources.control as usize + 1);
        for (i, sender) in senders.iter().enumerate() {
            queue.schedule(sources.senders + i as SourceId, sender.deadline());
        }
        for (i, link) in links.iter().enumerate() {
            // Allocators may ask to be woken before the first packet.
            if link.next_service() < Nanos::MAX {
                queue.schedule(sources.links + i as SourceId, link.next_service());
            }
        }
        let clock = Clock::new(&spec);
        queue.schedule(sources.clock, clock.next());
        let polled = spec
            .links
            .iter()
            .map(|link| link.config.allocator.as_ref().is_some_and(|allocator| allocator.entry.controlled));
        let polled = polled.enumerate().filter(|(_, polled)| *polled).map(|(i, _)| i as u32);
        let control = ControlPlane::new(spec.controller, polled.collect());
        queue.schedule(sources.control, control.next());
        Self {
            now: Nanos::ZERO,
            events: 0,
            hash: 0xcbf2_9ce4_8422_2325,
            queue,
            links,
            wires,
            senders,
            receivers,
            steps,
            routes,
            others,
            sources,
            clock,
            control,
            metrics: Metrics::new(&spec),
            recorder,
            spec,
        }
    }

    /// Runs until virtual time `until`, or the end of the run if that is earlier.
    ///
    /// # Errors
    /// If the trace cannot be written.
    pub fn run_until(&mut self, until: Nanos) -> std::io::Result<()> {
        self.run_slice(until, u64::MAX).map(|_| ())
    }

    /// As [`Engine::run_until`], but for `events` events at the most; whether it got to the end of the slice.
    ///
    /// # Errors
    /// If the trace cannot be written.
    pub fn run_slice(&mut self, until: Nanos, events: u64) -> std::io::Result<bool> {
        let until = until.min(self.spec.duration);
        let last = self.events.saturating_add(events);
        while self.events < last {
            let (at, source) = match self.queue.pop() {
                Some((at, source)) if at <= until => (at, source),
                later => {
                    if let Some((at, source)) = later {
                        self.queue.schedule(source, at);
                    }
                    self.now = until;
                    return Ok(true);
                }
            };
            self.now = at;
            self.events += 1;
            self.mix(at.as_nanos() ^ (u64::from(source) << 48));
            if source < self.sources.links {
                self.on_wire(source);
            } else if source >= self.sources.senders {
                if source < self.sources.receivers {
                    let flow = source - self.sources.senders;
                    self.senders[flow as usize].on_timer(at);
                    self.transmit(flow);
                } else if source < self.sources.clock {
                    let flow = source - self.sources.receivers;
                    self.receivers[flow as usize].on_timer(at);
                    self.acknowledge(flow);
                } else if source == self.sources.clock {
                    self.on_clock()?;
                } else {
                    self.on_control();
                }
            } else {
                self.on_service(source);
            }
        }
        Ok(false)
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

    /// The head of a wire arrives at its far end.
    #[inline]
    fn on_wire(&mut self, index: SourceId) {
        let Distance { wire, last, returns } = &mut self.wires[index as usize];
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

    /// Asks for the endpoints that the next packets of a wire belong to; see [`narrows_net::prefetch`].
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
                prefetch(&self.receivers[flow], size_of::<Receiver>().div_ceil(64));
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

    /// A link whose departures are decided one by one ends a transmission.
    fn on_service(&mut self, source: SourceId) {
        let index = (source - self.sources.links) as usize;
        self.serve_due(index);
        self.queue.schedule(source, self.links[index].next_service());
    }

    /// Ends the transmissions of a link that are due.
    fn serve_due(&mut self, index: usize) {
        while self.links[index].next_service() <= self.now {
            if let Some(packet) = self.links[index].serve(self.now) {
                let step = self.step_of(&packet);
                self.fly(step.wire, self.now, &packet);
            }
        }
        self.collect(index);
    }

    /// Attributes packets that a queue discipline dropped by itself, and sends off what an allocator has sent.
    fn collect(&mut self, index: usize) {
        while let Some(packet) = self.links[index].take_dropped() {
            self.note_drop(index as u32, &packet);
        }
        while let Some(out) = self.links[index].take_outgoing() {
            self.send_off(index, out);
        }
    }

    /// A packet on its way back passes the node of an allocator.
    fn on_return(&mut self, link: u32, packet: &mut Packet) {
        let index = link as usize;
        if self.links[index].next_service() <= self.now {
            self.serve_due(index);
        }
        self.links[index].on_return(self.now, packet);
        self.collect(index);
        self.queue.schedule(self.sources.links + link, self.links[index].next_service());
    }

    /// An allocator sends something.
    fn send_off(&mut self, index: usize, out: Outgoing) {
        match out {
            Outgoing::Broadcast(signal) => {
                let at = self.now.saturating_add(self.control.delay());
                for link in 0..self.links.len() {
                    if link != index && self.links[link].allocator().is_some() {
                        self.control.at(at, Notice::Signal { link: link as u32, signal });
                    }
                }
            }
            Outgoing::ToSender(mut packet) => {
                packet.flags = packet.flags.with(Flags::REVERSE);
                let routes = self.routes_of(&packet);
                let opposite = self.spec.links[index].opposite;
                let back = self.way(routes.reverse).position(|step| Some(step.link as usize) == opposite);
                let mut at = self.now;
                if let Some(taken) = back {
                    packet.hop = taken as u8;
                } else {
                    // Back the way that data came.
                    packet.hop = (self.way(routes.reverse).count() - 1) as u8;
                    let before = self.way(routes.forward).take_while(|step| step.link as usize != index);
                    at += before.map(|step| self.wires[step.wire as usize].wire.delay()).sum::<Nanos>();
                }
                self.control.at(at, Notice::Packet(packet));
            }
        }
        self.queue.schedule(self.sources.control, self.control.next());
    }

    /// What is due beside the ways of packets.
    fn on_control(&mut self) {
        while let Some(notice) = self.control.take(self.now) {
            match notice {
                Notice::Packet(packet) if self.wires[self.step_of(&packet).wire as usize].last => {
                    self.deliver(&packet);
                }
                Notice::Packet(packet) => self.pass_on(packet),
                Notice::Signal { link, signal } => {
                    let index = link as usize;
                    if self.links[index].next_service() <= self.now {
                        self.serve_due(index);
                    }
                    self.links[index].on_signal(self.now, &signal);
                    self.collect(index);
                    self.queue.schedule(self.sources.links + link, self.links[index].next_service());
                }
                Notice::Poll => self.control.poll(self.now),
                Notice::Read { port } => {
                    let link = self.control.link(port);
                    if let Some(counters) = self.links[link as usize].port_statistics() {
                        let at = self.now.saturating_add(self.control.delay());
                        self.control.at(at, Notice::Judge { port, read: self.now, counters });
                    }
                }
                Notice::Judge { port, read, counters } => {
                    self.control.judge(self.now, port, read, &counters);
                }
            }
        }
        self.queue.schedule(self.sources.control, self.control.next());
    }

    /// The steps of a route.
    fn way(&self, route: Route) -> impl Iterator<Item = Step> + '_ {
        let steps = &self.steps[route as usize..];
        let end = steps.iter().position(|step| self.wires[step.wire as usize].last);
        steps[..=end.unwrap_or(steps.len() - 1)].iter().copied()
    }

    /// The ways of the packet's flow, on the path it takes.
    #[inline]
    fn routes_of(&self, packet: &Packet) -> Routes {
        let routes = self.routes[packet.flow as usize];
        match packet.path() {
            0 => routes,
            path => self.others[routes.others as usize + usize::from(path) - 1],
        }
    }

    #[inline]
    fn route_of(&self, packet: &Packet) -> Route {
        let routes = self.routes_of(packet);
        if packet.flags.has(Flags::REVERSE) { routes.reverse } else { routes.forward }
    }

    #[inline]
    fn step_of(&self, packet: &Packet) -> Step {
        self.steps[(self.route_of(packet) + u32::from(packet.hop)) as usize]
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
        self.mix(packet.seq ^ packet.ack.rotate_left(32));
        let flow = packet.flow;
        if packet.flags.has(Flags::REVERSE) {
            self.recorder.packet(self.now, PacketEvent::Ack, None, packet);
            let outcome = self.senders[flow as usize].on_packet(self.now, packet);
            if let Some(rtt) = outcome.rtt {
                self.metrics.on_rtt(flow, rtt);
            }
            self.transmit(flow);
        } else {
            self.recorder.packet(self.now, PacketEvent::Deliver, None, packet);
            self.receivers[flow as usize].on_packet(self.now, packet);
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
                self.queue.schedule(self.sources.links + step.link, next);
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

    #[cold]
    fn note_drop(&mut self, link: u32, packet: &Packet) {
        self.metrics.on_drop(packet);
        self.recorder.packet(self.now, PacketEvent::Drop, Some(link), packet);
        // Even a packet that is dropped may set an allocator's clock going, or make it send something.
        let port = &mut self.links[link as usize];
        if port.allocator().is_some() {
            let next = port.next_service();
            while let Some(out) = self.links[link as usize].take_outgoing() {
                self.send_off(link as usize, out);
            }
            self.queue.schedule(self.sources.links + link, next);
        }
    }

    /// Sends what a sender has to send and sets its timer.
    #[inline]
    fn transmit(&mut self, flow: u32) {
        while let Some(packet) = self.senders[flow as usize].poll_transmit(self.now) {
            self.recorder.packet(self.now, PacketEvent::Send, None, &packet);
            self.offer(self.step_of(&packet), &packet);
        }
        let sender = &self.senders[flow as usize];
        self.metrics.on_transmitted(self.now, flow, sender);
        self.queue.schedule(self.sources.senders + flow, sender.deadline());
    }

    /// Sends what a receiver has to send and sets its timer.
    #[inline]
    fn acknowledge(&mut self, flow: u32) {
        while let Some(packet) = self.receivers[flow as usize].poll_transmit(self.now) {
            self.offer(self.step_of(&packet), &packet);
        }
        let deadline = self.receivers[flow as usize].deadline();
        self.queue.schedule(self.sources.receivers + flow, deadline);
    }

    /// The clock of the run itself: end of warm-up, bins, samples, applications that stop.
    fn on_clock(&mut self) -> std::io::Result<()> {
        while let Some(tick) = self.clock.take(self.now) {
            match tick {
                Tick::Warm => {
                    self.recorder.before_reset(self.now, &mut self.links);
                    for link in &mut self.links {
                        link.reset_stats(self.now);
                    }
                    self.metrics.on_warm(self.now, &self.senders, &self.receivers);
                }
                Tick::Bin => self.metrics.on_bin(self.now, &self.senders, &self.receivers),
                Tick::Sample => {
                    let metrics = &self.metrics;
                    self.recorder.sample(
                        self.now,
                        &self.senders,
                        &self.receivers,
                        |flow| metrics.last_rtt(flow),
                        &mut self.links,
                    )?;
                }
                Tick::Stop(flow) => {
                    let index = flow as usize;
                    self.metrics.on_stop(flow, &self.senders[index], &self.receivers[index]);
                    self.senders[index].stop(self.now);
                    self.transmit(flow);
                }
            }
        }
        self.queue.schedule(self.sources.clock, self.clock.next());
        Ok(())
    }

    /// Ends the run and says what was measured.
    ///
    /// # Errors
    /// If the trace cannot be written.
    pub fn finish(mut self) -> std::io::Result<RunResult> {
        self.run_until(self.spec.duration)?;
        let Self { now, events, hash, mut links, senders, receivers, metrics, recorder, spec, .. } = self;
        links.iter_mut().for_each(|link| link.settle(now));
        recorder.finish()?;
        Ok(metrics.finish(&spec, now, (events, hash), &links, &senders, &receivers))
    }

    /// The window now in force for a flow.
    pub fn window(&self, flow: usize) -> Bytes {
        self.senders[flow].window()
    }

    /// The pacing rate now in force for a flow, in payload bytes per second.
    pub fn pacing_rate(&self, flow: usize) -> Option<Rate> {
        self.senders[flow].pacing_rate()
    }

    /// A link.
    pub fn link(&self, index: usize) -> &Link {
        &self.links[index]
    }

    /// Payload that a flow has delivered in order so far.
    pub fn delivered(&self, flow: usize) -> Bytes {
        Bytes::new(self.receivers[flow].stats().bytes_in_order)
    }

    /// Distinct data packets delivered so far.
    pub fn delivered_packets(&self) -> u64 {
        self.receivers.iter().map(|r| r.stats().data_packets).sum()
    }
}

/// Runs a scenario to its end, with no trace.
pub fn run(spec: Spec) -> RunResult {
    Engine::new(spec, Recorder::off()).finish().expect("nothing is written, so nothing can fail")
}
