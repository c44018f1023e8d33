//! Sans-I/O transports: packets and `now` in, packets and deadlines out.
//!
//! A [`Sender`] and a [`Receiver`] are the two endpoints of a reliable stream, TCP as deployed: SACK, RACK-TLP, PRR,
//! RTO by RFC 6298, pacing, delivery-rate sampling, delayed acknowledgements, ECN, undo of spurious recoveries. RFC
//! 6675 and NewReno without SACK are selectable to reproduce older papers. [`multipath`] combines several such pairs as
//! the subflows of one connection. Endpoints do not read a clock: the driver delivers packets as they arrive, calls
//! `on_timer` when `deadline` is reached, and drains `poll_transmit` after each of these calls.

pub mod config;
pub mod multipath;
mod options;
pub mod ranges;
pub mod rates;
mod receiver;
mod ring;
mod sender;
mod stats;

pub use narrows_cc::{Prr, PrrBound};

pub use config::{ConnectionConfig, ReductionFrom, Scheduler, TimerRules};
pub use options::{MAX_TSO, TcpConfig};
pub use receiver::{Arrival, Receiver};
pub use sender::info::{CaState, TcpInfo};
pub use sender::{AckOutcome, Sender};
pub use stats::{ReceiverStats, SenderStats};
