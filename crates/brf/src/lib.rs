//! BRF on this machine: its header as a TCP option of unmodified kernels.
//!
//! [`host`] attaches the programs that write and read the option (`bpf/brf_host.h`) to a cgroup. [`switch`] turns ports
//! of this machine into a switch that lowers rates on the path. [`Run`] attaches the programs for a run of the kernel
//! backend, whose network reads and writes the option in real segments ([`write()`]).

#![cfg(target_os = "linux")]
// This crate runs in wall time.
#![allow(clippy::disallowed_methods)]

pub mod host;
#[cfg(feature = "bpf")]
mod program;
mod run;
pub mod switch;
#[cfg(all(test, feature = "bpf"))]
mod tests;
mod wire;

use narrows_cc::schemes::Entry;
use narrows_routers::protocol::Explicit;

pub use run::Run;
pub use wire::{Agreement, Forger, Forgery, NO_LIMIT, write};

/// Whether the scheme gets its rates in TCP options.
pub fn is_advised(scheme: &Entry) -> bool {
    scheme.rate_protocol.and_then(Explicit::named) == Some(Explicit::Brf)
}

/// Whether a router algorithm writes rates into TCP options.
pub fn advises(router: Explicit) -> bool {
    router == Explicit::Brf
}
