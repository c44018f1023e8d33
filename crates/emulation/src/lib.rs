//! The simulator's engine, run along with the wall clock between real ends.
//!
//! What carries the packets between ends and network is a [`Wire`]: TUN devices of namespaces, or UDP sockets. Links,
//! queues, loss, traces and metrics are those of `narrows-sim`; a packet moves through them at exact times, and only its
//! delivery may be late ([`Late`]).
//!
//! The engine does not know the difference (`sim/src/external.rs`). One thread, with real-time priority while Linux grants it
//! (`host/src/clock.rs`), reads and writes for both ends. User-mode Linux with virtual time (`studies/kernel/uml`), whose
//! kernel has the clock, runs the same code without noise.

#![cfg(target_os = "linux")]
// This crate runs in wall time.
#![allow(clippy::disallowed_methods)]

mod attempts;
mod emulator;
mod lateness;
mod plan;
mod watch;

pub use attempts::{Ending, attempts};
pub use emulator::{Done, Emulation, PRIORITY, TICK, Wire, load};
pub use lateness::Late;
pub use plan::unsent;
pub use watch::Watch;
