//! The port agent: a router algorithm in its place on a port, as the hook of a link.

use std::sync::Arc;

use narrows_cc::{Nanos, Params, Random, Rate};
use narrows_net::Link;
use narrows_net::config::{LinkConfig, Queue};
use narrows_net::hook::{Admission, Port as LinkPort, PortHook};

use crate::{AnyRouter, FiveTuple, Outgoing, Port, RouterEntry, RouterFrame, RouterSetup, Signal, TICK};

/// A router algorithm with its parameters.
#[derive(Clone, Debug)]
pub struct RouterConfig {
    /// Which one.
    pub entry: &'static RouterEntry,
    /// Values of its parameters, checked.
    pub params: Params,
    /// From then on it does nothing; [`Nanos::MAX`]: it lives.
    pub dies: Nanos,
    /// What flow numbers stand for.
    pub flows: Arc<[FiveTuple]>,
    /// What it learned in earlier runs.
    pub learned: Option<Arc<str>>,
}

impl RouterConfig {
    /// One that lives and knows nothing of flows nor of earlier runs.
    pub fn new(entry: &'static RouterEntry, params: Params) -> Self {
        Self { entry, params, dies: Nanos::MAX, flows: Arc::new([]), learned: None }
    }

    /// What it is created from on a link of this capacity.
    fn setup(&self, capacity: Rate) -> RouterSetup {
        RouterSetup {
            capacity,
            params: self.params.clone(),
            flows: Arc::clone(&self.flows),
            learned: self.learned.clone(),
        }
    }
}

/// A router algorithm in its place on a port.
#[derive(Clone, Debug)]
pub struct PortAgent {
    router: AnyRouter,
    /// The queue is one that the algorithm asked for.
    own: bool,
    next_wake: Nanos,
    /// From then on it does nothing any more.
    dies: Nanos,
    outbox: Vec<Outgoing>,
    /// How much of it has been taken out.
    taken: usize,
}

/// A link with this router algorithm at its port, or none; `random` is its own stream. Where `config` has nothing but a
/// plain queue, the algorithm may replace it by its own.
pub fn link<F: RouterFrame>(
    config: &LinkConfig,
    router: Option<&RouterConfig>,
    random: Random,
) -> Link<F, PortAgent> {
    let Some(router) = router else { return Link::with_hook(config, None, random) };
    let setup = router.setup(config.capacity.mean_rate());
    let own = if config.queue == Queue::DropTail { router.entry.queue(&setup) } else { None };
    let agent = PortAgent::new(router, &setup, own.is_some());
    let queue = own.unwrap_or_else(|| config.queue.clone());
    Link::with_hook(&LinkConfig { queue, ..config.clone() }, Some(agent), random)
}

impl PortAgent {
    fn new(config: &RouterConfig, setup: &RouterSetup, own: bool) -> Self {
        let router = config.entry.build(setup);
        let next_wake = router.next_wake();
        Self { router, own, next_wake, dies: config.dies, outbox: Vec::new(), taken: 0 }
    }

    /// The router algorithm.
    pub const fn router(&self) -> &AnyRouter {
        &self.router
    }

    /// What it has sent, each once, oldest first; `None` when there is nothing left.
    fn take_outgoing(&mut self) -> Option<Outgoing> {
        let next = self.outbox.get(self.taken).copied();
        self.taken += 1;
        if next.is_none() {
            self.outbox.clear();
            self.taken = 0;
        }
        next
    }

    fn on_return<F: RouterFrame>(&mut self, port: &mut LinkPort<'_>, frame: &mut F) {
        if port.now < self.dies {
            let mut own = Port::new(port.now, port.backlog, self.own, port.classes, &mut self.outbox);
            self.router.on_return(&mut own, frame);
            self.read_wake(port.now);
        }
    }

    fn on_signal(&mut self, port: &mut LinkPort<'_>, signal: &Signal) {
        if port.now < self.dies {
            let mut own = Port::new(port.now, port.backlog, self.own, port.classes, &mut self.outbox);
            self.router.on_signal(&mut own, signal);
            self.read_wake(port.now);
        }
    }

    fn read_wake(&mut self, now: Nanos) {
        self.next_wake = self.router.next_wake().max(now.saturating_add(TICK));
    }
}

impl<F: RouterFrame> PortHook<F> for PortAgent {
    fn on_arrival(&mut self, port: &mut LinkPort<'_>, frame: &mut F) -> Admission {
        if port.now >= self.dies {
            return Admission::Forward;
        }
        let mut own = Port::new(port.now, port.backlog, self.own, port.classes, &mut self.outbox);
        if !frame.is_message() {
            if frame.opens() && !frame.acknowledges() {
                self.router.on_open(&mut own, frame);
            }
            if frame.closes() {
                self.router.on_close(&mut own, frame);
            }
        }
        self.router.on_arrival(&mut own, frame);
        let consumed = own.consumed;
        port.class = own.class;
        self.read_wake(port.now);
        if consumed { Admission::Consume } else { Admission::Forward }
    }

    fn on_departure(&mut self, port: &mut LinkPort<'_>, frame: &mut F) {
        if port.now < self.dies {
            let mut own = Port::new(port.now, port.backlog, self.own, port.classes, &mut self.outbox);
            self.router.on_departure(&mut own, frame);
        }
    }

    #[inline]
    fn next_wake(&self) -> Nanos {
        self.next_wake
    }

    /// Makes up for all wakes that are due.
    fn on_wake(&mut self, port: &mut LinkPort<'_>) {
        while self.next_wake <= port.now {
            let at = self.next_wake;
            if at >= self.dies {
                self.next_wake = Nanos::MAX;
                break;
            }
            let mut own = Port::new(at, port.backlog, self.own, port.classes, &mut self.outbox);
            self.router.on_wake(&mut own);
            // Whatever the algorithm asks for, time goes on.
            self.read_wake(at);
        }
    }
}

/// A link whose port has an agent, or may have one.
pub trait RouterLink<F> {
    /// The router algorithm at its port.
    fn router(&self) -> Option<&AnyRouter>;
    /// What its router algorithm has sent, each once, oldest first; `None` when there is nothing left. To be called after
    /// every offer that was not answered by a departure, every service, and the two calls below.
    fn take_outgoing(&mut self) -> Option<Outgoing>;
    /// A packet on its way back to a sender passes the node before the link. Services due by `now` come first.
    fn on_return(&mut self, now: Nanos, frame: &mut F);
    /// A message for its router algorithm. Services due by `now` come first.
    fn on_signal(&mut self, now: Nanos, signal: &Signal);
}

impl<F: RouterFrame> RouterLink<F> for Link<F, PortAgent> {
    fn router(&self) -> Option<&AnyRouter> {
        self.hook().map(PortAgent::router)
    }

    #[inline]
    fn take_outgoing(&mut self) -> Option<Outgoing> {
        self.hook_mut().and_then(PortAgent::take_outgoing)
    }

    fn on_return(&mut self, now: Nanos, frame: &mut F) {
        self.call_hook(now, |agent, port| agent.on_return(port, frame));
    }

    fn on_signal(&mut self, now: Nanos, signal: &Signal) {
        self.call_hook(now, |agent, port| agent.on_signal(port, signal));
    }
}
