//! Throughput tests of QUIC: conversions and reports to the caller.

use std::net::SocketAddr;
use std::sync::Arc;

use narrows_perf::{self as perf, Caller, Event, Identity, PerfError, Request, Service, Settings, Trust};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::events::Events;
use crate::live::LiveFailed;
use crate::records::{Record, invalid, seconds};
use crate::{Handle, HostUnable};

struct Callback(Events);

impl Caller for Callback {
    fn stop(&self) -> bool {
        self.0.stops() > 0
    }

    fn event(&self, event: &Event) {
        self.0.report((Record(event),));
    }
}

fn raised(error: &PerfError) -> PyErr {
    match error {
        PerfError::Refused(_) => HostUnable::new_err(error.to_string()),
        PerfError::Failed { .. } => LiveFailed::new_err(error.to_string()),
    }
}

fn settings(address: &str, scheme: String, params: Vec<(String, String)>, interval_s: f64) -> PyResult<Settings> {
    let address = address.parse::<SocketAddr>().map_err(invalid)?;
    Ok(Settings { address, scheme, params, interval: seconds(interval_s)? })
}

/// Serves throughput tests at `address` until `handle` is cancelled, `duration_s` is over or, with `once`, one
/// test has ended. `identity`: files of certificate and key. `connections`: simultaneous tests. `per_address`:
/// simultaneous connections from one address. `longest_s`: the longest test. `on_event` is called with records
/// of `event`: listening, begun, interval, ended or warning.
#[pyfunction]
pub(crate) fn perf_server(
    py: Python<'_>,
    address: &str,
    scheme: String,
    params: Vec<(String, String)>,
    interval_s: f64,
    identity: Option<(String, String)>,
    once: bool,
    duration_s: Option<f64>,
    connections: usize,
    per_address: usize,
    longest_s: f64,
    handle: &Handle,
    on_event: Py<PyAny>,
) -> PyResult<()> {
    let settings = settings(address, scheme, params, interval_s)?;
    let identity = identity.map(|(certificate, key)| Identity { certificate: certificate.into(), key: key.into() });
    let (duration, longest) = (duration_s.map(seconds).transpose()?, seconds(longest_s)?);
    let service = Service { identity, once, duration, connections, per_address, longest };
    let callback = Arc::new(Callback(Events::new(&handle.shared, on_event)));
    let caller: Arc<dyn Caller> = Arc::clone(&callback) as _;
    let done = py.detach(|| perf::server(&settings, &service, &caller));
    callback.0.conclude(done.map_err(|error| raised(&error)))
}

/// Runs one throughput test against the server at `address`. `trust`: `system`, `any`, `ca:FILE` or `fingerprint:DIGITS`.
/// `on_event` as for `perf_server`.
#[pyfunction]
pub(crate) fn perf_client(
    py: Python<'_>,
    address: &str,
    scheme: String,
    params: Vec<(String, String)>,
    interval_s: f64,
    duration_s: f64,
    streams: u16,
    reverse: bool,
    name: String,
    trust: &str,
    handle: &Handle,
    on_event: Py<PyAny>,
) -> PyResult<()> {
    let settings = settings(address, scheme, params, interval_s)?;
    let trust = match trust.split_once(':') {
        Some(("ca", file)) => Trust::Authorities(file.into()),
        Some(("fingerprint", digits)) => Trust::Fingerprint(digits.to_owned()),
        _ if trust == "any" => Trust::Any,
        _ if trust == "system" => Trust::System,
        _ => return Err(PyValueError::new_err(format!("trust `{trust}`"))),
    };
    let request = Request { duration: seconds(duration_s)?, streams, reverse, name, trust };
    let caller = Callback(Events::new(&handle.shared, on_event));
    let done = py.detach(|| perf::client(&settings, &request, &caller));
    caller.0.conclude(done.map(|_| ()).map_err(|error| raised(&error)))
}
