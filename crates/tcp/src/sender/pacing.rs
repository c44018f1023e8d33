//! Pacing: departure time of the next packet.

use narrows_cc::{Bytes, Control, Nanos, Pacer};

/// The pacer, and whether it currently blocks a packet.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pacing {
    pacer: Pacer,
    /// Departure time last counted as a wait.
    waited_for: Nanos,
    /// A packet waits for the pacer.
    blocked: bool,
}

impl Pacing {
    pub(super) fn new() -> Self {
        Self { pacer: Pacer::default(), waited_for: Nanos::MAX, blocked: false }
    }

    /// Departure time of a pacing-blocked packet; [`Nanos::MAX`] if none.
    #[inline]
    pub(super) fn deadline(&self) -> Nanos {
        if self.blocked { self.pacer.next() } else { Nanos::MAX }
    }

    /// Clears the wait until the next packet is polled.
    #[inline]
    pub(super) fn clear(&mut self) {
        self.blocked = false;
    }

    /// Blocks all departures before `time`.
    pub(super) fn hold_until(&mut self, time: Nanos) {
        self.pacer.hold_until(time);
    }

    /// Whether a packet may leave now; otherwise sets the deadline. `waits` counts a waiting packet once,
    /// however often it is polled.
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

    /// Charges a departing packet of `bytes`.
    #[inline]
    pub(super) fn on_sent(&mut self, now: Nanos, bytes: Bytes, control: &Control, max_burst: Bytes) {
        if let Some(rate) = control.pacing_rate {
            self.pacer.on_sent(now, bytes, rate, control.burst.min(max_burst));
        }
    }
}
