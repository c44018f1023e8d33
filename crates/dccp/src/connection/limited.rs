//! Was it want of data that limited what a report tells of (RFC 5348 section 8.2.1)?

use narrows_cc::Nanos;

/// Times at which the sender was not short of data: it had some that its scheme held back.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct NotLimited {
    first: Nanos,
    second: Nanos,
    /// When the packet left that the last report acknowledged.
    new: Nanos,
    /// When that report came.
    next: Nanos,
}

impl NotLimited {
    /// The scheme holds data back.
    #[inline]
    pub(super) fn note(&mut self, now: Nanos) {
        if self.first <= self.new {
            self.first = now;
        } else if self.second <= self.next {
            self.second = now;
        }
    }

    /// A report acknowledges a packet that left at `sent_at`; it covers the round trip `rtt` before that. Whether the sender was
    /// short of data in all of this time.
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

    #[test]
    fn what_counts_is_the_round_trip_before_the_packet_that_is_acknowledged() {
        let mut times = NotLimited::default();
        times.note(ms(120));
        // The packet of 200 ms is acknowledged at 300 ms: from 100 ms on it held data back once.
        assert!(!times.report(ms(300), ms(200), ms(100)));
        // Nothing from 200 to 300 ms, though the report comes at 400 ms.
        times.note(ms(350));
        assert!(times.report(ms(400), ms(300), ms(100)));
        // That is of the next interval, and kept for it.
        assert!(!times.report(ms(500), ms(400), ms(100)));
        assert!(times.report(ms(600), ms(500), ms(100)));
    }

    #[test]
    fn a_time_after_the_report_is_kept_beside_one_before_it() {
        let mut times = NotLimited::default();
        assert!(times.report(ms(200), ms(100), ms(100)));
        for now in 110..300 {
            times.note(ms(now)); // 110 first; 201 is the first after the report
        }
        assert!(!times.report(ms(300), ms(200), ms(100)));
        assert!(!times.report(ms(400), ms(300), ms(100)));
        assert!(times.report(ms(500), ms(400), ms(100)));
    }
}
