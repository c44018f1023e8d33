//! Scenarios on this machine's kernel: two hosts, one for all senders and one for all receivers, joined by the
//! simulator's own network in real time.
//!
//! A host is a network namespace whose only way out is a TUN device. The emulator reads packets from both devices,
//! offers them to the links of the plan, and writes them to the other device when they are due. Links, queues, loss,
//! traces and metrics are those of `narrows-sim`: its engine runs along with the wall clock, and a real host stands
//! where its own endpoints would.
//!
//! A packet enters the network when its host sent it, as its timestamp tells to the millisecond if the emulator read it
//! late ([`arrivals`]), and moves through it at exact times; only its delivery may be late ([`Lateness`]).
//!
//! [`Lateness`]: narrows_scenario::result::Lateness

mod arrivals;
pub(crate) mod changing;
pub(crate) mod clock;
pub(crate) mod diagnostics;
mod emulator;
mod hosts;
pub(crate) mod lateness;
#[cfg(feature = "bpf")]
pub(crate) mod libbpf;
pub(crate) mod namespace;
mod negotiation;
pub(crate) mod netlink;
pub mod programs;
pub(crate) mod rights;
pub mod shim;
mod support;
mod tap;
#[cfg(test)]
pub(crate) mod tests;

pub(crate) use hosts::raise_socket_limit;
pub(crate) use support::{difference, unsent};

use std::io;
use std::path::PathBuf;

use narrows_cc::Nanos;
use narrows_scenario::Plan;
use narrows_scenario::result::RunResult;
use narrows_sim::Observer;

pub use crate::rates::Forgery;

/// How to run a plan.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Run schemes of ours in place of the kernel's own of the same name; those that the kernel lacks run so anyway.
    pub shim: bool,
    /// Record the events of flows with schemes of ours, and the decisions, in this file: see [`shim::Tape`].
    pub tape: Option<PathBuf>,
    /// End the agent of the shim at this time of the run, as if it had died. Flows fall back to Reno.
    pub agent_until: Option<Nanos>,
    /// What the network does to rates in TCP options on their way to senders, as if it were hostile.
    pub forgery: Option<Forgery>,
}

/// Runs that are disturbed are repeated until this number of attempts.
pub const ATTEMPTS: u32 = 3;

/// Reason why a run on the kernel failed.
#[derive(Debug, thiserror::Error)]
pub enum KernelError {
    /// The kernel cannot do what the scenario asks for.
    #[error("{0}")]
    Unsupported(String),
    /// The kernel refused a step.
    #[error("cannot {step}: {error}")]
    Step {
        /// What was tried.
        step: String,
        /// Its refusal.
        error: io::Error,
    },
    /// This machine lacks what every run needs.
    #[error("{0}")]
    Unavailable(String),
    /// Not the rights to create network namespaces.
    #[error("--on kernel needs root: it creates network namespaces and devices in them")]
    NotRoot,
}

impl KernelError {
    pub(crate) fn step(step: &str, error: io::Error) -> Self {
        if error.kind() == io::ErrorKind::PermissionDenied && !rustix::process::geteuid().is_root() {
            return Self::NotRoot;
        }
        Self::Step { step: step.to_owned(), error }
    }
}

/// Progress of a run, and requests to end it.
pub trait Watch: Sync {
    /// The fraction of the run that is over.
    fn progress(&self, fraction: f64);
    /// Whether the run shall end at once.
    fn is_cancelled(&self) -> bool;
}

/// Refuses a plan that this kernel cannot run, or this user.
///
/// # Errors
/// The reason, with what is accepted.
pub fn check(plan: &Plan, options: &Options) -> Result<(), KernelError> {
    support::kinds(plan, options)?;
    support::hosts(plan)?;
    support::schemes(plan, options)?;
    namespace::available()
}

/// Runs a plan on the kernel; `None` if cancelled. A disturbed run is repeated, with a new observer.
///
/// # Errors
/// If the kernel cannot run it, refuses a step, or if there are no rights.
pub fn run<O: Observer + Send>(
    plan: &Plan,
    options: &Options,
    mut observer: impl FnMut() -> io::Result<O>,
    watch: &dyn Watch,
) -> Result<Option<(RunResult, O)>, KernelError> {
    check(plan, options)?;
    for attempt in 1.. {
        let own = observer().map_err(|error| KernelError::step("create the files of the run", error))?;
        let Some((mut result, own, disturbed)) = emulator::run(plan, options, own, watch)? else {
            return Ok(None);
        };
        if !disturbed || attempt == ATTEMPTS {
            if let Some(host) = &mut result.host {
                host.attempts = attempt;
                host.disturbed = disturbed;
            }
            return Ok(Some((result, own)));
        }
    }
    unreachable!("the last attempt returns")
}
