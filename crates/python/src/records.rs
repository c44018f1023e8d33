//! Records exchanged with Python: dictionaries and lists of strings, numbers, flags and further records.

use std::fmt;
use std::time::Duration;

use narrows_scenario::result::RunResult;
use narrows_scenario::{Run, Scenario, Warning};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use serde::de::{DeserializeOwned, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A value that Python sees as a record.
pub struct Record<T>(pub T);

impl<'py, T: Serialize> IntoPyObject<'py> for Record<T> {
    type Target = PyAny;
    type Output = Bound<'py, PyAny>;
    type Error = PyErr;

    fn into_pyobject(self, py: Python<'py>) -> PyResult<Self::Output> {
        Ok(pythonize::pythonize(py, &self.0)?)
    }
}

impl<'py, T: DeserializeOwned> FromPyObject<'_, 'py> for Record<T> {
    type Error = PyErr;

    fn extract(object: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        pythonize::depythonize(&object).map(Self).map_err(invalid)
    }
}

/// A `ValueError` with this message.
pub(crate) fn invalid(message: impl fmt::Display) -> PyErr {
    PyValueError::new_err(message.to_string())
}

/// Converts a time in seconds; refuses invalid values.
pub(crate) fn seconds(value: f64) -> PyResult<Duration> {
    Duration::try_from_secs_f64(value).map_err(invalid)
}

/// Swept keys with their values, as a JSON object that keeps their order.
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
    /// Number of entries in `[[flows]]`; an entry counts once even if it creates several flows.
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

/// A planned run for Python: its properties, and its serialised form for `run` and `check_place`.
#[derive(Debug, Serialize)]
pub struct Row {
    point: Point,
    seed: u64,
    id: String,
    flows: usize,
    /// Schemes of the flows, with their parameters.
    schemes: Vec<String>,
    warnings: Vec<Warning>,
    text: String,
}

impl TryFrom<Run> for Row {
    type Error = PyErr;

    fn try_from(run: Run) -> PyResult<Self> {
        let planned = Planned::from(run);
        let text = serde_json::to_string(&planned).map_err(invalid)?;
        let schemes = planned.scenario.flows.iter().map(|flow| flow.scheme.clone()).collect();
        let Planned { point, seed, id, flows, warnings, .. } = planned;
        Ok(Self { point, seed, id, flows, schemes, warnings, text })
    }
}

/// A run's result for Python.
#[derive(Debug, Serialize)]
pub struct Report {
    #[serde(flatten)]
    pub result: RunResult,
    pub id: String,
    pub point: Point,
}
