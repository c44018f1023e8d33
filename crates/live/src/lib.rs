//! DCCP over real sockets, in real time: a [`narrows_dccp::Connection`] driven over UDP (RFC 6773).
//!
//! Nothing of the protocol is here: the driver hands over what the socket received, tells the time, and sends what the
//! connection gives. One task drives one connection.
//!
//! ## Time
//! A connection's time is that of the monotonic clock since the start. Timers of the system are a millisecond coarse; a driver
//! that wakes late does what was due in its order, each with the time it was due at, so that a pace is kept on average.
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

mod capture;
mod driver;
mod report;
mod settings;
mod socket;
mod source;

pub use driver::{receive, send};
pub use report::{Delay, Report};
pub use settings::{Caller, LiveError, Settings};
