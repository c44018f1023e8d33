//! JSON exchanged with Python.

use std::fmt;

use narrows_scenario::result::RunResult;
use narrows_scenario::{Run, Scenario, Warning};
use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Swept keys with their values, an ordered JSON object.
#[derive(Clone, Debug, Default)]
pub struct Point(pub Vec<(String, String)>);

impl Serialize for Point {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(k, v)| (k, v)))
    }
}

impl<'de> Deserialize<'de> for Point {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Pairs;
        impl<'de> Visitor<'de> for Pairs {
            type Value = Point;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object of strings")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Point, A::Error> {
                let mut pairs = Vec::new();
                while let Some(pair) = map.next_entry()? {
                    pairs.push(pair);
                }
                Ok(Point(pairs))
            }
        }
        deserializer.deserialize_map(Pairs)
    }
}

/// A planned run.
#[derive(Debug, Serialize, Deserialize)]
pub struct Planned {
    pub point: Point,
    pub seed: u64,
    pub id: String,
    #[serde(deserialize_with = "narrows_scenario::read")]
    pub scenario: Scenario,
    /// Entries under `[[flows]]`, without multiplication by counts and arrivals.
    pub flows: usize,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<Warning>,
}

impl From<Run> for Planned {
    fn from(run: Run) -> Self {
        Self {
            point: Point(run.point),
            seed: run.seed,
            id: run.id,
            flows: run.scenario.flows.len(),
            scenario: run.scenario,
            warnings: run.warnings,
        }
    }
}

/// A result.
#[derive(Debug, Serialize)]
pub struct Report<'a> {
    #[serde(flatten)]
    pub result: &'a RunResult,
    pub id: &'a str,
    pub point: &'a Point,
}
