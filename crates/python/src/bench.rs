//! Benchmarks of the event loop, of schemes and of router algorithms.

use narrows_bench::cases::{self, CASES};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use serde_json::{Value, json};

use super::refuse;
use crate::records::Record;

/// Benchmark cases: name, description and scenario text.
#[pyfunction]
pub(crate) fn bench_cases() -> Record<Vec<Value>> {
    let row = |c: &cases::Case| json!({"name": c.name, "description": c.description, "scenario": c.scenario});
    Record(CASES.iter().map(row).collect())
}

/// Runs one benchmark case `repeats` times; the record has medians, which cover the event loop alone.
#[pyfunction(name = "bench")]
pub(crate) fn run_case(py: Python<'_>, name: &str, repeats: usize) -> PyResult<Record<Value>> {
    let case = cases::find(name).map_err(PyValueError::new_err)?;
    let row = py.detach(|| case.measure(repeats).map_err(Box::new));
    row.map(Record).map_err(|error| refuse(py, &error))
}

/// Cost of an acknowledgement to each scheme (all schemes, or those named): medians over `repeats` rounds, and
/// the median ratio to the first registered scheme. Every scheme takes a turn in each round, and the first
/// scheme always takes part.
#[pyfunction]
#[pyo3(signature = (repeats, names=vec![]))]
pub(crate) fn bench_schemes(py: Python<'_>, repeats: usize, names: Vec<String>) -> PyResult<Record<Value>> {
    let rows = py.detach(|| narrows_bench::schemes::measure(repeats, &names));
    rows.map(Record).map_err(PyValueError::new_err)
}

/// Cost of each router algorithm (all algorithms, or those named) to its link, by number of flows: medians over
/// `repeats` rounds, and the median ratio to a link without algorithm. Every algorithm and this link take a
/// turn in each round.
#[pyfunction]
#[pyo3(signature = (repeats, names=vec![]))]
pub(crate) fn bench_routers(py: Python<'_>, repeats: usize, names: Vec<String>) -> PyResult<Record<Value>> {
    let rows = py.detach(|| narrows_bench::ports::measure(repeats, &names));
    rows.map(Record).map_err(PyValueError::new_err)
}
