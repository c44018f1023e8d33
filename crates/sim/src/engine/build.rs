//! Builds links, propagation hops and endpoints from the plan of a run.

use std::sync::Arc;

use narrows_cc::{Bytes, Nanos, Random, Setup};
use narrows_dccp::{Connection, Role};
use narrows_net::DelayLine;
use narrows_routers::{RouterLink, endpoint};
use narrows_scenario::{FlowPlan, LinkPlan, Path, Plan};
use narrows_tcp::{Receiver, Sender, TcpConfig, multipath};
use narrows_traffic::{App, AppConfig};

use super::connections::Connections;
use super::routes::{Routes, intern};
use super::sources::Sources;
use super::{Engine, NONE, PropagationHop};
use crate::Link;
use crate::clock::Clock;
use crate::control::ControlPlane;
use crate::datagrams::{self, PayloadArena};
use crate::ends::{ReceiverEndpoint, SenderEndpoint};
use crate::metrics::Metrics;
use crate::observer::Observer;
use crate::queue::EventQueue;

/// The receiver of a TCP flow, with rate negotiation if the scheme uses it.
/// The shared copy of these settings.
fn shared(all: &mut Vec<Arc<TcpConfig>>, settings: &TcpConfig) -> Arc<TcpConfig> {
    // Equal settings usually follow each other.
    if let Some(known) = all.iter().rev().take(16).find(|known| ***known == *settings) {
        return known.clone();
    }
    all.push(Arc::new(settings.clone()));
    all[all.len() - 1].clone()
}

fn stream_receiver(number: u32, flow: &FlowPlan, tcp: &TcpConfig) -> Receiver {
    let mut receiver = Receiver::new(number, tcp);
    if flow.scheme.rate_protocol.is_some() {
        endpoint::attach_receiver(&mut receiver, &flow.negotiation);
    }
    receiver
}

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
        let routes: Vec<Routes> = plan
            .flows
            .iter()
            .map(|flow| {
                let mut interned = |path: &Path, alternates| Routes {
                    forward: intern(&mut steps, &mut hop_keys, &mut known, &path.forward),
                    reverse: intern(&mut steps, &mut hop_keys, &mut known, &path.reverse),
                    alternates,
                };
                let first = interned(&flow.path, alternates.len() as u32);
                alternates.extend(flow.alternates.iter().map(|path| interned(path, NONE)));
                first
            })
            .collect();
        let random = |name, index: usize| Random::stream(plan.seed, name, index as u64);
        let link = |(i, own): (usize, &LinkPlan)| {
            narrows_routers::link(&own.config, own.router.as_ref(), random("link", i))
        };
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
        // Flows with the same settings share them.
        let mut settings: Vec<Arc<TcpConfig>> = Vec::new();
        let senders: Vec<SenderEndpoint> = plan
            .flows
            .iter()
            .enumerate()
            .map(|(i, flow)| {
                if let Some(config) = &flow.datagrams {
                    let app = App::new(flow.app, random("app", i), flow.start);
                    let connection = Connection::new(config, random("scheme", i), flow.start);
                    let sender = datagrams::DatagramSender::new(
                        i as u32,
                        connection,
                        app,
                        flow.start,
                        config.datagram,
                    );
                    return SenderEndpoint::Datagrams(Box::new(sender));
                }
                let mss = Bytes::new(u64::from(flow.tcp.segment));
                let scheme = flow.scheme.build(&Setup {
                    mss,
                    initial_window: mss * u64::from(flow.tcp.initial_window),
                    sack: flow.tcp.sack,
                    random: random("scheme", i),
                    params: flow.params.clone(),
                });
                // A multipath connection owns the application; its first subflow opens the others.
                let own = connections.of(i as u32).map(|own| &connections.all[own]);
                let (app, start) = match own {
                    None => (flow.app, flow.start),
                    Some(own) if own.flows.start == i => (AppConfig::Subflow, flow.start),
                    Some(_) => (AppConfig::Subflow, Nanos::MAX),
                };
                let app = App::new(app, random("app", i), start);
                let mut sender = Sender::new(i as u32, shared(&mut settings, &flow.tcp), scheme, app, start);
                endpoint::attach_sender(&mut sender, &flow.negotiation);
                SenderEndpoint::Stream(sender)
            })
            .collect();
        let receiver = |(i, flow): (usize, &FlowPlan)| match (connections.of(i as u32), &flow.datagrams) {
            (_, Some(sending)) => {
                // It sends no data, so its own scheme does not matter.
                let config = narrows_dccp::Config { role: Role::Server, ..sending.clone() };
                let connection = Connection::new(&config, random("receiver", i), Nanos::ZERO);
                ReceiverEndpoint::Datagrams(Box::new(datagrams::DatagramReceiver::new(i as u32, connection)))
            }
            (None, None) => ReceiverEndpoint::Stream(stream_receiver(i as u32, flow, &flow.tcp)),
            (Some(_), None) => ReceiverEndpoint::Stream(stream_receiver(
                i as u32,
                flow,
                &multipath::subflow_config(&flow.tcp),
            )),
        };
        let receivers = plan.flows.iter().enumerate().map(receiver).collect();

        let sources = Sources::new(hops.len(), links.len(), senders.len(), connections.all.len());
        let mut queue = EventQueue::new(sources.count());
        for (i, connection) in (0..).zip(&connections.all) {
            queue.schedule(sources.connection(i), connection.sender.deadline());
        }
        for (i, sender) in (0..).zip(&senders) {
            queue.schedule(sources.sender(i), sender.deadline());
        }
        for (i, link) in (0..).zip(&links) {
            // Router algorithms may schedule a timer before the first packet.
            if link.next_service() < Nanos::MAX {
                queue.schedule(sources.service(i), link.next_service());
            }
        }
        let clock = Clock::new(&plan);
        queue.schedule(sources.clock(), clock.next());
        let polled =
            plan.links.iter().map(|link| link.router.as_ref().is_some_and(|router| router.entry.controlled));
        let polled = polled.enumerate().filter(|(_, polled)| *polled).map(|(i, _)| i as u32);
        let control = ControlPlane::new(plan.controller, polled.collect());
        queue.schedule(sources.control(), control.next());
        Self {
            now: Nanos::ZERO,
            events: 0,
            hash: 0xcbf2_9ce4_8422_2325,
            queue,
            links,
            hops,
            sender_lines: senders.iter().map(SenderEndpoint::used_lines).max().unwrap_or(0),
            senders,
            receivers,
            connections,
            arena: PayloadArena::default(),
            steps,
            routes,
            alternates,
            sources,
            clock,
            control,
            metrics: Metrics::new(&plan),
            observer,
            plan,
        }
    }
}
