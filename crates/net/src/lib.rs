//! What stands between endpoints: links, queues, loss, capacity. Every element takes `now` and owns no clock, so that the
//! same code forwards simulated packets in virtual time and real ones in real time.

pub mod allocator;
pub mod config;
pub mod controller;
mod extension;
mod link;
mod loss;
pub mod packet;
mod policer;
mod queue;
mod ring;
mod timed;
pub mod timeline;
pub mod trace;
mod wire;

pub use extension::{Extension, MAPPING_BYTES};
pub use link::{ClassStats, DropReason, Link, LinkStats, Offer};
pub use loss::LossProcess;
pub use packet::{Ecn, Flags, Packet};
pub use policer::TokenBucket;
pub use ring::Ring;
pub use wire::Wire;
