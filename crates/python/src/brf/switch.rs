//! The BRF switch on ports of this machine, and the decisions of its controller: conversions.

use narrows_brf::switch::{self, PortSettings, Role, Settings, Watch};
use narrows_cc::{Bytes, Nanos, Rate};
use narrows_net::PortStatistics;
use narrows_routers::Congestion;
use narrows_routers::controller::{Config, Controller};
use pyo3::prelude::*;
use serde::Deserialize;
use serde_json::Value;

use crate::Handle;
use crate::events::Events;
use crate::kernel::raised;
use crate::records::Record;

/// Settings in Python's units.
#[derive(Deserialize)]
pub(crate) struct Stated {
    ports: Vec<(String, Role)>,
    rate_mbit: f64,
    buffer: u32,
    period_ms: f64,
    patience_ms: f64,
    /// Polling interval of the switch's controller in seconds.
    poll_s: Option<f64>,
    control: Option<String>,
    sets: Vec<(String, String)>,
}

fn read(Record(stated): Record<Stated>) -> PyResult<Settings> {
    let ports = stated.ports.into_iter().map(|(name, role)| PortSettings { name, role });
    let mut settings = Settings::new(ports.collect(), Rate::from_mbit_per_sec(stated.rate_mbit));
    let ms = |value: f64| Nanos::from_secs_f64(value * 1e-3);
    settings.buffer = stated.buffer;
    settings.period_min = ms(stated.period_ms);
    settings.patience = ms(stated.patience_ms);
    settings.controller = stated.poll_s.map(|poll| Config { poll: Nanos::from_secs_f64(poll), ..Config::default() });
    settings.control = stated.control;
    for (name, value) in &stated.sets {
        settings.set(name, value).map_err(raised)?;
    }
    Ok(settings)
}

struct Caller(Events);

impl Watch for Caller {
    fn log(&self, line: &str) {
        self.0.report((line,));
    }

    fn is_stopped(&self) -> bool {
        self.0.stops() > 0
    }
}

/// The attachments and devices that a switch with these settings would have, one string each; creates none.
#[pyfunction]
pub(crate) fn plan_brf_switch(py: Python<'_>, settings: Record<Stated>) -> PyResult<Vec<String>> {
    let settings = read(settings)?;
    py.detach(|| switch::plan(&settings)).map_err(raised)
}

/// Runs a switch until `handle` is cancelled. `on_line` receives the lines of its log.
#[pyfunction]
pub(crate) fn run_brf_switch(
    py: Python<'_>,
    settings: Record<Stated>,
    handle: &Handle,
    on_line: Py<PyAny>,
) -> PyResult<()> {
    let settings = read(settings)?;
    let caller = Caller(Events::new(&handle.shared, on_line));
    let ended = py.detach(|| switch::run(&settings, &caller));
    caller.0.conclude(ended.map_err(raised))
}

/// The switches of this network namespace.
#[pyfunction]
pub(crate) fn brf_switches(py: Python<'_>) -> Record<Value> {
    Record(py.detach(switch::status))
}

/// Removes the remains of killed switches from this network namespace. Returns the names of their ports.
#[pyfunction]
pub(crate) fn clean_brf_switches(py: Python<'_>) -> PyResult<Vec<String>> {
    py.detach(switch::clean).map_err(raised)
}

/// The decisions of a controller about a port (equations 5 and 6).
#[pyclass]
pub(crate) struct PortJudge(Controller);

#[pymethods]
impl PortJudge {
    /// Creates a judge with these thresholds of link utilisation and queue fill level.
    #[new]
    fn new(utilization: f64, queue: f64) -> Self {
        Self(Controller::new(Config { utilization, queue, ..Config::default() }, 1))
    }

    /// Judges the counters of a port, which were read at a time in seconds: bytes sent, packets waiting,
    /// capacity of the queue in packets, and rate of the link in bytes per second. Returns the kind of
    /// congestion and, if the kind is `queue`, the number of packets waiting.
    fn judge(
        &mut self,
        read_s: f64,
        sent: u64,
        waiting: u64,
        room: u64,
        capacity: u64,
    ) -> Option<(&'static str, Option<u64>)> {
        let counters = PortStatistics {
            sent: Bytes::new(sent),
            waiting,
            room,
            queues: 1,
            capacity: Rate::from_bytes_per_sec(capacity),
        };
        match self.0.on_statistics(0, Nanos::from_secs_f64(read_s), &counters)? {
            Congestion::Queue { packets } => Some(("queue", Some(packets))),
            Congestion::Load => Some(("load", None)),
        }
    }
}
