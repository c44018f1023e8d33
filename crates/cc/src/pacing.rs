//! Optional pacing for schemes that govern a window (Linux `tcp_update_pacing_rate`).

use crate::{Bytes, Nanos, Param, Rate, Setup};

/// In slow start the window doubles within a round trip, so the rate must lead it by as much.
const SLOW_START_RATIO: f64 = 2.0;
/// In avoidance a little headroom lets the window, not the pacing, be the limit.
const AVOIDANCE_RATIO: f64 = 1.2;

/// A shorter round-trip time is none that could be measured; Linux counts in microseconds too.
pub(crate) const LEAST_RTT: Nanos = Nanos::from_micros(1);

/// The parameter that switches it on: schemes list it among theirs.
pub(crate) const PACED: Param = Param::flag(
    "paced",
    false,
    "space packets at 2 x window / srtt in slow start and 1.2 x after it, as Linux",
);

/// The pacing rate of a window-based scheme.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WindowPacing {
    on: bool,
    srtt: Option<Nanos>,
}

impl WindowPacing {
    /// As the parameter [`PACED`] says.
    pub fn new(setup: &Setup) -> Self {
        Self { on: setup.params.flag(PACED.name), srtt: None }
    }

    /// Whether it was asked for.
    pub fn is_on(&self) -> bool {
        self.on
    }

    /// Takes note of the smoothed round-trip time.
    #[inline]
    pub fn on_ack(&mut self, srtt: Option<Nanos>) {
        self.srtt = srtt;
    }

    /// The rate for this window and threshold; none before the first round-trip sample.
    #[inline]
    pub fn rate(&self, window: Bytes, ssthresh: Bytes) -> Option<Rate> {
        let srtt = self.srtt.filter(|_| self.on)?;
        // Linux leaves the slow-start ratio half way to the threshold, so the last doubling does not overshoot.
        let ratio = if window < ssthresh / 2 { SLOW_START_RATIO } else { AVOIDANCE_RATIO };
        Some(window.mul_f64(ratio).per(srtt.max(LEAST_RTT)).max(Rate::from_bytes_per_sec(1)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rate_is_twice_the_window_per_rtt_until_half_the_threshold_and_then_a_fifth_more() {
        let pacing = WindowPacing { on: true, srtt: Some(Nanos::from_millis(100)) };
        let rate = |window, ssthresh| pacing.rate(Bytes::new(window), Bytes::new(ssthresh));
        assert_eq!(rate(10_000, u64::MAX), Some(Rate::from_bytes_per_sec(200_000)));
        assert_eq!(rate(9_999, 20_000), Some(Rate::from_bytes_per_sec(199_980)));
        assert_eq!(rate(10_000, 20_000), Some(Rate::from_bytes_per_sec(120_000)));
    }

    #[test]
    fn no_rate_without_the_flag_or_without_a_round_trip_sample() {
        let window = Bytes::new(14_480);
        assert_eq!(
            WindowPacing { on: false, srtt: Some(Nanos::from_millis(1)) }.rate(window, Bytes::MAX),
            None
        );
        assert_eq!(WindowPacing { on: true, srtt: None }.rate(window, Bytes::MAX), None);
    }
}
