//! Explicit congestion notification (RFC 3168): what data packets carry for it.

use narrows_cc::Bytes;
use narrows_packet::{Ecn, Flags, Packet};

/// The result of negotiation, and the flag that the next packet owes the receiver.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct EcnState {
    negotiated: bool,
    /// The next new data shall say that the window was reduced.
    cwr: bool,
}

impl EcnState {
    /// The handshake is complete.
    pub(super) fn open(&mut self, negotiated: bool) {
        self.negotiated = negotiated;
    }

    /// Whether this acknowledgement reports a mark.
    #[inline]
    pub(super) fn is_marked(&self, packet: &Packet) -> bool {
        self.negotiated && packet.flags.has(Flags::ECE)
    }

    /// How much of what an acknowledgement delivered counts as marked.
    #[inline]
    pub(super) fn marked(&self, packet: &Packet, delivered: Bytes) -> Bytes {
        if self.is_marked(packet) { delivered } else { Bytes::ZERO }
    }

    /// The window was reduced.
    pub(super) fn on_reduction(&mut self) {
        self.cwr = self.negotiated;
    }

    /// New data leaves, as ECT(1) or ECT(0).
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
