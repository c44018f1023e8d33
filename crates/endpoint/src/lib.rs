//! Sans-I/O transports: they take packets and `now`, and give packets and deadlines.

pub mod config;

pub use config::{AppConfig, TcpConfig};
