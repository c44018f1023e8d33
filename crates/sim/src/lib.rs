//! Virtual time: scenario → topology → events → trace → metrics.

pub mod spec;
