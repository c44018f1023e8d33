//! What stands between endpoints: links, queues, loss, capacity. Every element takes `now` and owns no clock, so that the
//! same code forwards simulated packets in virtual time and real ones in real time.

pub mod config;
pub mod packet;
pub mod trace;

pub use packet::{Ecn, Flags, Packet};
