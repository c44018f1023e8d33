//! DCCP over real sockets, in real time: a [`narrows_dccp::Connection`] driven over UDP (RFC 6773).
//!
//! Nothing of the protocol is here: the driver hands over what the socket received, tells the time, and sends what the
//! connection gives. One task drives a sender's connection, or all of a receiver's.
//!
//! ## Time
//! A connection's time is that of the monotonic clock since the start, read anew for each batch that leaves. A driver that wakes
//! late, as on a busy machine, does everything that was due now; the connection makes up for what its pace lost by that, up to a
//! round trip's worth (RFC 5348 section 4.6), and sources keep to their own schedule from the start.
//!
//! ## Delay
//! A datagram begins with the time of its writing, eight bytes, big-endian nanoseconds of the system's clock (`CLOCK_REALTIME`):
//! the difference at the receiver is a one-way delay where both ends have one clock, as on one host. It includes the wait in the
//! sender's queue.
//!
//! ## ECN
//! The codepoint of each IP header is set and read (`IP_TOS`, `IP_RECVTOS`, and those of IPv6).

// This crate is about wall time.
#![allow(clippy::disallowed_methods)]

mod alarm;
mod capture;
mod client;
mod peer;
mod port;
mod report;
mod server;
mod settings;
mod socket;
mod source;
#[cfg(test)]
mod tests;

use std::io;
use std::time::Duration;

pub use client::send;
pub use report::{Delay, Report};
pub use server::{receive, receive_on};
pub use settings::{Caller, LiveError, Settings, Stop};
pub use socket::{Arrived, Socket};

/// So often at least it is looked at whether to stop, and captures are flushed.
const TICK: Duration = Duration::from_millis(50);

fn block_on<T>(work: impl Future<Output = Result<T, LiveError>>) -> Result<T, LiveError> {
    tokio::runtime::Builder::new_current_thread().enable_io().enable_time().build()?.block_on(work)
}

/// Nothing was there to be received after all.
fn forgivable(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
}
