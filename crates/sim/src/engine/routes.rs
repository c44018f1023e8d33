//! Routes: steps over links and propagation hops, shared by all flows with the same path.

use narrows_cc::Nanos;
use narrows_packet::{Flags, Packet};
use narrows_scenario::Hop;

use super::Engine;
use crate::observer::Observer;

/// One step of a route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Step {
    pub(super) link: u32,
    /// Propagation hop behind the link.
    pub(super) hop: u32,
}

/// Index of a route's first step.
pub(super) type Route = u32;

/// Routes of a flow's data and of its acknowledgements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Routes {
    pub(super) forward: Route,
    pub(super) reverse: Route,
    /// Index of the flow's first alternate path, or `NONE`.
    pub(super) alternates: u32,
}

/// Identity of a propagation hop: the link before it, its delay, and whether it ends at endpoints.
pub(super) type HopKey = (usize, Nanos, bool);

/// Returns the route over these hops; adds the route and its propagation hops to the tables if they are new.
pub(super) fn intern(
    steps: &mut Vec<Step>,
    keys: &mut Vec<HopKey>,
    known: &mut Vec<(Vec<Step>, Route)>,
    hops: &[Hop],
) -> Route {
    let route: Vec<Step> = hops
        .iter()
        .enumerate()
        .map(|(i, hop)| {
            let key = (hop.link, hop.delay, i + 1 == hops.len());
            // Most flows share a few propagation hops, so search the newest first.
            let known_hop = keys.iter().rposition(|k| *k == key).unwrap_or_else(|| {
                keys.push(key);
                keys.len() - 1
            });
            Step { link: hop.link as u32, hop: known_hop as u32 }
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
    pub(super) fn steps_of_route(&self, route: Route) -> impl Iterator<Item = Step> + '_ {
        let steps = &self.steps[route as usize..];
        let end = steps.iter().position(|step| self.hops[step.hop as usize].last);
        steps[..=end.unwrap_or(steps.len() - 1)].iter().copied()
    }

    /// Routes of the packet's flow on the packet's path.
    #[inline]
    pub(super) fn routes_of(&self, packet: &Packet) -> Routes {
        let routes = self.routes[self.routes_of_flow[packet.flow as usize] as usize];
        match packet.path() {
            0 => routes,
            path => self.alternates[routes.alternates as usize + usize::from(path) - 1],
        }
    }

    #[inline]
    fn route_of(&self, packet: &Packet) -> Route {
        let routes = self.routes_of(packet);
        if packet.flags.has(Flags::REVERSE) { routes.reverse } else { routes.forward }
    }

    /// The packet's current step.
    #[inline]
    pub(super) fn step_of(&self, packet: &Packet) -> Step {
        self.steps[(self.route_of(packet) + u32::from(packet.hop)) as usize]
    }
}
