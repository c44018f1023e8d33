//! Data-limited intervals: whether the application limited the receive rate of a report (RFC 5348 section
//! 8.2.1).

use narrows_cc::Nanos;

/// Times at which the sender was not data-limited: the scheme delayed available data. NotLimited1 and
/// NotLimited2 of RFC 5348.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct NotLimited {
    first: Nanos,
    second: Nanos,
    /// Send time of the packet that the last report acknowledged (t_new).
    new: Nanos,
    /// Arrival time of that report (t_next).
    next: Nanos,
}

impl NotLimited {
    /// Records that the scheme delays data now.
    #[inline]
    pub(super) fn note(&mut self, now: Nanos) {
        if self.first <= self.new {
            self.first = now;
        } else if self.second <= self.next {
            self.second = now;
        }
    }

    /// Whether the sender was data-limited throughout the interval of a report. The interval is the round
    /// trip `rtt` before `sent_at`, the send time of the acknowledged packet.
    pub(super) fn report(&mut self, now: Nanos, sent_at: Nanos, rtt: Nanos) -> bool {
        self.new = sent_at;
        self.next = now;
        let covered = |at: Nanos| at > sent_at - rtt && at <= sent_at;
        let limited = !covered(self.first) && !covered(self.second);
        if self.first <= self.new && self.second > self.new {
            self.first = self.second;
        }
        limited
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(n: u64) -> Nanos {
        Nanos::from_millis(n)
    }

    /// A report covers the round trip before the acknowledged packet was sent.
    #[test]
    fn not_limited_report_covers_round_trip_before_acked_packet() {
        let mut times = NotLimited::default();
        times.note(ms(120));
        // The packet sent at 200 ms is acknowledged at 300 ms: the scheme delayed data at 120 ms.
        assert!(!times.report(ms(300), ms(200), ms(100)));
        // The scheme delayed no data from 200 to 300 ms, the interval of the report at 400 ms.
        times.note(ms(350));
        assert!(times.report(ms(400), ms(300), ms(100)));
        // The delay at 350 ms lies in the next interval; its time was kept.
        assert!(!times.report(ms(500), ms(400), ms(100)));
        assert!(times.report(ms(600), ms(500), ms(100)));
    }

    /// One time before the latest report and one time after it are kept.
    #[test]
    fn not_limited_time_after_report_is_kept() {
        let mut times = NotLimited::default();
        assert!(times.report(ms(200), ms(100), ms(100)));
        for now in 110..300 {
            times.note(ms(now)); // the first kept time is 110; 201 is the first time after the report
        }
        assert!(!times.report(ms(300), ms(200), ms(100)));
        assert!(!times.report(ms(400), ms(300), ms(100)));
        assert!(times.report(ms(500), ms(400), ms(100)));
    }
}
