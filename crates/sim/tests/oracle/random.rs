//! Random connected networks with flows, as input of the oracle and as scenario text.

use narrows_cc::{Bytes, Random, schemes};
use narrows_routers::protocol::Explicit;

use super::{Flow, max_min, max_min_beside_acks};

/// Packet format of a scheme on the wire, and the router algorithm at the links.
#[derive(Clone, Debug)]
pub struct Wire {
    /// The router algorithm that reads the scheme's header.
    pub router: &'static str,
    /// Payload share of a full packet.
    pub payload: f64,
    /// Bytes of ACKs per byte of full data packets, with one ACK per two packets.
    pub acks: f64,
}

const SEGMENT: Bytes = Bytes::new(1448);

fn explicit(entry: &schemes::Entry) -> Option<Explicit> {
    entry.rate_protocol.and_then(Explicit::named)
}

/// All registered schemes with an explicit-rate protocol.
pub fn explicit_rate_schemes() -> Vec<&'static str> {
    schemes::ALL.iter().filter(|entry| explicit(entry).is_some()).map(|entry| entry.info.name).collect()
}

/// The packet format of a registered scheme with an explicit-rate protocol.
pub fn wire(scheme: &str) -> Wire {
    const HEADER: f64 = 52.0;
    let entry = schemes::find(scheme).unwrap_or_else(|| panic!("there is no scheme {scheme}"));
    let explicit = explicit(entry).unwrap_or_else(|| panic!("{scheme} has no explicit-rate protocol"));
    let header = HEADER + f64::from(explicit.header_bytes());
    let packet = SEGMENT.as_f64() + header;
    Wire { router: explicit.router(), payload: SEGMENT.as_f64() / packet, acks: header / (2.0 * packet) }
}

/// A duplex link. The two directions of edge n are separate links of the oracle, with the numbers 2n and 2n + 1.
#[derive(Clone, Debug)]
pub struct Edge {
    /// Whether the link has a router algorithm.
    pub shared: bool,
    /// The nodes at its ends.
    pub ends: (usize, usize),
    /// Rate of either direction in Mbit/s.
    pub rate: f64,
    /// One-way delay in milliseconds.
    pub delay: f64,
}

/// One flow through the network.
#[derive(Clone, Debug)]
pub struct Traffic {
    /// The nodes on its path.
    pub nodes: Vec<usize>,
    /// Rate limit of the flow's application in Mbit/s of payload; `None` if backlogged.
    pub limit: Option<f64>,
    /// Start time in seconds.
    pub start: f64,
}

/// Nodes, links and flows.
#[derive(Clone, Debug)]
pub struct Network {
    pub edges: Vec<Edge>,
    pub traffic: Vec<Traffic>,
}

/// Ranges of random networks.
#[derive(Clone, Copy, Debug)]
pub struct Ranges {
    pub nodes: (u64, u64),
    pub flows: (u64, u64),
    /// Rates in Mbit/s.
    pub rates: (f64, f64),
    /// One-way delays in milliseconds.
    pub delays: (f64, f64),
    /// Fraction of application-limited flows.
    pub limited: f64,
    /// Whether data crosses every link in one direction only, towards nodes with higher numbers, so that the other
    /// direction carries only ACKs.
    pub one_way: bool,
}

fn between(random: &mut Random, (least, most): (u64, u64)) -> u64 {
    least + random.below(most - least + 1)
}

fn uniform(random: &mut Random, (least, most): (f64, f64)) -> f64 {
    least + (most - least) * random.unit()
}

impl Network {
    /// A tree with some additional links: it is connected and has alternate paths. Flows run between random nodes on
    /// random paths. The demand of a limited application is between a fifth and nine tenths of the flow's fair share
    /// without the limit.
    pub fn random(random: &mut Random, ranges: &Ranges) -> Self {
        let nodes = between(random, ranges.nodes) as usize;
        let mut edges = Vec::new();
        let edge = |ends, random: &mut Random| {
            let rate = uniform(random, ranges.rates);
            Edge { shared: true, ends, rate, delay: uniform(random, ranges.delays) }
        };
        for node in 1..nodes {
            let other = random.below(node as u64) as usize;
            edges.push(edge((other, node), random));
        }
        for _ in 0..nodes / 2 {
            let (a, b) = (random.below(nodes as u64) as usize, random.below(nodes as u64) as usize);
            if a != b && !edges.iter().any(|edge: &Edge| edge.ends == (a, b) || edge.ends == (b, a)) {
                edges.push(edge((a, b), random));
            }
        }
        let mut network = Self { edges, traffic: Vec::new() };
        for _ in 0..between(random, ranges.flows) {
            let nodes = network.walk(nodes, ranges.one_way, random);
            network.traffic.push(Traffic { nodes, limit: None, start: random.unit() });
        }
        network.limit(random, ranges);
        network
    }

    /// One bottleneck between two nodes. Each flow enters and leaves it through separate links, which are fast enough
    /// and have no router algorithm.
    pub fn one_bottleneck(random: &mut Random, ranges: &Ranges) -> Self {
        let rate = uniform(random, ranges.rates);
        let mut network = Self {
            edges: vec![Edge { shared: true, ends: (0, 1), rate, delay: uniform(random, ranges.delays) }],
            traffic: Vec::new(),
        };
        for flow in 0..between(random, ranges.flows) as usize {
            let (from, to) = (2 + 2 * flow, 3 + 2 * flow);
            for ends in [(from, 0), (1, to)] {
                let delay = uniform(random, ranges.delays);
                network.edges.push(Edge { shared: false, ends, rate: 2.0 * rate, delay });
            }
            network.traffic.push(Traffic { nodes: vec![from, 0, 1, to], limit: None, start: random.unit() });
        }
        network.limit(random, ranges);
        network
    }

