//! What all connections of an entry of `flows` share: scheme, transport, and the way of each subflow.

use narrows_cc::{Bytes, Nanos};
use narrows_tcp::multipath::MAPPING_BYTES;

use crate::datagrams;
use crate::fault::{Fault, show};
use crate::flows::{self, Kind};
use crate::identity::Identity;
use crate::quantity::Time;
use crate::schema::{Flow, Network, Scenario};
use crate::subflows;
use crate::topology::{Route, Topology};

/// The longest route a packet can count.
const MAX_HOPS: usize = 250;

/// One entry of `flows`, resolved as far as all its connections agree.
pub(crate) struct Entry {
    pub(crate) kind: Kind,
    pub(crate) identity: Identity,
    /// The subflows; one, if it is a plain flow.
    pub(crate) legs: Vec<Leg>,
    pub(crate) others: Vec<Route>,
    /// What a packet has besides header and segment.
    mapping: u16,
}

/// The way of a subflow.
pub(crate) struct Leg {
    pub(crate) route: Route,
    pub(crate) rtt: Nanos,
    /// What the wires of each direction lack of the RTT.
    pub(crate) slack: (Nanos, Nanos),
}

impl Leg {
    fn new(
        scenario: &Scenario,
        topology: &Topology<'_>,
        (flow, table): &(Flow, String),
        others: &[Route],
        route: Route,
    ) -> Result<Self, Fault> {
        let network = &scenario.network;
        let ends = access_ends(network);
        let longest = |route: &Route| route.forward.len().max(route.reverse.len());
        if others.iter().map(longest).fold(longest(&route), usize::max) + ends > MAX_HOPS {
            return Err(
                Fault::new(table, "the route is too long").accepted(format!("at most {MAX_HOPS} links"))
            );
        }
        let access = network.access_delay.as_ref().map_or(Nanos::ZERO, Time::value) * ends as u64 * 2;
        let wires = |route: &[usize]| route.iter().map(|&wire| topology.wires[wire].delay).sum::<Nanos>();
        let way = access + wires(&route.forward) + wires(&route.reverse);
        let key = format!("{table}.rtt");
        let rtt = match &flow.rtt {
            Some(rtt) if rtt.value().is_zero() => {
                return Err(Fault::new(key, "an RTT of zero").accepted("a time above zero such as 40ms"));
            }
            Some(rtt) if rtt.value() < way => {
                let message =
                    format!("`{rtt}` is less than the {} that the links on the way take", show(way));
                return Err(Fault::new(key, message)
                    .accepted(format!("at least {}, or links of less delay", show(way))));
            }
            Some(rtt) => rtt.value(),
            None if topology.is_dumbbell() => {
                return Err(Fault::new(key, "this key is missing").accepted("a time such as 40ms"));
            }
            None if way.is_zero() => {
                return Err(Fault::new(key, "the links have no delay")
                    .accepted("an rtt here, or a delay of the links"));
            }
            None => way,
        };
        let slack = rtt - way;
        let half = slack / 2;
        Ok(Self { route, rtt, slack: (half, slack - half) })
    }
}

impl Entry {
    pub(crate) fn new(scenario: &Scenario, topology: &Topology<'_>, index: usize) -> Result<Self, Fault> {
        let kind = flows::kind(scenario, index)?;
        let mut others = Vec::new();
        let mut legs = Vec::new();
        for leg in subflows::legs(&scenario.flows[index], index, kind.scheme)? {
            let route = topology.route(&leg.0, &leg.1)?;
            others = topology.alternatives(&leg.0, &leg.1, &route)?;
            legs.push(Leg::new(scenario, topology, &leg, &others, route)?);
        }
        let protocol = datagrams::protocol(&scenario.flows[index], kind.scheme);
        let identity = Identity::new(scenario, index, 1 + others.len(), protocol)?;
        let mapping = if scenario.flows[index].subflows.is_some() { MAPPING_BYTES } else { 0 };
        Ok(Self { kind, identity, legs, others, mapping })
    }

    /// All ways that its data may take.
    pub(crate) fn ways(&self) -> impl Iterator<Item = &Route> {
        self.legs.iter().map(|leg| &leg.route).chain(&self.others)
    }

    /// The longest base RTT.
    pub(crate) fn rtt(&self) -> Nanos {
        self.legs.iter().map(|leg| leg.rtt).max().unwrap_or(Nanos::ZERO)
    }

    /// A full packet.
    pub(crate) fn packet(&self) -> Bytes {
        Bytes::new([self.kind.tcp.segment, self.kind.tcp.header, self.mapping].map(u64::from).iter().sum())
    }
}

/// How many access links a packet crosses.
pub(crate) fn access_ends(network: &Network) -> usize {
    match (&network.access_rate, network.receiver_access.unwrap_or(true)) {
        (None, _) => 0,
        (Some(_), false) => 1,
        (Some(_), true) => 2,
    }
}
