//! Virtual time: scenario → topology → events → trace → metrics.

pub mod scenario;
pub mod spec;
