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
use crate::diagnostic::Diagnostic;
use crate::quantity::Time;
use crate::schema::Flow;

/// Scheduler of new data.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum SchedulerKind {
    /// The subflow with the least round-trip time among those with room.
    #[default]
    LowestRtt,
    /// Subflows in turn.
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
    /// A subflow of a connection. Unstated keys are those of the flow.
    #[derive(Default)]
    Subflow {
        ; // optional:
        /// The nodes on the path of its data.
        route: Vec<String>,
        /// The nodes on the path of its acknowledgements (the path of its data, backwards).
        reverse_route: Vec<String>,
        /// Its base round-trip time.
        rtt: Time,
    }
}

/// The subflows of a connection.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum Subflows {
    /// A number of subflows on the same path.
    Count(u64),
    /// A table per subflow.
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

/// Subflows of entry `index`, each as a flow with the table of its keys. A plain flow has one.
pub(crate) fn each(
    flow: &Flow,
    index: usize,
    scheme: &schemes::Entry,
) -> Result<Vec<(Flow, String)>, Diagnostic> {
    let table = format!("flows.{index}");
    let key = |name: &str| format!("{table}.{name}");
    let Some(subflows) = &flow.subflows else {
        return match flow.scheduler {
            Some(_) => {
                Err(Diagnostic::new(key("scheduler"), "without subflows there is nothing to schedule")
                    .accepted("this key together with subflows"))
            }
            None => Ok(vec![(flow.clone(), table)]),
        };
    };
    let count = match subflows {
        Subflows::Count(count) => usize::try_from(*count).unwrap_or(usize::MAX),
        Subflows::Each(list) => list.len(),
    };
    if !(1..=MAX_PATHS_VIEW).contains(&count) {
        return Err(Diagnostic::new(key("subflows"), format!("`{count}` is out of range"))
            .accepted(format!("1 to {MAX_PATHS_VIEW}")));
    }
    if flow.alternatives.is_some() {
        return Err(Diagnostic::new(
            key("alternatives"),
            "a multipath connection uses all its paths at once",
        )
        .accepted("either alternatives or subflows"));
    }
    if scheme.rate_protocol.and_then(Explicit::named).is_some_and(|explicit| !explicit.negotiates()) {
        let message = format!("the header of `{}` leaves no room for subflows", scheme.info.name);
        let negotiating = Explicit::ALL.into_iter().filter(|explicit| explicit.negotiates());
        let names = negotiating.map(Explicit::router).collect::<Vec<_>>().join(", ");
        return Err(Diagnostic::new(key("scheme"), message)
            .accepted(format!("a scheme without a header of its own, or {names}")));
    }
    Ok(match subflows {
        Subflows::Count(_) => vec![(flow.clone(), table); count],
        Subflows::Each(list) => {
            let each = |(nth, own): (usize, &Subflow)| {
                let route = own.route.clone().or_else(|| flow.route.clone());
                // The flow's reverse route does not fit a subflow with its own route.
                let reverse = match (&own.route, &own.reverse_route) {
                    (_, Some(reverse)) => Some(reverse.clone()),
                    (Some(_), None) => None,
                    (None, None) => flow.reverse_route.clone(),
                };
                let rtt = own.rtt.clone().or_else(|| flow.rtt.clone());
                let each = Flow { route, reverse_route: reverse, rtt, ..flow.clone() };
                (each, format!("{table}.subflows.{nth}"))
            };
            list.iter().enumerate().map(each).collect()
        }
    })
}
