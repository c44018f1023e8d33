//! Schemes of the registry on the kernel's TCP: a BPF program (`bpf/shim.bpf.c`) reports every event of a connection
//! through a ring buffer, a thread of this process runs the scheme in the same driver as the simulator, and the program
//! applies the newest decision that it finds in a map.
//!
//! ```text
//! acknowledgement, timeout, …      kernel                           this process
//!        └──> cong_control ── record ──> ring buffer ──> Flow (driver, scheme, rate reduction)
//!                  ^                                          │
//!                  └── cwnd, pacing rate, ssthresh <── map <── decision
//! ```
//! A decision takes effect when the connection next tries to send, or at its next event. If the decision allows more
//! than the kernel did after the event, this process makes the connection try to send. Where lateness would matter, the
//! program sends nothing until a decision accounts for the event: see the head of `shim.bpf.c`.
//!
//! * A decision comes tens of microseconds after its event. Retransmissions wait for the next acknowledgement.
//! * With `cong_control`, the kernel's proportional rate reduction does not run: `flow` uses that of `narrows-tcp`.
//! * Counters, delays and batches are in the result (`host.shim`).
//! * A [`Tape`] holds records and decisions; [`Tape::replay`] runs the schemes on it again, without the kernel.
//!
//! Nothing is pinned. The program has a unique name for the time of a run, and the kernel removes it when the process
//! ends, however it ends.

#[cfg(feature = "bpf")]
mod agent;
mod flow;
#[cfg(feature = "bpf")]
mod program;
mod record;
mod tape;
#[cfg(test)]
mod tests;

#[cfg(feature = "bpf")]
pub(crate) use agent::Shim;
pub use flow::{Flow, FlowSettings};
pub use record::{Allowance, Decision, Kind, Record, flag};
pub use tape::{Tape, TapeEntry, TapeError, TapeWriter};

/// The reason why flows cannot run over the shim, if any.
pub(crate) fn missing() -> Option<&'static str> {
    if !cfg!(feature = "bpf") {
        return Some(
            "this build has no BPF shim to run ours on it (apt install clang libelf-dev zlib1g-dev, then `make setup`)",
        );
    }
    // In this file, the kernel describes the types that programs use.
    (!std::path::Path::new("/sys/kernel/btf/vmlinux").exists())
        .then_some("it has no type information for the BPF shim that runs ours (CONFIG_DEBUG_INFO_BTF)")
}

/// The shim in builds without BPF, which refuse plans that need it.
#[cfg(not(feature = "bpf"))]
#[derive(Debug)]
pub(crate) enum Shim {}

#[cfg(not(feature = "bpf"))]
impl Shim {
    pub(crate) fn start(
        _: &narrows_scenario::Plan,
        _: &[usize],
        _: u16,
        _: &crate::options::Options,
    ) -> Result<Self, narrows_host::HostError> {
        Err(narrows_host::HostError::Unsupported(missing().unwrap_or_default().to_owned()))
    }

    pub(crate) fn name(&self) -> &str {
        match *self {}
    }

    pub(crate) fn handle(&self, _: usize) -> Option<crate::hosts::Handle> {
        match *self {}
    }

    pub(crate) fn finish(self) -> Result<narrows_scenario::result::Shim, narrows_host::HostError> {
        match self {}
    }
}
