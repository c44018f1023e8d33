//! ACK aggregation: the excess of acknowledged over expected data (Linux `tcp_bbr.c`).
//!
//! If a link or receiver bunches acknowledgements, a cwnd of gain x BDP is used up before the next bunch arrives. The
//! estimator measures, in epochs, by how much the acknowledged data exceeds bandwidth x time; the maximum excess of the
//! last 5 to 10 round trips is added to cwnd.

use crate::{Bytes, Nanos, Rate};

/// Round trips per slot; the maximum excess is taken over two slots.
const SLOT_ROUNDS: u32 = 5;
/// An epoch ends after this many acknowledged segments.
pub(super) const EPOCH_SEGMENTS: u64 = 1 << 20;
/// Cap on the excess: the data that the bandwidth carries in this time.
pub(super) const CAP: Nanos = Nanos::from_millis(100);

/// A period in which more data is acknowledged than the bandwidth carries.
#[derive(Clone, Copy, Debug, Default)]
pub struct Epoch {
    since: Nanos,
    acked: Bytes,
}

impl Epoch {
    /// Begins a new epoch with nothing acknowledged.
    pub fn restart(&mut self, now: Nanos) {
        self.since = now;
        self.acked = Bytes::ZERO;
    }

    /// Adds `acked` bytes at `now` and returns the excess of this epoch over the data expected at bandwidth
    /// `bw`. An epoch ends when there is no excess, or when `limit` bytes were acknowledged in it.
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
    /// The maximum excess of the last 5 to 10 round trips.
    #[inline]
    pub fn max(&self) -> Bytes {
        self.slots[0].max(self.slots[1])
    }

    /// Begins a new epoch with nothing acknowledged.
    pub fn restart(&mut self, now: Nanos) {
        self.epoch.restart(now);
    }

    /// A round trip begins: clears the older slot every 5 round trips.
    #[inline]
    pub fn on_round(&mut self) {
        self.rounds += 1;
        if self.rounds >= SLOT_ROUNDS {
            self.rounds = 0;
            self.slot ^= 1;
            self.slots[self.slot] = Bytes::ZERO;
        }
    }

    /// Adds `acked` bytes at `now`, at bandwidth `bw`. The excess is capped at `window`. An epoch ends once `limit`
    /// bytes were acknowledged in it.
    #[inline]
    pub fn sample(&mut self, now: Nanos, acked: Bytes, bw: Rate, window: Bytes, limit: Bytes) {
        let extra = self.epoch.excess(now, acked, bw, limit).min(window);
        if extra > self.slots[self.slot] {
            self.slots[self.slot] = extra;
        }
    }
}
