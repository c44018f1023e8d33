//! Packet-timed round trips.

use crate::Bytes;

/// Counts round trips by deliveries: a round ends when a packet sent after its start is acknowledged.
#[derive(Clone, Copy, Debug, Default)]
pub struct RoundCounter {
    next: Bytes,
    count: u64,
}

impl RoundCounter {
    /// Feeds one acknowledgement: bytes delivered when its newest packet was sent, and bytes delivered now.
    /// Returns whether a new round begins.
    #[inline]
    pub fn on_ack(&mut self, delivered_at_send: Bytes, delivered: Bytes) -> bool {
        if delivered_at_send < self.next {
            return false;
        }
        self.restart(delivered);
        self.count += 1;
        true
    }

    /// Lets the current round begin now: it ends when data sent from here on is acknowledged.
    #[inline]
    pub fn restart(&mut self, delivered: Bytes) {
        self.next = delivered;
    }

    /// Rounds begun so far.
    pub fn count(&self) -> u64 {
        self.count
    }
}
