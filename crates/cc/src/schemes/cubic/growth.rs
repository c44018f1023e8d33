//! Growth in congestion avoidance as Linux computes it (`tcp_cubic.c`, `bictcp_update`): whole segments, the
//! number of acknowledged segments per increase, and an estimate of Reno's cwnd.
//!
//! Linux differs from RFC 9438 in four ways. The target is the curve one *minimum* RTT ahead, not one smoothed RTT. The
//! estimate of Reno's cwnd always grows by alpha, also beyond cwnd_prior, and cwnd approaches the estimate over a round
//! trip instead of jumping there. While the path is unknown (no W_max), cwnd grows by at least 5 % per round trip. The
//! number of segments per increase is recomputed at most once per millisecond, or after 31 ms if cwnd is unchanged.

use crate::Nanos;

/// Maximum age of a computed `per_increase` while cwnd is unchanged (HZ / 32).
const REUSE: Nanos = Nanos::from_nanos(31_250_000);
/// Minimum time between two computations of `per_increase` (a jiffy).
const JIFFY: Nanos = Nanos::from_millis(1);
/// Number of windows that must be acknowledged per increase where the curve is flat or below cwnd.
const FLAT: u64 = 100;
/// Maximum number of acknowledged segments per increase while W_max is unknown.
const UNKNOWN_MAX: u64 = 20;
/// Minimum number of acknowledged segments per increase. At this minimum, two, cwnd grows by half per round trip.
const LEAST: u64 = 2;

/// State of the growth; windows are in whole segments.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Growth {
    /// Segments acknowledged per increase by one segment.
    per_increase: u64,
    /// Segments acknowledged towards the next increase.
    credit: u64,
    /// Segments acknowledged towards the next increase of `reno_cwnd`.
    reno_credit: f64,
    reno_cwnd: u64,
    last_cwnd: u64,
    last_time: Nanos,
    /// Whether an acknowledgement of the current epoch has been processed.
    began: bool,
}

/// Inputs of one acknowledgement.
#[derive(Clone, Copy, Debug)]
pub(super) struct Inputs {
    pub now: Nanos,
    /// cwnd in segments.
    pub cwnd: u64,
    /// Segments acknowledged.
    pub acked: u64,
    /// cwnd on the curve one minimum RTT ahead, rounded down.
    pub target: u64,
    /// Whether W_max is known.
    pub known: bool,
    /// Number of windows that must be acknowledged per increase of Reno's estimate: 1 / alpha.
    pub reno_share: f64,
}

impl Growth {
    /// Ends the epoch after a reduction.
    pub(super) fn reset(&mut self) {
        *self = Self::default();
    }

    /// Adds an acknowledgement; returns the growth of cwnd in segments, and whether the Reno estimate determines it.
    pub(super) fn on_ack(&mut self, inputs: &Inputs) -> (u64, bool) {
        let mut friendly = false;
        self.reno_credit += inputs.acked as f64;
        let unchanged = self.began && self.last_cwnd == inputs.cwnd && inputs.now - self.last_time <= REUSE;
        if !unchanged {
            self.update(inputs);
            friendly = self.follow_reno(inputs);
            self.per_increase = self.per_increase.max(LEAST);
        }
        // As in `tcp_cong_avoid_ai`, credit that was collected while `per_increase` was larger adds only one segment.
        let mut grown = 0;
        if self.credit >= self.per_increase {
            self.credit = 0;
            grown += 1;
        }
        self.credit += inputs.acked;
        if self.credit >= self.per_increase {
            grown += self.credit / self.per_increase;
            self.credit %= self.per_increase;
        }
        (grown, friendly)
    }

    fn update(&mut self, inputs: &Inputs) {
        let Inputs { now, cwnd, target, .. } = *inputs;
        if self.began && now - self.last_time < JIFFY {
            return;
        }
        if !self.began {
            self.began = true;
            self.reno_credit = inputs.acked as f64;
            self.reno_cwnd = cwnd;
        }
        self.last_cwnd = cwnd;
        self.last_time = now;
        self.per_increase = if target > cwnd { cwnd / (target - cwnd) } else { FLAT * cwnd };
        if !inputs.known {
            self.per_increase = self.per_increase.min(UNKNOWN_MAX);
        }
    }

    fn follow_reno(&mut self, inputs: &Inputs) -> bool {
        let step = (inputs.cwnd as f64 * inputs.reno_share).max(1.0);
        while self.reno_credit > step {
            self.reno_credit -= step;
            self.reno_cwnd += 1;
        }
        if self.reno_cwnd <= inputs.cwnd {
            return false;
        }
        let most = inputs.cwnd / (self.reno_cwnd - inputs.cwnd);
        let slower = self.per_increase > most;
        if slower {
            self.per_increase = most;
        }
        slower
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn inputs(now_ms: u64, cwnd: u64, target: u64) -> Inputs {
        Inputs { now: Nanos::from_millis(now_ms), cwnd, acked: 2, target, known: true, reno_share: 1e9 }
    }

    /// Every cwnd / (target - cwnd) acknowledged segments add one segment.
    #[test]
    fn cubic_linux_growth_reaches_target_in_a_window() {
        let mut growth = Growth::default();
        let grown: u64 = (0..50).map(|i| growth.on_ack(&inputs(i * 40, 100, 110)).0).sum();
        assert_eq!(grown, 10, "100 segments at 10 per increase");
    }

    /// cwnd grows by at most one segment per two acknowledged segments.
    #[test]
    fn cubic_linux_growth_is_at_most_half_of_the_acknowledged() {
        let mut growth = Growth::default();
        let grown: u64 = (0..50).map(|i| growth.on_ack(&inputs(i * 40, 100, 10_000)).0).sum();
        assert_eq!(grown, 50);
    }

    /// Without W_max cwnd grows by 5 % per window even where the curve is flat.
    #[test]
    fn cubic_linux_unknown_path_grows_by_a_twentieth() {
        let mut growth = Growth::default();
        let unknown = |now| Inputs { known: false, ..inputs(now, 100, 100) };
        let grown: u64 = (0..50).map(|i| growth.on_ack(&unknown(i * 40)).0).sum();
        assert_eq!(grown, 5);
    }

    /// Reno's estimate grows by alpha per window, and cwnd follows the estimate.
    #[test]
    fn cubic_linux_follows_the_reno_estimate() {
        let mut growth = Growth::default();
        let mut cwnd = 100;
        for i in 0..1000 {
            let flat = Inputs { reno_share: 1.7 / 0.9, ..inputs(i, cwnd, cwnd) };
            cwnd += growth.on_ack(&flat).0;
        }
        // 2000 acknowledged segments are about 20 windows of 100, each adding 0.53 segments.
        assert!((109..=111).contains(&cwnd), "{cwnd}");
    }

    /// A computed `per_increase` is reused for 31 ms while cwnd is unchanged.
    #[test]
    fn cubic_linux_result_is_reused_for_31_ms() {
        let mut growth = Growth::default();
        growth.on_ack(&inputs(0, 1000, 1010));
        growth.on_ack(&inputs(31, 1000, 2000));
        assert_eq!(growth.per_increase, 100);
        growth.on_ack(&inputs(32, 1000, 2000));
        assert_eq!(growth.per_increase, LEAST);
    }
}
