//! DCCP (RFC 4340): congestion-controlled datagrams, sans-I/O.
//!
//! A [`Connection`] is one endpoint. The caller passes in received packets as bytes, calls `on_timer` at
//! `deadline`, and after each such call drains `poll_transmit`. The endpoint reads no clock and draws random
//! numbers only from the stream passed in, so equal bytes and times produce equal bytes.
//!
//! Each direction of data is a half-connection with its own congestion control (CCID). Any registered scheme can serve
//! as a CCID; options carry the feedback that a CCID needs beyond acknowledgements.

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
pub use connection::{Config, Connection, CookieKeys, Ends, Event, Role, Sent, State};
pub use data_dropped::DropCode;
pub use seq::Seq;
pub use wire::{Header, Kind, Opt, ResetCode, options};
