//! Settings of applications, as plain data.

use narrows_units::{Bytes, Nanos, Rate};

/// An application's settings.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum AppConfig {
    /// More data than can be sent.
    Bulk,
    /// So many bytes, then the connection is closed.
    File(Bytes),
    /// Bulk for a while, silent for a while.
    OnOff {
        /// (Mean) length of a busy period.
        on: Nanos,
        /// (Mean) length of a silent period.
        off: Nanos,
        /// Draw the lengths from exponential distributions instead of keeping them.
        random: bool,
    },
    /// A constant bit rate of payload, in writes of `write` bytes.
    Cbr {
        /// Payload rate.
        rate: Rate,
        /// Bytes per write.
        write: Bytes,
    },
    /// A video of variable bit rate: frames at equal intervals, of which every so many stands alone and is larger, and whose
    /// sizes vary at random.
    Video {
        /// Mean payload rate.
        rate: Rate,
        /// Frames per second.
        frames: f64,
        /// Every so many frames one stands alone.
        key_every: u32,
        /// The size of such a frame in those of the others.
        key_size: f64,
        /// Standard deviation of the size of frames, in parts of their mean.
        variation: f64,
    },
    /// Data that a multipath connection assigns to one of its subflows.
    Handed,
}
