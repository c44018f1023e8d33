//! Statistics of links and of queue classes.

use std::ops::{Deref, DerefMut};

use narrows_units::Histogram;

/// Counters of one link. Packets queued or in transmission have arrived but not departed.
#[derive(Clone, Debug, Default)]
pub struct LinkStats {
    /// Packets offered to the link.
    pub arrived_packets: u64,
    /// Bytes of the packets offered to the link.
    pub arrived_bytes: u64,
    /// Packets whose transmission ended without loss.
    pub departed_packets: u64,
    /// Bytes of the departed packets.
    pub departed_bytes: u64,
    /// Packets dropped because the queue was full, on their arrival or later.
    pub dropped_queue: u64,
    /// Packets lost at random. A packet lost at egress has used the link.
    pub dropped_loss: u64,
    /// Packets dropped by the policer, or by a policed class.
    pub dropped_policer: u64,
    /// Packets dropped by active queue management before the queue was full.
    pub dropped_aqm: u64,
    /// Packets addressed to the node itself, consumed by the hook.
    pub consumed: u64,
    /// Packets marked instead of dropped.
    pub marked: u64,
    /// Sum of queue delays up to the start of the transmission, in nanoseconds.
    pub queue_delay_sum_ns: u128,
    /// Distribution of the queue delays, in nanoseconds.
    pub queue_delay: Histogram,
}

/// Counters of one class and its descendants since the start of the statistics.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ClassStats {
    /// Name of the class.
    pub name: String,
    /// Packets whose transmission began.
    pub sent_packets: u64,
    /// Bytes of the sent packets.
    pub sent_bytes: u64,
    /// Packets dropped because the queue was full or the tokens of the class did not cover the packet.
    pub dropped: u64,
    /// Packets in the queue now.
    pub waiting_packets: u64,
    /// Time average of the packets in the queue.
    pub queue_mean: f64,
    /// Sum of queue delays up to the start of the transmission, in nanoseconds.
    pub queue_delay_sum_ns: u128,
}

impl LinkStats {
    /// Number of packets dropped or lost, for any reason.
    pub const fn dropped(&self) -> u64 {
        self.dropped_queue + self.dropped_loss + self.dropped_policer + self.dropped_aqm
    }

    #[inline]
    pub(crate) fn waited(&mut self, nanos: u64) {
        self.queue_delay_sum_ns += u128::from(nanos);
        self.queue_delay.record(nanos);
    }

    /// Counts a completed transmission.
    #[inline]
    pub(crate) const fn left(&mut self, bytes: u64, lost: bool) {
        if lost {
            self.dropped_loss += 1;
        } else {
            self.departed_packets += 1;
            self.departed_bytes += bytes;
        }
    }

    pub(crate) fn clear(&mut self) {
        let mut queue_delay = std::mem::take(&mut self.queue_delay);
        queue_delay.clear();
        *self = Self { queue_delay, ..Self::default() };
    }
}

/// Counters of a link, and the frames dropped after acceptance, which stay in the tally until the link's owner collects
/// them.
#[derive(Clone, Debug)]
pub(crate) struct Tally<F> {
    stats: LinkStats,
    pub(crate) evicted: Vec<F>,
}

impl<F> Default for Tally<F> {
    fn default() -> Self {
        Self { stats: LinkStats::default(), evicted: Vec::new() }
    }
}

impl<F> Tally<F> {
    #[inline]
    pub(crate) const fn stats(&self) -> &LinkStats {
        &self.stats
    }
}

impl<F> Deref for Tally<F> {
    type Target = LinkStats;

    #[inline]
    fn deref(&self) -> &LinkStats {
        &self.stats
    }
}

impl<F> DerefMut for Tally<F> {
    #[inline]
    fn deref_mut(&mut self) -> &mut LinkStats {
        &mut self.stats
    }
}
