//! The handshake, and the timestamps that the two ends exchange from then on.

use narrows_cc::Nanos;

/// The SYNs sent, and the receiver's clock.
#[derive(Clone, Copy, Debug)]
pub(super) struct Handshake {
    syns: u32,
    /// The newest timestamp of the receiver, which packets echo.
    pub(super) peer_timestamp: u32,
    syn_sent_at: Nanos,
}

impl Handshake {
    pub(super) fn new(start: Nanos) -> Self {
        Self { syns: 0, peer_timestamp: 0, syn_sent_at: start }
    }

    /// A SYN leaves; whether it is the first.
    pub(super) fn on_syn(&mut self, now: Nanos) -> bool {
        self.syns += 1;
        self.syn_sent_at = now;
        self.syns == 1
    }

    /// The round-trip time of the handshake. Which of several SYNs is answered is not known (Karn).
    pub(super) fn rtt(&self, now: Nanos) -> Option<Nanos> {
        (self.syns == 1).then(|| now - self.syn_sent_at)
    }
}
