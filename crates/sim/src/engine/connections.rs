//! Multipath connections. Each subflow is a flow with its own sender and receiver.

use std::ops::Range;

use narrows_cc::{Bytes, Nanos, Random};
use narrows_packet::{Flags, Packet};
use narrows_scenario::result::{ConnectionResult, RunResult};
use narrows_scenario::{ConnectionPlan, FlowPlan, Plan};
use narrows_tcp::ConnectionConfig;
use narrows_tcp::multipath::{MultipathReceiver, MultipathSender};
use narrows_traffic::App;

use super::{Engine, NONE};
use crate::ends::ReceiverEndpoint;
use crate::fairness::jain;
use crate::observer::{Observer, PacketEvent, Passage};

/// A multipath connection and the numbers of its subflows.
#[derive(Debug)]
pub(super) struct Connection {
    pub(super) sender: MultipathSender,
    pub(super) receiver: MultipathReceiver,
    pub(super) flows: Range<usize>,
    /// Start of the measurement; `before` is the number of bytes delivered before it.
    from: Nanos,
    before: u64,
    /// Bytes delivered when the application stopped.
    at_stop: Option<u64>,
}

impl Connection {
    fn delivered(&self) -> u64 {
        self.receiver.stats().bytes_in_order
    }

    /// Known end of the connection: completion, or the planned stop.
    fn end(&self, plan: &FlowPlan) -> Nanos {
        self.sender.completed_at().or(plan.stop).unwrap_or(Nanos::MAX)
    }

    fn result(&self, plan: &ConnectionPlan, flow: &FlowPlan, end: Nanos) -> ConnectionResult {
        let (sent, got) = (self.sender.stats(), self.receiver.stats());
        let active = self.end(flow).min(end) - self.from;
        let measured = self.at_stop.unwrap_or(got.bytes_in_order) - self.before;
        ConnectionResult {
            connection: plan.label.clone(),
            scheme: flow.scheme.info.name,
            subflows: plan.subflows,
            goodput_mbit_s: if active.is_zero() { 0.0 } else { measured as f64 * 8e-6 / active.as_secs_f64() },
            completion_s: self.sender.completed_at().map(|at| (at - flow.start).as_secs_f64()),
            start_s: flow.start.as_secs_f64(),
            bytes_delivered: got.bytes_in_order,
            duplicate_bytes: got.duplicate_bytes,
            reorder_peak_bytes: got.most_waiting,
            reinjected_bytes: sent.reinjected_bytes,
            rescued_bytes: sent.opportunistic_bytes,
            paths_given_up: sent.given_up,
        }
    }
}

/// All multipath connections, and the index of each flow's connection.
#[derive(Debug, Default)]
pub(super) struct Connections {
    pub(super) all: Vec<Connection>,
    of_flow: Vec<u32>,
}

impl Connections {
    pub(super) fn new(plan: &Plan) -> Self {
        let mut of_flow = Vec::new();
        if !plan.connections.is_empty() {
            of_flow.resize(plan.flows.len(), NONE);
        }
        let connection = |(number, row): (usize, &ConnectionPlan)| {
            let flows = row.first..row.first + row.subflows;
            of_flow[flows.clone()].fill(number as u32);
            let first = &plan.flows[row.first];
            let config = ConnectionConfig {
                scheduler: row.scheduler,
                subflows: row.subflows,
                coupled: first.scheme.coupled,
                segment: first.tcp.segment,
                receive_window: row.receive_window,
            };
            let random = Random::stream(plan.seed, "app", row.first as u64);
            Connection {
                receiver: MultipathReceiver::new(row.first as u32, &config),
                sender: MultipathSender::new(row.first as u32, config, App::new(row.app, random, first.start)),
                flows,
                from: first.start,
                before: 0,
                at_stop: None,
            }
        };
        Self { all: plan.connections.iter().enumerate().map(connection).collect(), of_flow }
    }

    /// Ends the warm-up: restarts the means of connections that have not ended.
    pub(super) fn on_warm(&mut self, now: Nanos, plan: &Plan) {
        for own in &mut self.all {
            if own.end(&plan.flows[own.flows.start]) > now {
                (own.from, own.before) = (own.from.max(now), own.delivered());
            }
        }
    }

