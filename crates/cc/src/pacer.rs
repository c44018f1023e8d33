//! Pacing by earliest departure times: enforces [`crate::Control::pacing_rate`].

use crate::{Bytes, Nanos, Rate};

/// Maximum gap between two packets, whatever the rate.
const LONGEST_GAP: Nanos = Nanos::from_secs(60);

/// Spaces packets: the gap after a packet is the time that this packet takes at the pacing rate. Idle time gives credit
/// for one burst at most.
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

/// Spaces bursts as Linux spaces TSO packets without a queueing discipline (`tcp_update_skb_after_send`): the packets
/// of a burst leave back to back, and the next burst follows after the time that they take at the pacing rate. If a
/// burst begins late, the gap after the burst is shorter by this lateness, but by half of the gap at most.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct BurstPacer {
    next: Nanos,
    /// Beginning of the current burst, and the bytes that may still be sent in it (`left`).
    at: Nanos,
    left: Bytes,
    /// How late the current burst began, and the time that it takes at the pacing rate (`length`).
    late: Nanos,
    length: Nanos,
}

impl BurstPacer {
    /// When the next burst may begin.
    #[inline]
    pub fn next(&self) -> Nanos {
        self.next
    }

    /// Begins no burst before `time`.
    #[inline]
    pub fn hold_until(&mut self, time: Nanos) {
        self.next = self.next.max(time);
        self.left = Bytes::ZERO;
    }

    /// Whether a packet that leaves at `now` belongs to the current burst.
    #[inline]
    pub fn is_in_burst(&self, now: Nanos) -> bool {
        now == self.at && !self.left.is_zero()
    }

    /// Begins a burst of at most `bytes`; `catches_up`: the lateness of the burst shortens the gap after it.
    #[inline]
    pub fn begin(&mut self, now: Nanos, bytes: Bytes, catches_up: bool) {
        self.late = if catches_up { now - self.next } else { Nanos::ZERO };
        self.at = now;
        self.left = bytes;
        self.length = Nanos::ZERO;
    }

    /// A packet of `bytes` leaves in the current burst. Without a rate, the packet causes no gap.
    #[inline]
    pub fn on_sent(&mut self, bytes: Bytes, rate: Option<Rate>) {
        self.left -= bytes;
        // Linux `__tcp_transmit_skb` moves tcp_wstamp_ns to the time of every departure.
        self.next = self.next.max(self.at);
        if let Some(rate) = rate {
            self.length = self.length.saturating_add(rate.time_for(bytes).min(LONGEST_GAP));
            self.next = self.at.saturating_add(self.length - self.late.min(self.length / 2));
        }
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

    /// The packets of a burst leave back to back; the next burst follows after the time that they all take.
    #[test]
    fn burst_pacer_spaces_bursts_by_their_length() {
        let mut pacer = BurstPacer::default();
        pacer.begin(Nanos::ZERO, PACKET * 3, true);
        for _ in 0..3 {
            assert!(pacer.is_in_burst(Nanos::ZERO));
            pacer.on_sent(PACKET, Some(RATE));
        }
        assert!(!pacer.is_in_burst(Nanos::ZERO));
        assert_eq!(pacer.next(), MS * 3);
    }

    /// A late burst shortens the next gap by at most half of the burst's length.
    #[test]
    fn burst_pacer_late_burst_catches_up_by_half() {
        for (late, gap) in [(0, 4), (1, 3), (2, 2), (50, 2)] {
            let mut pacer = BurstPacer::default();
            pacer.hold_until(MS * 10);
            pacer.begin(MS * (10 + late), PACKET * 4, true);
            for _ in 0..4 {
                pacer.on_sent(PACKET, Some(RATE));
            }
            assert_eq!(pacer.next(), MS * (10 + late + gap), "{late} ms late");
        }
    }

    /// A burst that follows an unpaced burst is not late.
    #[test]
    fn burst_pacer_unpaced_burst_gives_no_credit() {
        let mut pacer = BurstPacer::default();
        pacer.begin(MS * 100, PACKET, true);
        pacer.on_sent(PACKET, None);
        assert_eq!(pacer.next(), MS * 100);
        pacer.begin(MS * 100, PACKET * 2, true);
        pacer.on_sent(PACKET, Some(RATE));
        pacer.on_sent(PACKET, Some(RATE));
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
            assert!(sent <= 3, "the credit does not end");
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
