//! Capacity traces in mahimahi format: one delivery opportunity of an MTU (1500 bytes) per line, as a time in whole
//! milliseconds since the start; the last line is also the period after which the trace repeats.

/// A recorded capacity.
#[derive(Clone, Debug, PartialEq)]
pub struct CapacityTrace {
    /// Opportunities in milliseconds, ascending; several may share one millisecond.
    pub opportunities_ms: Vec<u64>,
}
