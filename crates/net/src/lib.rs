//! Network elements: links, queue disciplines, AQM, policers, random loss, delay lines and capacity traces.
//!
//! All elements are generic over the [`Frame`] type and read only the length, ECN field, flow key and direction of a
//! frame. Each call takes `now`; no element owns a clock.
//!
//! Each module imports only modules before it in this order: `limit` and `frame`, rings and `stats`, `hook`, `queue`,
//! `config`, `link`.

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
