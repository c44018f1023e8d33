//! Configuration of applications.

use narrows_units::{Bytes, Nanos, Rate};

/// Configuration of an application.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum AppConfig {
    /// Backlogged: always has data to send.
    Bulk,
    /// A file of this size; the connection closes after it.
    File(Bytes),
    /// Alternates between backlogged and off periods.
    OnOff {
        /// (Mean) length of an on period.
        on: Nanos,
        /// (Mean) length of an off period.
        off: Nanos,
        /// Whether the lengths are drawn from exponential distributions.
        random: bool,
    },
    /// Constant bit rate of payload, in writes of `write` bytes.
    Cbr {
        /// Payload rate.
        rate: Rate,
        /// Bytes per write.
        write: Bytes,
    },
    /// Variable-bit-rate video: frames of random size at equal intervals, with larger key frames.
    Video {
        /// Mean payload rate.
        rate: Rate,
        /// Frames per second.
        frames: f64,
        /// Interval of key frames, in frames.
        key_every: u32,
        /// Mean size of key frames relative to other frames.
        key_size: f64,
        /// Standard deviation of frame sizes relative to the mean.
        variation: f64,
    },
    /// A subflow, to which a multipath connection assigns data.
    Subflow,
    /// Data that a caller writes with [`crate::App::assign`]. Written data is still sent after a stop.
    Written,
}
