//! The common case: a drop-tail FIFO at constant rate. A packet's departure time is known on arrival, so the caller
//! keeps the packet, and the link stores only the end of each transmission.
//!
//! The processor's branch predictor cannot predict how many packets have departed since the last offer, so departures
//! are counted in batches, and before a drop.

use narrows_units::{Bytes, Nanos, Rate};

use super::transmitter::Transmitter;
use crate::Ring;
use crate::config::Limit;
use crate::loss::LossProcess;
use crate::stats::LinkStats;

/// An accepted packet that has not departed yet.
#[derive(Clone, Copy, Debug)]
struct Accepted {
    end: Nanos,
    size: u32,
    lost: bool,
}

/// Maximum number of departures that may remain uncounted.
const UNSETTLED: usize = 32;

#[derive(Clone, Debug)]
pub(crate) struct Fifo {
    transmitter: Transmitter,
    limit: Limit,
    /// Accepted packets in order of departure; the first packet is in transmission.
    entries: Ring<Accepted>,
    /// Total size of the entries.
    bytes: u64,
    /// Number of entries at which departures are counted next; see [`Fifo::offer`].
    settle_at: usize,
    /// End of the last scheduled transmission.
    free_at: Nanos,
    /// Total time without transmission since the start of the statistics, up to `free_at`.
    idle: Nanos,
    /// Sum of the waiting times that packets still had ahead of them at the last reset of the statistics, in
    /// nanoseconds.
    waits_at_reset: u128,
}

impl Fifo {
    pub(crate) fn new(rate: Rate, limit: Limit) -> Self {
        Self {
            transmitter: Transmitter::new(rate),
            limit,
            entries: Ring::new(),
            bytes: 0,
            settle_at: UNSETTLED,
            free_at: Nanos::ZERO,
            idle: Nanos::ZERO,
            waits_at_reset: 0,
        }
    }

    /// Counts departures up to `now`.
    pub(crate) fn settle(&mut self, now: Nanos, stats: &mut LinkStats) {
        while let Some(&Accepted { end, size, lost }) = self.entries.front()
            && end <= now
        {
            self.entries.pop_front();
            self.bytes -= u64::from(size);
            stats.left(u64::from(size), lost);
        }
        self.settle_at = self.entries.len() + UNSETTLED;
    }

    /// Returns the departure time of a packet that arrives now, and whether the packet is lost at its departure; `None`
    /// if the packet does not fit.
    ///
    /// Departures are counted in batches, and before a drop. The entries may include packets that have departed. A
    /// packet that fits despite these entries also fits without them, so accepting the packet needs no exact count.
    #[inline]
    pub(crate) fn offer(
        &mut self,
        now: Nanos,
        size: u64,
        egress_loss: &mut LossProcess,
        stats: &mut LinkStats,
    ) -> Option<(Nanos, bool)> {
        if self.entries.len() >= self.settle_at {
            self.settle(now, stats);
        }
        let start = if self.free_at <= now {
            self.idle += now - self.free_at;
            now
        } else {
            if !self.fits(now, size) {
                self.settle(now, stats);
                if !self.fits(now, size) {
                    return None;
                }
            }
            self.free_at
        };
        let end = self.transmitter.end(start, size);
        let lost = egress_loss.takes(end);
        self.free_at = end;
        self.bytes += size;
        self.entries.push_back(Accepted { end, size: size as u32, lost });
        stats.waited((start - now).as_nanos());
        Some((end, lost))
    }

    /// Whether the packet fits. Unless [`Fifo::settle`] has counted the departures up to now, only the result `true` is
    /// reliable.
    #[inline]
    fn fits(&self, now: Nanos, size: u64) -> bool {
        match self.limit {
            Limit::Packets(packets) => self.waiting_packets() < packets,
            Limit::Bytes(bytes) => self.waiting_bytes() + size <= bytes.as_u64(),
            Limit::Time(wait) => self.free_at - now <= wait,
        }
    }

    /// Number of packets behind the packet in transmission; valid after [`Fifo::settle`].
    #[inline]
    pub(crate) fn waiting_packets(&self) -> u64 {
        self.entries.len().saturating_sub(1) as u64
    }

    /// Bytes behind the packet in transmission; valid after [`Fifo::settle`].
    #[inline]
    pub(crate) fn waiting_bytes(&self) -> u64 {
        self.bytes - self.entries.front().map_or(0, |entry| u64::from(entry.size))
    }

    #[inline]
    pub(crate) fn queue_delay(&self, now: Nanos) -> Nanos {
        self.free_at - now
    }

    /// Sum of all waits since the start of the statistics, in nanoseconds.
    pub(crate) fn waited(&self, now: Nanos, stats: &LinkStats) -> u128 {
        // A packet's wait is counted in full on its arrival, including the part after `now`.
        stats.queue_delay_sum_ns + self.waits_at_reset - self.waits_to_come(now)
    }

    /// Sum of the waiting times that packets still have ahead of them at `now`, in nanoseconds.
    fn waits_to_come(&self, now: Nanos) -> u128 {
        let starts = self.entries.iter().map(|entry| entry.end);
        starts.take(self.entries.len().saturating_sub(1)).map(|start| u128::from((start - now).as_nanos())).sum()
    }

    /// Time without transmission since the start of the statistics.
    pub(crate) fn idle(&self, now: Nanos) -> Nanos {
        self.idle + (now - self.free_at)
    }

    /// Restarts the statistics at `now`; call [`Fifo::settle`] first.
    pub(crate) fn reset(&mut self, now: Nanos) {
        self.waits_at_reset = self.waits_to_come(now);
        self.idle = Nanos::ZERO;
        self.free_at = self.free_at.max(now);
    }

    pub(crate) const fn capacity_in(&self, interval: Nanos) -> Bytes {
        self.transmitter.rate().over(interval)
    }
}
