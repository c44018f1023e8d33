//! From a scenario to a [`Plan`]: what the simulator runs.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use narrows_cc::{Bytes, Nanos};
use narrows_net::config::{Jitter, LinkConfig};
use narrows_routers::protocol::Explicit;
use narrows_routers::{FiveTuple, NegotiationConfig};

use crate::choice::QueueKind;
use crate::datagrams;
use crate::entry::{Entry, Leg, access_ends};
use crate::fault::Fault;
use crate::files::Files;
use crate::flows::{self, Draft};
use crate::htb::{Member, Place};
use crate::link::{self, AMPLE, Inputs, Traces};
use crate::plan::{ConnectionPlan, FlowPlan, Hop, LinkPlan, Plan, TracePlan, Way};
use crate::quantity::{Time, WarmupLength};
use crate::queue;
use crate::schema::{Flow, Network, Scenario};
use crate::topology::{Route, Topology, Wire};
use crate::unheard;

/// More samples of each series than this would fill a disk, and are surely a slip.
const MAX_SAMPLES: u64 = 10_000_000;

/// What is run, and what a person should know of it.
pub(crate) struct Resolved {
    pub(crate) plan: Plan,
    pub(crate) notes: Vec<Fault>,
}

/// Checks everything a run depends on.
pub(crate) fn resolve(
    scenario: &Scenario,
    seed: u64,
    files: &dyn Files,
    traces: &mut Traces,
) -> Result<Resolved, Fault> {
    let duration = scenario.duration.value();
    if duration.is_zero() {
        return Err(Fault::new("duration", "a run of no length").accepted("a time above zero such as 60s"));
    }
    let warmup = match scenario.warmup.value() {
        WarmupLength::Share(share) => Nanos::from_nanos((duration.as_nanos() as f64 * share + 0.5) as u64),
        WarmupLength::Time(time) => time,
    };
    if warmup >= duration {
        return Err(Fault::new(
            "warmup",
            format!("`{}` leaves nothing of {}", scenario.warmup, scenario.duration),
        )
        .accepted("less than the duration"));
    }
    let samples = scenario.trace.samples.value();
    if samples == Some(Nanos::ZERO) {
        return Err(Fault::new("trace.samples", format!("samples every `{}`", scenario.trace.samples))
            .accepted("off, or a time such as 10ms"));
    }
    if let Some(interval) = samples
        && duration.as_nanos() / interval.as_nanos() > MAX_SAMPLES
    {
        let found = format!(
            "`{}` makes more than {MAX_SAMPLES} samples in {}",
            scenario.trace.samples, scenario.duration
        );
        return Err(Fault::new("trace.samples", found).accepted("off, or a longer time such as 10ms"));
    }
    if scenario.flows.is_empty() {
        return Err(Fault::new("flows", "the scenario has no flows").accepted("at least one [[flows]] table"));
    }
    let topology = Topology::new(scenario, &mut Inputs { files, seed, traces })?;
    let entries = (0..scenario.flows.len()).map(|index| Entry::new(scenario, &topology, index));
    let entries: Vec<Entry> = entries.collect::<Result<_, _>>()?;
    let mut drafts = Vec::new();
    for (index, entry) in entries.iter().enumerate() {
        flows::expand(scenario, index, seed, (entry.kind.tcp.segment, entry.legs.len()), &mut drafts)?;
    }
    if drafts.is_empty() {
        return Err(Fault::new("flows", "no flow arrives before the end")
            .accepted("a longer duration, or a higher rate"));
    }
    let packet = entries.iter().map(Entry::packet).max().unwrap_or(Bytes::ZERO);
    let labels = labels(scenario, &entries, &drafts)?;
    let connections = Connections { scenario, drafts: &drafts, labels: &labels };
    let order = order(&topology, &entries, &drafts);
    let mut links = Vec::with_capacity(topology.wires.len());
    for &wire in &order {
        links.push(link_spec(&topology, &entries, wire, packet, &connections)?);
    }
    let mut position = vec![0; order.len()];
    order.iter().enumerate().for_each(|(place, &wire)| position[wire] = place);
    for (place, &wire) in order.iter().enumerate() {
        links[place].opposite = topology.opposite(wire).map(|opposite| position[opposite]);
    }
    let mut flows: Vec<FlowPlan> = Vec::with_capacity(drafts.len());
    let (mut tuples, mut told, mut opened) = (Vec::new(), Vec::new(), vec![0; entries.len()]);
    let mut several = Vec::new();
    for (draft, label) in drafts.iter().zip(labels.iter().cloned()) {
        let entry = &entries[draft.entry];
        let before = if draft.leg > 0 { flows.last() } else { None };
        let mut flow =
            flow_spec(&scenario.network, entry, &topology, &position, draft, label, (&mut links, before))?;
        if draft.leg == 0 && scenario.flows[draft.entry].subflows.is_some() {
            several.push(connection(&scenario.flows[draft.entry], entry, &flow, flows.len()));
        }
        tuples.push(entry.identity.tuple(opened[draft.entry]));
        opened[draft.entry] += 1;
        flow.negotiation = entry.identity.negotiation(flows.len(), draft.leg, &told);
        // Only subflows of one content are counted, so that many flows do not take the square of their number in time.
        if scenario.flows[draft.entry].content.is_some() {
            told.push(flow.negotiation);
        }
        flows.push(flow);
    }
    let tuples: Arc<[FiveTuple]> = tuples.into();
    link::learned(scenario.network.learned.as_deref(), files, traces)?;
    for link in &mut links {
        if let Some(router) = &mut link.router {
            router.flows = Arc::clone(&tuples);
            link::teach(&link.name, router, traces)?;
        }
    }
    let notes = notes(scenario, &entries, &links, &position);
    let plan = Plan {
        name: scenario.name.clone(),
        duration,
        warmup,
        seed,
        links,
        flows,
        connections: several,
        controller: link::controller(scenario.network.controller.as_ref())?,
        trace: TracePlan { samples, packets: scenario.trace.packets },
    };
    Ok(Resolved { plan, notes })
}

