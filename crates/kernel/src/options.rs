//! Settings of runs on the kernel.

use std::path::PathBuf;

use narrows_cc::Nanos;

use crate::rates::Forgery;

/// How to run a plan.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Run schemes of ours in place of the kernel's own of the same name; those that the kernel lacks run so anyway.
    pub shim: bool,
    /// Record the events of flows with schemes of ours, and the decisions, in this file: see [`Tape`](crate::shim::Tape).
    pub tape: Option<PathBuf>,
    /// End the agent of the shim at this time of the run, as if it had died. Flows fall back to Reno.
    pub agent_until: Option<Nanos>,
    /// What the network does to rates in TCP options on their way to senders, as if it were hostile.
    pub forgery: Option<Forgery>,
}
