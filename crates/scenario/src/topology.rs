//! The network as nodes and one-way links, and the paths of flows through it.

mod paths;

use narrows_cc::{Nanos, Rate};
use narrows_net::config::Capacity;
use narrows_net::timeline::{DelayTrace, LossTrace};

pub(crate) use self::paths::Route;
use crate::diagnostic::{Diagnostic, refuse};
use crate::keys;
use crate::link::{self, Carried, Inputs};
use crate::loss::Loss;
use crate::quantity::{Buffer, Time};
use crate::queue::Queue;
use crate::schema::choice::{Jitter, Router};
use crate::schema::short::TextOr;
use crate::schema::table::first_stated;
use crate::schema::{Link, LossAt, Network, NetworkKind, Policer, Reorder, Scenario};

/// A value and the key that states it.
pub(crate) type Stated<'a, T> = (&'a T, String);

/// Loss, reordering, jitter and policing on a link.
#[derive(Clone)]
pub(crate) struct Conditions<'a> {
    pub(crate) loss: Stated<'a, Loss>,
    pub(crate) loss_at: LossAt,
    pub(crate) jitter: Option<Stated<'a, Jitter>>,
    pub(crate) reorder: Option<Stated<'a, Reorder>>,
    pub(crate) policer: Option<Stated<'a, Policer>>,
    pub(crate) loss_trace: Option<LossTrace>,
    pub(crate) delay_trace: Option<DelayTrace>,
}

/// A link in one direction, before buffers are resolved.
#[derive(Clone)]
pub(crate) struct OneWayLink<'a> {
    pub(crate) name: String,
    from: usize,
    to: usize,
    pub(crate) capacity: Capacity,
    /// The link's rate; for a capacity trace, its mean rate.
    pub(crate) rate: Rate,
    pub(crate) delay: Nanos,
    /// Buffer; ample by default.
    pub(crate) buffer: Option<Stated<'a, Buffer>>,
    pub(crate) queue: Option<Stated<'a, Queue>>,
    pub(crate) router: Option<Stated<'a, Router>>,
    /// Impairments of the link; `None` in the reverse direction of a duplex link.
    pub(crate) conditions: Option<Conditions<'a>>,
    /// Whether the scenario lists the link.
    pub(crate) listed: bool,
}

/// Nodes and one-way links.
pub(crate) struct Topology<'a> {
    kind: NetworkKind,
    nodes: Vec<String>,
    pub(crate) links: Vec<OneWayLink<'a>>,
}

/// The tables that state the keys of a link: the link's table, if any, and the table of the network.
#[derive(Clone, Copy)]
struct Tables<'a, 't> {
    network: &'a Network,
    link: Option<&'a Link>,
    /// The name of the link's table.
    table: &'t str,
}

/// The value in the link's table, else the value in the network's table.
fn pick<'a, T>(table: &str, key: &str, own: Option<&'a T>, common: Option<&'a T>) -> Option<Stated<'a, T>> {
    let own = own.map(|value| (value, format!("{table}.{key}")));
    own.or_else(|| common.map(|value| (value, format!("network.{key}"))))
}

/// [`pick`] for a key that is optional in both tables.
macro_rules! pick {
    ($tables:ident.$key:ident) => {{
        let own = $tables.link.and_then(|link| link.$key.as_ref());
        pick($tables.table, stringify!($key), own, $tables.network.$key.as_ref())
    }};
}

