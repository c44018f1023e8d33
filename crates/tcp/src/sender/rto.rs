//! Round-trip time estimation and the retransmission timeout (RFC 6298, or Linux `tcp_rtt_estimator`).

use std::sync::Arc;

use narrows_cc::Nanos;

use crate::{TcpConfig, TimerRules};

/// RFC 6298 section 5.7: initial timeout after a retransmitted SYN.
const AFTER_LOST_SYN: Nanos = Nanos::from_secs(3);

/// Smoothed round-trip time, its variation and the timeout.
#[derive(Clone, Debug)]
pub(crate) struct RttEstimator {
    pub(crate) srtt: Nanos,
    variation: Nanos,
    pub(crate) min_rtt: Nanos,
    rto: Nanos,
    /// Number of back-offs in force.
    pub(crate) backoff: u32,
    config: Arc<TcpConfig>,
    /// Linux: four times the mean deviation; `deviation_max` is the maximum of this value in the current round trip.
    deviation: Nanos,
    deviation_max: Nanos,
    /// Linux: sequence number whose acknowledgement ends the current round trip.
    round_end: u64,
}

impl RttEstimator {
    pub(crate) fn new(config: &Arc<TcpConfig>) -> Self {
        Self {
            srtt: Nanos::ZERO,
            variation: Nanos::ZERO,
            min_rtt: Nanos::MAX,
            rto: config.initial_rto,
            backoff: 0,
            config: Arc::clone(config),
            deviation: Nanos::ZERO,
            deviation_max: Nanos::ZERO,
            round_end: 0,
        }
    }

    /// Updates the minimum RTT with a sample.
    #[inline]
    pub(crate) fn note_least(&mut self, rtt: Nanos) {
        self.min_rtt = self.min_rtt.min(rtt);
    }

    /// Updates the estimate and the timeout with a sample, when data up to `una` is acknowledged and data up to `nxt`
    /// is sent. Also resets the back-off (RFC 6298 section 5.7 and Karn's algorithm).
    #[inline]
    pub(crate) fn on_sample(&mut self, rtt: Nanos, una: u64, nxt: u64) {
        self.note_least(rtt);
        match self.config.timers {
            TimerRules::Linux => self.filter_linux(rtt, una, nxt),
            TimerRules::Rfc => self.filter_rfc(rtt),
        }
        self.rto = self.rto.min(self.config.max_rto);
        self.backoff = 0;
    }

    /// Applies RFC 6298 sections 2.2 to 2.5; the maximum acknowledgement delay replaces the clock granularity.
    #[inline]
    fn filter_rfc(&mut self, rtt: Nanos) {
        if self.srtt.is_zero() {
            self.srtt = rtt;
            self.variation = rtt / 2;
        } else {
            let error = if rtt > self.srtt { rtt - self.srtt } else { self.srtt - rtt };
            self.variation = (self.variation * 3 + error) / 4;
            self.srtt = (self.srtt * 7 + rtt) / 8;
        }
        self.rto = (self.srtt + (self.variation * 4).max(self.config.ack_delay)).max(self.config.min_rto);
    }

    /// Applies Linux `tcp_rtt_estimator`: RTO = srtt + V, where V (`rttvar_us`, four times the variation) is never
    /// below the minimum RTO. V rises immediately with the deviation; once per round trip it falls by a quarter of its
    /// distance to the deviation's maximum.
    #[inline]
    fn filter_linux(&mut self, rtt: Nanos, una: u64, nxt: u64) {
        if self.srtt.is_zero() {
            self.srtt = rtt;
            self.deviation = rtt * 2;
            self.deviation_max = self.deviation.max(self.config.min_rto);
            self.variation = self.deviation_max;
            self.round_end = nxt;
        } else {
            let (above, error) = (rtt > self.srtt, rtt.max(self.srtt) - rtt.min(self.srtt));
            self.srtt = (self.srtt * 7 + rtt) / 8;
            // A decrease of the RTT raises the deviation by an eighth of the amount for an equal increase.
            if above || error <= self.deviation / 4 {
                self.deviation = self.deviation - self.deviation / 4 + error;
            } else {
                self.deviation = self.deviation + error / 8 - self.deviation / 32;
            }
            if self.deviation > self.deviation_max {
                self.deviation_max = self.deviation;
                self.variation = self.variation.max(self.deviation_max);
            }
            if una > self.round_end {
                if self.deviation_max < self.variation {
                    self.variation -= (self.variation - self.deviation_max) / 4;
                }
                self.round_end = nxt;
                self.deviation_max = self.config.min_rto;
            }
        }
        self.rto = self.srtt + self.variation;
    }

    /// The timeout in force, including back-off.
    #[inline]
    pub(crate) fn rto(&self) -> Nanos {
        if self.backoff == 0 {
            return self.rto;
        }
        Nanos::from_nanos(self.rto.as_nanos().saturating_mul(1 << self.backoff.min(32))).min(self.config.max_rto)
    }

    /// Doubles the timeout (RFC 6298 section 5.5).
    pub(crate) fn back_off(&mut self) {
        self.backoff += 1;
    }

    /// Reverts the last back-off, if the retransmission did not leave the host.
    pub(crate) fn revoke_back_off(&mut self) {
        self.backoff = self.backoff.saturating_sub(1);
    }

