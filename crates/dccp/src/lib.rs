//! DCCP (RFC 4340): datagrams with congestion control, sans-I/O.
//!
//! A connection is one end. Whoever drives it hands over packets as bytes when they arrive, calls `on_timer` when
//! `deadline` is reached, and after each such call takes what `poll_transmit` gives. It reads no clock and draws no random
//! numbers but from the stream it is given, so the same bytes and times give the same bytes.
//!
//! Each direction of data is a half-connection with a congestion control of its own (its CCID); any registered scheme can
//! be one. What CCIDs tell the other side beyond acknowledgements travels in options.

pub mod ack_vector;
mod ccid;
pub mod connection;
pub mod data_dropped;
pub mod feature;
pub mod loss;
pub mod seq;
pub mod udp;
pub mod wire;

pub use ack_vector::{AckVector, Mark};
pub use ccid::Ccid;
pub use connection::{Config, Connection, Event, Role, Sent, State};
pub use data_dropped::DropCode;
pub use seq::Seq;
pub use wire::{Header, Kind, Opt, ResetCode, options};
