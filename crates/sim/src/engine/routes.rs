//! The ways of packets: steps over links and wires, shared by all flows that take the same ones.

use narrows_cc::Nanos;
use narrows_packet::{Flags, Packet};
use narrows_scenario::Hop;

use super::Engine;
use crate::observer::Observer;

/// One step of a route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Step {
    pub(super) link: u32,
    pub(super) wire: u32,
}

/// Where a route begins in the list of steps.
pub(super) type Route = u32;

/// The way of a flow's data and the way of its acknowledgements.
#[derive(Clone, Copy, Debug)]
pub(super) struct Routes {
    pub(super) forward: Route,
    pub(super) reverse: Route,
    /// Where its other ways begin in the list of those.
    pub(super) others: u32,
}

/// A wire before it is built: the link before it, the propagation delay, whether it ends at endpoints.
pub(super) type WireKey = (usize, Nanos, bool);

/// The route over these hops, with new wires where none is known.
pub(super) fn intern(
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

impl<O: Observer> Engine<O> {
    /// The steps of a route.
    pub(super) fn way(&self, route: Route) -> impl Iterator<Item = Step> + '_ {
        let steps = &self.steps[route as usize..];
        let end = steps.iter().position(|step| self.wires[step.wire as usize].last);
        steps[..=end.unwrap_or(steps.len() - 1)].iter().copied()
    }

    /// The ways of the packet's flow, on the path it takes.
    #[inline]
    pub(super) fn routes_of(&self, packet: &Packet) -> Routes {
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
    pub(super) fn step_of(&self, packet: &Packet) -> Step {
        self.steps[(self.route_of(packet) + u32::from(packet.hop)) as usize]
    }
}
