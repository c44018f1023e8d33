//! Round-trip time estimation and the retransmission timeout (RFC 6298).

use narrows_cc::Nanos;

use crate::TcpConfig;

/// RFC 6298 section 5.7: initial timeout after a repeated SYN.
const AFTER_LOST_SYN: Nanos = Nanos::from_secs(3);

/// Smoothed round-trip time, its variation and the timeout.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RttEstimator {
    pub(crate) srtt: Nanos,
    variation: Nanos,
    pub(crate) min_rtt: Nanos,
    rto: Nanos,
    backoff: u32,
    min: Nanos,
    max: Nanos,
    /// Replaces the RFC's clock granularity: the maximum acknowledgement delay of the receiver.
    granularity: Nanos,
}

impl RttEstimator {
    pub(crate) fn new(config: &TcpConfig) -> Self {
        Self {
            srtt: Nanos::ZERO,
            variation: Nanos::ZERO,
            min_rtt: Nanos::MAX,
            rto: config.initial_rto,
            backoff: 0,
            min: config.min_rto,
            max: config.max_rto,
            granularity: config.ack_delay,
        }
    }

    /// RFC 6298 sections 2.2 to 2.5. A sample also resets the back-off (section 5.7 and Karn's algorithm).
    #[inline]
    pub(crate) fn on_sample(&mut self, rtt: Nanos) {
        self.min_rtt = self.min_rtt.min(rtt);
        if self.srtt.is_zero() {
            self.srtt = rtt;
            self.variation = rtt / 2;
        } else {
            let error = if rtt > self.srtt { rtt - self.srtt } else { self.srtt - rtt };
            self.variation = (self.variation * 3 + error) / 4;
            self.srtt = (self.srtt * 7 + rtt) / 8;
        }
        self.rto = (self.srtt + (self.variation * 4).max(self.granularity)).max(self.min).min(self.max);
        self.backoff = 0;
    }

    /// The timeout in force, including back-off.
    #[inline]
    pub(crate) fn rto(&self) -> Nanos {
        if self.backoff == 0 {
            return self.rto;
        }
        Nanos::from_nanos(self.rto.as_nanos().saturating_mul(1 << self.backoff.min(32))).min(self.max)
    }

    /// RFC 6298 section 5.5.
    pub(crate) fn back_off(&mut self) {
        self.backoff += 1;
    }

    /// Sets the timeout after a repeated SYN, which gives no round-trip time sample.
    pub(crate) fn on_lost_syn(&mut self) {
        self.backoff = 0;
        self.rto = self.rto.max(AFTER_LOST_SYN).min(self.max);
    }

    /// The smoothed round-trip time, if there was a sample.
    #[inline]
    pub(crate) fn smoothed(&self) -> Option<Nanos> {
        (!self.srtt.is_zero()).then_some(self.srtt)
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
        let mut rtt = RttEstimator::new(&TcpConfig::default());
        assert_eq!(rtt.rto(), Nanos::from_secs(1));
        rtt.on_sample(Nanos::from_millis(100));
        // SRTT 100, RTTVAR 50: 100 + 4 x 50
        assert_eq!(rtt.rto(), Nanos::from_millis(300));
        rtt.on_sample(Nanos::from_millis(180));
        // RTTVAR = 3/4 x 50 + 1/4 x 80 = 57.5, SRTT = 7/8 x 100 + 1/8 x 180 = 110: 110 + 230
        assert_eq!(rtt.srtt, Nanos::from_millis(110));
        assert_eq!(rtt.rto(), Nanos::from_millis(340));
        rtt.back_off();
        rtt.back_off();
        assert_eq!(rtt.rto(), Nanos::from_millis(1360));
        rtt.on_sample(Nanos::from_millis(110));
        // RTTVAR = 43.125, SRTT = 110
        assert_eq!(rtt.rto(), Nanos::from_micros(282_500));
        assert_eq!(rtt.min_rtt, Nanos::from_millis(100));
    }

    /// The timeout keeps its bounds.
    #[test]
    fn rto_keeps_its_bounds() {
        let mut rtt = RttEstimator::new(&TcpConfig::default());
        rtt.on_sample(Nanos::from_millis(10));
        assert_eq!(rtt.rto(), Nanos::from_millis(200));
        for _ in 0..40 {
            rtt.back_off();
        }
        assert_eq!(rtt.rto(), Nanos::from_secs(120));
    }
}
