//! The simulator in virtual time: scenario → topology → events → trace → metrics.

mod arena;
mod clock;
mod control;
mod datagrams;
mod ends;
pub mod engine;
mod event_queue;
pub mod external;
mod fairness;
pub mod metrics;
pub mod observer;
pub mod samples;
mod sender_view;

pub use arena::PayloadArena;
pub use datagrams::PacketLedger;
pub use engine::{Engine, run};
pub use narrows_scenario::result::RunResult;
pub use observer::Observer;

/// A simulated link, with an optional router algorithm at its port.
pub type Link = narrows_net::Link<narrows_packet::Packet, narrows_routers::PortAgent>;
