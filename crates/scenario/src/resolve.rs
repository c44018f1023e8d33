//! Resolves a scenario to a [`Plan`].

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use narrows_cc::{Bytes, Nanos};
use narrows_net::config::{Jitter, LinkConfig};
use narrows_routers::protocol::Explicit;
use narrows_routers::{FiveTuple, NegotiationConfig};

use crate::diagnostic::{Diagnostic, refuse};
use crate::files::Files;
use crate::flow_entry::{FlowEntry, SubflowPath, access_ends};
use crate::flows::{self, Draft};
use crate::htb::{Member, Place};
use crate::keys;
use crate::link::{self, AMPLE, Inputs, Traces};
use crate::loss;
use crate::params;
use crate::plan::{ConnectionPlan, FlowPlan, Hop, LinkPlan, Path, Plan, TracePlan};
use crate::quantity::{Time, WarmupLength};
use crate::queue::{self, Queue};
use crate::schema::{Flow, Network, Scenario};
use crate::topology::{OneWayLink, Route, Topology};
use crate::transport;
use crate::unused;

/// Maximum number of samples per series; a larger number is certainly a mistake and would fill a disk.
const MAX_SAMPLES: u64 = 10_000_000;

/// The plan of a run, and the warnings about it.
pub(crate) struct Resolved {
    pub(crate) plan: Plan,
    pub(crate) warnings: Vec<Diagnostic>,
}

/// Checks and resolves all inputs of a run.
pub(crate) fn resolve(
    scenario: &Scenario,
    seed: u64,
    files: &dyn Files,
    traces: &mut Traces,
) -> Result<Resolved, Diagnostic> {
    let duration = scenario.duration.value();
    if duration.is_zero() {
        return refuse("duration", "a duration of zero", "a time above zero such as 60s");
    }
    let warmup = match scenario.warmup.value() {
        WarmupLength::Share(share) => Nanos::from_nanos((duration.as_nanos() as f64 * share + 0.5) as u64),
        WarmupLength::Time(time) => time,
    };
    if warmup >= duration {
        let message = format!("`{}` covers the whole run of {}", scenario.warmup, scenario.duration);
        return refuse("warmup", message, "less than the duration");
    }
    let samples = scenario.trace.samples.value();
    if samples == Some(Nanos::ZERO) {
        let message = format!("`{}` is an interval of zero", scenario.trace.samples);
        return refuse("trace.samples", message, "off, or a time such as 10ms");
    }
    if let Some(interval) = samples
        && duration.as_nanos() / interval.as_nanos() > MAX_SAMPLES
    {
        let found =
            format!("`{}` makes more than {MAX_SAMPLES} samples in {}", scenario.trace.samples, scenario.duration);
        return refuse("trace.samples", found, "off, or a longer time such as 10ms");
    }
    if scenario.flows.is_empty() {
        return refuse("flows", "the scenario has no flows", "at least one [[flows]] table");
    }
    let topology = Topology::new(scenario, &mut Inputs { files, seed, traces })?;
    let entries = (0..scenario.flows.len()).map(|index| FlowEntry::new(scenario, &topology, index));
    let entries: Vec<FlowEntry> = entries.collect::<Result<_, _>>()?;
    let mut drafts = Vec::new();
    for (index, entry) in entries.iter().enumerate() {
        flows::expand(scenario, index, seed, (entry.kind.tcp.segment, entry.subflows.len()), &mut drafts)?;
    }
    if drafts.is_empty() {
        return refuse("flows", "no flow arrives before the end", "a longer duration, or a higher arrival rate");
    }
    let packet = entries.iter().map(FlowEntry::packet).max().unwrap_or(Bytes::ZERO);
    let labels = labels(scenario, &entries, &drafts)?;
    let connections = Connections { scenario, drafts: &drafts, labels: &labels };
    let order = order(&topology, &entries, &drafts);
    let mut links = Vec::with_capacity(topology.links.len());
    for &link in &order {
        links.push(link_plan(&topology, &entries, link, packet, &connections)?);
    }
    let mut position = vec![0; order.len()];
    order.iter().enumerate().for_each(|(place, &link)| position[link] = place);
    for (place, &link) in order.iter().enumerate() {
        links[place].opposite = topology.opposite(link).map(|opposite| position[opposite]);
    }
    let mut flows: Vec<FlowPlan> = Vec::with_capacity(drafts.len());
    let (mut requests, mut opened) = (Vec::new(), vec![0; entries.len()]);
    let mut several = Vec::new();
    for (draft, label) in drafts.iter().zip(labels.iter().cloned()) {
        let entry = &entries[draft.entry];
        let before = if draft.subflow > 0 { flows.last() } else { None };
        let mut flow = flow_plan(&scenario.network, entry, &topology, &position, draft, label, (&mut links, before))?;
        if draft.subflow == 0 && scenario.flows[draft.entry].subflows.is_some() {
            several.push(connection(&scenario.flows[draft.entry], entry, &flow, flows.len()));
        }
        flow.tuple = entry.identity.tuple(opened[draft.entry]);
        opened[draft.entry] += 1;
        flow.negotiation = entry.identity.negotiation(flows.len(), draft.subflow, &requests);
        // Keep only the requests of flows that state a content: a comparison with all requests would take time
        // quadratic in the number of flows.
        if scenario.flows[draft.entry].content.is_some() {
            requests.push(flow.negotiation);
        }
        flows.push(flow);
    }
    let tuples: Arc<[FiveTuple]> = flows.iter().map(|flow| flow.tuple).collect();
    link::learned(scenario.network.learned.as_deref(), files, traces)?;
    for link in &mut links {
        if let Some(router) = &mut link.router {
            router.flows = Arc::clone(&tuples);
            link::teach(&link.name, router, traces)?;
        }
    }
    let warnings = warnings(scenario, &entries, &links, &position);
    let routers = links.iter_mut().filter_map(|link| link.router.as_mut());
    if scenario.literal {
        routers.for_each(|router| params::follow_print(&mut router.params));
    }
    let mut controller = link::controller(scenario.network.controller.as_ref())?;
    // A switch in printed form has a controller in printed form, too.
    controller.printed =
        links.iter().filter_map(|link| link.router.as_ref()).any(narrows_routers::RouterConfig::is_literal);
    let plan = Plan {
        name: scenario.name.clone(),
        duration,
        warmup,
        seed,
        links,
        flows,
        connections: several,
        controller,
        trace: TracePlan { samples, packets: scenario.trace.packets },
    };
    Ok(Resolved { plan, warnings })
}

