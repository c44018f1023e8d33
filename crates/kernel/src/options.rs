//! Settings of runs on the kernel.

use std::path::PathBuf;

use narrows_cc::Nanos;

use crate::rates::Forgery;

/// Options of a run.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Run our schemes instead of the kernel's schemes of the same name. Schemes that the kernel lacks always run over
    /// the shim.
    pub shim: bool,
    /// Record events and decisions of flows with our schemes in this file: see [`Tape`](crate::shim::Tape).
    pub tape: Option<PathBuf>,
    /// Stop the shim's agent at this time of the run, as if it had died. Flows fall back to Reno.
    pub agent_until: Option<Nanos>,
    /// Forgery of rates in TCP options towards senders, by a hostile network.
    pub forgery: Option<Forgery>,
}
