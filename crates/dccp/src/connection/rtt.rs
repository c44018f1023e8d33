//! Round-trip time and retransmission timeout (RFC 6298 without the 1 s minimum: RFC 4341 section 5).

use narrows_cc::Nanos;

/// Round-trip time before the first sample (RFC 4340 section 3.4).
pub(super) const DEFAULT_RTT: Nanos = Nanos::from_millis(200);

/// Initial timeout (RFC 6298).
const INITIAL_RTO: Nanos = Nanos::from_secs(1);

/// Longest timeout. RFC 6298 permits any bound of at least 60 s; RFC 4340 uses 64 s for all its timers.
pub(super) const LONGEST: Nanos = Nanos::from_secs(64);

/// Clock granularity G of RFC 6298: allows for the scheduling delay of a process, however short the path.
pub(super) const GRANULARITY: Nanos = Nanos::from_millis(10);

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Rtt {
    pub(super) srtt: Nanos,
    pub(super) min: Nanos,
    pub(super) last: Option<Nanos>,
    /// Latest sample, until read.
    pub(super) unread: Option<Nanos>,
    variation: Nanos,
    rto: Nanos,
    backoff: u32,
    /// Longest acknowledgement delay of the receiver, added to the timeout.
    ack_delay: Nanos,
}

impl Rtt {
    pub(super) fn new(ack_delay: Nanos) -> Self {
        let (srtt, min, variation) = (Nanos::ZERO, Nanos::ZERO, Nanos::ZERO);
        Self { srtt, min, last: None, unread: None, variation, rto: INITIAL_RTO, backoff: 0, ack_delay }
    }

    /// Records a sample without updating the smoothed time.
    pub(super) fn record(&mut self, rtt: Nanos) -> Nanos {
        let rtt = rtt.max(Nanos::from_nanos(1));
        (self.last, self.unread) = (Some(rtt), Some(rtt));
        self.min = if self.min.is_zero() { rtt } else { self.min.min(rtt) };
        rtt
    }

    /// Records a sample and returns it, at least 1 ns.
    pub(super) fn on_sample(&mut self, rtt: Nanos) -> Nanos {
        let rtt = self.record(rtt);
        if self.srtt.is_zero() {
            self.srtt = rtt;
            self.variation = rtt / 2;
        } else {
            let error = if rtt > self.srtt { rtt - self.srtt } else { self.srtt - rtt };
            self.variation = (self.variation * 3 + error) / 4;
            self.srtt = (self.srtt * 7 + rtt) / 8;
        }
        self.rto = (self.srtt + (self.variation * 4).max(GRANULARITY) + self.ack_delay).min(LONGEST);
        rtt
    }

    /// Smoothed round-trip time, or the default before the first sample.
    pub(super) fn or_default(&self) -> Nanos {
        if self.srtt.is_zero() { DEFAULT_RTT } else { self.srtt }
    }

    /// Smoothed round-trip time; `None` before the first sample.
    pub(super) fn smoothed(&self) -> Option<Nanos> {
        (!self.srtt.is_zero()).then_some(self.srtt)
    }

    /// Minimum round-trip time; `None` before the first sample.
    pub(super) fn least(&self) -> Option<Nanos> {
        (!self.min.is_zero()).then_some(self.min)
    }

    pub(super) fn rto(&self) -> Nanos {
        Nanos::from_nanos(self.rto.as_nanos().saturating_mul(1 << self.backoff.min(20))).min(LONGEST)
    }

    pub(super) fn back_off(&mut self) {
        self.backoff = (self.backoff + 1).min(32);
    }

    pub(super) fn on_progress(&mut self) {
        self.backoff = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The timeout has no 1 s minimum, includes the acknowledgement delay, and backs off to its maximum.
    #[test]
    fn rto_has_ack_delay_but_no_one_second_minimum() {
        let ms = Nanos::from_millis;
        let mut rtt = Rtt::new(ms(10));
        assert_eq!(rtt.rto(), Nanos::from_secs(1));
        rtt.on_sample(ms(100));
        assert_eq!(rtt.rto(), ms(310)); // SRTT 100 + 4 x RTTVAR 50 + ACK delay 10
        for _ in 0..60 {
            rtt.on_sample(ms(100));
        }
        assert_eq!(rtt.rto(), ms(120)); // RTTVAR decays to 0, so the granularity applies
        for _ in 0..40 {
            rtt.back_off();
        }
        assert_eq!(rtt.rto(), LONGEST);
    }
}
