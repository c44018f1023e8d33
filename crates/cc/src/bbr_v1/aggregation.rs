//! How much more than expected is acknowledged at once (Linux `tcp_bbr.c`, ack aggregation).
//!
//! Where a link or receiver collects acknowledgements, a window of gain x BDP runs dry between two bunches.
//! The excess over bandwidth x time is measured in epochs, and its maximum over 5 to 10 round trips is added
//! to the window.

use crate::{Bytes, Nanos, Rate};

/// Round trips per slot; two slots make the window of the maximum.
const SLOT_ROUNDS: u32 = 5;
/// An epoch ends when it has seen this many segments.
pub(super) const EPOCH_SEGMENTS: u64 = 1 << 20;
/// The excess is used up to what the bandwidth carries in this time.
pub(super) const CAP: Nanos = Nanos::from_millis(100);

/// A stretch of time in which more is acknowledged than the bandwidth carries.
#[derive(Clone, Copy, Debug, Default)]
pub struct Epoch {
    since: Nanos,
    acked: Bytes,
}

impl Epoch {
    /// A new epoch begins with nothing acknowledged.
    pub fn restart(&mut self, now: Nanos) {
        self.since = now;
        self.acked = Bytes::ZERO;
    }

    /// `acked` was acknowledged at `now` where the bandwidth is `bw`: returns how much more than expected that makes in
    /// this epoch. An epoch ends when no more than expected has come, or `limit` was acknowledged.
    #[inline]
    pub fn excess(&mut self, now: Nanos, acked: Bytes, bw: Rate, limit: Bytes) -> Bytes {
        let mut expected = bw.over(now - self.since);
        if self.acked <= expected || self.acked + acked >= limit {
            self.restart(now);
            expected = Bytes::ZERO;
        }
        self.acked += acked;
        self.acked - expected
    }
}

/// The estimator.
#[derive(Clone, Copy, Debug, Default)]
pub struct Aggregation {
    slots: [Bytes; 2],
    slot: usize,
    rounds: u32,
    epoch: Epoch,
}

impl Aggregation {
    /// The greatest excess of the last 5 to 10 round trips.
    #[inline]
    pub fn max(&self) -> Bytes {
        self.slots[0].max(self.slots[1])
    }

    /// A new epoch begins with nothing acknowledged.
    pub fn restart(&mut self, now: Nanos) {
        self.epoch.restart(now);
    }

    /// A round trip begins: the older slot may be due for replacement.
    #[inline]
    pub fn on_round(&mut self) {
        self.rounds += 1;
        if self.rounds >= SLOT_ROUNDS {
            self.rounds = 0;
            self.slot ^= 1;
            self.slots[self.slot] = Bytes::ZERO;
        }
    }

    /// `acked` was acknowledged at `now` where the bandwidth is `bw`; the excess counts up to `window`. An
    /// epoch in which `limit` was acknowledged is old and ends.
    #[inline]
    pub fn sample(&mut self, now: Nanos, acked: Bytes, bw: Rate, window: Bytes, limit: Bytes) {
        let extra = self.epoch.excess(now, acked, bw, limit).min(window);
        if extra > self.slots[self.slot] {
            self.slots[self.slot] = extra;
        }
    }
}
