//! The engine as the Python module `narrows._engine`: conversions and the release of the GIL, nothing else.

mod bench;
#[cfg(target_os = "linux")]
mod brf;
mod events;
mod folder;
#[cfg(target_os = "linux")]
mod kernel;
mod live;
#[cfg(target_os = "linux")]
mod negotiation;
mod outputs;
mod perf;
mod records;
#[cfg(target_os = "linux")]
mod signals;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use folder::Folder;
use narrows_cc::Nanos;
use narrows_cc::schemes::{self, Entry};
use narrows_cc::{Param, ParamKind, RecoveryStyle};
use narrows_routers as routers;
use narrows_scenario::result::RunResult;
use narrows_scenario::{self as scenario, Explanation, Files, Plan, ScenarioError as Refusal, Source};
use narrows_sim::engine::Engine;
use narrows_sim::observer::Observer;
use outputs::Outputs;
use pyo3::create_exception;
use pyo3::exceptions::{PyException, PyValueError};
use pyo3::prelude::*;
use records::{Planned, Record, Report, Row};
use serde_json::{Value, json};

/// Runs of thousands of flows access many small blocks; mimalloc stores blocks of the same size together.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

create_exception!(_engine, ScenarioError, PyValueError, "A scenario was refused; the message says where and why.");
create_exception!(_engine, HostUnable, PyValueError, "The kernel cannot run a scenario; the message says why.");
create_exception!(_engine, HostFailed, PyException, "A run on the kernel failed; the message says how.");
create_exception!(_engine, Cancelled, PyException, "A run was cancelled before its end.");

/// Number of cancellation checks per run, at equal intervals of virtual time.
const SLICES: u64 = 400;
/// Maximum number of events between cancellation checks, because one slice of a large run may take long.
const SLICE_EVENTS: u64 = 250_000;

/// Progress and cancellation of a run, shared between threads.
#[pyclass(frozen)]
#[derive(Default)]
pub(crate) struct Handle {
    shared: Arc<Shared>,
}

#[derive(Default)]
pub(crate) struct Shared {
    /// Number of cancellation requests.
    cancelled: AtomicU32,
    /// Elapsed fraction of the virtual time, as the bits of an `f64`.
    progress: AtomicU64,
}

#[pymethods]
impl Handle {
    #[new]
    fn new() -> Self {
        Self::default()
    }

    /// Fraction of the virtual time elapsed, 0 to 1.
    fn progress(&self) -> f64 {
        f64::from_bits(self.shared.progress.load(Ordering::Relaxed))
    }

    /// Makes the run raise `Cancelled` soon. Closes connections on sockets; a second call aborts them.
    fn cancel(&self) {
        self.shared.cancelled.fetch_add(1, Ordering::Relaxed);
    }
}

/// Version of the engine.
#[pyfunction]
fn version() -> &'static str {
    env!("CARGO_PKG_VERSION")
}

/// Fingerprints of the sources that runs depend on: `build`, `backends` and `schemes` by name.
#[pyfunction]
fn sources() -> PyResult<Record<Value>> {
    parsed(include_str!(concat!(env!("OUT_DIR"), "/sources.json")))
}

fn parsed(text: &str) -> PyResult<Record<Value>> {
    serde_json::from_str(text).map(Record).map_err(records::invalid)
}

fn describe_params(params: &[Param]) -> Vec<Value> {
    let row = |p: &Param| {
        let kind = match p.kind {
            ParamKind::Number => "number",
            ParamKind::Count => "count",
            ParamKind::Flag => "flag",
            ParamKind::Choice(words) => {
                return json!({"name": p.name, "kind": "choice", "default": words[p.default as usize],
                              "choices": words, "unit": p.unit, "help": p.help});
            }
        };
        json!({"name": p.name, "kind": kind, "default": p.default, "min": p.min, "max": p.max, "unit": p.unit,
               "help": p.help})
    };
    params.iter().map(row).collect()
}

