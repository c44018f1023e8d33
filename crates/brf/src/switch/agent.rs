//! The loop of a switch: it reads counters, feeds the router algorithm, and writes decisions.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::io;
use std::time::Duration;

use libbpf_rs::RingBufferBuilder;
use narrows_cc::{Bytes, Nanos, Rate};
use narrows_host::HostError;
use narrows_host::changing::Changing;
use narrows_host::clock::Budget;
use narrows_host::netlink::Netlink;
use narrows_net::PortStatistics;
use narrows_net::hook::ClassQueue;
use narrows_routers::controller::Controller;
use narrows_routers::{Brf, Congestion, Outgoing, Port, Reading, Router, Signal};
use rustix::io::Errno;
use rustix::time::{ClockId, clock_gettime};

use super::control::{ControlSocket, Statistics};
use super::flows::Flows;
use super::maps::{self, Control, Counters, Key, Programs};
use super::report::{ClassReport, FlowReport, Lateness, QueueMean, Report, line, mbit};
use super::state::{self, State};
use super::tc::{self, Side, Tree};
use super::{Settings, Watch};

/// Longest time between two readings of the counters, with flows and without.
const READ: Nanos = Nanos::from_millis(10);
const READ_IDLE: Nanos = Nanos::from_millis(50);
/// Silence after which a flow loses its share. The limit is long because senders and their stacks run late on busy
/// hosts, and packets that wait in the queue of a class without flows are served last.
const SILENCE: Nanos = Nanos::from_millis(100);
/// Time between reports for `status`, and between lines of the log about shares.
const REPORT: Nanos = Nanos::from_millis(250);
const LOG: Nanos = Nanos::from_secs(1);
/// Maximum number of flows in a report.
const LISTED: usize = 1000;
/// Real-time priority of the loop.
const PRIORITY: u8 = 10;
/// Maximum number of events that one turn takes from the ring buffer: a flood must not delay decisions.
const EVENTS: usize = 256;
/// Heartbeats per `patience`; programs write nothing once the last heartbeat is older than `patience`.
const BEATS: u64 = 4;
/// Time between removals of idle flows while the router sleeps.
const EXPIRE: Nanos = Nanos::from_secs(1);

/// Time of the monotonic clock, as the programs read it.
pub(super) fn now() -> Nanos {
    let time = clock_gettime(ClockId::Monotonic);
    Nanos::from_nanos(time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64)
}

/// The classes as the router sees them: rates that it sets are applied after the call, and backlogs were read before
/// the call.
struct Classes<'a>(&'a mut Tree);

impl ClassQueue for Classes<'_> {
    fn set_class(&mut self, _: Nanos, class: u8, rate: Rate, ceil: Rate) {
        if let Some(wanted) = self.0.wanted.get_mut(usize::from(class)) {
            *wanted = (rate, ceil);
        }
    }

    fn class_backlog(&self, class: u8) -> Bytes {
        Bytes::new(self.0.stats.get(usize::from(class)).map_or(0, |own| tc::unframed(own.backlog)))
    }
}

struct Agent<'a> {
    settings: &'a Settings,
    watch: &'a dyn Watch,
    programs: &'a Programs,
    state: State,
    netlink: Netlink,
    tree: Tree,
    brf: Brf,
    flows: Flows,
    controller: Option<Controller>,
    control: Option<ControlSocket>,
    outbox: Vec<Outgoing>,
    started: Nanos,
    read_at: Nanos,
    polled_at: Nanos,
    reported_at: Nanos,
    logged_at: Nanos,
    cut_logged_at: Nanos,
    full_logged_at: Nanos,
    expired_at: Nanos,
    /// Number of flows refused for lack of space, as of the last log line about them.
    full: u64,
    /// Number of flows with a share, as of the last log line about shares.
    shared: u64,
    seen: Counters,
    late: Lateness,
    queue: QueueMean,
}