/// Warnings about settings without effect. `position` maps a link of the topology to its index in `links`.
fn warnings(scenario: &Scenario, entries: &[FlowEntry], links: &[LinkPlan], position: &[usize]) -> Vec<Diagnostic> {
    let has =
        |link: usize, name: &str| links[position[link]].router.as_ref().is_some_and(|own| own.entry.info.name == name);
    let of_entry = |(index, entry): (usize, &FlowEntry)| {
        let answered = |name: &str| entry.paths().any(|path| path.forward.iter().any(|&link| has(link, name)));
        unused::of_flow(&scenario.flows[index], index, entry.kind.scheme, answered)
    };
    let mut warnings: Vec<Diagnostic> = entries.iter().enumerate().flat_map(of_entry).collect();
    warnings.extend(unused::transports(scenario, entries));
    warnings.extend(unused::initial_windows(scenario, entries));
    warnings
}

/// The order of the links, with the bottleneck first. The bottleneck is the slowest listed link on a data path.
/// Among links of equal rate, it is the link with the most flows, then the first link in the file.
fn order(topology: &Topology<'_>, entries: &[FlowEntry], drafts: &[Draft]) -> Vec<usize> {
    let mut users = vec![0u64; topology.links.len()];
    for draft in drafts {
        entries[draft.entry].subflows[draft.subflow].route.forward.iter().for_each(|&link| users[link] += 1);
    }
    let links = 0..topology.links.len();
    let used = links.clone().filter(|&link| users[link] > 0);
    let bottleneck = used.min_by_key(|&link| {
        let listed = topology.links[link].listed;
        (!listed, topology.links[link].rate, std::cmp::Reverse(users[link]), link)
    });
    bottleneck.into_iter().chain(links.filter(|&link| Some(link) != bottleneck)).collect()
}

