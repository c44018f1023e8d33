//! What a sender makes of a rate that the network names: bounds that keep it from stalling, and a window that only stops it
//! when acknowledgements have ceased.

use crate::{Bytes, Nanos, Rate, Setup};

/// Segments that the window always has.
const LEAST_WINDOW: u64 = 4;

/// The bounds of a sender that follows advice, from its parameters `min_rate`, `line_rate` and `window_gain`.
#[derive(Clone, Debug)]
pub(crate) struct Bounds {
    mss: Bytes,
    least: Rate,
    most: Rate,
    window_gain: f64,
}

impl Bounds {
    pub(crate) fn new(setup: &Setup) -> Self {
        let least = setup.mss.as_f64() * setup.params.number("min_rate");
        let least = Rate::from_bytes_per_sec((least as u64).max(1));
        Self {
            mss: setup.mss,
            least,
            most: Rate::from_mbit_per_sec(setup.params.number("line_rate")).max(least),
            window_gain: setup.params.number("window_gain"),
        }
    }

    /// The rate that is followed.
    pub(crate) fn rate(&self, advised: Rate) -> Rate {
        advised.max(self.least).min(self.most)
    }

    /// The window for it; none before the round-trip time is known.
    #[inline]
    pub(crate) fn window(&self, rate: Rate, srtt: Nanos) -> Option<Bytes> {
        let product = || rate.over(srtt).mul_f64(self.window_gain).max(self.mss * LEAST_WINDOW);
        (!srtt.is_zero()).then(product)
    }
}
