//! What happens beside the ways of packets: messages between ports, the controller's polls, packets that nodes send.
//! All of it waits in one list in the order of its times; the engine has one event source for it.

use std::collections::BTreeMap;

use narrows_cc::Nanos;
use narrows_net::PortStatistics;
use narrows_packet::Packet;
use narrows_routers::Signal;
use narrows_routers::controller::{Config, Controller};

/// Something that is due at a certain time.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Notice {
    /// A packet that a node sent goes on from here; its hop counts the steps already taken.
    Packet(Packet),
    /// A message reaches the router algorithm of a link.
    Signal { link: u32, signal: Signal },
    /// The controller asks for the counters of all its ports.
    Poll,
    /// The question reaches the switch.
    Read { port: u32 },
    /// The answer reaches the controller.
    Judge { port: u32, read: Nanos, counters: PortStatistics },
}

/// The list, and the controller with the ports it polls.
#[derive(Debug)]
pub(crate) struct ControlPlane {
    due: BTreeMap<(Nanos, u64), Notice>,
    /// Notices so far: those of one time keep the order in which they came.
    number: u64,
    controller: Controller,
    /// Links whose ports it polls.
    ports: Vec<u32>,
}

impl ControlPlane {
    /// With a controller of these ports.
    pub(crate) fn new(config: Config, ports: Vec<u32>) -> Self {
        let mut plane =
            Self { due: BTreeMap::new(), number: 0, controller: Controller::new(config, ports.len()), ports };
        if !plane.ports.is_empty() {
            plane.at(Nanos::ZERO, Notice::Poll);
        }
        plane
    }

    /// Notes something that is due at `at`.
    pub(crate) fn at(&mut self, at: Nanos, notice: Notice) {
        self.due.insert((at, self.number), notice);
        self.number += 1;
    }

    /// When the first is due; [`Nanos::MAX`]: there is none.
    pub(crate) fn next(&self) -> Nanos {
        self.due.first_key_value().map_or(Nanos::MAX, |((at, _), _)| *at)
    }

    /// Takes out what is due by now.
    pub(crate) fn take(&mut self, now: Nanos) -> Option<Notice> {
        if self.next() <= now { self.due.pop_first().map(|(_, notice)| notice) } else { None }
    }

    /// How long a message takes over the control network, one way.
    pub(crate) fn delay(&self) -> Nanos {
        self.controller.config().delay
    }

    /// The controller asks all its ports, and will again.
    pub(crate) fn poll(&mut self, now: Nanos) {
        let Config { poll, delay, .. } = *self.controller.config();
        for port in 0..self.ports.len() as u32 {
            self.at(now.saturating_add(delay), Notice::Read { port });
        }
        self.at(now.saturating_add(poll), Notice::Poll);
    }

    /// The link of a port.
    pub(crate) fn link(&self, port: u32) -> u32 {
        self.ports[port as usize]
    }

    /// The controller reads the counters of a port, and tells it if it is congested.
    pub(crate) fn judge(&mut self, now: Nanos, port: u32, read: Nanos, counters: &PortStatistics) {
        if let Some(congestion) = self.controller.on_statistics(port as usize, read, counters) {
            let link = self.link(port);
            let signal = Signal::Congested(congestion);
            self.at(now.saturating_add(self.delay()), Notice::Signal { link, signal });
        }
    }
}
