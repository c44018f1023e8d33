//! Builds links, propagation hops and endpoints from the plan of a run.

use narrows_cc::{Bytes, Nanos, Random, Setup};
use narrows_dccp::{Connection, Role};
use narrows_net::DelayLine;
use narrows_routers::{RouterLink, endpoint};
use narrows_scenario::{LinkPlan, Path, Plan};
use narrows_tcp::{Receiver, Sender};
use narrows_traffic::{App, AppConfig};

use super::connections::Connections;
use super::event_sources::Sources;
use super::routes::{Routes, intern};
use super::{Engine, NONE, PropagationHop};
use crate::Link;
use crate::arena::PayloadArena;
use crate::clock::Clock;
use crate::control::ControlPlane;
use crate::datagrams::{DatagramReceiver, DatagramSender};
use crate::ends::{ReceiverEndpoint, SenderEndpoint};
use crate::event_queue::EventQueue;
use crate::metrics::Metrics;
use crate::observer::Observer;

impl Engine {
    /// Builds the network and the endpoints of a run, at virtual time zero.
    pub fn new(plan: Plan) -> Self {
        Self::observed(plan, ())
    }
}

impl<O: Observer> Engine<O> {
    /// Like [`Engine::new`], with an observer.
    pub fn observed(plan: Plan, observer: O) -> Self {
        let (mut steps, mut hop_keys, mut known) = (Vec::new(), Vec::new(), Vec::new());
        let mut alternates: Vec<Routes> = Vec::new();
        let mut routes: Vec<Routes> = Vec::new();
        let routes_of_flow: Vec<u32> = plan
            .flows
            .iter()
            .map(|flow| {
                let mut interned = |path: &Path, alternates| Routes {
                    forward: intern(&mut steps, &mut hop_keys, &mut known, &path.forward),
                    reverse: intern(&mut steps, &mut hop_keys, &mut known, &path.reverse),
                    alternates,
                };
                let first = if flow.alternates.is_empty() { NONE } else { alternates.len() as u32 };
                let own = interned(&flow.path, first);
                alternates.extend(flow.alternates.iter().map(|path| interned(path, NONE)));
                // Many flows share a few pairs of routes, as they share single routes: search the newest pairs only.
                let start = routes.len().saturating_sub(64);
                let known = routes[start..].iter().position(|pair| *pair == own);
                let number = known.map_or(routes.len(), |at| start + at);
                if number == routes.len() {
                    routes.push(own);
                }
                number as u32
            })
            .collect();
        let random = |name, index: usize| Random::stream(plan.seed, name, index as u64);
        let link =
            |(i, own): (usize, &LinkPlan)| narrows_routers::link(&own.config, own.router.as_ref(), random("link", i));
        let links: Vec<Link> = plan.links.iter().enumerate().map(link).collect();
        let mut returns = vec![NONE; links.len()];
        for (i, link) in links.iter().enumerate() {
            if let Some(opposite) = plan.links[i].opposite
                && link.router().is_some_and(|router| router.wants_returns())
            {
                returns[opposite] = i as u32;
            }
        }
        let hops: Vec<PropagationHop> = hop_keys
            .iter()
            .enumerate()
            .map(|(i, &(from, delay, last))| {
                let link = &plan.links[from];
                let mut line = DelayLine::new(delay, link.jitter, link.reordering, random("wire", i));
                if let Some(delays) = &link.delay_trace {
                    line = line.following(delays.clone(), random("wire", i));
                }
                PropagationHop { line, last, returns: returns[from] }
            })
            .collect();
        let connections = Connections::new(&plan);
        let senders: Vec<SenderEndpoint> = plan.flows.iter().map(|flow| SenderEndpoint::Waiting(flow.start)).collect();
        let receivers = plan.flows.iter().map(|_| ReceiverEndpoint::Waiting).collect();

        let sources = Sources::new(hops.len(), links.len(), senders.len(), connections.all.len());
        let mut queue = EventQueue::new(sources.count(), hops.len());
        for (i, connection) in (0..).zip(&connections.all) {
            queue.schedule(sources.connection(i), connection.sender.deadline());
        }
        for (i, sender) in (0..).zip(&senders) {
            if connections.of(i).is_none() {
                queue.schedule(sources.sender(i), sender.deadline());
            }
        }
        for (i, link) in (0..).zip(&links) {
            // A router algorithm may schedule a timer before the first packet arrives.
            if link.next_service() < Nanos::MAX {
                queue.schedule(sources.service(i), link.next_service());
            }
        }
        let clock = Clock::new(&plan);
        queue.schedule(sources.clock(), clock.next());
        let polled = plan.links.iter().map(|link| link.router.as_ref().is_some_and(|router| router.entry.controlled));
        let polled = polled.enumerate().filter(|(_, polled)| *polled).map(|(i, _)| i as u32);
        let control = ControlPlane::new(plan.controller, polled.collect());
        queue.schedule(sources.control(), control.next());
        let mut engine = Self {
            now: Nanos::ZERO,
            events: 0,
            hash: 0xcbf2_9ce4_8422_2325,
            queue,
            links,
            hops,
            senders,
            receivers,
            connections,
            arena: PayloadArena::default(),
            delivered: Vec::new(),
            steps,
            routes,
            routes_of_flow,
            alternates,
            sources,
            clock,
            control,
            metrics: Metrics::new(&plan),
            observer,
            plan,
        };
        // A connection accesses the senders of all its subflows from the start.
        for flow in 0..engine.senders.len() {
            if engine.connections.of(flow as u32).is_some() {
                engine.open(flow);
                let deadline = engine.senders[flow].deadline();
                engine.queue.schedule(engine.sources.sender(flow as u32), deadline);
            }
        }
        engine
    }

