//! DCCP on sockets: conversions and reports to the caller.

use std::net::SocketAddr;
use std::path::PathBuf;

use narrows_bench::{datagrams, pair};
use narrows_cc::schemes;
use narrows_dccp_udp::{Caller, LiveError, Overview, Report, Settings, Stop};
use pyo3::create_exception;
use pyo3::exceptions::PyException;
use pyo3::prelude::*;
use serde::Serialize;
use serde_json::Value;

use crate::events::Events;
use crate::records::{Record, invalid, seconds};
use crate::{Handle, refuse};

create_exception!(_engine, LiveFailed, PyException, "A connection on sockets failed; the message says how.");

struct Callback(Events);

impl Callback {
    fn report(&self, kind: &str, value: &impl Serialize) {
        self.0.report((kind, Record(value)));
    }
}

impl Caller for Callback {
    fn stop(&self) -> Stop {
        match self.0.stops() {
            0 => Stop::No,
            1 => Stop::Close,
            _ => Stop::Abort,
        }
    }

    fn listening(&self, at: SocketAddr) {
        self.report("listening", &at);
    }

    fn progress(&self, report: &Report) {
        self.report("progress", report);
    }

    fn overview(&self, overview: &Overview) {
        self.report("overview", overview);
    }

    fn warning(&self, text: &str) {
        self.report("warning", &text);
    }

    fn ended(&self, report: &Report) {
        self.report("ended", report);
    }
}

/// The schemes designed for datagrams: the default of the datagram benchmark.
#[pyfunction]
pub fn datagram_schemes() -> Vec<&'static str> {
    pair::schemes().map(|entry| entry.info.name).collect()
}

/// Measures the wall time of datagrams. Returns the number and size of the datagrams received, and the time.
/// `path` is `memory` (only the protocol of both endpoints) or `loopback` (two sockets and two threads).
/// Without a scheme, this function measures plain UDP over loopback on one thread, in `batches` or in `calls`
/// of one packet each.
#[pyfunction]
#[pyo3(signature = (scheme, path, duration_s))]
pub fn bench_datagrams(py: Python<'_>, scheme: Option<&str>, path: &str, duration_s: f64) -> PyResult<Record<Value>> {
    let duration = seconds(duration_s)?;
    let entry = scheme
        .map(|name| schemes::find(name).ok_or_else(|| invalid(format!("there is no scheme `{name}`"))))
        .transpose()?;
    let failed = |error: LiveError| LiveFailed::new_err(error.to_string());
    let stuck = || LiveFailed::new_err("the connection in memory stalled");
    let measured = py.detach(|| match (entry, path) {
        (Some(entry), "memory") => datagrams::memory(entry, duration).ok_or_else(stuck),
        (Some(entry), "loopback") => datagrams::loopback(entry, duration).map_err(failed),
        (None, "batches" | "calls") => datagrams::udp(path == "batches", duration).map_err(failed),
        _ => Err(invalid(format!("path `{path}`; accepted: memory, loopback, without a scheme batches, calls"))),
    })?;
    Ok(Record(measured.row()))
}

/// Sends or receives DCCP over UDP until it ends or `handle` is cancelled. `text` has the keys of one flow,
/// as under `[[flows]]` in a scenario: scheme, params, size, app and dccp. `on_event` is called with an event
/// name and a record: `listening` with an address, `progress` once a second and `ended` once per connection with
/// a report, `overview` once a second instead of the progress of many connections, `warning` with a text.
#[pyfunction]
#[pyo3(signature = (text, sender, address, duration_s, timeout_s, once, connections, capture, handle, on_event))]
pub fn live(
    py: Python<'_>,
    text: &str,
    sender: bool,
    address: &str,
    duration_s: Option<f64>,
    timeout_s: f64,
    once: bool,
    connections: usize,
    capture: Option<PathBuf>,
    handle: &Handle,
    on_event: Py<PyAny>,
) -> PyResult<()> {
    let flow = narrows_scenario::datagram_flow("command line", text).map_err(|error| refuse(py, &error))?;
    let settings = Settings {
        queue: flow.queue,
        config: flow.config,
        address: address.parse::<SocketAddr>().map_err(invalid)?,
        app: flow.app,
        duration: duration_s.map(seconds).transpose()?,
        timeout: seconds(timeout_s)?,
        once,
        connections,
        capture,
    };
    let callback = Callback(Events::new(&handle.shared, on_event));
    let done = py.detach(|| {
        if sender {
            narrows_dccp_udp::send(&settings, &callback).map(|_| ())
        } else {
            narrows_dccp_udp::receive(&settings, &callback).map(|_| ())
        }
    });
    callback.0.conclude(done.map_err(|error: LiveError| LiveFailed::new_err(error.to_string())))
}
