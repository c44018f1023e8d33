//! Scenarios on this machine's kernel: two hosts, one for all senders and one for all receivers, joined by the
//! simulator's own network in real time.
//!
//! A host is a network namespace whose only exit is a TUN device. The emulator reads packets from both devices, offers
//! them to the links of the plan, and writes each to the other device at its delivery time. Links, queues, loss, traces
//! and metrics are those of `narrows-sim`: its engine runs in step with the wall clock, with real hosts in place of
//! simulated endpoints.
//!
//! A packet enters the network at its departure time; for a packet read late, its TCP timestamp states this time to the
//! millisecond (`arrivals`). Packets move through the network at exact times; only their delivery to a host may be late
//! ([`Lateness`]).
//!
//! Writing a packet runs the kernel's receiving side up to the acknowledgement, so the emulator's thread takes most CPU
//! time of a run.
//!
//! [`packetdrill`] runs packet scripts on the same TCP.
//!
//! [`Lateness`]: narrows_scenario::result::Lateness

#![cfg(target_os = "linux")]
// This crate runs in wall time.
#![allow(clippy::disallowed_methods)]

mod arrivals;
mod datagram;
mod emulator;
mod hosts;
mod negotiation;
mod options;
pub mod packetdrill;
mod reading;
mod scheme;
pub mod shim;
mod support;
mod tap;
#[cfg(test)]
mod tests;

use std::io;

// Only this line names the protocol whose rates travel in TCP options.
use narrows_brf as rates;
use narrows_emulation::{Watch, attempts};
use narrows_host::{HostError, namespace};
use narrows_scenario::Plan;
use narrows_scenario::result::RunResult;
use narrows_sim::Observer;

pub use options::Options;
pub use rates::Forgery;

/// Refuses a plan that this kernel or this user cannot run.
///
/// # Errors
/// The reason, with the accepted values.
pub fn check(plan: &Plan, options: &Options) -> Result<(), HostError> {
    support::kinds(plan, options)?;
    support::hosts(plan)?;
    support::schemes(plan, options)?;
    namespace::available(if options.shim { "--on shim" } else { "--on kernel" })
}

/// Runs a plan on the kernel; `None` if cancelled. A disturbed run is repeated, with a new observer.
///
/// # Errors
/// If the kernel cannot run the plan or refuses a step, or without rights.
pub fn run<O: Observer + Send>(
    plan: &Plan,
    options: &Options,
    observer: impl FnMut() -> io::Result<O>,
    watch: &dyn Watch,
) -> Result<Option<(RunResult, O)>, HostError> {
    check(plan, options)?;
    attempts(observer, |own| emulator::run(plan, options, own, watch))
}
