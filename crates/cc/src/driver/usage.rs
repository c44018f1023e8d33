//! How much of the window was used of late (Linux `tcp_cwnd_validate`).

use crate::Bytes;

/// Where the transport stands in what it sends: stream offsets or packet numbers, whichever it acknowledges
/// by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SendPosition {
    /// Everything below is acknowledged.
    pub acknowledged: u64,
    /// The next to be sent for the first time.
    pub next: u64,
}

/// The use of the window in the round trip that runs.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Usage {
    /// The window was full.
    pub(super) limited: bool,
    /// Most data in flight since `until` was set.
    pub(super) most: Bytes,
    /// The observation is renewed when this is acknowledged.
    until: u64,
}

impl Usage {
    #[inline]
    pub(super) fn note(&mut self, limited: bool, inflight: Bytes, position: SendPosition) {
        if position.acknowledged >= self.until || limited || (!self.limited && inflight > self.most) {
            *self = Self { limited, most: inflight, until: position.next };
        }
    }
}
