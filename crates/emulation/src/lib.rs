//! Runs the simulator's engine in step with the wall clock, between real endpoints.
//!
//! A [`Wire`] carries packets between endpoints and network: TUN devices of namespaces, or UDP sockets. Links, queues,
//! loss, traces and metrics are those of `narrows-sim`; packets move through them at exact times, and only their
//! delivery may be late ([`Late`]).
//!
//! The engine treats real endpoints like simulated ones (`sim/src/external.rs`). One thread, with real-time priority
//! while Linux grants it (`host/src/clock.rs`), reads and writes for both endpoints. User-mode Linux with virtual time
//! (`studies/kernel/uml`) runs the same code without noise.

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
