//! Negotiated rates on real hosts: daemons that exchange the messages of `narrows_routers::negotiation` over UDP.
//!
//! ```text
//! client <──────────────── TCP, paced at the granted rate ───────────────── server
//!    └─ responder <── UDP ── node (router algorithm) <── UDP ── node <── UDP ── requester ─┘
//! ```
//! A datagram is one message and nothing else. Nodes route by the message: its destination ID is the IPv4 address of
//! the client. A node forwards requests to the next node, if it has one for this destination, or else to the client.
//! Answers and adjustments take the way back, which each node has learned from the request. A node keeps nothing and
//! allocates nothing for a flow until its responder has answered (`unproven`).
//!
//! The requester, the responder and the router algorithm are those of the simulator.

#![cfg(target_os = "linux")]
// This crate runs in wall time.
#![allow(clippy::disallowed_methods)]

mod client;
mod flow;
mod node;
mod pace;
mod peers;
mod server;
#[cfg(test)]
mod tests;
mod unproven;
mod wire;

use std::fmt;
use std::io;
use std::net::SocketAddrV4;
use std::time::{Duration, Instant};

use narrows_cc::{Nanos, Rate};
use narrows_host::HostError;
use narrows_routers::negotiation::MOST;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use thiserror::Error;

pub use client::{ClientReport, ClientSettings, request};
pub use flow::{Counts, Flow};
pub use node::{NodeReport, NodeSettings, run_node};
pub use peers::NextHop;
pub use server::{ServerReport, ServerSettings, serve};

/// UDP port of responders and nodes, and TCP port of servers.
pub const PORT: u16 = 47_450;
/// Longest wait between checks for a stop.
const TICK: Duration = Duration::from_millis(50);

/// Failure of a daemon.
#[derive(Debug, Error)]
pub enum NegotiationError {
    /// A socket cannot be opened.
    #[error("cannot open {what} at {address}: {error}")]
    Open {
        /// Protocol and purpose.
        what: &'static str,
        /// Its address.
        address: SocketAddrV4,
        /// The reason.
        error: io::Error,
    },
    /// The server cannot be reached, or refuses.
    #[error("{0}: {1}")]
    Server(SocketAddrV4, String),
    /// A setting is invalid.
    #[error("{0}")]
    Setting(String),
    /// The kernel refused the program.
    #[error("{0}")]
    Kernel(#[from] HostError),
    /// The system failed.
    #[error("{0}")]
    Io(#[from] io::Error),
}

/// Receiver of a daemon's reports, and source of the request to stop it.
pub trait Operator: Sync {
    /// Whether it shall end.
    fn is_stopped(&self) -> bool;
    /// The daemon serves at this address.
    fn listening(&self, at: SocketAddrV4);
    /// Something happened that an operator wants to know.
    fn log(&self, text: &str);
}

/// Time since the start of a daemon.
#[derive(Clone, Copy, Debug)]
struct Clock(Instant);

impl Clock {
    fn start() -> Self {
        Self(Instant::now())
    }

    fn now(self) -> Nanos {
        Nanos::from_nanos(self.0.elapsed().as_nanos() as u64)
    }

    /// Time until `at`, at most [`TICK`].
    fn wait(self, at: Nanos) -> Duration {
        Duration::from_nanos((at - self.now()).as_nanos()).min(TICK)
    }
}

/// A rate for people, in hundredths of Mbit/s.
struct Mbit(Rate);

impl Mbit {
    fn hundredths(&self) -> u64 {
        (self.0.as_bytes_per_sec() as f64 * 8e-4).round() as u64
    }
}

impl fmt::Display for Mbit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0 >= MOST {
            return f.write_str("1 Tbit/s (no limit)");
        }
        write!(f, "{:.2} Mbit/s", self.0.as_bytes_per_sec() as f64 * 8e-6)
    }
}

/// Waits for the events of these descriptors, or this time. An interrupted wait ends early.
fn wait(fds: &mut [PollFd<'_>], time: Duration) -> io::Result<()> {
    let time = Timespec { tv_sec: time.as_secs() as i64, tv_nsec: time.subsec_nanos().into() };
    match poll(fds, Some(&time)) {
        Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

fn is_ready(fd: &PollFd<'_>) -> bool {
    fd.revents().intersects(PollFlags::IN | PollFlags::OUT | PollFlags::ERR | PollFlags::HUP)
}