fn plain<T>((value, key): Stated<'_, TextOr<T>>) -> Stated<'_, T> {
    (&value.0, key)
}

impl<'a> Tables<'a, '_> {
    fn conditions(self, carried: &Carried, inputs: &mut Inputs<'_>) -> Result<Conditions<'a>, Diagnostic> {
        let Self { network, link, table } = self;
        let (loss_file, delay_file) = (pick!(self.loss_trace), pick!(self.delay_trace));
        // A generated path already includes loss and delay.
        if carried.loss.is_some()
            && let Some((_, key)) = loss_file.as_ref().or(delay_file.as_ref())
        {
            return refuse(key, "a radio path generates its own", "either radio or this key");
        }
        let loss_trace = loss_file.map(|(file, key)| inputs.loss(&key, file, &carried.capacity)).transpose()?;
        let delay_trace = delay_file.map(|(file, key)| inputs.delay(&key, file, &carried.capacity)).transpose()?;
        let loss = link.and_then(|link| link.loss.as_ref()).map(|loss| (&loss.0, format!("{table}.loss")));
        Ok(Conditions {
            loss: loss.unwrap_or_else(|| (&network.loss.0, "network.loss".to_owned())),
            loss_at: link.and_then(|link| link.loss_at).unwrap_or(network.loss_at),
            jitter: pick!(self.jitter).map(plain),
            reorder: pick!(self.reorder),
            policer: pick!(self.policer),
            loss_trace: loss_trace.or_else(|| carried.loss.clone()),
            delay_trace: delay_trace.or_else(|| carried.delay.clone()),
        })
    }

    /// Creates a listed link from one node to another.
    fn link(
        self,
        name: String,
        (from, to): (usize, usize),
        carried: &Carried,
        inputs: &mut Inputs<'_>,
    ) -> Result<OneWayLink<'a>, Diagnostic> {
        let Self { network, link, table } = self;
        let delay = link.and_then(|link| link.delay.as_ref()).or(network.delay.as_ref());
        let queue = pick(table, "queue", link.and_then(|link| link.queue.as_ref()), Some(&network.queue));
        Ok(OneWayLink {
            name,
            from,
            to,
            capacity: carried.capacity.clone(),
            rate: carried.rate,
            delay: delay.map_or(Nanos::ZERO, Time::value),
            buffer: pick(table, "buffer", link.and_then(|link| link.buffer.as_ref()), Some(&network.buffer)),
            queue: queue.map(plain),
            router: pick!(self.router).map(plain),
            conditions: Some(self.conditions(carried, inputs)?),
            listed: true,
        })
    }
}

type Checked = Result<(), Diagnostic>;

const NO_RATE: &str = "a rate such as 100mbit, a capacity_trace, or radio = \"5g\"";

/// The capacity in `[network]`, which dumbbells and parking lots require.
fn needed(carried: Option<Carried>) -> Result<Carried, Diagnostic> {
    carried.ok_or_else(|| Diagnostic::new("network.rate", "this key is missing").accepted(NO_RATE))
}

impl<'a> Topology<'a> {
    /// Creates the network of a scenario.
    pub(crate) fn new(scenario: &'a Scenario, inputs: &mut Inputs<'_>) -> Result<Self, Diagnostic> {
        let network = &scenario.network;
        let kind = match (network.kind, scenario.links.is_empty()) {
            (None, true) => NetworkKind::Dumbbell,
            (None | Some(NetworkKind::Graph), false) => NetworkKind::Graph,
            (Some(NetworkKind::Graph), true) => {
                return refuse("links", "a graph without links", "at least one [[links]] table");
            }
            (Some(_), false) => {
                return refuse(
                    "links",
                    "links are listed, but network.kind is not `graph`",
                    "network.kind = \"graph\", or no links",
                );
            }
            (Some(kind), true) => kind,
        };
        check_kind(network, kind)?;
        let common = inputs.carried(&link::Stated {
            table: "network",
            rate: network.rate.as_ref(),
            file: network.capacity_trace.as_deref(),
            radio: network.radio.as_ref().map(|radio| &radio.0),
        })?;
        let mut topology = Self { kind, nodes: Vec::new(), links: Vec::new() };
        match kind {
            NetworkKind::Dumbbell => topology.dumbbell(network, &needed(common)?, inputs)?,
            NetworkKind::ParkingLot => topology.parking_lot(network, &needed(common)?, inputs)?,
            NetworkKind::Graph => {
                for (index, link) in scenario.links.iter().enumerate() {
                    let table = format!("links.{index}");
                    let own = inputs.carried(&link::Stated {
                        table: &table,
                        rate: link.rate.as_ref(),
                        file: link.capacity_trace.as_deref(),
                        radio: link.radio.as_ref().map(|radio| &radio.0),
                    })?;
                    let Some(carried) = own.or_else(|| common.clone()) else {
                        return refuse(format!("{table}.rate"), "this key is missing", NO_RATE);
                    };
                    topology.link(network, link, &table, &carried, inputs)?;
                }
            }
        }
        Ok(topology)
    }

    fn dumbbell(&mut self, network: &'a Network, carried: &Carried, inputs: &mut Inputs<'_>) -> Checked {
        let tables = Tables { network, link: None, table: "network" };
        let bottleneck = tables.link("bottleneck".into(), (0, 1), carried, inputs)?;
        let rate = match &network.reverse_rate {
            Some(stated) => keys::rate("network.reverse_rate", stated)?,
            None => carried.rate,
        };
        self.nodes = vec!["senders".into(), "receivers".into()];
        self.links.push(bottleneck);
        self.links.push(OneWayLink {
            name: "reverse".into(),
            from: 1,
            to: 0,
            capacity: Capacity::Constant(rate),
            rate,
            delay: Nanos::ZERO,
            buffer: network.reverse_buffer.as_ref().map(|buffer| (buffer, "network.reverse_buffer".into())),
            queue: None,
            router: None,
            conditions: None,
            listed: false,
        });
        Ok(())
    }