/// Longest base RTT of the flows that use a link; if no flow uses the link, the longest base RTT of all flows.
fn longest_rtt(entries: &[FlowEntry], link: usize) -> Nanos {
    let uses = |subflow: &&SubflowPath| subflow.route.forward.contains(&link) || subflow.route.reverse.contains(&link);
    let subflows = || entries.iter().flat_map(|entry| &entry.subflows);
    let longest = subflows().filter(uses).map(|subflow| subflow.rtt).max();
    longest.or_else(|| subflows().map(|subflow| subflow.rtt).max()).unwrap_or(Nanos::ZERO)
}

/// All connections, in the order of their flows.
struct Connections<'a> {
    scenario: &'a Scenario,
    drafts: &'a [Draft],
    labels: &'a [String],
}

impl<'a> Connections<'a> {
    /// Properties by which all connections match the classes of a queue at `link`.
    fn members(&self, entries: &[FlowEntry], link: usize) -> Vec<Member<'a>> {
        let uses = |route: &Route| route.forward.contains(&link) || route.reverse.contains(&link);
        let crosses = |entry: &FlowEntry, subflow: usize| {
            uses(&entry.subflows[subflow].route) || entry.alternates.iter().any(uses)
        };
        let member = |(draft, own): (&Draft, &'a String)| {
            let flow = &self.scenario.flows[draft.entry];
            let scheme = entries[draft.entry].kind.scheme;
            Member {
                labels: [own, flow.label.as_deref().unwrap_or(scheme.info.name)],
                scheme,
                protocol: transport::protocol(flow, scheme),
                crosses: crosses(&entries[draft.entry], draft.subflow),
            }
        };
        self.drafts.iter().zip(self.labels).map(member).collect()
    }
}