fn describe(entry: &Entry) -> Value {
    let info = entry.info;
    let recovery = match info.recovery {
        RecoveryStyle::Prr => "prr",
        RecoveryStyle::Own => "own",
    };
    json!({"name": info.name, "aliases": info.aliases, "summary": info.summary, "provenance": info.provenance.word(),
           "recovery": recovery, "params": describe_params(info.params),
           "page": entry.page().collect::<Vec<_>>().join("\n")})
}

/// All registered routers.
#[pyfunction(name = "routers")]
fn list_routers() -> Record<Vec<Value>> {
    let describe = |entry: &routers::RouterEntry| {
        let info = entry.info;
        json!({"name": info.name, "summary": info.summary, "provenance": info.provenance.word(),
               "params": describe_params(info.params), "page": entry.page().collect::<Vec<_>>().join("\n")})
    };
    Record(routers::ALL.iter().map(describe).collect())
}

/// All registered schemes.
#[pyfunction(name = "schemes")]
fn list_schemes() -> Record<Vec<Value>> {
    Record(schemes::ALL.iter().map(describe).collect())
}

/// JSON Schema of a scenario.
#[pyfunction]
fn schema() -> PyResult<Record<Value>> {
    parsed(&scenario::schema_json())
}

pub(crate) fn refuse(py: Python<'_>, error: &Refusal) -> PyErr {
    let raised = ScenarioError::new_err(error.to_string());
    let value = raised.value(py);
    let set = |name: &str, result: PyResult<()>| debug_assert!(result.is_ok(), "{name}");
    set("source", value.setattr("source", &error.source));
    set("line", value.setattr("line", error.line));
    set("column", value.setattr("column", error.column));
    set("key", value.setattr("key", error.key.as_deref()));
    set("message", value.setattr("message", &error.message));
    set("accepted", value.setattr("accepted", error.accepted.as_deref()));
    raised
}

/// Checks a scenario and expands its sweep into one record per run. Files lie in `directory`, except those named
/// in `outside`; without `outside` they may lie anywhere.
#[pyfunction]
#[pyo3(signature = (text, source, directory=None, overrides=vec![], outside=None))]
fn plan(
    py: Python<'_>,
    text: &str,
    source: &str,
    directory: Option<&str>,
    overrides: Vec<(String, String)>,
    outside: Option<Vec<String>>,
) -> PyResult<Record<Vec<Row>>> {
    let from = Source { name: source, text, files: &Folder::new(directory, outside.as_deref()) };
    let runs = scenario::expand(&from, &overrides).map_err(|e| refuse(py, &e))?;
    runs.into_iter().map(Row::try_from).collect::<PyResult<_>>().map(Record)
}

/// Explains a scenario: one record per point, with every effective option and its origin.
#[pyfunction]
#[pyo3(signature = (text, source, directory=None, overrides=vec![], outside=None))]
fn explain(
    py: Python<'_>,
    text: &str,
    source: &str,
    directory: Option<&str>,
    overrides: Vec<(String, String)>,
    outside: Option<Vec<String>>,
) -> PyResult<Record<Vec<Explanation>>> {
    let from = Source { name: source, text, files: &Folder::new(directory, outside.as_deref()) };
    scenario::explain(&from, &overrides).map(Record).map_err(|e| refuse(py, &e))
}

/// Profiles of transport options: the settings of each, the rules that they follow, and the remaining differences.
#[pyfunction]
fn profiles() -> Record<Vec<Value>> {
    let settings = |rows: &[scenario::profile::Setting]| {
        let row = |row: &scenario::profile::Setting| json!({"key": row.key, "value": row.value, "follows": row.follows, "kernel": row.kernel});
        rows.iter().map(row).collect::<Vec<_>>()
    };
    let describe = |profile: &scenario::profile::Profile| {
        json!({"name": profile.name, "summary": profile.summary, "tcp": settings(&profile.tcp),
               "params": settings(profile.params), "lacks": profile.lacks})
    };
    Record(scenario::profile::ALL.iter().map(describe).collect())
}

/// Radio path of a table with the keys of `radio` in a scenario: the contents of its capacity, loss and delay traces.
#[pyfunction]
fn radio_trace(py: Python<'_>, text: &str, source: &str) -> PyResult<(String, String, String)> {
    let path = py.detach(|| scenario::radio_path(source, text).map_err(Box::new)).map_err(|e| refuse(py, &e))?;
    Ok((path.capacity.to_text(), path.loss.to_text(), path.delay.to_text()))
}

