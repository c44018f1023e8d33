//! Short and long forms of routers, jitter, radio paths and file sizes.

use std::collections::BTreeMap;

use narrows_routers as routers;
use schemars::JsonSchema;
use serde::de::value::MapAccessDeserializer;
use serde::de::{self, MapAccess};
use serde::{Deserialize, Serialize};

use super::short::{Short, tagged};
use super::table::table;
use super::value::ParamValue;
use crate::quantity::{Rate, Share, Size, Time};

/// A router algorithm with its parameters, each a key beside `kind`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Router {
    /// The router algorithm, or none.
    pub kind: String,
    /// Time at which the algorithm fails (never).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dies: Option<Time>,
    /// Values of its parameters.
    #[serde(flatten)]
    pub params: BTreeMap<String, ParamValue>,
}

impl Router {
    /// The names of all router algorithms, and `none`.
    pub(crate) fn names() -> String {
        routers::ALL.iter().map(|entry| entry.info.name).chain(["none"]).collect::<Vec<_>>().join(", ")
    }
}

impl Short for Router {
    fn accepted() -> String {
        format!("{}, or a table with `kind` and parameters", Self::names())
    }
    fn from_text<E: de::Error>(text: &str) -> Result<Self, E> {
        Ok(Self { kind: text.to_owned(), dies: None, params: BTreeMap::new() })
    }
    fn text(&self) -> Option<String> {
        (self.params.is_empty() && self.dies.is_none()).then(|| self.kind.clone())
    }
    fn from_table<'de, A: MapAccess<'de>>(table: A) -> Result<Self, A::Error> {
        Self::deserialize(MapAccessDeserializer::new(table))
    }
}

table! {
    /// Variation of the delay.
    Jitter {
        /// Greatest additional delay (uniform from zero).
        max: Time,
        ; // optional:
        /// Allow reordering (false).
        reorder: bool,
    }
}

impl Short for Jitter {
    fn accepted() -> String {
        "a time such as 5ms, or { max = \"5ms\", reorder = true }".to_owned()
    }
    fn from_text<E: de::Error>(text: &str) -> Result<Self, E> {
        Ok(Self { max: text.parse().map_err(E::custom)?, reorder: None })
    }
    fn text(&self) -> Option<String> {
        self.reorder.is_none().then(|| self.max.to_string())
    }
    fn from_table<'de, A: MapAccess<'de>>(table: A) -> Result<Self, A::Error> {
        Self::deserialize(MapAccessDeserializer::new(table))
    }
}

tagged! {
    /// A generated radio path with its long-run averages.
    Radio {
        /// A 5G cell seen from a vehicle: four cell states, handovers with outages, bursts of loss, steps of the
        /// delay.
        FiveG(FiveG) "5g",
    }
    fn accepted() -> String {
        "5g, or a table such as { kind = \"5g\", seed = 1, mean = \"150mbit\" }".to_owned()
    }
}

table! {
    /// Settings of a 5G cell.
    FiveG {
        ; // optional:
        /// The seed of the path (the run's).
        seed: u64,
        /// Length of the path, after which it repeats (60s).
        period: Time,
        /// Mean rate (150mbit).
        mean: Rate,
        /// Greatest rate, at least three times the mean (1gbit).
        peak: Rate,
        /// Mean loss (0.5%).
        loss: Share,
        /// Mean time to the next handover (12s).
        handovers: Time,
        /// Greatest additional delay of a cell (10ms).
        delay: Time,
    }
}

tagged! {
    /// Sizes of files.
    FileSize {
        /// Equal sizes.
        Fixed(Mean) "fixed",
        /// Exponentially distributed.
        Exponential(Mean) "exponential",
        /// Pareto distributed: few files are very large.
        Pareto(Pareto) "pareto",
    }
    fn accepted() -> String {
        "a size such as 100kB, or a table: { kind = \"exponential\", mean = \"100kB\" } or \
        { kind = \"pareto\", mean = \"100kB\", shape = 1.2 }"
            .to_owned()
    }
    fn from_text<E: de::Error>(text: &str) -> Result<Self, E> {
        Ok(Self::Fixed(Mean { mean: text.parse().map_err(E::custom)? }))
    }
    fn text(&self) -> Option<String> {
        match self {
            Self::Fixed(Mean { mean }) => Some(mean.to_string()),
            _ => None,
        }
    }
}

table! {
    /// A distribution with one parameter.
    Mean {
        /// Their mean.
        mean: Size,
        ; // optional:
    }
}

table! {
    /// A Pareto distribution.
    Pareto {
        /// Their mean.
        mean: Size,
        ; // optional:
        /// The tail index, above 1 so that the mean exists (1.2).
        shape: f64,
    }
}
