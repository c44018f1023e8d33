//! Connections of several subflows: `subflows = 2`, or a table for each.

use std::fmt;

use narrows_cc::{MAX_PATHS_VIEW, schemes};
use narrows_routers::protocol::Explicit;
use narrows_tcp::Scheduler;
use schemars::JsonSchema;
use serde::de::value::SeqAccessDeserializer;
use serde::de::{self, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};

use crate::choice::table;
use crate::fault::Fault;
use crate::quantity::Time;
use crate::schema::Flow;

/// Which subflow new data takes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum SchedulerKind {
    /// That of the least round-trip time among those with room.
    #[default]
    LowestRtt,
    /// Each in turn.
    RoundRobin,
}

impl From<SchedulerKind> for Scheduler {
    fn from(kind: SchedulerKind) -> Self {
        match kind {
            SchedulerKind::LowestRtt => Self::LowestRtt,
            SchedulerKind::RoundRobin => Self::RoundRobin,
        }
    }
}

table! {
    /// A subflow of a connection. What it does not state is the flow's.
    #[derive(Default)]
    Subflow {
        ; // optional:
        /// The nodes its data passes.
        route: Vec<String>,
        /// The nodes its acknowledgements pass (the way of the data, backwards).
        reverse_route: Vec<String>,
        /// Its base round-trip time.
        rtt: Time,
    }
}

/// The subflows of a connection.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum Subflows {
    /// So many over the same way.
    Count(u64),
    /// Each with a way of its own.
    Each(Vec<Subflow>),
}

impl<'de> Deserialize<'de> for Subflows {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(SubflowsVisitor)
    }
}

struct SubflowsVisitor;

impl<'de> Visitor<'de> for SubflowsVisitor {
    type Value = Subflows;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a whole number, or a list of tables such as [{ route = [\"a\", \"b\"] }, { route = [\"a\", \"c\", \"b\"] }]")
    }
    fn visit_u64<E: de::Error>(self, count: u64) -> Result<Subflows, E> {
        Ok(Subflows::Count(count))
    }
    fn visit_seq<A: SeqAccess<'de>>(self, list: A) -> Result<Subflows, A::Error> {
        Vec::deserialize(SeqAccessDeserializer::new(list)).map(Subflows::Each)
    }
}

/// The subflows of entry `index`, each as if it was a flow, and the table that its keys are in. One, if it is a plain flow.
pub(crate) fn legs(flow: &Flow, index: usize, scheme: &schemes::Entry) -> Result<Vec<(Flow, String)>, Fault> {
    let table = format!("flows.{index}");
    let key = |name: &str| format!("{table}.{name}");
    let Some(subflows) = &flow.subflows else {
        return match flow.scheduler {
            Some(_) => Err(Fault::new(key("scheduler"), "there is nothing to choose from")
                .accepted("this key together with subflows")),
            None => Ok(vec![(flow.clone(), table)]),
        };
    };
    let count = match subflows {
        Subflows::Count(count) => usize::try_from(*count).unwrap_or(usize::MAX),
        Subflows::Each(list) => list.len(),
    };
    if !(1..=MAX_PATHS_VIEW).contains(&count) {
        return Err(Fault::new(key("subflows"), format!("`{count}` subflows"))
            .accepted(format!("1 to {MAX_PATHS_VIEW}")));
    }
    if flow.alternatives.is_some() {
        return Err(Fault::new(
            key("alternatives"),
            "a connection of several subflows takes all its ways at once",
        )
        .accepted("either alternatives or subflows"));
    }
    if scheme.rate_protocol.and_then(Explicit::named).is_some_and(|explicit| !explicit.negotiates()) {
        let (name, place) = (scheme.info.name, "where subflows have their mappings");
        let message = format!("`{name}` has a header of its own, {place}");
        let negotiating = Explicit::ALL.into_iter().filter(|explicit| explicit.negotiates());
        let names = negotiating.map(Explicit::router).collect::<Vec<_>>().join(", ");
        return Err(Fault::new(key("scheme"), message)
            .accepted(format!("a scheme without explicit header, or {names}")));
    }
    Ok(match subflows {
        Subflows::Count(_) => vec![(flow.clone(), table); count],
        Subflows::Each(list) => {
            let leg = |(nth, own): (usize, &Subflow)| {
                let route = own.route.clone().or_else(|| flow.route.clone());
                // The way back of another route is no default.
                let reverse = match (&own.route, &own.reverse_route) {
                    (_, Some(reverse)) => Some(reverse.clone()),
                    (Some(_), None) => None,
                    (None, None) => flow.reverse_route.clone(),
                };
                let rtt = own.rtt.clone().or_else(|| flow.rtt.clone());
                let leg = Flow { route, reverse_route: reverse, rtt, ..flow.clone() };
                (leg, format!("{table}.subflows.{nth}"))
            };
            list.iter().enumerate().map(leg).collect()
        }
    })
}