/// Runs the event loop in slices; `None` if cancelled or if `stuck` returns `true` for the observer.
fn drive<O: Observer>(
    plan: Plan,
    observer: O,
    shared: Option<&Shared>,
    stuck: impl Fn(&O) -> bool,
) -> Option<RunResult> {
    let duration = plan.duration;
    let mut engine = Engine::observed(plan, observer);
    // The wall-clock time appears only in the report; the run does not depend on it.
    #[allow(clippy::disallowed_methods)]
    let started = std::time::Instant::now();
    let slice = Nanos::from_nanos(duration.as_nanos().div_ceil(SLICES));
    let mut until = slice;
    while engine.now() < duration {
        if let Some(shared) = shared {
            if shared.cancelled.load(Ordering::Relaxed) > 0 {
                return None;
            }
            let progress = engine.now().as_secs_f64() / duration.as_secs_f64();
            shared.progress.store(progress.to_bits(), Ordering::Relaxed);
        }
        if engine.run_slice(until, SLICE_EVENTS) {
            until += slice;
        }
        if stuck(engine.observer()) {
            return None;
        }
    }
    let took = started.elapsed();
    let mut result = engine.finish();
    result.wall_s = took.as_secs_f64();
    if let Some(shared) = shared {
        shared.progress.store(1f64.to_bits(), Ordering::Relaxed);
    }
    Some(result)
}

/// Like [`drive`]; also writes the files in `outputs`.
fn record(plan: Plan, outputs: &Outputs<'_>, shared: Option<&Shared>) -> PyResult<Option<RunResult>> {
    if !outputs.are_wanted() {
        return Ok(drive(plan, (), shared, |()| false));
    }
    let mut files = outputs.create(&plan).map_err(|(file, error)| outputs::file_error(file, &error))?;
    let result = drive(plan, &mut files, shared, |files| outputs::have_failed(files));
    outputs.close(files, result.is_some())?;
    Ok(result)
}

/// Resolves a planned run to its plan.
fn resolved(py: Python<'_>, planned: &str, files: &Folder<'_>) -> PyResult<(Planned, Plan)> {
    let planned: Planned =
        serde_json::from_str(planned).map_err(|e| PyValueError::new_err(format!("not a planned run: {e}")))?;
    let plan = scenario::resolve(&planned.scenario, planned.seed, files).map_err(|e| refuse(py, &e))?;
    Ok((planned, plan))
}

/// Runs one planned run to its end without the GIL. With `trace_dir`, writes the trace configured by the
/// scenario's `[trace]` there as Arrow streams. `capture` states a pcapng file, the hosts that record (`both`,
/// `senders` or `receivers`), and the number of bytes to keep of each packet. With `qlog`, writes events there
/// as a JSON text sequence. `on` is the backend: `sim`, `kernel`, `shim` for schemes of ours on the kernel's
/// TCP, `quic`, or `noq` for noq's own controllers.
#[pyfunction]
#[pyo3(signature = (planned, directory=None, trace_dir=None, handle=None, capture=None, on="sim", outside=None, qlog=None))]
#[allow(clippy::too_many_arguments)] // Python passes them by name
fn run(
    py: Python<'_>,
    planned: &str,
    directory: Option<&str>,
    trace_dir: Option<&str>,
    handle: Option<&Handle>,
    capture: Option<(String, String, Option<u32>)>,
    on: &str,
    outside: Option<Vec<String>>,
    qlog: Option<&str>,
) -> PyResult<Record<Report>> {
    let capture = match &capture {
        None => None,
        Some((file, ends, snap)) => Some((file.as_str(), outputs::contents(ends, *snap)?)),
    };
    let (planned, plan) = resolved(py, planned, &Folder::new(directory, outside.as_deref()))?;
    let shared = handle.map(|h| Arc::clone(&h.shared));
    let transport = matches!(on, "quic" | "noq").then_some("quic");
    let outputs = Outputs { traces: trace_dir.map(Path::new), capture, qlog, transport };
    let run = || match on {
        "sim" => record(plan, &outputs, shared.as_deref()),
        #[cfg(target_os = "linux")]
        "kernel" | "shim" | "quic" | "noq" => {
            kernel::record(&plan, on, &outputs, shared.as_deref().unwrap_or(&Shared::default()))
        }
        _ => Err(PyValueError::new_err(format!("this build runs nothing on `{on}`"))),
    };
    match py.detach(run)? {
        None => Err(Cancelled::new_err("cancelled")),
        Some(result) => Ok(Record(Report { result, id: planned.id, point: planned.point })),
    }
}

