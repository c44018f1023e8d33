//! Pacing by earliest departure times: enforces [`crate::Control::pacing_rate`].

use crate::{Bytes, Nanos, Rate};

/// Maximum gap between two packets at any rate.
const LONGEST_GAP: Nanos = Nanos::from_secs(60);

/// Spaces packets: each departure follows the previous one by the time that packet takes at the pacing rate.
/// Idle time gives credit for one burst at most.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Pacer {
    next: Nanos,
}

impl Pacer {
    /// When the next packet may leave.
    #[inline]
    pub fn next(&self) -> Nanos {
        self.next
    }

    /// Sends nothing before `time`.
    #[inline]
    pub fn hold_until(&mut self, time: Nanos) {
        self.next = self.next.max(time);
    }

    /// A packet of `bytes` leaves at `now`.
    #[inline]
    pub fn on_sent(&mut self, now: Nanos, bytes: Bytes, rate: Rate, burst: Bytes) {
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

    const RATE: Rate = Rate::from_bytes_per_sec(1_000_000); // 1000 B take 1 ms
    const PACKET: Bytes = Bytes::new(1000);
    const MS: Nanos = Nanos::from_millis(1);

    /// With a burst of one packet, idle time gives no credit.
    #[test]
    fn pacer_burst_of_one_packet_gives_no_idle_credit() {
        let mut pacer = Pacer::default();
        pacer.on_sent(MS * 100, PACKET, RATE, PACKET);
        assert_eq!(pacer.next(), MS * 101);
        pacer.on_sent(MS * 101, PACKET, RATE, PACKET);
        assert_eq!(pacer.next(), MS * 102);
    }

    /// Idle time gives credit for one burst at most.
    #[test]
    fn pacer_idle_credit_is_at_most_one_burst() {
        let mut pacer = Pacer::default();
        let mut sent = 0;
        while pacer.next() <= MS * 100 {
            pacer.on_sent(MS * 100, PACKET, RATE, PACKET * 3);
            sent += 1;
        }
        assert_eq!(sent, 3);
        assert_eq!(pacer.next(), MS * 101);
    }

    /// A rate of zero delays a sender but does not stop it.
    #[test]
    fn pacer_zero_rate_does_not_stop_a_sender_for_ever() {
        let mut pacer = Pacer::default();
        pacer.on_sent(MS, PACKET, Rate::ZERO, PACKET);
        assert_eq!(pacer.next(), MS + LONGEST_GAP);
    }
}