    /// Sets the timeout after a retransmitted SYN, which gives no round-trip time sample.
    pub(crate) fn on_lost_syn(&mut self) {
        self.backoff = 0;
        self.rto = self.rto.max(AFTER_LOST_SYN).min(self.config.max_rto);
    }

    /// The smoothed round-trip time, if there was a sample.
    #[inline]
    pub(crate) fn smoothed(&self) -> Option<Nanos> {
        (!self.srtt.is_zero()).then_some(self.srtt)
    }

    /// The mean deviation of the round-trip time, if there was a sample (Linux `mdev_us >> 2`; RFC 6298's RTTVAR).
    pub(crate) fn mean_deviation(&self) -> Option<Nanos> {
        let deviation = match self.config.timers {
            TimerRules::Linux => self.deviation / 4,
            TimerRules::Rfc => self.variation,
        };
        self.smoothed().map(|_| deviation)
    }

    /// The minimum round-trip time, if there was a sample.
    #[inline]
    pub(crate) fn least(&self) -> Option<Nanos> {
        (self.min_rtt != Nanos::MAX).then_some(self.min_rtt)
    }

    /// The minimum round-trip time, zero before the first sample.
    #[inline]
    pub(crate) fn min_rtt_or_zero(&self) -> Nanos {
        if self.min_rtt == Nanos::MAX { Nanos::ZERO } else { self.min_rtt }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The timeout follows the formulas of RFC 6298.
    #[test]
    fn rto_follows_rfc_6298() {
        let mut rtt = RttEstimator::new(&Arc::new(TcpConfig::rfc()));
        assert_eq!(rtt.rto(), Nanos::from_secs(1));
        rtt.on_sample(Nanos::from_millis(100), 1, 1);
        // SRTT = 100 ms, RTTVAR = 50 ms, RTO = 100 + 4 x 50.
        assert_eq!(rtt.rto(), Nanos::from_millis(300));
        rtt.on_sample(Nanos::from_millis(180), 1, 1);
        // RTTVAR = 3/4 x 50 + 1/4 x 80 = 57.5, SRTT = 7/8 x 100 + 1/8 x 180 = 110, RTO = 110 + 230.
        assert_eq!(rtt.srtt, Nanos::from_millis(110));
        assert_eq!(rtt.rto(), Nanos::from_millis(340));
        rtt.back_off();
        rtt.back_off();
        assert_eq!(rtt.rto(), Nanos::from_millis(1360));
        rtt.on_sample(Nanos::from_millis(110), 1, 1);
        // RTTVAR = 43.125, SRTT = 110, RTO = 110 + 172.5.
        assert_eq!(rtt.rto(), Nanos::from_micros(282_500));
        assert_eq!(rtt.min_rtt, Nanos::from_millis(100));
    }

    /// The timeout stays within its bounds.
    #[test]
    fn rto_keeps_its_bounds() {
        let mut rtt = RttEstimator::new(&Arc::new(TcpConfig::rfc()));
        rtt.on_sample(Nanos::from_millis(10), 1, 1);
        assert_eq!(rtt.rto(), Nanos::from_millis(200));
        for _ in 0..40 {
            rtt.back_off();
        }
        assert_eq!(rtt.rto(), Nanos::from_secs(120));
        // The maximum also applies to a timeout without back-off: samples give 100 + 4 x 50 and 100 + 2 x 100 seconds.
        for config in [TcpConfig::rfc(), TcpConfig::default()] {
            let mut rtt = RttEstimator::new(&Arc::new(config));
            rtt.on_sample(Nanos::from_secs(100), 1, 1);
            assert_eq!(rtt.rto(), Nanos::from_secs(120));
        }
    }

    /// Linux adds at least the minimum RTO to the smoothed RTT.
    #[test]
    fn rto_linux_is_srtt_plus_at_least_200_ms() {
        let mut rtt = RttEstimator::new(&Arc::default());
        for round in 0..200 {
            rtt.on_sample(Nanos::from_millis(40), round + 1, round + 1);
        }
        assert_eq!((rtt.srtt, rtt.rto()), (Nanos::from_millis(40), Nanos::from_millis(240)));
    }

    /// The variation rises immediately with the deviation and falls by a quarter of the difference per round trip.
    #[test]
    fn rto_linux_variation_rises_at_once_and_falls_slowly() {
        let mut rtt = RttEstimator::new(&Arc::default());
        rtt.on_sample(Nanos::from_millis(400), 1, 10);
        // The first sample sets the deviation to 2 x 400 ms.
        assert_eq!(rtt.rto(), Nanos::from_millis(400 + 800));
        rtt.on_sample(Nanos::from_millis(400), 5, 20);
        assert_eq!(rtt.rto(), Nanos::from_millis(400 + 800), "within the round trip nothing falls");
        rtt.on_sample(Nanos::from_millis(400), 11, 30);
        // The maximum of the first round trip was 800 ms: the variation falls only after the second round trip.
        assert_eq!(rtt.rto(), Nanos::from_millis(400 + 800));
        rtt.on_sample(Nanos::from_millis(400), 31, 60);
        // The deviation is 800 (3/4)^3 = 337.5 ms. The maximum of the second round trip starts at the minimum RTO,
        // 200 ms, and becomes 337.5 ms: the variation is 800 - (800 - 337.5) / 4.
        assert_eq!(rtt.rto(), Nanos::from_nanos(400_000_000 + 800_000_000 - 462_500_000 / 4));
    }
}
