//! Control plane: messages between ports, polls of the controller, and packets sent by nodes. All events wait
//! in one list ordered by time; the engine has one event source for the whole list.

use std::collections::BTreeMap;

use narrows_cc::Nanos;
use narrows_net::PortStatistics;
use narrows_packet::Packet;
use narrows_routers::Signal;
use narrows_routers::controller::{Config, Controller};

/// A control-plane event.
#[derive(Clone, Copy, Debug)]
pub(crate) enum ControlEvent {
    /// A packet sent by a node enters its route; its `hop` counts the steps already taken.
    Packet(Packet),
    /// A message reaches the router algorithm of a link.
    Signal { link: u32, signal: Signal },
    /// The controller requests the counters of all its ports.
    Poll,
    /// A request for a port's counters reaches the switch.
    Request { port: u32 },
    /// A reply with a port's counters, read at `read_at`, reaches the controller.
    Reply { port: u32, read_at: Nanos, counters: PortStatistics },
}

/// Pending events, and the controller with the ports it polls.
#[derive(Debug)]
pub(crate) struct ControlPlane {
    pending: BTreeMap<(Nanos, u64), ControlEvent>,
    /// Number of events inserted so far. It is part of the key, so events at equal times keep their order of insertion.
    number: u64,
    controller: Controller,
    /// Links whose ports the controller polls.
    ports: Vec<u32>,
}

impl ControlPlane {
    /// A control plane whose controller polls the ports of these links.
    pub(crate) fn new(config: Config, ports: Vec<u32>) -> Self {
        let mut plane =
            Self { pending: BTreeMap::new(), number: 0, controller: Controller::new(config, ports.len()), ports };
        if !plane.ports.is_empty() {
            plane.at(Nanos::ZERO, ControlEvent::Poll);
        }
        plane
    }

    /// Schedules an event.
    pub(crate) fn at(&mut self, at: Nanos, event: ControlEvent) {
        self.pending.insert((at, self.number), event);
        self.number += 1;
    }

    /// Time of the next event; [`Nanos::MAX`] if there is none.
    pub(crate) fn next(&self) -> Nanos {
        self.pending.first_key_value().map_or(Nanos::MAX, |((at, _), _)| *at)
    }

    /// Removes the next event that is due at `now`.
    pub(crate) fn take(&mut self, now: Nanos) -> Option<ControlEvent> {
        if self.next() <= now { self.pending.pop_first().map(|(_, event)| event) } else { None }
    }

    /// One-way delay of the control network.
    pub(crate) fn delay(&self) -> Nanos {
        self.controller.config().delay
    }

    /// The controller requests the counters of all its ports and schedules the next poll.
    pub(crate) fn poll(&mut self, now: Nanos) {
        let Config { poll, delay, .. } = *self.controller.config();
        for port in 0..self.ports.len() as u32 {
            self.at(now.saturating_add(delay), ControlEvent::Request { port });
        }
        self.at(now.saturating_add(poll), ControlEvent::Poll);
    }

    /// The link of a port.
    pub(crate) fn link(&self, port: u32) -> u32 {
        self.ports[port as usize]
    }

    /// The controller evaluates the counters of a port; if the port is congested, it sends the port a signal.
    pub(crate) fn on_reply(&mut self, now: Nanos, port: u32, read_at: Nanos, counters: &PortStatistics) {
        if let Some(congestion) = self.controller.on_statistics(port as usize, read_at, counters) {
            let link = self.link(port);
            let signal = Signal::Congested(congestion);
            self.at(now.saturating_add(self.delay()), ControlEvent::Signal { link, signal });
        }
    }
}
