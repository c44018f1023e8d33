//! Services of a Linux host for backends and tools that run in wall time.
//!
//! ```text
//! threads     clock, awake         time of a run, real-time priority and its budget, a processor that stays awake
//! network     namespace, netlink   hosts in network namespaces behind TUN devices; routes, queues, socket diagnostics
//! sockets     socket, alarm        batches of UDP datagrams with ECN; a wait for a socket or a time
//! rights      rights, changing     rights of this process; the lock of commands that change the machine
//! peers       buckets, text        rate limits by address; text of peers and of errors
//! ```

// This crate runs in wall time.
#![allow(clippy::disallowed_methods)]

pub mod alarm;
#[cfg(target_os = "linux")]
pub mod awake;
pub mod buckets;
#[cfg(target_os = "linux")]
pub mod changing;
#[cfg(target_os = "linux")]
pub mod clock;
#[cfg(target_os = "linux")]
pub mod descriptors;
#[cfg(target_os = "linux")]
pub mod diagnostics;
mod error;
#[cfg(target_os = "linux")]
pub mod namespace;
#[cfg(target_os = "linux")]
pub mod netlink;
#[cfg(target_os = "linux")]
pub mod rights;
pub mod socket;
#[doc(hidden)]
pub mod testing;
pub mod text;

use std::io;

pub use error::HostError;

/// Whether a receive error only means that nothing was readable.
pub fn is_transient(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
}
