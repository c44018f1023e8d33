//! Bounds a rate that the network advises, so that bad advice cannot stall the sender, and derives a cwnd that stops
//! the sender only when acknowledgements cease.

use crate::{Bytes, Nanos, Rate, Setup};

/// Minimum cwnd in segments.
const MIN_CWND: u64 = 4;
/// The `line_rate` in Mbit/s that means no limit: requests then state no maximum rate.
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

    /// The rate to follow: the advised rate, but at least `min_rate`. `None` if the advised rate is zero or above
    /// `line_rate`, the maximum that was requested.
    pub(crate) fn rate(&self, advised: Rate) -> Option<Rate> {
        (!advised.is_zero() && advised <= self.most).then(|| advised.max(self.least))
    }

    /// The maximum rate that requests state; `None`: no limit.
    pub(crate) fn line_rate(&self) -> Option<Rate> {
        self.limited.then_some(self.most)
    }

    /// cwnd for this rate: `window_gain` × rate × `srtt`; `None` before the first RTT sample.
    #[inline]
    pub(crate) fn window(&self, rate: Rate, srtt: Option<Nanos>) -> Option<Bytes> {
        srtt.map(|srtt| rate.over(srtt).mul_f64(self.window_gain).max(self.mss * MIN_CWND))
    }
}