    /// Adds the rows of connections to the results of a run.
    pub(super) fn report(&self, plan: &Plan, end: Nanos, result: &mut RunResult) {
        if self.all.is_empty() {
            return;
        }
        let row = |(own, row): (&Connection, &ConnectionPlan)| own.result(row, &plan.flows[row.first], end);
        result.connections = self.all.iter().zip(&plan.connections).map(row).collect();
        let alone = result.flows.iter().zip(&self.of_flow).filter(|(_, own)| **own == NONE);
        let alone = alone.map(|(flow, _)| flow.goodput_mbit_s);
        result.jain = jain(alone.chain(result.connections.iter().map(|own| own.goodput_mbit_s)));
        let memory = |own: &Connection| (own.sender.memory() + own.receiver.memory()) as u64;
        if let Some(peak) = &mut result.peak_flow_bytes {
            *peak += self.all.iter().map(memory).max().unwrap_or(0);
        }
    }

    /// The connection of a flow, if any.
    #[inline]
    pub(super) fn of(&self, flow: u32) -> Option<usize> {
        // Most runs have no multipath connection.
        if self.all.is_empty() {
            return None;
        }
        Some(self.of_flow[flow as usize]).filter(|&own| own != NONE).map(|own| own as usize)
    }
}

impl<O: Observer> Engine<O> {
    /// A packet of a subflow reaches its endpoint.
    pub(super) fn deliver_to(&mut self, connection: usize, packet: &Packet) {
        let (now, flow) = (self.now, packet.flow);
        let own = &mut self.connections.all[connection];
        if packet.flags.has(Flags::REVERSE) {
            self.observer.packet(now, PacketEvent::Ack, None, packet);
            let outcome = own.sender.on_packet(now, packet, &mut self.senders[own.flows.clone()]);
            if let Some(rtt) = outcome.rtt {
                self.metrics.on_rtt(flow, rtt);
            }
            self.note(flow, O::processed);
            self.transmit_from(connection);
        } else {
            self.observer.packet(now, PacketEvent::Deliver, None, packet);
            let ReceiverEndpoint::Stream(receiver) = &mut self.receivers[flow as usize] else {
                unreachable!("subflows use TCP")
            };
            let deadline = receiver.deadline();
            own.receiver.on_packet(now, packet, receiver);
            self.acknowledge(flow, deadline);
        }
    }

    /// Sends all packets that a connection may send now and sets its timers.
    pub(super) fn transmit_from(&mut self, connection: usize) {
        let flows = self.connections.all[connection].flows.clone();
        loop {
            let own = &mut self.connections.all[connection];
            let Some(packet) = own.sender.poll_transmit(self.now, &mut self.senders[flows.clone()]) else {
                break;
            };
            self.observer.packet(self.now, PacketEvent::Send, None, &packet);
            self.observer.passage(self.now, Passage::Leaves, &packet, &self.arena);
            self.offer(self.step_of(&packet), &packet);
        }
        for flow in flows {
            let sender = &self.senders[flow];
            self.metrics.on_transmitted(self.now, flow as u32, sender);
            self.queue.schedule(self.sources.sender(flow as u32), sender.deadline());
            self.note(flow as u32, O::transmitted);
        }
        let deadline = self.connections.all[connection].sender.deadline();
        self.queue.schedule(self.sources.connection(connection as u32), deadline);
    }

    /// Processes the timer of a subflow's sender.
    pub(super) fn on_subflow_timer(&mut self, connection: usize, flow: usize) {
        let own = &mut self.connections.all[connection];
        let senders = &mut self.senders[own.flows.clone()];
        own.sender.on_subflow_timer(self.now, flow - own.flows.start, senders);
        self.note(flow as u32, O::processed);
        self.transmit_from(connection);
    }

    /// Processes the timer of a connection's application.
    pub(super) fn on_connection(&mut self, connection: usize) {
        let own = &mut self.connections.all[connection];
        own.sender.on_timer(self.now, &mut self.senders[own.flows.clone()]);
        self.transmit_from(connection);
    }

    /// Stops the application of a connection.
    pub(super) fn stop_connection(&mut self, connection: usize) {
        let own = &mut self.connections.all[connection];
        if own.sender.completed_at().is_none() && own.at_stop.is_none() {
            own.at_stop = Some(own.delivered());
        }
        own.sender.stop(self.now, &mut self.senders[own.flows.clone()]);
        self.transmit_from(connection);
    }

    /// Payload that a multipath connection has delivered in order so far.
    pub fn connection_delivered(&self, connection: usize) -> Bytes {
        Bytes::new(self.connections.all[connection].receiver.stats().bytes_in_order)
    }
}
