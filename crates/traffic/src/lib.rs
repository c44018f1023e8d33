//! Applications: when they write how much. Shared by the simulator and by real sockets.
//!
//! An [`App`] takes the time and how much of its data was sent, and gives the bytes it has written and its next deadline.
//! It reads no clock and does no I/O.

mod app;
mod config;

pub use app::App;
pub use config::AppConfig;
