//! cwnd and ssthresh after an idle time.

use crate::{Bytes, IdleRestart};

/// cwnd after a time with nothing outstanding.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum IdleRule {
    /// Linux `tcp_cwnd_restart` (RFC 2861): halve cwnd per RTO of idle time, not below the initial window; ssthresh
    /// rises to at least three quarters of cwnd.
    #[default]
    Linux,
    /// RFC 5681 section 4.1: reduce cwnd to the initial window after more than one RTO of idle time.
    Rfc5681,
    /// Keep cwnd.
    Off,
}

impl IdleRestart {
    /// Whether the idle time was longer than the retransmission timeout.
    #[inline]
    pub fn is_long(&self) -> bool {
        self.rto.is_some_and(|rto| self.idle > rto)
    }

    /// Whether the idle time was longer than the retransmission timeout and the rule reduces cwnd in that case.
    #[inline]
    pub fn outlasts_rto(&self) -> bool {
        self.rule != IdleRule::Off && self.is_long()
    }

    /// cwnd after the idle time, given cwnd before it and the initial window.
    pub fn window(&self, cwnd: Bytes, initial_window: Bytes) -> Bytes {
        let Some(rto) = self.rto.filter(|_| self.outlasts_rto()) else { return cwnd };
        let least = cwnd.min(initial_window);
        if self.rule == IdleRule::Rfc5681 {
            return least;
        }
        let mut window = cwnd;
        let mut idle = self.idle;
        while idle > rto && window > least {
            idle -= rto;
            window = window / 2;
        }
        window.max(least)
    }

    /// ssthresh after the idle time, given cwnd and ssthresh before it.
    pub fn threshold(&self, cwnd: Bytes, ssthresh: Bytes) -> Bytes {
        if self.rule == IdleRule::Linux && self.outlasts_rto() {
            // As `tcp_current_ssthresh` computes three quarters of cwnd: half plus a quarter, each rounded down.
            ssthresh.max(cwnd / 2 + cwnd / 4)
        } else {
            ssthresh
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::idle;

    /// cwnd and ssthresh in kB after an idle time, with an RTO of 200 ms, a cwnd of 40 kB and an initial window of 10
    /// kB.
    fn after(rule: IdleRule, idle_ms: u64, ssthresh: u64) -> (u64, u64) {
        let event = IdleRestart { rule, ..idle(idle_ms, 200) };
        let kb = |n: u64| Bytes::new(1_000 * n);
        let (cwnd, ssthresh) = (event.window(kb(40), kb(10)), event.threshold(kb(40), kb(ssthresh)));
        (cwnd.as_u64() / 1_000, ssthresh.as_u64() / 1_000)
    }

    /// Linux halves cwnd for every RTO passed, not below the initial window, and raises ssthresh to three quarters of
    /// the old cwnd.
    #[test]
    fn idle_linux_halves_per_rto_and_keeps_three_quarters() {
        for (idle_ms, cwnd) in [(201, 20), (400, 20), (401, 10), (60_000, 10)] {
            assert_eq!(after(IdleRule::Linux, idle_ms, 5), (cwnd, 30), "{idle_ms} ms");
            assert_eq!(after(IdleRule::Linux, idle_ms, 35), (cwnd, 35), "{idle_ms} ms");
        }
        assert_eq!(after(IdleRule::Linux, 200, 5), (40, 5), "not longer than the RTO");
    }

    /// RFC 5681 restarts from the initial window after more than one RTO and leaves ssthresh unchanged; with the rule
    /// off, nothing changes.
    #[test]
    fn idle_rfc5681_restarts_at_initial_window() {
        assert_eq!(after(IdleRule::Rfc5681, 200, 5), (40, 5));
        assert_eq!(after(IdleRule::Rfc5681, 201, 5), (10, 5));
        assert_eq!(after(IdleRule::Off, 60_000, 5), (40, 5));
    }
}
