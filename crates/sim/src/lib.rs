//! Virtual time: scenario → topology → events → trace → metrics.

pub mod bench;
mod clock;
mod control;
mod datagrams;
mod ends;
pub mod engine;
mod fairness;
pub mod metrics;
mod queue;
pub mod radio;
pub mod recorder;
pub mod result;
pub mod scenario;
pub mod spec;
pub mod telemetry;

pub use datagrams::Account;
pub use engine::{Engine, run};
pub use recorder::Recorder;
pub use result::RunResult;