    fn parking_lot(&mut self, network: &'a Network, carried: &Carried, inputs: &mut Inputs<'_>) -> Checked {
        let accepted = "a whole number from 1 to 100";
        let hops = match network.hops {
            Some(hops @ 1..=100) => hops as usize,
            Some(hops) => return refuse("network.hops", format!("`{hops}` is out of range"), accepted),
            None => return refuse("network.hops", "a parking lot requires this key", accepted),
        };
        self.nodes = (0..=hops).map(|hop| format!("r{hop}")).collect();
        let tables = Tables { network, link: None, table: "network" };
        for hop in 0..hops {
            let there = tables.link(format!("r{hop}-r{}", hop + 1), (hop, hop + 1), carried, inputs)?;
            self.push_duplex(there);
        }
        Ok(())
    }

    fn link(
        &mut self,
        network: &'a Network,
        link: &'a Link,
        table: &str,
        carried: &Carried,
        inputs: &mut Inputs<'_>,
    ) -> Checked {
        let (from, to) = (self.node_or_new(&link.from), self.node_or_new(&link.to));
        if from == to {
            let message = format!("the link leads from `{0}` to `{0}`", link.to);
            return refuse(format!("{table}.to"), message, "another node");
        }
        let twice = |from: usize, to: usize| self.links.iter().any(|link| (link.from, link.to) == (from, to));
        if twice(from, to) || (link.duplex && twice(to, from)) {
            let message = format!("`{}` and `{}` are linked already", link.from, link.to);
            return refuse(table, message, "one link per direction (duplex = false for one direction)");
        }
        let name = link.name.clone().unwrap_or_else(|| format!("{}-{}", link.from, link.to));
        let there = Tables { network, link: Some(link), table }.link(name, (from, to), carried, inputs)?;
        let back = format!("{}-{}", link.to, link.from);
        let taken = |other: &OneWayLink<'_>| other.name == there.name || (link.duplex && other.name == back);
        if self.links.iter().any(taken) || (link.duplex && there.name == back) {
            let message = format!("two links have the name `{}`", there.name);
            return refuse(format!("{table}.name"), message, "a unique name");
        }
        if link.duplex {
            self.push_duplex(there)
        } else {
            self.links.push(there)
        }
        Ok(())
    }

    fn push_duplex(&mut self, mut there: OneWayLink<'a>) {
        let conditions = there.conditions.take();
        let back = OneWayLink {
            name: format!("{}-{}", self.nodes[there.to], self.nodes[there.from]),
            from: there.to,
            to: there.from,
            listed: false,
            ..there.clone()
        };
        self.links.extend([OneWayLink { conditions, ..there }, back]);
    }

    fn node_or_new(&mut self, name: &str) -> usize {
        self.nodes.iter().position(|node| node == name).unwrap_or_else(|| {
            self.nodes.push(name.to_owned());
            self.nodes.len() - 1
        })
    }

    /// Whether all flows share one path.
    pub(crate) fn is_dumbbell(&self) -> bool {
        self.kind == NetworkKind::Dumbbell
    }
}

/// Refuses keys that only other kinds of networks have.
fn check_kind(network: &Network, kind: NetworkKind) -> Checked {
    let only = |key: &str, kinds: &str| {
        refuse(format!("network.{key}"), format!("only {kinds} has this key"), "omit this key")
    };
    let dumbbell = kind == NetworkKind::Dumbbell;
    if network.hops.is_some() && kind != NetworkKind::ParkingLot {
        return only("hops", "a parking lot (kind = \"parking-lot\")");
    }
    if dumbbell && network.delay.is_some() {
        return refuse("network.delay", "in a dumbbell each flow states its rtt", "rtt = \"40ms\" in [[flows]]");
    }
    if let Some(key) = first_stated(network, &["reverse_rate", "reverse_buffer"]).filter(|_| !dumbbell) {
        return only(key, "a dumbbell");
    }
    match first_stated(network, &["access_delay", "access_buffer", "receiver_access"]) {
        Some(key) if network.access_rate.is_none() => {
            refuse(format!("network.{key}"), "there are no access links", "this key together with access_rate")
        }
        _ => Ok(()),
    }
}
