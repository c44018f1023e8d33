//! Round-trip time, the timeout for want of any acknowledgement (RFC 6298 without its floor of a second: RFC 4341 section 5),
//! and pacing.

use narrows_cc::{Bytes, Nanos, Rate};

/// Taken for the round-trip time where there is no sample (RFC 4340 section 3.4).
pub(super) const DEFAULT_RTT: Nanos = Nanos::from_millis(200);

/// The timeout before the first sample (RFC 6298).
const FIRST: Nanos = Nanos::from_secs(1);

/// The longest timeout (RFC 6298 allows any bound of 60 s and above; RFC 4340 uses 64 s everywhere).
pub(super) const LONGEST: Nanos = Nanos::from_secs(64);

/// What stands for the clock's granularity in RFC 6298.
const LEAST: Nanos = Nanos::from_millis(10);

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

    pub(super) fn on_sample(&mut self, rtt: Nanos) {
        let rtt = rtt.max(Nanos::from_nanos(1));
        (self.last, self.unread) = (Some(rtt), Some(rtt));
        self.min = if self.min.is_zero() { rtt } else { self.min.min(rtt) };
        if self.srtt.is_zero() {
            self.srtt = rtt;
            self.variation = rtt / 2;
        } else {
            let error = if rtt > self.srtt { rtt - self.srtt } else { self.srtt - rtt };
            self.variation = (self.variation * 3 + error) / 4;
            self.srtt = (self.srtt * 7 + rtt) / 8;
        }
        self.rto = (self.srtt + (self.variation * 4).max(LEAST) + self.ack_delay).min(LONGEST);
    }

    /// The smoothed time, or what stands for it.
    pub(super) fn or_default(&self) -> Nanos {
        if self.srtt.is_zero() { DEFAULT_RTT } else { self.srtt }
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

/// The longest gap between two packets, whatever the rate.
const LONGEST_GAP: Nanos = Nanos::from_secs(60);

/// Spaces packets: each departure is scheduled a serialisation time after the one before it. Time in which nothing could
/// be sent gives credit for one burst at most.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Pacer {
    pub(super) next: Nanos,
}

impl Pacer {
    pub(super) fn on_sent(&mut self, now: Nanos, bytes: Bytes, rate: Rate, burst: Bytes) {
        let mut scheduled = self.next;
        if scheduled < now {
            let credit = burst - bytes;
            let earliest = if credit.is_zero() { now } else { now - rate.time_for(credit) };
            scheduled = scheduled.max(earliest);
        }
        self.next = scheduled.saturating_add(rate.time_for(bytes).min(LONGEST_GAP));
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

    #[test]
    fn departures_are_a_serialisation_time_apart_and_idle_time_gives_one_burst() {
        let rate = Rate::from_bytes_per_sec(1_000_000);
        let (packet, ms) = (Bytes::new(1_000), Nanos::from_millis(1));
        let mut pacer = Pacer::default();
        pacer.on_sent(ms * 100, packet, rate, packet);
        assert_eq!(pacer.next, ms * 101);
        let mut sent = 0;
        while pacer.next <= ms * 200 {
            pacer.on_sent(ms * 200, packet, rate, packet * 3);
            sent += 1;
        }
        assert_eq!(sent, 3);
        pacer.on_sent(ms * 300, packet, Rate::ZERO, packet);
        assert_eq!(pacer.next, ms * 300 + LONGEST_GAP);
    }
}
