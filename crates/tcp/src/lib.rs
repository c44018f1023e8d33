//! Sans-I/O transports: they take packets and `now`, and give packets and deadlines.
//!
//! A [`Sender`] and a [`Receiver`] are the two ends of a reliable stream, TCP as deployed: SACK, RACK-TLP, PRR, RTO by
//! RFC 6298, pacing, delivery-rate sampling, delayed acknowledgements, ECN, undo of spurious recoveries; RFC 6675 and
//! NewReno without SACK are selectable for old papers. [`multipath`] makes several such pairs the subflows of one connection. Neither reads a clock: whoever drives them hands over packets as
//! they arrive, calls `on_timer` when `deadline` is reached, and after each such call takes what `poll_transmit` gives.

pub mod config;
pub mod multipath;
mod ranges;
pub mod rates;
mod receiver;
mod ring;
mod sender;
mod stats;

pub use config::{ConnectionConfig, Scheduler, TcpConfig};
pub use receiver::{Arrival, Receiver};
pub use sender::{AckOutcome, Sender};
pub use stats::{ReceiverStats, SenderStats};
