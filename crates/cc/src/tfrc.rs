//! The TCP throughput equation of TFRC (RFC 5348 section 3.1) and its inverse.
//!
//! ```text
//!                              s
//! X_Bps = ------------------------------------------------    with b = 1, t_RTO = 4 R (both as section 3.1 recommends):
//!         R sqrt(2bp/3) + t_RTO 3 sqrt(3bp/8) p (1 + 32 p²)
//!
//!       = s / (R f(p)),   f(p) = sqrt(2p/3) + 12 sqrt(3p/8) p (1 + 32 p²)
//! ```
//!
//! s: segment size in bytes, R: RTT in seconds, p: loss events per packet, 0 < p <= 1.

use libm::sqrt;

use crate::window_pacing::LEAST_RTT;
use crate::{Bytes, Nanos, Rate};

/// Minimum time that a sender waits for a report. RFC 4342 section 5 requires at least four round trips. If four round
/// trips take only microseconds, hosts need longer to wake up, and a report that is merely delayed would halve the
/// rate. Linux therefore waited at least 100 ms (IP_DCCP_CCID3_RTO, commit 8a508ac26e72), and later at least TCP's
/// minimum RTO.
pub const LEAST_NO_FEEDBACK: Nanos = Nanos::from_millis(100);

/// Bisection steps for p, enough to exhaust a float's precision.
const HALVINGS: u32 = 64;

/// f(p): mean number of round trips per segment.
pub fn round_trips_per_segment(p: f64) -> f64 {
    sqrt(2.0 * p / 3.0) + 12.0 * sqrt(3.0 * p / 8.0) * p * (1.0 + 32.0 * p * p)
}

/// X_Bps: TCP's throughput with segments of this size, in bytes per second. Without loss: [`Rate::MAX`].
pub fn throughput(segment: Bytes, rtt: Nanos, p: f64) -> Rate {
    if p > 0.0 {
        let rtt = rtt.max(LEAST_RTT).as_secs_f64();
        Rate::from_bytes_per_sec((segment.as_f64() / (rtt * round_trips_per_segment(p.min(1.0)))) as u64)
    } else {
        Rate::MAX
    }
}

/// The p at which the equation yields `rate`, above 0 and at most 1. RFC 5348 section 6.3.1 requires an accuracy of 5 %
/// of the rate. Rates below the equation's minimum yield p = 1.
pub fn loss_event_rate(segment: Bytes, rtt: Nanos, rate: Rate) -> f64 {
    let rate = rate.as_bytes_per_sec().max(1) as f64;
    let goal = segment.as_f64() / (rtt.max(LEAST_RTT).as_secs_f64() * rate);
    if goal >= round_trips_per_segment(1.0) {
        return 1.0;
    }
    // f rises with p and is never below its first term, so the p at which the first term alone equals `goal` is an
    // upper bound.
    let (mut low, mut high) = (0.0, (1.5 * goal * goal).min(1.0));
    for _ in 0..HALVINGS {
        let middle = (low + high) / 2.0;
        if round_trips_per_segment(middle) < goal {
            low = middle;
        } else {
            high = middle;
        }
    }
    high.max(f64::MIN_POSITIVE)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SEGMENT: Bytes = Bytes::new(1_460);
    const RTT: Nanos = Nanos::from_millis(100);

    /// The short form of the equation equals the form that RFC 5348 prints.
    #[test]
    fn tfrc_throughput_equals_equation_of_rfc_5348() {
        // The equation with t_RTO and b written out, as section 3.1 prints it.
        let (s, r, b) = (1_460.0, 0.1, 1.0);
        for p in [1e-6, 1e-4, 0.01, 0.1, 0.5, 1.0] {
            let t_rto = 4.0 * r;
            let long = s
                / (r * libm::sqrt(2.0 * b * p / 3.0)
                    + t_rto * (3.0 * libm::sqrt(3.0 * b * p / 8.0) * p * (1.0 + 32.0 * p * p)));
            let x = throughput(SEGMENT, RTT, p).as_bytes_per_sec() as f64;
            assert!((x - long).abs() <= 1.0, "p {p}: {x} B/s, the equation has {long}");
        }
        // By hand, p = 0.01: f = 0.0816497 + 12 x 0.0612372 x 0.01 x 1.0032 = 0.0890216; 1460 / 0.00890216.
        assert_eq!(throughput(SEGMENT, RTT, 0.01).as_bytes_per_sec() / 10, 16_400);
        assert_eq!(throughput(SEGMENT, RTT, 0.0), Rate::MAX);
        assert_eq!(throughput(SEGMENT, RTT, f64::NAN), Rate::MAX);
    }

    /// `throughput` of `loss_event_rate` of a rate returns that rate.
    #[test]
    fn tfrc_inverse_of_equation_returns_the_rate() {
        let mut rate = 200_u64;
        while rate < 10_000_000_000 {
            let p = loss_event_rate(SEGMENT, RTT, Rate::from_bytes_per_sec(rate));
            let back = throughput(SEGMENT, RTT, p).as_bytes_per_sec();
            // Tolerance: 1 byte/s of rounding plus 1 ppm.
            assert!(back.abs_diff(rate) <= 1 + rate / 1_000_000, "{rate} B/s: p {p} gives {back}");
            rate = rate * 3 / 2;
        }
    }

    /// A rate below the minimum of the equation has a loss event rate of 1.
    #[test]
    fn tfrc_rate_below_minimum_has_loss_event_rate_of_one() {
        // f(1) = 0.8165 + 12 x 0.61237 x 33 = 243.3; 1460 / (0.1 x 243.3) = 60 B/s.
        assert_eq!(throughput(SEGMENT, RTT, 1.0), Rate::from_bytes_per_sec(60));
        assert!((loss_event_rate(SEGMENT, RTT, Rate::from_bytes_per_sec(59)) - 1.0).abs() < 1e-15);
        assert!((loss_event_rate(SEGMENT, RTT, Rate::ZERO) - 1.0).abs() < 1e-15);
        assert!(loss_event_rate(SEGMENT, RTT, Rate::MAX) > 0.0);
    }
}
