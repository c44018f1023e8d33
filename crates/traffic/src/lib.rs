//! Application traffic: times and amounts of writes. The simulator and real sockets share it.
//!
//! An [`App`] computes the bytes written and the next deadline from the time and the amount of data sent. It reads
//! no clock and does no I/O.

mod app;
mod config;

pub use app::App;
pub use config::AppConfig;
