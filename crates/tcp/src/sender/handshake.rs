//! The handshake, and the timestamp to echo.

use narrows_cc::Nanos;

/// State of the handshake, and the receiver's newest timestamp.
#[derive(Clone, Copy, Debug)]
pub(super) struct Handshake {
    syns: u32,
    /// Newest timestamp of the receiver, echoed in packets.
    pub(super) peer_timestamp: u32,
    syn_sent_at: Nanos,
}

impl Handshake {
    pub(super) fn new(start: Nanos) -> Self {
        Self { syns: 0, peer_timestamp: 0, syn_sent_at: start }
    }

    /// Records a SYN; returns whether it is the first.
    pub(super) fn on_syn(&mut self, now: Nanos) -> bool {
        self.syns += 1;
        self.syn_sent_at = now;
        self.syns == 1
    }

    /// Round-trip time of the handshake, unless the SYN was repeated: the answer is then ambiguous (Karn).
    pub(super) fn rtt(&self, now: Nanos) -> Option<Nanos> {
        (self.syns == 1).then(|| now - self.syn_sent_at)
    }
}
