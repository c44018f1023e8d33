//! BRF on this host's connections: conversions.

pub(crate) mod switch;

use std::path::PathBuf;

use narrows_brf::host::{self, Attached, Options, Status};
use narrows_cc::Rate;
use pyo3::prelude::*;

use crate::kernel::raised;
use crate::records::Record;

/// Attaches BRF to a cgroup (`None`: the root cgroup). Returns the actions; with `dry`, they are only planned.
#[pyfunction]
pub(crate) fn attach_brf(
    py: Python<'_>,
    cgroup: Option<PathBuf>,
    adopts: bool,
    limit_mbit: Option<f64>,
    values: Vec<(String, String)>,
    dry: bool,
) -> PyResult<Record<Attached>> {
    let options = Options { cgroup, adopts, limit: limit_mbit.map(Rate::from_mbit_per_sec), values, dry };
    py.detach(|| host::attach(&options)).map_err(raised).map(Record)
}

/// Detaches BRF from a cgroup (`None`: from all cgroups). Returns the removed attachments, one string each.
#[pyfunction]
pub(crate) fn detach_brf(py: Python<'_>, cgroup: Option<PathBuf>) -> PyResult<Vec<String>> {
    py.detach(|| host::detach(cgroup.as_deref())).map_err(raised)
}

/// The attachments of BRF and their counters.
#[pyfunction]
pub(crate) fn brf_status(py: Python<'_>) -> PyResult<Record<Status>> {
    py.detach(host::status).map_err(raised).map(Record)
}
