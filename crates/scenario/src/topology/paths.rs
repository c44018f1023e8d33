//! The paths of flows: stated node by node, or else the shortest path.

use std::collections::{BTreeMap, BTreeSet};

use narrows_cc::Nanos;
use narrows_packet::MAX_PATHS;

use super::Topology;
use crate::diagnostic::{Diagnostic, refuse, unknown};
use crate::schema::table::first_stated;
use crate::schema::{Flow, NetworkKind};

/// The links on a flow's paths, each in path order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Route {
    pub(crate) forward: Vec<usize>,
    pub(crate) reverse: Vec<usize>,
}

impl Topology<'_> {
    /// The path of a flow; a dumbbell has only one.
    pub(crate) fn route(&self, flow: &Flow, table: &str) -> Result<Route, Diagnostic> {
        let key = |name: &str| format!("{table}.{name}");
        if self.is_dumbbell() {
            return match first_stated(flow, &["from", "to", "route", "reverse_route"]) {
                Some(name) => refuse(
                    key(name),
                    "a dumbbell has no named nodes",
                    "this key with network.kind = \"parking-lot\" or with [[links]]",
                ),
                None => Ok(Route { forward: vec![0], reverse: vec![1] }),
            };
        }
        let forward = match &flow.route {
            Some(nodes) => self.stated(&key("route"), nodes)?,
            None => {
                let (first, last) = (self.nodes.first(), self.nodes.last());
                let chain = self.kind == NetworkKind::ParkingLot;
                let end = |name: &str, stated: &'_ Option<String>, default: Option<&String>| {
                    let node = stated.as_ref().or(default.filter(|_| chain)).ok_or_else(|| {
                        Diagnostic::new(key(name), "this key is missing").accepted(self.nodes.join(", "))
                    })?;
                    self.node(key(name), node)
                };
                let (from, to) = (end("from", &flow.from, first)?, end("to", &flow.to, last)?);
                if from == to {
                    let message = format!("sender and receiver are both at `{}`", self.nodes[to]);
                    return refuse(key("to"), message, "two different nodes");
                }
                self.shortest(from, to).ok_or_else(|| self.unreachable(&key("to"), from, to))?
            }
        };
        let (Some(&first), Some(&last)) = (forward.first(), forward.last()) else {
            unreachable!("a path between different nodes has a link")
        };
        let (from, to) = (self.links[first].from, self.links[last].to);
        for (name, stated, node) in [("from", &flow.from, from), ("to", &flow.to, to)] {
            if let Some(stated) = stated
                && self.nodes[node] != *stated
            {
                let message = format!("`{stated}`, but the route has `{}`", self.nodes[node]);
                return refuse(key(name), message, "the end of the route, or omit this key");
            }
        }
        let reverse = match &flow.reverse_route {
            Some(nodes) => {
                let reverse = self.stated(&key("reverse_route"), nodes)?;
                let ends = (
                    reverse.first().map(|&link| self.links[link].from),
                    reverse.last().map(|&link| self.links[link].to),
                );
                if ends != (Some(to), Some(from)) {
                    return refuse(
                        key("reverse_route"),
                        "the route does not lead from the receiver to the sender",
                        format!("a route from `{}` to `{}`", self.nodes[to], self.nodes[from]),
                    );
                }
                reverse
            }
            None => self.back(&forward).ok_or_else(|| self.unreachable(&key("to"), to, from))?,
        };
        Ok(Route { forward, reverse })
    }

    /// Finds the alternate paths between the endpoints of a route.
    pub(crate) fn alternatives(&self, flow: &Flow, table: &str, route: &Route) -> Result<Vec<Route>, Diagnostic> {
        let Some(stated) = &flow.alternatives else { return Ok(Vec::new()) };
        let key = |index: usize| format!("{table}.alternatives.{index}");
        if self.is_dumbbell() {
            return refuse(format!("{table}.alternatives"), "a dumbbell has only one path", "this key with [[links]]");
        }
        if stated.len() >= MAX_PATHS {
            let message = format!("{} alternate paths", stated.len());
            return refuse(format!("{table}.alternatives"), message, format!("at most {}", MAX_PATHS - 1));
        }
        let ends = |route: &[usize]| {
            (route.first().map(|&link| self.links[link].from), route.last().map(|&link| self.links[link].to))
        };
        let mut paths = Vec::new();
        for (index, nodes) in stated.iter().enumerate() {
            let forward = self.stated(&key(index), nodes)?;
            if ends(&forward) != ends(&route.forward) {
                return refuse(
                    key(index),
                    "the route does not lead from the sender to the receiver",
                    "another route between the same two nodes",
                );
            }
            if forward == route.forward || paths.iter().any(|path: &Route| path.forward == forward) {
                let found = if forward == route.forward {
                    "this is the flow's own route"
                } else {
                    "this route is listed twice"
                };
                return refuse(key(index), found, "another route between the same two nodes");
            }
            let reverse = self.back(&forward).ok_or_else(|| {
                Diagnostic::new(key(index), "no path leads back").accepted("links in both directions")
            })?;
            paths.push(Route { forward, reverse });
        }
        Ok(paths)
    }

    /// The same path in the opposite direction, or the shortest path back if a link of the path is one-way.
    fn back(&self, forward: &[usize]) -> Option<Vec<usize>> {
        let back = forward.iter().rev().map(|&link| self.link_between(self.links[link].to, self.links[link].from));
        let (first, last) = (*forward.first()?, *forward.last()?);
        back.collect::<Option<_>>().or_else(|| self.shortest(self.links[last].to, self.links[first].from))
    }

    /// The link from the end node of `link` back to its start node.
    pub(crate) fn opposite(&self, link: usize) -> Option<usize> {
        self.link_between(self.links[link].to, self.links[link].from)
    }

    fn unreachable(&self, key: &str, from: usize, to: usize) -> Diagnostic {
        let reachable: Vec<_> = (0..self.nodes.len())
            .filter(|&node| node != from && self.shortest(from, node).is_some())
            .map(|node| self.nodes[node].as_str())
            .collect();
        let accepted = match reachable.as_slice() {
            [] => format!("a link that leaves `{}`", self.nodes[from]),
            _ => format!("a node that `{}` reaches: {}", self.nodes[from], reachable.join(", ")),
        };
        Diagnostic::new(key, format!("no path leads from `{}` to `{}`", self.nodes[from], self.nodes[to]))
            .accepted(accepted)
    }

    fn link_between(&self, from: usize, to: usize) -> Option<usize> {
        self.links.iter().position(|link| (link.from, link.to) == (from, to))
    }

    /// A stated route; each pair of consecutive nodes must have a link.
    fn stated(&self, key: &str, nodes: &[String]) -> Result<Vec<usize>, Diagnostic> {
        if nodes.len() < 2 {
            return refuse(key, "a route of fewer than two nodes", "[\"a\", …, \"b\"]");
        }
        let numbers = nodes.iter().enumerate().map(|(i, node)| self.node(format!("{key}.{i}"), node));
        let numbers: Vec<usize> = numbers.collect::<Result<_, _>>()?;
        let step = |pair: &[usize]| {
            self.link_between(pair[0], pair[1]).ok_or_else(|| {
                let next =
                    self.links.iter().filter(|link| link.from == pair[0]).map(|link| self.nodes[link.to].as_str());
                let (a, b) = (&self.nodes[pair[0]], &self.nodes[pair[1]]);
                Diagnostic::new(key, format!("no link leads from `{a}` to `{b}`"))
                    .accepted(format!("after `{a}`: {}", next.collect::<Vec<_>>().join(", ")))
            })
        };
        numbers.windows(2).map(step).collect()
    }

    /// The path with the smallest delay. Among paths of equal delay, the path with the fewest links, then the
    /// first by node names.
    fn shortest(&self, from: usize, to: usize) -> Option<Vec<usize>> {
        // Dijkstra's algorithm (1959). Labels are compared by delay, then by number of links, then by node names.
        type Label<'n> = (Nanos, usize, Vec<&'n str>);
        let start: Label<'_> = (Nanos::ZERO, 0, vec![&self.nodes[from]]);
        let mut open = BTreeSet::from([(start, from, Vec::new())]);
        let mut done = BTreeMap::new();
        while let Some((label, node, links)) = open.pop_first() {
            if node == to {
                return Some(links);
            }
            if done.insert(node, ()).is_some() {
                continue;
            }
            for (index, link) in self.links.iter().enumerate().filter(|(_, link)| link.from == node) {
                if done.contains_key(&link.to) {
                    continue;
                }
                let mut names = label.2.clone();
                names.push(&self.nodes[link.to]);
                let mut links = links.clone();
                links.push(index);
                open.insert(((label.0 + link.delay, label.1 + 1, names), link.to, links));
            }
        }
        None
    }

    fn node(&self, key: String, name: &str) -> Result<usize, Diagnostic> {
        self.nodes.iter().position(|node| node == name).ok_or_else(|| {
            unknown(&format!("there is no node `{name}`"), name, self.nodes.iter().map(String::as_str)).within(&key)
        })
    }
}