    /// Opens both endpoints of a flow.
    #[cold]
    pub(super) fn open(&mut self, index: usize) {
        let Self { plan, connections, .. } = self;
        let (flow, number) = (&plan.flows[index], index as u32);
        let random = |name| Random::stream(plan.seed, name, index as u64);
        if let Some(config) = &flow.datagrams {
            let app = App::new(flow.app, random("app"), flow.start);
            let connection = Connection::new(config, random("scheme"), flow.start);
            let sender = DatagramSender::new(number, connection, app, flow.start, config.datagram);
            self.senders[index] = SenderEndpoint::Datagrams(Box::new(sender));
            // The receiver sends no data, so the scheme of its direction does not matter.
            let config = narrows_dccp::Config { role: Role::Server, ..config.clone() };
            let connection = Connection::new(&config, random("receiver"), Nanos::ZERO);
            let receiver = DatagramReceiver::new(number, connection);
            self.receivers[index] = ReceiverEndpoint::Datagrams(Box::new(receiver));
            return;
        }
        let mss = Bytes::new(u64::from(flow.tcp.segment));
        let scheme = flow.scheme.build(
            &Setup::new(mss, flow.params.clone(), random("scheme"))
                .with_window(flow.tcp.initial_window)
                .with_sack(flow.tcp.sack),
        );
        // A multipath connection owns its application. Only its first subflow starts by itself; the connection opens
        // the others.
        let own = connections.of(number).map(|own| &connections.all[own]);
        let (app, mut receiver) = match own {
            None => (flow.app, Receiver::new(number, &flow.tcp)),
            Some(_) => (AppConfig::Subflow, Receiver::of_subflow(number, &flow.tcp)),
        };
        if flow.scheme.rate_protocol.is_some() {
            endpoint::attach_receiver(&mut receiver, &flow.negotiation);
        }
        self.receivers[index] = ReceiverEndpoint::Stream(Box::new(receiver));
        let opens = own.is_none_or(|own| own.flows.start == index);
        let start = if opens { flow.start } else { Nanos::MAX };
        let app = App::new(app, random("app"), start);
        let mut sender = Sender::new(number, flow.tcp.clone(), scheme, app, start);
        endpoint::attach_sender(&mut sender, &flow.negotiation);
        self.senders[index] = SenderEndpoint::Stream(Box::new(sender));
    }
}
