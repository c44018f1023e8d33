//! Daemons that negotiate rates: conversions and reports to the caller.

use std::net::SocketAddrV4;

use narrows_cc::Rate;
use narrows_negotiation::{
    self as negotiation, ClientSettings, NegotiationError, NextHop, NodeSettings, Operator, PORT, ServerSettings,
};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use serde::Deserialize;

use crate::Handle;
use crate::events::Events;
use crate::kernel::raised;
use crate::live::LiveFailed;
use crate::records::{Record, seconds};

struct Callback(Events);

impl Operator for Callback {
    fn is_stopped(&self) -> bool {
        self.0.stops() > 0
    }

    fn listening(&self, at: SocketAddrV4) {
        self.0.report(("listening", at.to_string()));
    }

    fn log(&self, text: &str) {
        self.0.report(("log", text));
    }
}

/// Settings of a node, as on the command line. Rates are in Mbit/s on the wire.
#[derive(Deserialize)]
struct Node {
    listen: SocketAddrV4,
    rate_mbit_s: f64,
    next: Vec<(std::net::Ipv4Addr, u8, SocketAddrV4)>,
    responder_port: u16,
    params: Vec<(String, String)>,
    messages_per_s: u32,
}

#[derive(Deserialize)]
struct Server {
    listen: SocketAddrV4,
    via: Option<SocketAddrV4>,
    max_mbit_s: f64,
    connections: usize,
    program: bool,
}

#[derive(Deserialize)]
struct Client {
    server: SocketAddrV4,
    local: Option<std::net::Ipv4Addr>,
    content: u32,
    subflows: u16,
    max_mbit_s: f64,
    min_mbit_s: f64,
    limit_mbit_s: f64,
    size: u64,
    duration_s: Option<f64>,
    responder_port: u16,
    timeout_s: f64,
}

fn failure(error: NegotiationError) -> PyErr {
    match error {
        NegotiationError::Setting(message) => PyValueError::new_err(message),
        NegotiationError::Host(error) => raised(error),
        other => LiveFailed::new_err(other.to_string()),
    }
}

/// The UDP port of responders and nodes, and the TCP port of servers.
#[pyfunction]
pub(crate) fn negotiation_port() -> u16 {
    PORT
}

/// Runs a daemon until it ends or `handle` is cancelled: `role` is `node`, `server` or `client`, `settings` a record.
/// `on_event` is called with `listening` and an address, or `log` and a text. Returns the report.
#[pyfunction]
pub(crate) fn negotiate<'py>(
    py: Python<'py>,
    role: &str,
    settings: &Bound<'py, PyAny>,
    handle: &Handle,
    on_event: Py<PyAny>,
) -> PyResult<Bound<'py, PyAny>> {
    let callback = Callback(Events::new(&handle.shared, on_event));
    callback.0.conclude(run(py, role, settings, &callback))
}

fn run<'py>(
    py: Python<'py>,
    role: &str,
    settings: &Bound<'py, PyAny>,
    callback: &Callback,
) -> PyResult<Bound<'py, PyAny>> {
    match role {
        "node" => {
            let Record(own): Record<Node> = settings.extract()?;
            let next = own.next.into_iter();
            let settings = NodeSettings {
                listen: own.listen,
                capacity: Rate::from_mbit_per_sec(own.rate_mbit_s),
                next: next.map(|(network, bits, address)| NextHop { network, bits, address }).collect(),
                responders: own.responder_port,
                params: own.params,
                messages_per_s: own.messages_per_s,
            };
            let report = py.detach(|| negotiation::run_node(&settings, callback)).map_err(failure)?;
            Record(report).into_pyobject(py)
        }
        "server" => {
            let Record(own): Record<Server> = settings.extract()?;
            let settings = ServerSettings {
                listen: own.listen,
                via: own.via,
                max: Rate::from_mbit_per_sec(own.max_mbit_s),
                connections: own.connections,
                program: own.program,
            };
            let report = py.detach(|| negotiation::serve(&settings, callback)).map_err(failure)?;
            Record(report).into_pyobject(py)
        }
        "client" => {
            let Record(own): Record<Client> = settings.extract()?;
            let settings = ClientSettings {
                server: own.server,
                local: own.local,
                content: own.content,
                subflows: own.subflows,
                max: Rate::from_mbit_per_sec(own.max_mbit_s),
                min: Rate::from_mbit_per_sec(own.min_mbit_s),
                limit: Rate::from_mbit_per_sec(own.limit_mbit_s),
                size: own.size,
                duration: own.duration_s.map(seconds).transpose()?,
                responder: own.responder_port,
                timeout: seconds(own.timeout_s)?,
            };
            let report = py.detach(|| negotiation::request(&settings, callback)).map_err(failure)?;
            Record(report).into_pyobject(py)
        }
        other => Err(PyValueError::new_err(format!("there is no role `{other}`"))),
    }
}
