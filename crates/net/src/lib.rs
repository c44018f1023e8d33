//! Network elements: links, queue disciplines, AQM, policers, random loss, delay lines and capacity traces.
//!
//! All are generic over their [`Frame`] type and read only its length, ECN field, flow key and direction.
//! Each call takes `now`; no element owns a clock.
//!
//! Imports run one way: `limit` and `frame` at the bottom, then rings and `stats`, `hook`, `queue`, `config`, and
//! `link` at the top.

pub mod config;
mod delay_line;
mod frame;
pub mod hook;
mod limit;
mod link;
mod loss;
mod policer;
mod queue;
mod ring;
mod stats;
#[cfg(test)]
mod testing;
mod timed_ring;
pub mod timeline;
pub mod trace;

pub use delay_line::DelayLine;
pub use frame::{Direction, Ecn, Frame};
pub use link::{DropReason, Link, Offer, PortStatistics};
pub use loss::LossProcess;
pub use policer::TokenBucket;
pub use queue::standalone_queue;
pub use ring::Ring;
pub use stats::{ClassStats, LinkStats};
