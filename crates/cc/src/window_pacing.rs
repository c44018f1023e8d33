//! Optional pacing for cwnd-based schemes (Linux `tcp_update_pacing_rate`).

use crate::{Bytes, Nanos, Param, Rate, Setup};

/// In slow start cwnd doubles within a round trip, so the pacing rate must be twice cwnd / srtt.
const SLOW_START_RATIO: f64 = 2.0;
/// In avoidance, pacing at 1.2 cwnd / srtt leaves headroom, so that cwnd limits the sender, not the pacing rate.
const AVOIDANCE_RATIO: f64 = 1.2;

/// Lower limit of srtt in the rate computation: shorter RTTs cannot be measured. Linux also counts RTTs in
/// microseconds.
pub(crate) const LEAST_RTT: Nanos = Nanos::from_micros(1);

/// The parameter that enables pacing; schemes include it in their parameter lists.
pub(crate) const PACED: Param =
    Param::flag("paced", false, "pace at 2 cwnd / srtt in slow start and 1.2 cwnd / srtt after it, as Linux");

/// Pacing of a cwnd-based scheme.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WindowPacing {
    on: bool,
    srtt: Option<Nanos>,
}

impl WindowPacing {
    /// Reads the parameter [`PACED`]; off if the scheme does not declare it.
    pub fn new(setup: &Setup) -> Self {
        Self { on: setup.params.number_or_default(PACED.name, &[PACED]) != 0.0, srtt: None }
    }

    /// Whether pacing is enabled.
    pub fn is_on(&self) -> bool {
        self.on
    }

    /// Updates the smoothed RTT.
    #[inline]
    pub fn on_ack(&mut self, srtt: Option<Nanos>) {
        self.srtt = srtt;
    }

    /// The pacing rate for this cwnd and ssthresh; `None` if disabled or before the first RTT sample.
    #[inline]
    pub fn rate(&self, window: Bytes, ssthresh: Bytes) -> Option<Rate> {
        let srtt = self.srtt.filter(|_| self.on)?;
        // Linux leaves the slow-start ratio when cwnd reaches half of ssthresh, so that the last doubling does not
        // overshoot.
        let ratio = if window < ssthresh / 2 { SLOW_START_RATIO } else { AVOIDANCE_RATIO };
        Some(window.mul_f64(ratio).per(srtt.max(LEAST_RTT)).max(Rate::from_bytes_per_sec(1)))
    }
}

/// Data that offload may delay: four packets of 64 KiB (Linux `hystart_ack_delay`).
const OFFLOAD: Bytes = Bytes::new(4 * 65_536);

impl WindowPacing {
    /// The delay that offload may add to a train of acknowledgements in slow start: the time of four packets of 64 KiB
    /// at the pacing rate, at most 1 ms (Linux `hystart_ack_delay`).
    #[inline]
    pub fn ack_delay(&self, cwnd: Bytes, srtt: Option<Nanos>) -> Nanos {
        let Some(srtt) = srtt else { return Nanos::ZERO };
        let rate = cwnd.mul_f64(SLOW_START_RATIO).per(srtt.max(LEAST_RTT));
        if rate.is_zero() { Nanos::ZERO } else { rate.time_for(OFFLOAD).min(Nanos::from_millis(1)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The rate is 2 cwnd per RTT below half of ssthresh, and 1.2 cwnd per RTT from there on.
    #[test]
    fn pacing_rate_leads_the_window_as_linux() {
        let pacing = WindowPacing { on: true, srtt: Some(Nanos::from_millis(100)) };
        let rate = |window, ssthresh| pacing.rate(Bytes::new(window), Bytes::new(ssthresh));
        assert_eq!(rate(10_000, u64::MAX), Some(Rate::from_bytes_per_sec(200_000)));
        assert_eq!(rate(9_999, 20_000), Some(Rate::from_bytes_per_sec(199_980)));
        assert_eq!(rate(10_000, 20_000), Some(Rate::from_bytes_per_sec(120_000)));
    }

    /// There is no rate without the flag or without an RTT sample.
    #[test]
    fn pacing_without_flag_or_rtt_sample_gives_no_rate() {
        let window = Bytes::new(14_480);
        assert_eq!(WindowPacing { on: false, srtt: Some(Nanos::from_millis(1)) }.rate(window, Bytes::MAX), None);
        assert_eq!(WindowPacing { on: true, srtt: None }.rate(window, Bytes::MAX), None);
    }
}
