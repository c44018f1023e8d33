//! BRF on this machine: its header as a TCP option of unmodified kernels.
//!
//! [`host`] attaches the programs that write and read the option (`bpf/brf_host.h`) to a cgroup. [`switch`] makes ports
//! of this machine those of a switch, which lowers the rates in passing. `run` attaches the programs for a run of the
//! kernel backend, whose network reads and writes the option in real segments (`wire`).

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

#[cfg(feature = "bpf")]
pub(crate) use host::is_unused;
pub(crate) use run::Run;
pub(crate) use wire::{Agreement, Forger, write};
pub use wire::{Forgery, NO_LIMIT};

/// Whether the scheme gets its rates in TCP options.
pub(crate) fn is_advised(scheme: &Entry) -> bool {
    scheme.rate_protocol.and_then(Explicit::named) == Some(Explicit::Brf)
}

/// Whether a router algorithm writes rates into TCP options.
pub(crate) fn advises(router: Explicit) -> bool {
    router == Explicit::Brf
}

/// Where cgroups of version 2 are mounted.
#[cfg(feature = "bpf")]
fn root() -> Result<std::path::PathBuf, crate::kernel::KernelError> {
    let mounts = std::fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    let found = mounts.lines().find_map(|line| {
        let mut words = line.split(' ').skip(1);
        let place = words.next()?;
        (words.next() == Some("cgroup2")).then(|| place.into())
    });
    found.ok_or_else(|| {
        crate::kernel::KernelError::Unsupported(
            "cgroups of version 2 are not mounted; accepted: mount -t cgroup2 none /sys/fs/cgroup".to_owned(),
        )
    })
}
