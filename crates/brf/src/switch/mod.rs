//! A BRF switch on ports of this machine: bridge members or router ports.
//!
//! ```text
//!              senders ── port ──┐                       ┌── bottleneck ── receivers
//!   ingress: brf_ack (option)    │  kernel's forwarding  │  egress: brf_data (count, class) ── HTB
//!                                └───────────────────────┘  ingress: brf_ack (rate into ACKs)
//!                                        maps: flows ──> agent (routers::Brf) ──> decisions, classes
//! ```
//! Programs in the kernel count the packets of flows and write rates (`bpf/brf_switch.bpf.c`). The agent here reads
//! the counters, feeds the router algorithm of the simulator, and writes its decisions back: the share of each flow,
//! the class of its packets, and the rates of the classes. It decides at each allocation of the router (every Δt) and
//! at each event of a flow.
//!
//! Each map has one writer: programs write flows; the agent writes decisions, and settings with the heartbeat. A ring
//! buffer passes the keys of changed flows; the reading at each allocation finds those that the buffer lost. The agent
//! reports sums to the router's event functions (`routers/src/brf/events.rs`), which the simulator's hook calls packet
//! by packet.
//!
//! The agent may die: once its last decision is older than `patience`, programs write no rates, so senders fall back,
//! and all flows share a class. [`clean`] removes the remains of a dead agent. Only one command at a time creates or
//! removes objects ([`narrows_host::changing`]), and a record lists everything before it is created.

#[cfg(feature = "bpf")]
mod agent;
#[cfg_attr(not(feature = "bpf"), allow(dead_code, reason = "as for `state`"))]
mod control;
#[cfg(feature = "bpf")]
mod flows;
#[cfg(feature = "bpf")]
mod maps;
#[cfg(feature = "bpf")]
mod report;
mod settings;
#[cfg_attr(
    not(feature = "bpf"),
    allow(dead_code, reason = "without programs a switch is only looked at and cleaned up")
)]
mod state;
#[cfg_attr(not(feature = "bpf"), allow(dead_code, reason = "as for `state`"))]
mod tc;
#[cfg(all(test, feature = "bpf"))]
mod tests;

pub use control::Statistics;
pub use settings::{PortSettings, Role, Settings};

use narrows_host::HostError;
use narrows_host::changing::Changing;
use narrows_host::rights;

/// The caller of a running switch.
pub trait Watch: Sync {
    /// A line of the log.
    fn log(&self, line: &str);
    /// Whether the switch shall end.
    fn is_stopped(&self) -> bool;
}

/// Runs a switch until the caller ends it, and detaches everything.
///
/// # Errors
/// If a port is missing or in use, without rights, or if the kernel refuses a step.
pub fn run(settings: &Settings, watch: &dyn Watch) -> Result<(), HostError> {
    rights::may_change_ports("narrows brf switch", "it changes programs and queues of ports")?;
    #[cfg(feature = "bpf")]
    return agent::run(settings, watch);
    #[cfg(not(feature = "bpf"))]
    {
        let _ = (settings, watch);
        Err(narrows_programs::missing(0))
    }
}

/// Checks the ports, and lists what a switch with these settings would create, a line per item.
///
/// # Errors
/// If a port does not exist or cannot be used.
pub fn plan(settings: &Settings) -> Result<Vec<String>, HostError> {
    settings.plan()
}

/// Removes the remains of killed switches from this network namespace. Returns the names of their ports.
///
/// # Errors
/// Without rights.
pub fn clean() -> Result<Vec<String>, HostError> {
    let (command, use_) = ("narrows brf detach", "it changes programs and queues of ports");
    rights::may_change_programs(command, use_)?;
    if state::is_any_abandoned() {
        rights::may_change_ports(command, use_)?;
    }
    Ok(state::clean(&Changing::begin()?))
}

/// The switches of this network namespace, as a JSON list: process, ports, whether it runs, and its latest report.
pub fn status() -> serde_json::Value {
    let row = |(record, runs, report): (state::Record, bool, Option<serde_json::Value>)| {
        let ports: Vec<&str> = record.ports.iter().map(|port| port.name.as_str()).collect();
        serde_json::json!({"process": record.process, "ports": ports, "runs": runs, "report": report})
    };
    state::reports().into_iter().map(row).collect()
}
