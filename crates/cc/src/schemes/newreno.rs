//! # NewReno
//!
//! Slow start and congestion avoidance (RFC 5681): additive increase of one segment per round trip, halving on loss.
//!
//! (essay to be completed)

use crate::{
    Ack, Bytes, CongestionControl, Control, Evidence, IdleRestart, Info, Param, Phase, RecoveryEntered, RecoveryStyle,
    Setup, SpuriousLoss, Timeout,
};

/// NewReno congestion control.
#[derive(Clone, Debug)]
pub struct NewReno {
    mss: Bytes,
    initial_window: Bytes,
    abc: bool,
    window: Bytes,
    ssthresh: Bytes,
    /// Bytes acknowledged towards the next increase in congestion avoidance.
    credit: Bytes,
    /// Window and ssthresh before the last reduction.
    prior: (Bytes, Bytes),
}

impl NewReno {
    fn reduce(&mut self, flight: Bytes) {
        self.prior = (self.window, self.ssthresh);
        self.ssthresh = (flight / 2).max(self.mss * 2);
        self.credit = Bytes::ZERO;
    }
}

impl CongestionControl for NewReno {
    const INFO: Info = Info {
        name: "newreno",
        aliases: &["reno"],
        summary: "additive increase, multiplicative decrease (RFC 5681)",
        evidence: Evidence::Verified,
        recovery: RecoveryStyle::Prr,
        params: &[Param::flag("abc", true, "appropriate byte counting (RFC 3465)")],
    };

    fn new(setup: &Setup) -> Self {
        Self {
            mss: setup.mss,
            initial_window: setup.initial_window,
            abc: setup.params.flag("abc"),
            window: setup.initial_window,
            ssthresh: Bytes::MAX,
            credit: Bytes::ZERO,
            prior: (setup.initial_window, Bytes::MAX),
        }
    }

    fn on_ack(&mut self, event: &Ack) {
        if event.phase == Phase::Recovery || !event.window_limited {
            return;
        }
        let mut acked = event.acked_cumulative;
        if self.window < self.ssthresh {
            let grow = if self.abc { acked } else { acked.min(self.mss) }.min(self.ssthresh - self.window);
            self.window += grow;
            acked -= grow;
            if !self.abc {
                return;
            }
        }
        if !self.abc && !acked.is_zero() {
            acked = self.mss;
        }
        self.credit += acked;
        if self.credit >= self.window {
            self.credit -= self.window;
            self.window += self.mss;
        }
    }

    fn on_recovery_entered(&mut self, event: &RecoveryEntered) {
        self.reduce(event.flight_size);
        self.window = self.ssthresh;
    }

    fn on_timeout(&mut self, event: &Timeout) {
        if event.consecutive == 1 {
            self.reduce(event.flight_size);
        }
        self.window = self.mss;
    }

    fn on_spurious_loss(&mut self, _event: &SpuriousLoss) {
        self.window = self.window.max(self.prior.0);
        self.ssthresh = self.prior.1;
    }

    fn on_idle_restart(&mut self, event: &IdleRestart) {
        if event.idle > event.rto {
            self.window = self.window.min(self.initial_window);
        }
    }

    fn control(&self) -> Control {
        Control { window: self.window, pacing_rate: None, burst: self.mss * 2 }
    }
}
