//! Pacing: when the next packet may leave.

use narrows_cc::{Bytes, Control, Nanos, Pacer};

/// The pacer, and whether it is what keeps a packet back.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pacing {
    pacer: Pacer,
    /// The departure time last counted as a wait.
    waited_for: Nanos,
    /// The pacer holds a packet back.
    blocked: bool,
}

impl Pacing {
    pub(super) fn new() -> Self {
        Self { pacer: Pacer::default(), waited_for: Nanos::MAX, blocked: false }
    }

    /// When a packet that the pacer holds back may leave; [`Nanos::MAX`] if it holds none.
    #[inline]
    pub(super) fn deadline(&self) -> Nanos {
        if self.blocked { self.pacer.next() } else { Nanos::MAX }
    }

    /// Nothing is held back until the next packet asks.
    #[inline]
    pub(super) fn clear(&mut self) {
        self.blocked = false;
    }

    /// Nothing leaves before `time`.
    pub(super) fn hold_until(&mut self, time: Nanos) {
        self.pacer.hold_until(time);
    }

    /// Whether a packet may leave; otherwise the deadline becomes its time. The same packet may be asked for
    /// again and again while it waits; `waits` counts it once.
    #[inline]
    pub(super) fn is_due(&mut self, now: Nanos, waits: &mut u64) -> bool {
        if now >= self.pacer.next() {
            return true;
        }
        self.blocked = true;
        if self.waited_for != self.pacer.next() {
            self.waited_for = self.pacer.next();
            *waits += 1;
        }
        false
    }

    /// A packet of `bytes` leaves.
    #[inline]
    pub(super) fn on_sent(&mut self, now: Nanos, bytes: Bytes, control: &Control, max_burst: Bytes) {
        if let Some(rate) = control.pacing_rate {
            self.pacer.on_sent(now, bytes, rate, control.burst.min(max_burst));
        }
    }
}
