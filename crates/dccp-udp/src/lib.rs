//! DCCP over UDP sockets in real time (RFC 6773): drives a [`narrows_dccp::Connection`].
//!
//! The protocol is in `narrows-dccp`: this crate passes received packets and the time to the connection, and
//! sends its packets. One task drives a sender's connection, or all connections of a receiver.
//!
//! ## Time
//! A connection's time is the time on the monotonic clock since the start of the run, read for each outgoing batch. If
//! the task wakes late, as on a busy machine, it processes all overdue events. The connection compensates for pacing
//! delays of up to a round trip (RFC 5348 section 4.6), and sources stay on the schedule that they had at the start.
//!
//! ## Delay
//! A datagram begins with the time at which the source wrote it: eight bytes, big-endian nanoseconds of
//! `CLOCK_REALTIME`. The arrival time minus this time is a one-way delay if both endpoints share a clock, as on one
//! host. The delay includes the time in the sender's queue.
//!
//! ## ECN
//! The codepoint of each IP header is set and read (`IP_TOS`, `IP_RECVTOS` and their IPv6 equivalents).

// This crate runs in wall time.
#![allow(clippy::disallowed_methods)]

mod admission;
mod capture;
mod client;
mod port;
mod report;
mod server;
mod session;
mod settings;
mod source;
mod table;
#[cfg(test)]
mod tests;
mod timewait;

use std::time::Duration;

pub use client::send;
pub use report::{Delay, Overview, Report};
pub use server::{receive, receive_on};
pub use settings::{Caller, LiveError, Settings, Stop};

/// Longest interval between checks for a stop and flushes of captures.
const TICK: Duration = Duration::from_millis(50);

fn block_on<T>(work: impl Future<Output = Result<T, LiveError>>) -> Result<T, LiveError> {
    tokio::runtime::Builder::new_current_thread().enable_io().enable_time().build()?.block_on(work)
}
