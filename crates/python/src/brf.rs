//! BRF on this host's connections: conversions.

pub(crate) mod switch;

use std::path::PathBuf;

use narrows_brf::host::{self, Attached, Options, Status};
use narrows_cc::Rate;
use narrows_host::HostError;
use pyo3::prelude::*;

use crate::kernel::raised;
use crate::records::Record;

fn done<T>(result: Result<T, HostError>) -> PyResult<T> {
    result.map_err(|error| raised(&error))
}

/// Attaches to a cgroup (`None`: the root). Returns what was done, or with `dry` would be.
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
    done(py.detach(|| host::attach(&options))).map(Record)
}

/// Detaches from a cgroup (`None`: from all). Returns what was removed, as lines.
#[pyfunction]
pub(crate) fn detach_brf(py: Python<'_>, cgroup: Option<PathBuf>) -> PyResult<Vec<String>> {
    done(py.detach(|| host::detach(cgroup.as_deref())))
}

/// Attachments and counters.
#[pyfunction]
pub(crate) fn brf_status(py: Python<'_>) -> PyResult<Record<Status>> {
    done(py.detach(host::status)).map(Record)
}