fn link_plan(
    topology: &Topology<'_>,
    entries: &[FlowEntry],
    index: usize,
    packet: Bytes,
    connections: &Connections<'_>,
) -> Result<LinkPlan, Diagnostic> {
    let link: &OneWayLink<'_> = &topology.links[index];
    let limit = match &link.buffer {
        Some((buffer, key)) => {
            let place = format!("at the link `{}`", link.name);
            keys::limit(key, &place, buffer, link.rate, longest_rtt(entries, index), packet)?
        }
        None => AMPLE,
    };
    let mut config = LinkConfig { capacity: link.capacity.clone(), ..LinkConfig::drop_tail(link.rate, limit) };
    if let Some((queue, key)) = &link.queue {
        let rtt = longest_rtt(entries, index);
        let members = if matches!(queue, Queue::Htb(_)) { connections.members(entries, index) } else { Vec::new() };
        config.queue = queue::queue(key, queue, &Place { rate: link.rate, rtt, packet, members })?;
    }
    let router = match &link.router {
        Some((router, key)) => link::router(key, router)?,
        // A scheme implies a router at the bottleneck of a dumbbell, which is the only listed link, but not at
        // the reverse link.
        None if topology.is_dumbbell() && link.listed => entries
            .iter()
            .find_map(|entry| entry.kind.scheme.rate_protocol.and_then(Explicit::named))
            .map(link::default_router),
        None => None,
    };
    let (mut jitter, mut reordering, mut delay_trace) = (None, None, None);
    if let Some(conditions) = &link.conditions {
        let (loss, key) = &conditions.loss;
        config.loss = loss::loss(key, loss)?;
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
    // Results list the reverse direction of a duplex link if data uses it.
    let carries_data =
        entries.iter().flat_map(|entry| &entry.subflows).any(|subflow| subflow.route.forward.contains(&index));
    Ok(LinkPlan {
        name: link.name.clone(),
        config,
        router,
        jitter,
        reordering,
        delay_trace,
        opposite: None,
        reported: link.listed || carries_data,
    })
}

/// Labels of the flows. Connections with equal labels are numbered, and so are the subflows of each connection.
fn labels(scenario: &Scenario, entries: &[FlowEntry], drafts: &[Draft]) -> Result<Vec<String>, Diagnostic> {
    let plain = |draft: &Draft| {
        let stated = scenario.flows[draft.entry].label.as_deref();
        stated.unwrap_or(entries[draft.entry].kind.scheme.info.name)
    };
    let mut shared: BTreeMap<&str, (usize, usize)> = BTreeMap::new();
    for draft in drafts.iter().filter(|draft| draft.subflow == 0) {
        shared.entry(plain(draft)).or_default().0 += 1;
    }
    let number = |draft: &Draft| {
        let label = plain(draft);
        let own = match shared.get_mut(label) {
            Some((2.., given)) => {
                *given += usize::from(draft.subflow == 0);
                format!("{label}-{given}")
            }
            _ => label.to_owned(),
        };
        match scenario.flows[draft.entry].subflows {
            Some(_) => format!("{own}/{}", draft.subflow + 1),
            None => own,
        }
    };
    let labels: Vec<String> = drafts.iter().map(number).collect();
    let mut seen = BTreeSet::new();
    for (label, draft) in labels.iter().zip(drafts) {
        if !seen.insert(label) {
            let message = format!("two flows have the label `{label}`");
            return refuse(format!("flows.{}.label", draft.entry), message, "a unique label");
        }
    }
    Ok(labels)
}

/// Plans the multipath connection whose first subflow is flow number `first`.
fn connection(flow: &Flow, entry: &FlowEntry, first: &FlowPlan, number: usize) -> ConnectionPlan {
    ConnectionPlan {
        label: first.label.strip_suffix("/1").unwrap_or(&first.label).to_owned(),
        first: number,
        subflows: entry.subflows.len(),
        scheduler: flow.scheduler.unwrap_or_default().into(),
        receive_window: first.tcp.receive_window,
        app: first.app,
    }
}

/// Plans a flow and adds its access links, if the scenario has access links. A subflow shares the access links
/// of the previous subflow, `before`.
fn flow_plan(
    network: &Network,
    entry: &FlowEntry,
    topology: &Topology<'_>,
    position: &[usize],
    draft: &Draft,
    label: String,
    (links, before): (&mut Vec<LinkPlan>, Option<&FlowPlan>),
) -> Result<FlowPlan, Diagnostic> {
    let subflow = &entry.subflows[draft.subflow];
    let hops = |route: &[usize], slack: Nanos| {
        let mut hops: Vec<Hop> =
            route.iter().map(|&link| Hop { link: position[link], delay: topology.links[link].delay }).collect();
        if let Some(last) = hops.last_mut() {
            last.delay += slack;
        }
        hops
    };
    let path = |route: &Route, forward, reverse| Path {
        forward: hops(&route.forward, forward),
        reverse: hops(&route.reverse, reverse),
    };
    let mut paths = vec![path(&subflow.route, subflow.slack.0, subflow.slack.1)];
    // A stated RTT adds the same delay to all paths of the flow.
    paths.extend(entry.alternates.iter().map(|route| path(route, subflow.slack.0, subflow.slack.1)));
    if let Some(stated) = &network.access_rate {
        let rate = keys::rate("network.access_rate", stated)?;
        let delay = network.access_delay.as_ref().map_or(Nanos::ZERO, Time::value);
        let limit = match &network.access_buffer {
            Some(buffer) => {
                let place = format!("at the access links of `{label}`");
                keys::limit("network.access_buffer", &place, buffer, rate, entry.rtt(), entry.packet())?
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
        let mut pair = |up: &str, down: &str| (access(format!("{label} {up}")), access(format!("{label} {down}")));
        let (up, down) = match before {
            Some(FlowPlan { path, .. }) => (path.forward[0], path.reverse[path.reverse.len() - 1]),
            None => pair("sender up", "sender down"),
        };
        for path in &mut paths {
            path.forward.insert(0, up);
            path.reverse.push(down);
        }
        if access_ends(network) == 2 {
            let (down, up) = match before {
                Some(FlowPlan { path, .. }) => (path.forward[path.forward.len() - 1], path.reverse[0]),
                None => pair("receiver down", "receiver up"),
            };
            for path in &mut paths {
                path.forward.push(down);
                path.reverse.insert(0, up);
            }
        }
    }
    let alternates = paths.split_off(1);
    Ok(FlowPlan {
        label,
        scheme: entry.kind.scheme,
        params: entry.kind.params.clone(),
        tcp: entry.kind.tcp.clone(),
        tuple: entry.identity.tuple(0),
        negotiation: NegotiationConfig::default(),
        datagrams: entry.kind.datagrams.clone(),
        app: draft.app,
        start: draft.start,
        stop: draft.stop,
        path: paths.remove(0),
        alternates,
        base_rtt: subflow.rtt,
    })
}
