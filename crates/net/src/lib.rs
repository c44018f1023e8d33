//! The elements between endpoints: links, queues, loss, delay, capacity. They are generic over the [`Frame`] that they carry
//! and know its length, ECN field, flow key and direction, nothing else. Every element takes `now` and owns no clock, so that
//! the same code forwards simulated packets in virtual time and real ones in real time.

pub mod config;
mod delay_line;
mod frame;
pub mod hook;
mod link;
mod loss;
mod policer;
mod queue;
mod ring;
#[cfg(test)]
mod testing;
mod timed_ring;
pub mod timeline;
pub mod trace;

pub use delay_line::DelayLine;
pub use frame::{Direction, Ecn, Frame};
pub use link::{ClassStats, DropReason, Link, LinkStats, Offer, PortStatistics};
pub use loss::LossProcess;
pub use policer::TokenBucket;
pub use ring::Ring;
