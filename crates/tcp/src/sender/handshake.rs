//! State of the handshake, and the timestamp to echo.

use narrows_cc::Nanos;
use narrows_packet::Packet;

use super::ack::timestamp_rtt;

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

    /// Round-trip time of the handshake. The answer to a retransmitted SYN is ambiguous (Karn) unless `by_timestamp` is
    /// set and the answer echoes a timestamp (Linux `tcp_ack_update_rtt`).
    pub(super) fn rtt(&self, now: Nanos, syn_ack: &Packet, by_timestamp: bool) -> Option<Nanos> {
        if self.syns == 1 {
            return Some(now - self.syn_sent_at);
        }
        let echo = syn_ack.tcp().ts_ecr;
        (by_timestamp && echo != 0).then(|| timestamp_rtt(now, echo))
    }
}
