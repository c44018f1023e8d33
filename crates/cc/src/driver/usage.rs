//! Recent use of cwnd (Linux `tcp_cwnd_validate`).

use crate::Bytes;

/// Send position of the transport, in stream offsets or packet numbers, whichever it acknowledges.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SendPosition {
    /// All data or packets below this position are acknowledged.
    pub acknowledged: u64,
    /// The next position to be sent for the first time.
    pub next: u64,
}

/// Use of cwnd in the current round trip.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Usage {
    /// cwnd was full.
    pub(super) limited: bool,
    /// Maximum data outstanding since `until` was set.
    pub(super) most: Bytes,
    /// A new observation of cwnd's use begins when this position is acknowledged.
    until: u64,
}

impl Usage {
    #[inline]
    pub(super) fn note(&mut self, limited: bool, outstanding: Bytes, position: SendPosition) {
        if position.acknowledged >= self.until || limited || (!self.limited && outstanding > self.most) {
            *self = Self { limited, most: outstanding, until: position.next };
        }
    }
}
