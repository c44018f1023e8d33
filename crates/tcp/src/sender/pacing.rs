//! Bursts and pacing: when the next packet may leave, and how many leave back to back.

use narrows_cc::{BurstPacer, Bytes, Nanos, Pacer, Rate};

/// The pacer, the burst in progress, and whether the pacer currently blocks a packet.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pacing {
    pacer: Spacing,
    /// Departure time last counted as a wait.
    waited_for: Nanos,
    /// A packet waits for the pacer.
    blocked: bool,
}

/// Unit of pacing.
#[derive(Clone, Copy, Debug)]
enum Spacing {
    /// Every packet is paced, with credit for a burst after idle time.
    Packets(Pacer),
    /// Bursts of the size of a TSO packet are paced.
    Bursts(BurstPacer),
}

impl Pacing {
    pub(super) fn new(tso: bool) -> Self {
        let pacer = if tso { Spacing::Bursts(BurstPacer::default()) } else { Spacing::Packets(Pacer::default()) };
        Self { pacer, waited_for: Nanos::MAX, blocked: false }
    }

    /// Departure time of the next packet or burst.
    #[inline]
    pub(super) fn next(&self) -> Nanos {
        match &self.pacer {
            Spacing::Packets(pacer) => pacer.next(),
            Spacing::Bursts(pacer) => pacer.next(),
        }
    }

    /// Departure time of a pacing-blocked packet; [`Nanos::MAX`] if none.
    #[inline]
    pub(super) fn deadline(&self) -> Nanos {
        if self.blocked { self.next() } else { Nanos::MAX }
    }

    /// Clears the deadline until the next packet is polled.
    #[inline]
    pub(super) fn clear(&mut self) {
        self.blocked = false;
    }

    /// Blocks all departures before `time`.
    pub(super) fn hold_until(&mut self, time: Nanos) {
        match &mut self.pacer {
            Spacing::Packets(pacer) => pacer.hold_until(time),
            Spacing::Bursts(pacer) => pacer.hold_until(time),
        }
    }

    /// Whether a packet that leaves now continues the current burst.
    #[inline]
    pub(super) fn is_in_burst(&self, now: Nanos) -> bool {
        match &self.pacer {
            Spacing::Packets(_) => false,
            Spacing::Bursts(pacer) => pacer.is_in_burst(now),
        }
    }

    /// Whether a packet may leave now; otherwise sets the deadline. `waits` counts each waiting packet once, even if it
    /// is polled several times.
    #[inline]
    pub(super) fn is_due(&mut self, now: Nanos, waits: &mut u64) -> bool {
        let next = self.next();
        if now >= next || self.is_in_burst(now) {
            return true;
        }
        self.blocked = true;
        if self.waited_for != next {
            self.waited_for = next;
            *waits += 1;
        }
        false
    }

    /// Accounts for a departing packet of `bytes`, which is unpaced if `rate` is `None`. `burst` returns the number of
    /// bytes that may leave back to back; it is called only at the beginning of a burst. `catches_up`: see
    /// [`BurstPacer::begin`].
    #[inline]
    pub(super) fn on_sent(
        &mut self,
        now: Nanos,
        bytes: Bytes,
        rate: Option<Rate>,
        catches_up: bool,
        burst: impl FnOnce() -> Bytes,
    ) {
        match &mut self.pacer {
            Spacing::Packets(pacer) => {
                if let Some(rate) = rate {
                    pacer.on_sent(now, bytes, rate, burst());
                }
            }
            Spacing::Bursts(pacer) => {
                if !pacer.is_in_burst(now) {
                    pacer.begin(now, burst(), catches_up);
                }
                pacer.on_sent(bytes, rate);
            }
        }
    }
}
