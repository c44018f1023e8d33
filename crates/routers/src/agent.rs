//! The port agent: the hook of a link that runs a router algorithm at its port.

use std::sync::Arc;

use narrows_cc::{LITERAL, Nanos, Params, Random, Rate};
use narrows_net::Link;
use narrows_net::config::{LinkConfig, Queue};
use narrows_net::hook::{Admission, Port as LinkPort, PortHook};

use crate::router::TICK;
use crate::{AnyRouter, FiveTuple, Outgoing, Port, RouterEntry, RouterFrame, RouterSetup, Signal};

/// A router algorithm with its parameters.
#[derive(Clone, Debug)]
pub struct RouterConfig {
    /// The algorithm.
    pub entry: &'static RouterEntry,
    /// Checked parameter values.
    pub params: Params,
    /// Time at which the algorithm fails and stops acting; [`Nanos::MAX`]: never.
    pub dies: Nanos,
    /// The 5-tuples of flows, by flow number.
    pub flows: Arc<[FiveTuple]>,
    /// Learned state of earlier runs, as text.
    pub learned: Option<Arc<str>>,
}

impl RouterConfig {
    /// Whether the parameter `literal` is set, so that the algorithm follows the paper's equations as printed.
    pub fn is_literal(&self) -> bool {
        self.entry.info.params.iter().any(|param| param.name == LITERAL.name) && self.params.flag(LITERAL.name)
    }

    /// A configuration without failure, 5-tuples or learned text.
    pub fn new(entry: &'static RouterEntry, params: Params) -> Self {
        Self { entry, params, dies: Nanos::MAX, flows: Arc::new([]), learned: None }
    }

    /// Inputs of the algorithm on a link of this capacity.
    pub(crate) fn setup(&self, capacity: Rate) -> RouterSetup {
        RouterSetup {
            capacity,
            params: self.params.clone(),
            flows: Arc::clone(&self.flows),
            learned: self.learned.clone(),
        }
    }
}

/// A router algorithm with the state of its port.
#[derive(Clone, Debug)]
pub struct PortAgent {
    router: AnyRouter,
    /// Whether the algorithm supplies the queue discipline.
    own: bool,
    next_wake: Nanos,
    /// Time of failure.
    dies: Nanos,
    outbox: Vec<Outgoing>,
    /// Number of messages already taken.
    taken: usize,
}

/// A link with an optional router algorithm at its port. `random` is the link's random stream. The algorithm may
/// replace a drop-tail queue by the queue discipline that it supplies.
pub fn link<F: RouterFrame>(config: &LinkConfig, router: Option<&RouterConfig>, random: Random) -> Link<F, PortAgent> {
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

    /// Next message of the algorithm, oldest first; `None` if there is none.
    fn take_outgoing(&mut self) -> Option<Outgoing> {
        let next = self.outbox.get(self.taken).copied();
        self.taken += 1;
        if next.is_none() {
            self.outbox.clear();
            self.taken = 0;
        }
        next
    }

    /// Calls the algorithm at `now` with its view of the port.
    #[inline]
    fn call<R>(
        &mut self,
        now: Nanos,
        port: &mut LinkPort<'_>,
        event: impl FnOnce(&mut AnyRouter, &mut Port<'_>) -> R,
    ) -> R {
        let mut own = Port::new(now, port.backlog, self.own, port.classes, &mut self.outbox);
        event(&mut self.router, &mut own)
    }

    /// Calls the algorithm for an event other than an arrival or a departure, unless it has failed.
    fn on_event(&mut self, port: &mut LinkPort<'_>, event: impl FnOnce(&mut AnyRouter, &mut Port<'_>)) {
        if port.now < self.dies {
            self.call(port.now, port, event);
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
        let (consumed, class) = self.call(port.now, port, |router, own| {
            if !frame.is_message() {
                if frame.opens() && !frame.acknowledges() {
                    router.on_open(own, frame);
                }
                if frame.closes() {
                    router.on_close(own, frame);
                }
            }
            router.on_arrival(own, frame);
            (own.consumed, own.class)
        });
        port.class = class;
        self.read_wake(port.now);
        if consumed { Admission::Consume } else { Admission::Forward }
    }

    fn on_departure(&mut self, port: &mut LinkPort<'_>, frame: &mut F) {
        if port.now < self.dies {
            self.call(port.now, port, |router, own| router.on_departure(own, frame));
        }
    }

    #[inline]
    fn next_wake(&self) -> Nanos {
        self.next_wake
    }

    /// Runs all due wakes.
    fn on_wake(&mut self, port: &mut LinkPort<'_>) {
        while self.next_wake <= port.now {
            let at = self.next_wake;
            if at >= self.dies {
                self.next_wake = Nanos::MAX;
                break;
            }
            self.call(at, port, AnyRouter::on_wake);
            // Time advances even if the algorithm requests a wake in the past.
            self.read_wake(at);
        }
    }
}

/// A link with an optional port agent.
pub trait RouterLink<F> {
    /// The router algorithm at its port.
    fn router(&self) -> Option<&AnyRouter>;
    /// Next message of the router algorithm at its port, oldest first. Call this until it returns `None` after every
    /// service, every offer without a departure, and the two calls below.
    fn take_outgoing(&mut self) -> Option<Outgoing>;
    /// Passes the algorithm a packet from receiver to sender that has reached the node before this link. Run the
    /// services due by `now` first.
    fn on_return(&mut self, now: Nanos, frame: &mut F);
    /// Passes a signal to the router algorithm. Run the services due by `now` first.
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
        self.call_hook(now, |agent, port| agent.on_event(port, |router, own| router.on_return(own, frame)));
    }

    fn on_signal(&mut self, now: Nanos, signal: &Signal) {
        self.call_hook(now, |agent, port| agent.on_event(port, |router, own| router.on_signal(own, signal)));
    }
}