/// Refuses a planned run that a real-time backend cannot execute (`on` as for `run`).
#[pyfunction]
#[pyo3(signature = (planned, directory, on, outside=None))]
fn check_place(
    py: Python<'_>,
    planned: &str,
    directory: Option<&str>,
    on: &str,
    outside: Option<Vec<String>>,
) -> PyResult<()> {
    let plan = resolved(py, planned, &Folder::new(directory, outside.as_deref()))?.1;
    #[cfg(target_os = "linux")]
    return kernel::check(&plan, on);
    #[cfg(not(target_os = "linux"))]
    Err(HostUnable::new_err(format!("--on {on} needs Linux")))
}

/// Runs a packetdrill script against the TCP endpoint or, with `lateness_ms`, on the kernel, where packets may
/// be off by at least this time. The record has result, line, reason and the calls whose results were not
/// compared. `directory` holds the shell scripts that the script names.
#[pyfunction]
#[pyo3(signature = (text, directory=None, lateness_ms=None))]
fn packetdrill(
    py: Python<'_>,
    text: &str,
    directory: Option<&str>,
    lateness_ms: Option<f64>,
) -> PyResult<Record<Value>> {
    let files = Folder::new(directory, None);
    let read = |name: &str| files.read(name).ok();
    let report = match lateness_ms {
        None => py.detach(|| narrows_packetdrill::run(text, &read)),
        #[cfg(target_os = "linux")]
        Some(lateness) => {
            let lateness = std::time::Duration::try_from_secs_f64(lateness / 1e3);
            let lateness = lateness.map_err(records::invalid)?;
            let settings = narrows_kernel::packetdrill::Settings { lateness };
            let ran = signals::interruptible(py, |is_cancelled| {
                narrows_kernel::packetdrill::run(text, &read, &settings, is_cancelled)
            })?;
            ran.map_err(kernel::raised)?
        }
        #[cfg(not(target_os = "linux"))]
        Some(_) => return Err(HostUnable::new_err("--on kernel needs Linux")),
    };
    Ok(Record(json!({"result": report.verdict.name(), "line": report.line, "reason": report.reason,
                     "unchecked": report.unchecked})))
}

/// The default scheme of datagrams.
#[pyfunction]
fn datagram_scheme() -> &'static str {
    narrows_dccp::Config::default().scheme.info.name
}

#[pymodule(gil_used = false)]
mod _engine {
    #[pymodule_export]
    use super::bench::{bench_cases, bench_routers, bench_schemes, run_case};
    #[cfg(target_os = "linux")]
    #[pymodule_export]
    use super::brf::switch::{PortJudge, brf_switches, clean_brf_switches, plan_brf_switch, run_brf_switch};
    #[cfg(target_os = "linux")]
    #[pymodule_export]
    use super::brf::{attach_brf, brf_status, detach_brf};
    #[cfg(target_os = "linux")]
    #[pymodule_export]
    use super::kernel::{kernel_programs, load_program, program_status, unload_program};
    #[pymodule_export]
    use super::live::{LiveFailed, bench_datagrams, datagram_schemes, live};
    #[cfg(target_os = "linux")]
    #[pymodule_export]
    use super::negotiation::{negotiate, negotiation_port};
    #[pymodule_export]
    use super::perf::{perf_client, perf_server};
    #[pymodule_export]
    use super::{
        Cancelled, Handle, HostFailed, HostUnable, ScenarioError, check_place, datagram_scheme, explain, list_routers,
        list_schemes, packetdrill, plan, profiles, radio_trace, run, schema, sources, version,
    };
}
