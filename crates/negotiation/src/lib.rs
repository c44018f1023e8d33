//! Negotiated rates on real hosts: daemons that exchange the messages of `narrows_routers::negotiation` over UDP.
//!
//! ```text
//! client <──────────────── TCP, paced at the granted rate ───────────────── server
//!    └─ responder <── UDP ── node (router algorithm) <── UDP ── node <── UDP ── requester ─┘
//! ```
//! A datagram is one message. Nodes route a message by its destination ID, the client's IPv4 address. A node
//! forwards requests to the next node for this destination, or else to the client. Answers and adjustments take
//! the reverse path, which each node learned from the request. A node keeps no state and allocates nothing for
//! a flow until the flow's responder has answered (`unproven`).
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
use std::net::{SocketAddrV4, UdpSocket};
use std::time::Duration;

use narrows_cc::Rate;
use narrows_host::HostError;
use narrows_host::clock::timespec;
use narrows_routers::negotiation::MOST;
use rustix::event::{PollFd, PollFlags, poll};
use thiserror::Error;

pub use client::{ClientReport, ClientSettings, request};
pub use flow::{Counts, Flow};
pub use node::{NodeReport, NodeSettings, run_node};
pub use peers::NextHop;
pub use server::{ServerReport, ServerSettings, serve};

/// UDP port of responders and nodes, and TCP port of servers.
pub const PORT: u16 = 47_450;
/// Longest wait between two checks whether the operator stops the daemon.
const TICK: Duration = Duration::from_millis(50);

/// Failure of a daemon.
#[derive(Debug, Error)]
pub enum NegotiationError {
    /// A socket cannot be opened.
    #[error("cannot open {what} at {address}: {error}")]
    Open {
        /// Protocol and purpose.
        what: &'static str,
        /// The socket's address.
        address: SocketAddrV4,
        /// The system's error.
        error: io::Error,
    },
    /// The server cannot be reached or refuses the connection.
    #[error("{0}: {1}")]
    Server(SocketAddrV4, String),
    /// A setting is invalid.
    #[error("{0}")]
    Setting(String),
    /// The kernel refused the congestion-control program.
    #[error("{0}")]
    Host(#[from] HostError),
    /// A system call failed.
    #[error("{0}")]
    Io(#[from] io::Error),
}

/// The caller of a daemon: receives its reports and can stop it.
pub trait Operator: Sync {
    /// Whether the daemon must stop.
    fn is_stopped(&self) -> bool;
    /// Receives the address at which the daemon listens.
    fn listening(&self, at: SocketAddrV4);
    /// Receives a line of the log.
    fn log(&self, text: &str);
}

/// A rate for display, in hundredths of Mbit/s.
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

/// Opens a UDP socket for negotiation messages.
fn open_udp(what: &'static str, address: SocketAddrV4) -> Result<UdpSocket, NegotiationError> {
    let opened = UdpSocket::bind(address).and_then(|socket| socket.set_nonblocking(true).map(|()| socket));
    opened.map_err(|error| NegotiationError::Open { what, address, error })
}

/// Waits for events of these descriptors for at most `time`. A signal ends the wait early.
fn wait(fds: &mut [PollFd<'_>], time: Duration) -> io::Result<()> {
    match poll(fds, Some(&timespec(time))) {
        Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

fn is_ready(fd: &PollFd<'_>) -> bool {
    fd.revents().intersects(PollFlags::IN | PollFlags::OUT | PollFlags::ERR | PollFlags::HUP)
}
