//! The network as nodes and one-way links, and the paths of flows through it.

mod paths;

use narrows_cc::{Nanos, Rate};
use narrows_net::config::Capacity;
use narrows_net::timeline::{DelayTrace, LossTrace};

pub(crate) use self::paths::Route;
use crate::diagnostic::Diagnostic;
use crate::keys;
use crate::link::{self, Carried, Inputs};
use crate::loss::Loss;
use crate::quantity::{Buffer, Time};
use crate::queue::Queue;
use crate::schema::choice::{Jitter, Router};
use crate::schema::{Link, LossAt, Network, NetworkKind, Policer, Reorder, Scenario};

/// A value and its key.
pub(crate) type Stated<'a, T> = (&'a T, String);

/// Loss, reordering, jitter and policing of a link.
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
pub(crate) struct OneWayLink<'a> {
    pub(crate) name: String,
    from: usize,
    to: usize,
    pub(crate) capacity: Capacity,
    /// Rate; for a capacity trace, its mean.
    pub(crate) rate: Rate,
    pub(crate) delay: Nanos,
    /// Buffer; ample by default.
    pub(crate) buffer: Option<Stated<'a, Buffer>>,
    pub(crate) queue: Option<Stated<'a, Queue>>,
    pub(crate) router: Option<Stated<'a, Router>>,
    /// Impairments; none in the reverse direction of a duplex link.
    pub(crate) conditions: Option<Conditions<'a>>,
    /// The scenario lists it.
    pub(crate) listed: bool,
}

/// Nodes and one-way links.
pub(crate) struct Topology<'a> {
    kind: NetworkKind,
    nodes: Vec<String>,
    pub(crate) links: Vec<OneWayLink<'a>>,
}

fn pick<'a, T>(table: &str, key: &str, own: Option<&'a T>, common: Option<&'a T>) -> Option<Stated<'a, T>> {
    let own = own.map(|value| (value, format!("{table}.{key}")));
    own.or_else(|| common.map(|value| (value, format!("network.{key}"))))
}

fn conditions<'a>(
    network: &'a Network,
    link: Option<&'a Link>,
    table: &str,
    carried: &Carried,
    inputs: &mut Inputs<'_>,
) -> Result<Conditions<'a>, Diagnostic> {
    let loss_file =
        pick(table, "loss_trace", link.and_then(|link| link.loss_trace.as_ref()), network.loss_trace.as_ref());
    let delay_file =
        pick(table, "delay_trace", link.and_then(|link| link.delay_trace.as_ref()), network.delay_trace.as_ref());
    // A generated path has both.
    if carried.loss.is_some()
        && let Some((_, key)) = loss_file.as_ref().or(delay_file.as_ref())
    {
        return Err(Diagnostic::new(key, "a radio path generates its own").accepted("either radio or this key"));
    }
    let loss_trace = loss_file.map(|(file, key)| inputs.loss(&key, file, &carried.capacity)).transpose()?;
    let delay_trace = delay_file.map(|(file, key)| inputs.delay(&key, file, &carried.capacity)).transpose()?;
    let loss = link.and_then(|link| link.loss.as_ref()).map(|loss| (&loss.0, format!("{table}.loss")));
    let jitter = |link: &'a Link| link.jitter.as_ref().map(|jitter| &jitter.0);
    Ok(Conditions {
        loss: loss.unwrap_or_else(|| (&network.loss.0, "network.loss".to_owned())),
        loss_at: link.and_then(|link| link.loss_at).unwrap_or(network.loss_at),
        jitter: pick(table, "jitter", link.and_then(jitter), network.jitter.as_ref().map(|jitter| &jitter.0)),
        reorder: pick(table, "reorder", link.and_then(|link| link.reorder.as_ref()), network.reorder.as_ref()),
        policer: pick(table, "policer", link.and_then(|link| link.policer.as_ref()), network.policer.as_ref()),
        loss_trace: loss_trace.or_else(|| carried.loss.clone()),
        delay_trace: delay_trace.or_else(|| carried.delay.clone()),
    })
}

