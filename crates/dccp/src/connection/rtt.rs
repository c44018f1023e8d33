//! Round-trip time, the timeout for want of any acknowledgement (RFC 6298 without its floor of a second: RFC 4341 section 5).

use narrows_cc::Nanos;

/// Taken for the round-trip time where there is no sample (RFC 4340 section 3.4).
pub(super) const DEFAULT_RTT: Nanos = Nanos::from_millis(200);

/// The timeout before the first sample (RFC 6298).
const FIRST: Nanos = Nanos::from_secs(1);

/// The longest timeout (RFC 6298 allows any bound of 60 s and above; RFC 4340 uses 64 s everywhere).
pub(super) const LONGEST: Nanos = Nanos::from_secs(64);

/// What stands for the clock's granularity in RFC 6298: a process may have to wait so long for its turn, whatever the path.
pub(super) const LEAST: Nanos = Nanos::from_millis(10);

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Rtt {
    pub(super) srtt: Nanos,
    pub(super) min: Nanos,
    pub(super) last: Option<Nanos>,
    /// The last sample, until somebody asks.
    pub(super) unread: Option<Nanos>,
    variation: Nanos,
    rto: Nanos,
    backoff: u32,
    /// The receiver may hold an acknowledgement this long, so the timeout allows for it.
    ack_delay: Nanos,
}

impl Rtt {
    pub(super) fn new(ack_delay: Nanos) -> Self {
        let (srtt, min, variation) = (Nanos::ZERO, Nanos::ZERO, Nanos::ZERO);
        Self { srtt, min, last: None, unread: None, variation, rto: FIRST, backoff: 0, ack_delay }
    }

    /// Takes note of a sample without letting it into the mean.
    pub(super) fn glance(&mut self, rtt: Nanos) -> Nanos {
        let rtt = rtt.max(Nanos::from_nanos(1));
        (self.last, self.unread) = (Some(rtt), Some(rtt));
        self.min = if self.min.is_zero() { rtt } else { self.min.min(rtt) };
        rtt
    }

    /// Takes a sample; returns what counts.
    pub(super) fn on_sample(&mut self, rtt: Nanos) -> Nanos {
        let rtt = self.glance(rtt);
        if self.srtt.is_zero() {
            self.srtt = rtt;
            self.variation = rtt / 2;
        } else {
            let error = if rtt > self.srtt { rtt - self.srtt } else { self.srtt - rtt };
            self.variation = (self.variation * 3 + error) / 4;
            self.srtt = (self.srtt * 7 + rtt) / 8;
        }
        self.rto = (self.srtt + (self.variation * 4).max(LEAST) + self.ack_delay).min(LONGEST);
        rtt
    }

    /// The smoothed time, or what stands for it.
    pub(super) fn or_default(&self) -> Nanos {
        if self.srtt.is_zero() { DEFAULT_RTT } else { self.srtt }
    }

    /// The smoothed time, once there was a sample.
    pub(super) fn smoothed(&self) -> Option<Nanos> {
        (!self.srtt.is_zero()).then_some(self.srtt)
    }

    /// The least time, once there was a sample.
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

    #[test]
    fn the_timeout_has_no_floor_but_the_delay_of_acknowledgements() {
        let ms = Nanos::from_millis;
        let mut rtt = Rtt::new(ms(10));
        assert_eq!(rtt.rto(), Nanos::from_secs(1));
        rtt.on_sample(ms(100));
        assert_eq!(rtt.rto(), ms(310)); // 100 + 4 x 50 + 10
        for _ in 0..60 {
            rtt.on_sample(ms(100));
        }
        assert_eq!(rtt.rto(), ms(120)); // the variation is gone
        for _ in 0..40 {
            rtt.back_off();
        }
        assert_eq!(rtt.rto(), LONGEST);
    }
}