/// What entries ask for in vain; `position` is where a wire's link stands in `links`.
fn notes(scenario: &Scenario, entries: &[Entry], links: &[LinkPlan], position: &[usize]) -> Vec<Fault> {
    let has = |wire: usize, name: &str| {
        links[position[wire]].router.as_ref().is_some_and(|own| own.entry.info.name == name)
    };
    let of_entry = |(index, entry): (usize, &Entry)| {
        let answered = |name: &str| entry.ways().any(|way| way.forward.iter().any(|&wire| has(wire, name)));
        unheard::notes(&scenario.flows[index], index, entry.kind.scheme, answered)
    };
    let mut notes: Vec<Fault> = entries.iter().enumerate().flat_map(of_entry).collect();
    notes.extend(unheard::settings(scenario, entries));
    notes.extend(unheard::windows(scenario, entries));
    notes
}

/// The wires, the bottleneck first: of those that the scenario lists and data crosses, the one of the smallest rate; among
/// equals the one that most flows use, then the first of the file.
fn order(topology: &Topology<'_>, entries: &[Entry], drafts: &[Draft]) -> Vec<usize> {
    let mut users = vec![0u64; topology.wires.len()];
    for draft in drafts {
        entries[draft.entry].legs[draft.leg].route.forward.iter().for_each(|&wire| users[wire] += 1);
    }
    let wires = 0..topology.wires.len();
    let used = wires.clone().filter(|&wire| users[wire] > 0);
    let bottleneck = used.min_by_key(|&wire| {
        let listed = topology.wires[wire].listed;
        (!listed, topology.wires[wire].rate, std::cmp::Reverse(users[wire]), wire)
    });
    bottleneck.into_iter().chain(wires.filter(|&wire| Some(wire) != bottleneck)).collect()
}

/// The longest base RTT among the flows that use a wire, or of all flows where none does.
fn longest_rtt(entries: &[Entry], wire: usize) -> Nanos {
    let uses = |leg: &&Leg| leg.route.forward.contains(&wire) || leg.route.reverse.contains(&wire);
    let legs = || entries.iter().flat_map(|entry| &entry.legs);
    let longest = legs().filter(uses).map(|leg| leg.rtt).max();
    longest.or_else(|| legs().map(|leg| leg.rtt).max()).unwrap_or(Nanos::ZERO)
}

/// All connections, in their order.
struct Connections<'a> {
    scenario: &'a Scenario,
    drafts: &'a [Draft],
    labels: &'a [String],
}

