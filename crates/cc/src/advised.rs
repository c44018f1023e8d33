//! What a sender makes of a rate that the network names: bounds that keep it from stalling, and a window that only stops it
//! when acknowledgements have ceased.

use crate::{Bytes, Nanos, Rate, Setup};

/// Segments that the window always has.
const LEAST_WINDOW: u64 = 4;
/// A line rate, in Mbit/s, that stands for none: requests name no limit then.
pub(crate) const NO_LINE: f64 = 1e6;

/// The bounds of a sender that follows advice, from its parameters `min_rate`, `line_rate` and `window_gain`.
#[derive(Clone, Debug)]
pub(crate) struct Bounds {
    mss: Bytes,
    least: Rate,
    most: Rate,
    limited: bool,
    window_gain: f64,
}

impl Bounds {
    pub(crate) fn new(setup: &Setup) -> Self {
        let least = setup.mss.as_f64() * setup.params.number("min_rate");
        let least = Rate::from_bytes_per_sec((least as u64).max(1));
        let line = setup.params.number("line_rate");
        Self {
            mss: setup.mss,
            least,
            most: Rate::from_mbit_per_sec(line).max(least),
            limited: line < NO_LINE,
            window_gain: setup.params.number("window_gain"),
        }
    }

    /// The rate that is followed; none where the advice is zero, or more than the line carries and so than was asked for.
    pub(crate) fn rate(&self, advised: Rate) -> Option<Rate> {
        (!advised.is_zero() && advised <= self.most).then(|| advised.max(self.least))
    }

    /// The most that requests ask for.
    pub(crate) fn line_rate(&self) -> Option<Rate> {
        self.limited.then_some(self.most)
    }

    /// The window for it; none before the round-trip time is known.
    #[inline]
    pub(crate) fn window(&self, rate: Rate, srtt: Option<Nanos>) -> Option<Bytes> {
        srtt.map(|srtt| rate.over(srtt).mul_f64(self.window_gain).max(self.mss * LEAST_WINDOW))
    }
}
