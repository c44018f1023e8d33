//! Runs in real time, on the kernel and on QUIC: conversions and reports to the caller.

use std::sync::atomic::Ordering;

use narrows_emulation::Watch;
use narrows_host::HostError;
use narrows_kernel::{self as kernel, Options};
use narrows_programs::{self as programs, PROGRAMS, Program, Status};
use narrows_quic_backend as quic;
use narrows_scenario::Plan;
use narrows_scenario::result::RunResult;
use pyo3::prelude::*;
use serde_json::{Value, json};

use crate::outputs::Outputs;
use crate::records::Record;
use crate::signals::interruptible;
use crate::{HostFailed, HostUnable, Shared};

impl Watch for Shared {
    fn progress(&self, fraction: f64) {
        self.progress.store(fraction.to_bits(), Ordering::Relaxed);
    }

    fn is_cancelled(&self) -> bool {
        self.cancelled.load(Ordering::Relaxed) > 0
    }
}

/// Converts an error to its Python exception.
pub(crate) fn raised(error: HostError) -> PyErr {
    match error {
        HostError::Unsupported(_) | HostError::Unavailable(_) => HostUnable::new_err(error.to_string()),
        HostError::Step { .. } => HostFailed::new_err(error.to_string()),
    }
}

/// The options of the kernel backend named `on`.
fn options(on: &str) -> Options {
    Options { shim: on == "shim", ..Options::default() }
}

/// The options of the QUIC backend named `on`.
fn quic_options(on: &str) -> quic::Options {
    quic::Options { own: on == "noq", ..quic::Options::default() }
}

/// Refuses a plan that a real-time backend cannot run.
pub(crate) fn check(plan: &Plan, on: &str) -> PyResult<()> {
    match on {
        "quic" | "noq" => quic::check(plan, &quic_options(on)),
        _ => kernel::check(plan, &options(on)),
    }
    .map_err(raised)
}

/// Runs a plan in real time and writes the files in `outputs`; `None` if cancelled.
pub(crate) fn record(plan: &Plan, on: &str, outputs: &Outputs<'_>, shared: &Shared) -> PyResult<Option<RunResult>> {
    let create = || outputs.create(plan).map_err(|(_, error)| error);
    let ran = match on {
        "quic" | "noq" => quic::run(plan, &quic_options(on), create, shared),
        _ => kernel::run(plan, &options(on), create, shared),
    };
    let Some((result, files)) = ran.map_err(raised)? else { return Ok(None) };
    outputs.close(files, true)?;
    Ok(Some(result))
}

/// The kernel programs of schemes: name, corresponding scheme in the registry, summary, and whether the kernel
/// offers the name.
#[pyfunction]
pub(crate) fn kernel_programs() -> Record<Vec<Value>> {
    let row = |program: &Program| {
        json!({"name": program.name, "scheme": program.scheme, "summary": program.summary,
               "registered": program.is_registered()})
    };
    Record(PROGRAMS.iter().map(row).collect())
}

/// Loads a program with these parameters and registers its scheme, until the program is unloaded. Returns the
/// program's name.
#[pyfunction]
pub(crate) fn load_program(py: Python<'_>, name: &str, values: Vec<(String, String)>) -> PyResult<&'static str> {
    let program = Program::find(name).map_err(raised)?;
    py.detach(|| program.load(&values)).map_err(raised)?;
    Ok(program.name)
}

/// Unregisters a program. Returns its name, and the number of connections that still use it until they end.
#[pyfunction]
pub(crate) fn unload_program(py: Python<'_>, name: &str) -> PyResult<(&'static str, u64)> {
    let program = Program::find(name).map_err(raised)?;
    let left = py.detach(|| program.unload()).map_err(raised)?;
    Ok((program.name, left))
}

/// Counters of the loaded programs, observed for `seconds`.
#[pyfunction]
pub(crate) fn program_status(py: Python<'_>, seconds: f64) -> PyResult<Record<Vec<Status>>> {
    let rows = interruptible(py, |is_cancelled| programs::status(seconds, is_cancelled))?;
    rows.map(Record).map_err(raised)
}
