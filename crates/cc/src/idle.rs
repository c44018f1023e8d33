//! cwnd and ssthresh after an idle time.

use crate::{Bytes, IdleRestart};

/// cwnd after a time with nothing outstanding.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum IdleRule {
    /// Linux `tcp_cwnd_restart` (RFC 2861): halve cwnd per RTO of idle time, not below the initial window;
    /// ssthresh keeps at least three quarters of cwnd.
    #[default]
    Linux,
    /// RFC 5681 section 4.1: the initial window after more than one RTO.
    Rfc5681,
    /// Keep cwnd.
    Off,
}

impl IdleRestart {
    /// Whether the idle time was longer than the retransmission timeout, and the rule reduces cwnd then.
    #[inline]
    pub fn outlasts_rto(&self) -> bool {
        self.rule != IdleRule::Off && self.rto.is_some_and(|rto| self.idle > rto)
    }

    /// cwnd after the idle time, given the one before it and the initial window.
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
            // `tcp_current_ssthresh`: half of cwnd and a quarter of it.
            ssthresh.max(cwnd / 2 + cwnd / 4)
        } else {
            ssthresh
        }
    }
}