impl<'a> Connections<'a> {
    /// What the classes of a queue at `wire` know of them.
    fn members(&self, entries: &[Entry], wire: usize) -> Vec<Member<'a>> {
        let uses = |route: &Route| route.forward.contains(&wire) || route.reverse.contains(&wire);
        let crosses =
            |entry: &Entry, leg: usize| uses(&entry.legs[leg].route) || entry.others.iter().any(uses);
        let member = |(draft, own): (&Draft, &'a String)| {
            let flow = &self.scenario.flows[draft.entry];
            let scheme = entries[draft.entry].kind.scheme;
            Member {
                labels: [own, flow.label.as_deref().unwrap_or(scheme.info.name)],
                scheme,
                protocol: datagrams::protocol(flow, scheme),
                crosses: crosses(&entries[draft.entry], draft.leg),
            }
        };
        self.drafts.iter().zip(self.labels).map(member).collect()
    }
}

fn link_spec(
    topology: &Topology<'_>,
    entries: &[Entry],
    index: usize,
    packet: Bytes,
    connections: &Connections<'_>,
) -> Result<LinkPlan, Fault> {
    let wire: &Wire<'_> = &topology.wires[index];
    let limit = match &wire.buffer {
        Some((buffer, key)) => {
            let place = format!("at the link `{}`", wire.name);
            link::limit(key, &place, buffer, wire.rate, longest_rtt(entries, index), packet)?
        }
        None => AMPLE,
    };
    let mut config =
        LinkConfig { capacity: wire.capacity.clone(), ..LinkConfig::drop_tail(wire.rate, limit) };
    if let Some((queue, key)) = &wire.queue {
        let rtt = longest_rtt(entries, index);
        let members =
            if queue.kind == QueueKind::Htb { connections.members(entries, index) } else { Vec::new() };
        config.queue = queue::queue(key, queue, &Place { rate: wire.rate, rtt, packet, members })?;
    }
    let router = match &wire.router {
        Some((router, key)) => link::router(key, router)?,
        // Of a dumbbell's two wires the bottleneck is the one that is listed.
        None if topology.is_dumbbell() && wire.listed => entries
            .iter()
            .find_map(|entry| entry.kind.scheme.rate_protocol.and_then(Explicit::named))
            .map(link::default_router),
        None => None,
    };
    let (mut jitter, mut reordering, mut delay_trace) = (None, None, None);
    if let Some(conditions) = &wire.conditions {
        let (loss, key) = &conditions.loss;
        config.loss = link::loss(key, loss)?;
        config.loss_trace.clone_from(&conditions.loss_trace);
        config.loss_at = conditions.loss_at.into();
        delay_trace.clone_from(&conditions.delay_trace);
        if let Some((policer, key)) = &conditions.policer {
            config.policer = Some(link::policer(key, policer, packet)?);
        }
        if let Some((reorder, key)) = &conditions.reorder {
            reordering = Some(link::reordering(key, reorder)?);
        }
        jitter = conditions
            .jitter
            .as_ref()
            .map(|(jitter, _)| Jitter { max: jitter.max.value(), reorder: jitter.reorder.unwrap_or(false) })
            .filter(|jitter| !jitter.max.is_zero());
    }
    // The way back of a duplex link is of interest where data takes it.
    let carries_data =
        entries.iter().flat_map(|entry| &entry.legs).any(|leg| leg.route.forward.contains(&index));
    Ok(LinkPlan {
        name: wire.name.clone(),
        config,
        router,
        jitter,
        reordering,
        delay_trace,
        opposite: None,
        reported: wire.listed || carries_data,
    })
}

/// The labels of the flows. A label that several connections share is numbered, and so are the subflows of each.
fn labels(scenario: &Scenario, entries: &[Entry], drafts: &[Draft]) -> Result<Vec<String>, Fault> {
    let plain = |draft: &Draft| {
        let stated = scenario.flows[draft.entry].label.as_deref();
        stated.unwrap_or(entries[draft.entry].kind.scheme.info.name)
    };
    let mut shared: BTreeMap<&str, (usize, usize)> = BTreeMap::new();
    for draft in drafts.iter().filter(|draft| draft.leg == 0) {
        shared.entry(plain(draft)).or_default().0 += 1;
    }
    let number = |draft: &Draft| {
        let label = plain(draft);
        let own = match shared.get_mut(label) {
            Some((2.., given)) => {
                *given += usize::from(draft.leg == 0);
                format!("{label}-{given}")
            }
            _ => label.to_owned(),
        };
        match scenario.flows[draft.entry].subflows {
            Some(_) => format!("{own}/{}", draft.leg + 1),
            None => own,
        }
    };
    let labels: Vec<String> = drafts.iter().map(number).collect();
    let mut seen = BTreeSet::new();
    for (label, draft) in labels.iter().zip(drafts) {
        if !seen.insert(label) {
            return Err(Fault::new(
                format!("flows.{}.label", draft.entry),
                format!("two flows are called `{label}`"),
            )
            .accepted("a label of its own"));
        }
    }
    Ok(labels)
}

