//! Explicit congestion notification (RFC 3168) on data packets.

use narrows_cc::Bytes;
use narrows_packet::{Ecn, Flags, Packet};

/// Negotiated state, and the pending CWR flag.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct EcnState {
    pub(super) negotiated: bool,
    /// Whether the next packet with new data carries CWR.
    cwr: bool,
}

impl EcnState {
    /// Whether this acknowledgement reports a mark.
    #[inline]
    pub(super) fn is_marked(&self, packet: &Packet) -> bool {
        self.negotiated && packet.flags.has(Flags::ECE)
    }

    /// Delivered bytes that count as marked.
    #[inline]
    pub(super) fn marked(&self, packet: &Packet, delivered: Bytes) -> Bytes {
        if self.is_marked(packet) { delivered } else { Bytes::ZERO }
    }

    /// Schedules CWR after a window reduction.
    pub(super) fn on_reduction(&mut self) {
        self.cwr = self.negotiated;
    }

    /// Sets ECT(1) or ECT(0), and a pending CWR, on a packet with new data.
    #[inline]
    pub(super) fn label(&mut self, packet: &mut Packet, ect1: bool) {
        if !self.negotiated {
            return;
        }
        packet.set_ecn(if ect1 { Ecn::Ect1 } else { Ecn::Ect0 });
        if self.cwr {
            self.cwr = false;
            packet.flags = packet.flags.with(Flags::CWR);
        }
    }
}