    /// Limits the applications of some flows.
    fn limit(&mut self, random: &mut Random, ranges: &Ranges) {
        let fair = max_min(&self.capacities(), &self.flows(1.0));
        for (traffic, fair) in self.traffic.iter_mut().zip(fair) {
            if random.chance(ranges.limited) {
                traffic.limit = Some(fair * uniform(random, (0.2, 0.9)));
            }
        }
    }

    /// A random path without loops; if `one_way`, only towards higher node numbers.
    fn walk(&self, nodes: usize, one_way: bool, random: &mut Random) -> Vec<usize> {
        let mut path = vec![random.below(nodes as u64) as usize];
        loop {
            let here = path[path.len() - 1];
            let next: Vec<usize> = self
                .edges
                .iter()
                .filter_map(|edge| match edge.ends {
                    (a, b) if a == here => Some(b),
                    (a, b) if b == here => Some(a),
                    _ => None,
                })
                .filter(|node| !path.contains(node) && (!one_way || *node > here))
                .collect();
            if next.is_empty() && path.len() == 1 {
                path[0] = random.below(nodes as u64) as usize;
                continue;
            }
            if next.is_empty() || (path.len() > 1 && random.chance(0.4)) {
                return path;
            }
            path.push(next[random.below(next.len() as u64) as usize]);
        }
    }

    fn link(&self, from: usize, to: usize) -> usize {
        let found = self.edges.iter().enumerate().find_map(|(i, edge)| match edge.ends {
            (a, b) if (a, b) == (from, to) => Some(2 * i),
            (a, b) if (b, a) == (from, to) => Some(2 * i + 1),
            _ => None,
        });
        found.expect("a link between neighbours")
    }

    /// Capacities of all directed links in Mbit/s.
    pub fn capacities(&self) -> Vec<f64> {
        self.edges.iter().flat_map(|edge| [edge.rate, edge.rate]).collect()
    }

    /// The oracle's flows; `payload` is the payload share of a packet.
    pub fn flows(&self, payload: f64) -> Vec<Flow> {
        let flow = |traffic: &Traffic| {
            let steps = || traffic.nodes.windows(2);
            Flow {
                route: steps().map(|step| self.link(step[0], step[1])).collect(),
                back: steps().map(|step| self.link(step[1], step[0])).collect(),
                demand: traffic.limit.map_or(f64::INFINITY, |limit| limit / payload),
            }
        };
        self.traffic.iter().map(flow).collect()
    }

    /// Max-min fair rates on the wire in Mbit/s, if links reserve `headroom` times the usage of limited flows and ACKs.
    pub fn fair(&self, wire: &Wire, headroom: f64) -> Vec<f64> {
        max_min_beside_acks(&self.capacities(), &self.flows(wire.payload), wire.acks, headroom)
    }

    /// Like [`Network::fair`], with Nodectl's reserves: a twentieth more than a limited flow needs, at least two
    /// packets per round trip, and a tenth more for ACKs.
    pub fn fair_beside_reserves(&self, wire: &Wire) -> Vec<f64> {
        const SPARE: f64 = 1.05;
        const LEAST_KBIT: f64 = 2.0 * 12.0;
        const RETURNS: f64 = 1.1;
        let flows = self.flows(wire.payload);
        let mut holding = flows.clone();
        for (flow, traffic) in holding.iter_mut().zip(&self.traffic) {
            flow.demand = (flow.demand * SPARE).max(LEAST_KBIT / self.rtt(traffic));
        }
        let held = max_min_beside_acks(&self.capacities(), &holding, wire.acks * RETURNS, 1.0);
        held.iter().zip(&flows).map(|(held, flow)| held.min(flow.demand)).collect()
    }

    /// Base RTT of a flow in milliseconds.
    pub fn rtt(&self, traffic: &Traffic) -> f64 {
        let steps = traffic.nodes.windows(2);
        steps.map(|step| 2.0 * self.edges[self.link(step[0], step[1]) / 2].delay).sum()
    }

    /// The tables of a scenario, with this scheme for every flow.
    pub fn tables(&self, scheme: &str) -> String {
        let mut text = String::new();
        for Edge { shared, ends: (a, b), rate, delay } in &self.edges {
            text +=
                &format!("[[links]]\nfrom = \"n{a}\"\nto = \"n{b}\"\nrate = \"{rate}mbit\"\ndelay = \"{delay}ms\"\n");
            if !shared {
                text += "router = \"none\"\n";
            }
        }
        for (i, traffic) in self.traffic.iter().enumerate() {
            let nodes: Vec<String> = traffic.nodes.iter().map(|node| format!("\"n{node}\"")).collect();
            text += &format!(
                "[[flows]]\nlabel = \"f{i}\"\nscheme = \"{scheme}\"\nroute = [{}]\nstart = \"{}s\"\n",
                nodes.join(", "),
                traffic.start
            );
            if let Some(limit) = traffic.limit {
                text += &format!("app = {{ kind = \"cbr\", rate = \"{limit}mbit\" }}\n");
            }
        }
        text
    }
}