/// Runs a switch until the caller ends it.
pub(super) fn run(settings: &Settings, watch: &dyn Watch) -> Result<(), HostError> {
    let changing = Changing::begin()?;
    for name in state::clean(&changing) {
        watch.log(&format!("removed what a killed switch left on {name}"));
    }
    let step = |what: &'static str| move |error| HostError::step(what, error);
    settings.check()?;
    let htb = settings.classes()?;
    let ports = settings.resolve()?;
    let bottleneck = ports.iter().find(|port| port.bottleneck).map_or(0, |port| port.index);
    let control = settings.control.as_deref().map(|address| {
        ControlSocket::bind(address).map_err(|error| HostError::Unsupported(format!("--control {address}: {error}")))
    });
    let control = control.transpose()?;
    // More entries than the router's table has, so that the router decides which flows it refuses.
    let programs = Programs::load(settings.flows().saturating_mul(2).max(64))?;
    let mut netlink = Netlink::route().map_err(step("open a netlink socket"))?;
    let [_, others, _] = Brf::OTHER_CLASSES;
    let mut tree = Tree::new(bottleneck, &htb, settings.rate, settings.buffer);
    let state = State::begin(changing, ports)?;
    tree.create(&mut netlink, others).map_err(step("create the classes of the bottleneck"))?;
    let setup = settings.setup();
    let started = now();
    let mut agent = Agent {
        settings,
        watch,
        programs: &programs,
        brf: Brf::new(&setup).with_minima(settings.period_min, SILENCE),
        flows: Flows::new(settings.flows()),
        controller: settings.controller.map(|config| Controller::new(config, 1)),
        control,
        outbox: Vec::new(),
        started,
        read_at: started,
        polled_at: started,
        reported_at: started,
        logged_at: Nanos::ZERO,
        cut_logged_at: Nanos::ZERO,
        full_logged_at: Nanos::ZERO,
        expired_at: started,
        full: 0,
        shared: 0,
        seen: Counters::default(),
        late: Lateness::default(),
        queue: QueueMean::from(started),
        netlink,
        tree,
        state,
    };
    // Written first, because the programs need their settings as soon as they are attached.
    agent.settle(started).map_err(step("write the settings of the programs"))?;
    attach(&mut agent.state, |netlink, index, side, name| {
        programs.with_program(name, |program| tc::attach(netlink, index, side, program, name))
    })?;
    agent.state.complete();
    agent.log("the switch runs; Ctrl-C ends it and detaches everything");
    let ended = agent.work();
    agent.log("detached");
    ended.map_err(step("follow the flows"))
}

