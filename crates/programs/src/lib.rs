//! Our schemes as kernel programs (`bpf/*.bpf.c`), without a part in user space: loaded once, they stay until they are
//! unloaded or the machine restarts, and any process uses them by name.
//!
//! ```text
//! narrows kernel load bbr-gc ──> parameters (.rodata) ──> verifier ──> tcp_congestion_ops `bbr_gc`
//!                                                                        │ link, pinned
//! /sys/fs/bpf/narrows/bbr_gc/counters, link   <──────────────────────────┘
//! ```
//! The pinned link keeps the scheme registered. Removing the link unregisters the scheme; connections that use it keep
//! it until they end. The link is pinned last: a folder without a link was left by a killed command, and the next
//! command removes it. Only one command runs at a time ([`narrows_host::changing`]).

#![cfg(target_os = "linux")]
// This crate runs in wall time.
#![allow(clippy::disallowed_methods)]

#[cfg(feature = "bpf")]
pub mod attached;
#[cfg(feature = "bpf")]
pub mod counters;
#[cfg_attr(not(feature = "bpf"), path = "not_granting.rs")]
mod granting;
mod grants;
#[cfg(feature = "bpf")]
pub mod libbpf;
#[cfg(feature = "bpf")]
pub mod names;
mod parameters;
#[cfg(feature = "bpf")]
pub mod pinned;
mod program;
#[cfg(feature = "bpf")]
mod reading;
mod status;
#[cfg(all(test, feature = "bpf"))]
mod tests;

use narrows_host::HostError;
#[cfg(feature = "bpf")]
use narrows_host::changing::Changing;

pub use granting::Grants;
pub use grants::{Grant, GrantCounts};
pub use program::{PROGRAMS, Program, offered};
pub use status::{Attachment, Status};

/// The shim, through which a process decides for the kernel's TCP.
#[cfg(feature = "bpf")]
pub static SHIM: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/shim.bpf.o"));
/// The programs of a switch on ports of this machine.
#[cfg(feature = "bpf")]
pub static BRF_SWITCH: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/brf_switch.bpf.o"));

/// Whether this build has programs and this kernel describes the types that they use.
pub fn can_run() -> bool {
    cfg!(feature = "bpf") && std::path::Path::new("/sys/kernel/btf/vmlinux").exists()
}

impl Program {
    /// Loads the program with these parameters (pairs of name and value), and registers its scheme until the program is
    /// unloaded.
    ///
    /// # Errors
    /// If a parameter is refused, or the kernel refuses the program. Nothing stays in the kernel then.
    pub fn load(&self, values: &[(String, String)]) -> Result<(), HostError> {
        self.accepts(values)?;
        #[cfg(feature = "bpf")]
        return pinned::has_rights("narrows kernel load")
            .and_then(|()| self.load_within(&Changing::begin()?, values, false));
        #[cfg(not(feature = "bpf"))]
        Err(missing(values.len()))
    }

    /// `load` as part of a larger change; `is_marked` as in `pinned::load`.
    #[cfg(feature = "bpf")]
    pub fn load_within(
        &self,
        changing: &Changing,
        values: &[(String, String)],
        is_marked: bool,
    ) -> Result<(), HostError> {
        let params = self.params(values)?;
        pinned::load(changing, self, &params, &self.parameters(&params)?, is_marked)
    }

    /// Unregisters the scheme. Returns the number of connections that still use it; they keep it until they end.
    ///
    /// # Errors
    /// If it is not loaded, if `narrows brf attach` uses it, or without rights.
    pub fn unload(&self) -> Result<u64, HostError> {
        #[cfg(feature = "bpf")]
        return pinned::has_rights("narrows kernel unload").and_then(|()| pinned::unload(&Changing::begin()?, self));
        #[cfg(not(feature = "bpf"))]
        Err(missing(0))
    }
}

/// Observes the loaded programs for this time, or until `is_cancelled`, and returns their status.
///
/// # Errors
/// Without rights, or if the kernel refuses a step.
pub fn status(seconds: f64, is_cancelled: &dyn Fn() -> bool) -> Result<Vec<Status>, HostError> {
    #[cfg(feature = "bpf")]
    return reading::read(seconds, is_cancelled);
    #[cfg(not(feature = "bpf"))]
    {
        let _ = is_cancelled;
        Err(missing(seconds as usize))
    }
}

/// The error of builds without programs.
#[cfg(not(feature = "bpf"))]
pub fn missing(_: usize) -> HostError {
    HostError::Unsupported(
        "this build has no programs for the kernel (apt install clang libelf-dev zlib1g-dev, then `make setup`)"
            .to_owned(),
    )
}