fn own_router<'a>(network: &'a Network, link: Option<&'a Link>, table: &str) -> Option<Stated<'a, Router>> {
    let own = link.and_then(|link| link.router.as_ref());
    pick(table, "router", own.map(|own| &own.0), network.router.as_ref().map(|common| &common.0))
}

type Checked = Result<(), Diagnostic>;

const NO_RATE: &str = "a rate such as 100mbit, a capacity_trace, or radio = \"5g\"";

/// The common capacity, which this kind of network requires.
fn needed(carried: Option<Carried>) -> Result<Carried, Diagnostic> {
    carried.ok_or_else(|| Diagnostic::new("network.rate", "this key is missing").accepted(NO_RATE))
}

impl<'a> Topology<'a> {
    /// The network of a scenario.
    pub(crate) fn new(scenario: &'a Scenario, inputs: &mut Inputs<'_>) -> Result<Self, Diagnostic> {
        let network = &scenario.network;
        let kind = match (network.kind, scenario.links.is_empty()) {
            (None, true) => NetworkKind::Dumbbell,
            (None | Some(NetworkKind::Graph), false) => NetworkKind::Graph,
            (Some(NetworkKind::Graph), true) => {
                return Err(Diagnostic::new("links", "a graph without links").accepted("at least one [[links]] table"));
            }
            (Some(_), false) => {
                return Err(Diagnostic::new("links", "links are listed, but network.kind is not `graph`")
                    .accepted("network.kind = \"graph\", or no links"));
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
            NetworkKind::Dumbbell => topology.dumbbell(network, needed(common)?, inputs)?,
            NetworkKind::ParkingLot => topology.parking_lot(network, needed(common)?, inputs)?,
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
                        return Err(Diagnostic::new(format!("{table}.rate"), "this key is missing").accepted(NO_RATE));
                    };
                    topology.link(network, link, &table, &carried, inputs)?;
                }
            }
        }
        Ok(topology)
    }

    fn dumbbell(&mut self, network: &'a Network, carried: Carried, inputs: &mut Inputs<'_>) -> Checked {
        let conditions = conditions(network, None, "network", &carried, inputs)?;
        let Carried { capacity, rate, .. } = carried;
        let reverse = match &network.reverse_rate {
            Some(stated) => keys::rate("network.reverse_rate", stated)?,
            None => rate,
        };
        self.nodes = vec!["senders".into(), "receivers".into()];
        self.links.push(OneWayLink {
            name: "bottleneck".into(),
            from: 0,
            to: 1,
            capacity,
            rate,
            delay: Nanos::ZERO,
            buffer: Some((&network.buffer, "network.buffer".into())),
            queue: Some((&network.queue.0, "network.queue".into())),
            router: own_router(network, None, "network"),
            conditions: Some(conditions),
            listed: true,
        });
        self.links.push(OneWayLink {
            name: "reverse".into(),
            from: 1,
            to: 0,
            capacity: Capacity::Constant(reverse),
            rate: reverse,
            delay: Nanos::ZERO,
            buffer: network.reverse_buffer.as_ref().map(|buffer| (buffer, "network.reverse_buffer".into())),
            queue: None,
            router: None,
            conditions: None,
            listed: false,
        });
        Ok(())
    }

    fn parking_lot(&mut self, network: &'a Network, carried: Carried, inputs: &mut Inputs<'_>) -> Checked {
        let accepted = "a whole number from 1 to 100";
        let hops = match network.hops {
            Some(hops @ 1..=100) => hops as usize,
            Some(hops) => {
                return Err(Diagnostic::new("network.hops", format!("`{hops}` is out of range")).accepted(accepted));
            }
            None => {
                return Err(Diagnostic::new("network.hops", "a parking lot requires this key").accepted(accepted));
            }
        };
        self.nodes = (0..=hops).map(|hop| format!("r{hop}")).collect();
        for hop in 0..hops {
            let delay = network.delay.as_ref().map_or(Nanos::ZERO, Time::value);
            let there = OneWayLink {
                name: format!("r{hop}-r{}", hop + 1),
                from: hop,
                to: hop + 1,
                capacity: carried.capacity.clone(),
                rate: carried.rate,
                delay,
                buffer: Some((&network.buffer, "network.buffer".into())),
                queue: Some((&network.queue.0, "network.queue".into())),
                router: own_router(network, None, "network"),
                conditions: Some(conditions(network, None, "network", &carried, inputs)?),
                listed: true,
            };
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
            return Err(Diagnostic::new(format!("{table}.to"), format!("the link leads from `{0}` to `{0}`", link.to))
                .accepted("another node"));
        }
        let twice = |from: usize, to: usize| self.links.iter().any(|link| (link.from, link.to) == (from, to));
        if twice(from, to) || (link.duplex && twice(to, from)) {
            let message = format!("`{}` and `{}` are linked already", link.from, link.to);
            return Err(
                Diagnostic::new(table, message).accepted("one link per direction (duplex = false for one direction)")
            );
        }
        let delay = link.delay.as_ref().or(network.delay.as_ref());
        let own_queue = link.queue.as_ref().map(|queue| &queue.0);
        let there = OneWayLink {
            name: link.name.clone().unwrap_or_else(|| format!("{}-{}", link.from, link.to)),
            from,
            to,
            capacity: carried.capacity.clone(),
            rate: carried.rate,
            delay: delay.map_or(Nanos::ZERO, Time::value),
            buffer: pick(table, "buffer", link.buffer.as_ref(), Some(&network.buffer)),
            queue: pick(table, "queue", own_queue, Some(&network.queue.0)),
            router: own_router(network, Some(link), table),
            conditions: Some(conditions(network, Some(link), table, carried, inputs)?),
            listed: true,
        };
        let back = format!("{}-{}", link.to, link.from);
        let taken = |other: &OneWayLink<'_>| other.name == there.name || (link.duplex && other.name == back);
        if self.links.iter().any(taken) || (link.duplex && there.name == back) {
            return Err(Diagnostic::new(format!("{table}.name"), format!("two links have the name `{}`", there.name))
                .accepted("a unique name"));
        }
        if link.duplex {
            self.push_duplex(there)
        } else {
            self.links.push(there)
        }
        Ok(())
    }

    fn push_duplex(&mut self, there: OneWayLink<'a>) {
        let back = OneWayLink {
            name: format!("{}-{}", self.nodes[there.to], self.nodes[there.from]),
            from: there.to,
            to: there.from,
            capacity: there.capacity.clone(),
            rate: there.rate,
            delay: there.delay,
            buffer: there.buffer.clone(),
            queue: there.queue.clone(),
            router: there.router.clone(),
            conditions: None,
            listed: false,
        };
        self.links.push(there);
        self.links.push(back);
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

/// Keys that another kind of network would read are a misunderstanding.
fn check_kind(network: &Network, kind: NetworkKind) -> Checked {
    let only = |key: &str, kinds: &str| {
        Err(Diagnostic::new(format!("network.{key}"), format!("only {kinds} has this key")).accepted("omit this key"))
    };
    let lot = kind == NetworkKind::ParkingLot;
    if network.hops.is_some() && !lot {
        return only("hops", "a parking lot (kind = \"parking-lot\")");
    }
    if kind == NetworkKind::Dumbbell && network.delay.is_some() {
        return Err(Diagnostic::new("network.delay", "in a dumbbell each flow states its rtt")
            .accepted("rtt = \"40ms\" in [[flows]]"));
    }
    if kind != NetworkKind::Dumbbell && network.reverse_rate.is_some() {
        return only("reverse_rate", "a dumbbell");
    }
    if kind != NetworkKind::Dumbbell && network.reverse_buffer.is_some() {
        return only("reverse_buffer", "a dumbbell");
    }
    if network.access_rate.is_none() {
        let stray = [
            ("access_delay", network.access_delay.is_some()),
            ("access_buffer", network.access_buffer.is_some()),
            ("receiver_access", network.receiver_access.is_some()),
        ];
        if let Some((key, _)) = stray.iter().find(|(_, stated)| *stated) {
            return Err(Diagnostic::new(format!("network.{key}"), "there are no access links")
                .accepted("this key together with access_rate"));
        }
    }
    Ok(())
}
