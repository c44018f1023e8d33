//! Properties common to all connections of an entry of `flows`: scheme, transport, and the path of each subflow.

use narrows_cc::{Bytes, Nanos};
use narrows_tcp::multipath::MAPPING_BYTES;

use crate::diagnostic::{Diagnostic, refuse, show};
use crate::flows::{self, Kind};
use crate::identity::Identity;
use crate::quantity::Time;
use crate::schema::{Flow, Network, Scenario};
use crate::subflows;
use crate::topology::{Route, Topology};
use crate::transport;

/// Maximum number of hops of a route, because packets count their hops in eight bits.
const MAX_HOPS: usize = 250;

/// One entry of `flows`, with the properties common to its connections resolved.
pub(crate) struct FlowEntry {
    pub(crate) kind: Kind,
    pub(crate) identity: Identity,
    /// The subflows; a plain flow has one.
    pub(crate) subflows: Vec<SubflowPath>,
    pub(crate) alternates: Vec<Route>,
    /// Bytes of the multipath mapping in each packet, in addition to header and segment.
    mapping: u16,
}

/// The path of a subflow.
pub(crate) struct SubflowPath {
    pub(crate) route: Route,
    pub(crate) rtt: Nanos,
    /// Delays added to the forward path and to the reverse path, so that each takes half of the RTT.
    pub(crate) slack: (Nanos, Nanos),
}

impl SubflowPath {
    fn new(
        scenario: &Scenario,
        topology: &Topology<'_>,
        (flow, table): &(Flow, String),
        alternates: &[Route],
        route: Route,
    ) -> Result<Self, Diagnostic> {
        let network = &scenario.network;
        let ends = access_ends(network);
        let longest = |route: &Route| route.forward.len().max(route.reverse.len());
        if alternates.iter().map(longest).fold(longest(&route), usize::max) + ends > MAX_HOPS {
            return refuse(table, "the route is too long", format!("at most {MAX_HOPS} links"));
        }
        let access = network.access_delay.as_ref().map_or(Nanos::ZERO, Time::value) * ends as u64 * 2;
        let delays = |route: &[usize]| route.iter().map(|&link| topology.links[link].delay).sum::<Nanos>();
        let path = access + delays(&route.forward) + delays(&route.reverse);
        let key = format!("{table}.rtt");
        let rtt = match &flow.rtt {
            Some(rtt) if rtt.value().is_zero() => {
                return refuse(key, "an RTT of zero", "a time above zero such as 40ms");
            }
            Some(rtt) if rtt.value() < path => {
                let message = format!("`{rtt}` is less than the delay of the path, {}", show(path));
                return refuse(key, message, format!("at least {}, or links with less delay", show(path)));
            }
            Some(rtt) => rtt.value(),
            None if topology.is_dumbbell() => {
                return refuse(key, "this key is missing", "a time such as 40ms");
            }
            None if path.is_zero() => {
                return refuse(key, "the path has no delay", "an rtt here, or links with delay");
            }
            None => path,
        };
        let slack = rtt - path;
        let half = slack / 2;
        Ok(Self { route, rtt, slack: (half, slack - half) })
    }
}

impl FlowEntry {
    pub(crate) fn new(scenario: &Scenario, topology: &Topology<'_>, index: usize) -> Result<Self, Diagnostic> {
        let kind = flows::kind(scenario, index)?;
        let mut alternates = Vec::new();
        let mut subflows = Vec::new();
        for subflow in subflows::each(&scenario.flows[index], index, kind.scheme)? {
            let route = topology.route(&subflow.0, &subflow.1)?;
            alternates = topology.alternatives(&subflow.0, &subflow.1, &route)?;
            subflows.push(SubflowPath::new(scenario, topology, &subflow, &alternates, route)?);
        }
        let protocol = transport::protocol(&scenario.flows[index], kind.scheme);
        let identity = Identity::new(scenario, index, 1 + alternates.len(), protocol)?;
        let mapping = if scenario.flows[index].subflows.is_some() { MAPPING_BYTES } else { 0 };
        Ok(Self { kind, identity, subflows, alternates, mapping })
    }

    /// All data paths, including alternate paths.
    pub(crate) fn paths(&self) -> impl Iterator<Item = &Route> {
        self.subflows.iter().map(|subflow| &subflow.route).chain(&self.alternates)
    }

    /// The longest base RTT of the subflows.
    pub(crate) fn rtt(&self) -> Nanos {
        self.subflows.iter().map(|subflow| subflow.rtt).max().unwrap_or(Nanos::ZERO)
    }

    /// Size of a full packet in bytes.
    pub(crate) fn packet(&self) -> Bytes {
        Bytes::new([self.kind.tcp.segment, self.kind.tcp.header, self.mapping].map(u64::from).iter().sum())
    }
}

/// Number of access links on a path through this network.
pub(crate) fn access_ends(network: &Network) -> usize {
    match (&network.access_rate, network.receiver_access.unwrap_or(true)) {
        (None, _) => 0,
        (Some(_), false) => 1,
        (Some(_), true) => 2,
    }
}
