//! The tables of a connection's subflows: `subflows = 2`, or a table for each subflow.

use std::fmt;

use narrows_tcp::Scheduler;
use schemars::JsonSchema;
use serde::de::value::SeqAccessDeserializer;
use serde::de::{self, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};

use super::table::table;
use crate::quantity::Time;

/// Scheduler of new data.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum SchedulerKind {
    /// The subflow with the least round-trip time among those whose windows allow sending.
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
