//! Application traffic: times and amounts of writes. Shared by the simulator and by real sockets.
//!
//! An [`App`] maps the time and the amount of data sent to the bytes written and the next deadline. It reads
//! no clock and does no I/O.

mod app;
mod config;

pub use app::App;
pub use config::AppConfig;