/// The connection whose first subflow is flow number `first`.
fn connection(flow: &Flow, entry: &Entry, first: &FlowPlan, number: usize) -> ConnectionPlan {
    ConnectionPlan {
        label: first.label.strip_suffix("/1").unwrap_or(&first.label).to_owned(),
        first: number,
        subflows: entry.legs.len(),
        scheduler: flow.scheduler.unwrap_or_default().into(),
        receive_window: first.tcp.receive_window,
        app: first.app,
    }
}

/// A flow, with access links of its own where the scenario has them; subflows share those of the first, which is `before`.
fn flow_spec(
    network: &Network,
    entry: &Entry,
    topology: &Topology<'_>,
    position: &[usize],
    draft: &Draft,
    label: String,
    (links, before): (&mut Vec<LinkPlan>, Option<&FlowPlan>),
) -> Result<FlowPlan, Fault> {
    let leg = &entry.legs[draft.leg];
    let hops = |route: &[usize], slack: Nanos| {
        let mut hops: Vec<Hop> = route
            .iter()
            .map(|&wire| Hop { link: position[wire], delay: topology.wires[wire].delay })
            .collect();
        if let Some(last) = hops.last_mut() {
            last.delay += slack;
        }
        hops
    };
    let way = |route: &Route, forward, reverse| Way {
        forward: hops(&route.forward, forward),
        reverse: hops(&route.reverse, reverse),
    };
    let mut ways = vec![way(&leg.route, leg.slack.0, leg.slack.1)];
    // What a stated RTT adds to the first way, it adds to the others.
    ways.extend(entry.others.iter().map(|route| way(route, leg.slack.0, leg.slack.1)));
    if let Some(stated) = &network.access_rate {
        let rate = link::rate("network.access_rate", stated)?;
        let delay = network.access_delay.as_ref().map_or(Nanos::ZERO, Time::value);
        let limit = match &network.access_buffer {
            Some(buffer) => {
                let place = format!("at the access links of `{label}`");
                link::limit("network.access_buffer", &place, buffer, rate, entry.rtt(), entry.packet())?
            }
            None => AMPLE,
        };
        let mut access = |name: String| {
            let config = LinkConfig::drop_tail(rate, limit);
            links.push(LinkPlan {
                name,
                config,
                router: None,
                jitter: None,
                reordering: None,
                delay_trace: None,
                opposite: None,
                reported: false,
            });
            Hop { link: links.len() - 1, delay }
        };
        let mut pair =
            |up: &str, down: &str| (access(format!("{label} {up}")), access(format!("{label} {down}")));
        let (up, down) = match before {
            Some(FlowPlan { way, .. }) => (way.forward[0], way.reverse[way.reverse.len() - 1]),
            None => pair("sender up", "sender down"),
        };
        for way in &mut ways {
            way.forward.insert(0, up);
            way.reverse.push(down);
        }
        if access_ends(network) == 2 {
            let (down, up) = match before {
                Some(FlowPlan { way, .. }) => (way.forward[way.forward.len() - 1], way.reverse[0]),
                None => pair("receiver down", "receiver up"),
            };
            for way in &mut ways {
                way.forward.push(down);
                way.reverse.insert(0, up);
            }
        }
    }
    let others = ways.split_off(1);
    Ok(FlowPlan {
        label,
        scheme: entry.kind.scheme,
        params: entry.kind.params.clone(),
        tcp: entry.kind.tcp.clone(),
        negotiation: NegotiationConfig::default(),
        datagrams: entry.kind.datagrams.clone(),
        app: draft.app,
        start: draft.start,
        stop: draft.stop,
        way: ways.remove(0),
        others,
        base_rtt: leg.rtt,
    })
}