/// Creates the hooks that the ports lack, recording each hook first, and attaches the programs by name.
pub(super) fn attach(
    state: &mut State,
    mut filter: impl FnMut(&mut Netlink, i32, Side, &'static str) -> io::Result<()>,
) -> Result<(), HostError> {
    let mut netlink = Netlink::route().map_err(|error| HostError::step("open a netlink socket", error))?;
    for i in 0..state.record.ports.len() {
        let port = state.record.ports[i].clone();
        hook(state, &mut netlink, i)
            .map_err(|error| HostError::step(&format!("create the hook of {}", port.name), error))?;
        let acks = port.acks.map(|side| (side, maps::ACK));
        let data = port.bottleneck.then_some((Side::Egress, maps::DATA));
        for (side, name) in acks.into_iter().chain(data) {
            filter(&mut netlink, port.index, side, name)
                .map_err(|error| HostError::step(&format!("attach `{name}` to {} ({side})", port.name), error))?;
        }
    }
    Ok(())
}

/// Creates the hook of a port unless the hook exists. Records the hook before creating it, because the switch may be
/// killed in between.
fn hook(state: &mut State, netlink: &mut Netlink, i: usize) -> io::Result<()> {
    let index = state.record.ports[i].index;
    if tc::has_hook(netlink, index)? {
        return Ok(());
    }
    state.record.ports[i].hook = true;
    state.save()?;
    if !tc::create_hook(netlink, index)? {
        // Another process created it first.
        state.record.ports[i].hook = false;
        state.save()?;
    }
    Ok(())
}

impl Agent<'_> {
    fn log(&self, text: &str) {
        let time = (now() - self.started).as_secs_f64();
        self.watch.log(&format!("{time:9.3} {text}"));
    }

    fn work(&mut self) -> io::Result<()> {
        let keys = RefCell::new(BTreeSet::new());
        let events = self.programs.map("events");
        let mut ring = RingBufferBuilder::new();
        let added = ring.add(&events, |bytes| {
            let mut keys = keys.borrow_mut();
            if let Some(own) = bytes.first_chunk() {
                keys.insert(Key(*own));
            }
            if keys.len() < EVENTS { 0 } else { -Errno::AGAIN.raw_os_error() }
        });
        added.map_err(io::Error::other)?;
        let ring = ring.build().map_err(io::Error::other)?;
        self.settle(now())?;
        let mut budget = Budget::begin(PRIORITY);
        while !self.watch.is_stopped() {
            budget.look();
            let wait = self.next_step() - now();
            // The ring buffer waits for whole milliseconds, and with zero the loop would spin.
            let wait = Duration::from_nanos(wait.as_nanos()).max(Duration::from_millis(1));
            ring.poll(wait).or_else(|error| {
                // The remaining events wait for the next turn.
                if [libbpf_rs::ErrorKind::Interrupted, libbpf_rs::ErrorKind::WouldBlock].contains(&error.kind()) {
                    Ok(())
                } else {
                    Err(io::Error::other(error))
                }
            })?;
            let news = std::mem::take(&mut *keys.borrow_mut());
            self.step(&news)?;
        }
        Ok(())
    }

    /// Time of the next reading.
    fn next_step(&self) -> Nanos {
        let every = if self.flows.known.is_empty() { READ_IDLE } else { READ };
        let every = every.min(self.settings.patience / BEATS);
        self.brf.next_wake().min(self.read_at.saturating_add(every))
    }

    /// Calls `work` with the router at its port.
    fn with_router<T>(
        &mut self,
        at: Nanos,
        work: impl FnOnce(&mut Brf, &mut Port<'_>, &mut Flows, &Programs) -> T,
    ) -> T {
        let backlog = Bytes::new(tc::unframed(self.tree.backlog()));
        let mut classes = Classes(&mut self.tree);
        let mut port = Port::on_node(at, backlog, &mut classes, &mut self.outbox);
        let done = work(&mut self.brf, &mut port, &mut self.flows, self.programs);
        // Discarded, because messages to other switches need a control plane between machines.
        self.outbox.clear();
        done
    }

    /// Executes one turn: flow events, counters, scheduled allocations and their consequences.
    fn step(&mut self, keys: &BTreeSet<Key>) -> io::Result<()> {
        let at = now();
        for key in keys {
            // If the flow is gone from the table, the next allocation notices it.
            if let Some(state) = self.programs.flow(key) {
                self.with_router(at, |brf, port, flows, programs| flows.update(brf, port, programs, *key, state));
            }
        }
        let due = self.brf.next_wake();
        if due <= at || self.next_step() <= at {
            self.read(at)?;
        }
        let at = now();
        // One allocation with the current counters, however many allocations were missed.
        if self.brf.next_wake() <= at {
            self.late.add((at - due).as_secs_f64());
            self.with_router(at, |brf, port, _, _| brf.on_wake(port));
        } else if self.brf.next_wake() == Nanos::MAX && at - self.expired_at >= EXPIRE {
            self.expired_at = at;
            self.with_router(at, |brf, port, _, _| brf.expire(port));
        }
        self.converse(at);
        self.settle(at)
    }

    /// Reads the counters of all flows and classes.
    fn read(&mut self, at: Nanos) -> io::Result<()> {
        self.read_at = at;
        self.tree.read(&mut self.netlink)?;
        let backlog = tc::unframed(self.tree.backlog());
        self.queue.add(at, backlog);
        let all = self.programs.flows()?;
        let counters = self.programs.counters()?;
        let before = std::mem::replace(&mut self.seen, counters);
        self.with_router(at, |brf, port, flows, programs| {
            for (key, state) in all {
                if flows.known.get(&key).is_none_or(|known| known.told != state) {
                    flows.update(brf, port, programs, key, state);
                }
            }
            brf.add_acks(counters.acks - before.acks);
            if counters.udp > before.udp {
                brf.add_udp(port);
            }
            // A single untracked packet may be a late retransmission, so the router responds only to a second packet.
            for _ in 0..(counters.untracked - before.untracked).min(2) {
                brf.add_untracked(port);
            }
        });
        Ok(())
    }

    /// Writes decisions, class rates and the heartbeat, logs flow events, and writes the periodic report.
    fn settle(&mut self, at: Nanos) -> io::Result<()> {
        self.with_router(at, |brf, port, flows, programs| flows.publish(brf, port, programs))?;
        self.tree.apply(&mut self.netlink)?;
        self.programs.control(Control {
            heartbeat: now().as_nanos(),
            patience: self.settings.patience.as_nanos(),
            offer: self.brf.next_offer(),
            handle: tc::HANDLE,
            classes: Brf::OTHER_CLASSES,
        })?;
        for news in std::mem::take(&mut self.flows.news) {
            self.log(&line(&news));
        }
        self.log_full(at);
        let shared = self.count("brf_flows");
        if shared != self.shared && at - self.logged_at >= LOG {
            self.logged_at = at;
            self.shared = shared;
            self.log(&self.shares());
        }
        if at - self.reported_at >= REPORT {
            self.reported_at = at;
            let report = self.report(at)?;
            self.state.report(&report)?;
        }
        Ok(())
    }

    /// Logs that flows were refused for lack of space, at most once a second.
    fn log_full(&mut self, at: Nanos) {
        let full = self.flows.refused + self.seen.refused;
        if full > self.full && at - self.full_logged_at >= LOG {
            (self.full, self.full_logged_at) = (full, at);
            let room = self.settings.flows();
            self.log(&format!(
                "table full: {full} flows so far found no room among {room} and get no rates (--set flows=N)"
            ));
        }
    }

    /// Runs the built-in controller and reads messages of the external controller.
    fn converse(&mut self, at: Nanos) {
        let counters = self.statistics();
        let mut found = Vec::new();
        if let Some(controller) = &mut self.controller
            && at - self.polled_at >= controller.config().poll
        {
            self.polled_at = at;
            found.extend(controller.on_statistics(0, at, &counters));
        }
        if let Some(control) = &mut self.control {
            let statistics = Statistics {
                read_s: at.as_secs_f64(),
                sent_bytes: counters.sent.as_u64(),
                waiting: counters.waiting,
                room: counters.room,
                queues: counters.queues,
                capacity_bytes_s: counters.capacity.as_bytes_per_sec(),
            };
            found.extend(control.read(|| statistics));
        }
        for congestion in found {
            let before = self.count("reductions");
            self.with_router(at, |brf, port, _, _| brf.on_signal(port, &Signal::Congested(congestion)));
            if self.count("reductions") > before && at - self.cut_logged_at >= LOG {
                self.cut_logged_at = at;
                self.log(&match congestion {
                    Congestion::Queue { packets } => format!("congestion: {packets} packets wait, shares are cut"),
                    Congestion::Load => "congestion: the link is loaded, shares are cut".to_owned(),
                });
            }
        }
    }

    fn statistics(&self) -> PortStatistics {
        PortStatistics {
            sent: Bytes::new(tc::unframed(self.tree.total.sent)),
            waiting: self.tree.stats.first().map_or(0, |own| own.waiting),
            room: self.tree.room().into(),
            queues: 5,
            capacity: self.settings.rate,
        }
    }

    /// A number of the router's telemetry.
    fn count(&self, name: &str) -> u64 {
        self.reading(name).and_then(Reading::number).unwrap_or(0.0) as u64
    }

    fn reading(&self, name: &str) -> Option<Reading> {
        let mut found = None;
        self.brf.telemetry(&mut |item, reading| {
            if item == name {
                found = Some(reading);
            }
        });
        found
    }

    fn shares(&self) -> String {
        let classes = self.tree.names().zip(&self.tree.wanted);
        let named: Vec<String> = classes.map(|(name, (rate, _))| format!("{name} {:.2}", mbit(*rate))).collect();
        let (flows, others) = (self.count("brf_flows"), self.count("other_flows"));
        format!("shares: {flows} flows obey, {others} others; classes in Mbit/s: {}", named.join(", "))
    }

    fn report(&mut self, at: Nanos) -> io::Result<Report> {
        let link = self.settings.rate.as_bytes_per_sec().max(1) as f64;
        let mut classes = Vec::new();
        for (i, name) in self.tree.names().enumerate() {
            let (packets, bytes) = self.programs.total(i as u8)?;
            let own = &self.tree.stats[i];
            classes.push(ClassReport {
                name: name.to_owned(),
                rate_mbit_s: mbit(self.tree.wanted[i].0),
                sent_packets: packets,
                sent_bytes: bytes,
                waiting: own.waiting,
                backlog_bytes: own.backlog,
                drops: own.drops,
            });
        }
        let brf = &mut self.brf;
        let flows = self.flows.known.iter().take(LISTED).map(|(key, known)| FlowReport {
            flow: key.name(),
            obeys: known.obeys,
            share_mbit_s: brf.share(known.id).map(mbit),
            rtt_ms: known.told.rtt as f64 * 1e-6,
            bytes: known.told.bytes,
            written: known.told.written,
        });
        let flows = flows.collect();
        let state = match self.reading("state") {
            Some(Reading::State(name)) => name,
            _ => "",
        };
        let (queue_mean, queue_most) = self.queue.read();
        let period = self.reading("period").and_then(Reading::number).unwrap_or(0.0);
        Ok(Report {
            time_s: (at - self.started).as_secs_f64(),
            rate_mbit_s: mbit(self.settings.rate),
            state,
            period_ms: period * 1e3,
            allocations: self.count("allocations"),
            reductions: self.count("reductions"),
            late_mean_ms: self.late.sum / self.late.count.max(1) as f64 * 1e3,
            late_most_ms: self.late.most * 1e3,
            queue_mean_ms: queue_mean / link * 1e3,
            queue_most_ms: queue_most as f64 / link * 1e3,
            flows_refused: self.flows.refused,
            control_refused: self.control.as_ref().map_or(0, |control| control.refused),
            counters: self.seen,
            classes,
            flows,
            flows_total: self.flows.known.len(),
        })
    }
}
