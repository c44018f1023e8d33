//! Writes shares into ACKs on their way back (equation 7): the shares of this port, and the shares announced by other
//! switches.

use narrows_cc::{Nanos, Rate};

use super::{Brf, RateCode};
use crate::{Port, RateHeader, RouterFrame};

/// A share that another switch announced.
#[derive(Clone, Copy, Debug)]
pub(super) struct RemoteReservation {
    code: u16,
    /// Whether the share is still to be written into an ACK.
    unwritten: bool,
}

/// Time that a flow may send without an ACK before its ACKs are assumed to take another path.
pub(super) fn ack_timeout(rtt: Nanos) -> Nanos {
    (rtt * 3).max(Nanos::from_millis(100))
}

/// Writes a rate unless the packet carries a lower rate (equation 7).
fn write<F: RouterFrame>(packet: &mut F, rate: Rate) {
    let lower = match packet.rate_header() {
        RateHeader::None => true,
        RateHeader::BrfRate { code } => RateCode(code).decode() > rate,
        // The header belongs to another protocol.
        _ => false,
    };
    if lower {
        packet.set_rate_header(RateHeader::BrfRate { code: RateCode::encode(rate).0 });
    }
}

impl Brf {
    /// Handles an ACK: writes the share of the ACK's flow if the share is due.
    pub(super) fn write_own<F: RouterFrame>(&mut self, port: &mut Port<'_>, packet: &mut F) {
        let carried = match packet.rate_header() {
            RateHeader::BrfRate { code } => Some(RateCode(code)),
            _ => None,
        };
        let marks = (packet.opens(), packet.closes());
        if let Some(share) = self.on_ack(port, packet.flow(), marks, carried) {
            write(packet, share);
        }
    }

    /// Records a share announced by another switch. That switch is on the flow's path if the flow crosses
    /// this port.
    pub(super) fn note_reservation(&mut self, now: Nanos, flow: u32, code: u16) {
        // A share of zero is invalid.
        let rate = RateCode(code).decode();
        if let (false, Some(own)) = (rate.is_zero(), self.table.peek_mut(flow)) {
            own.remote = Some((RateCode(code), now));
            own.other_share = Some((rate.as_bytes_per_sec() as f64, now));
        }
        if rate.is_zero() || self.reservations.insert(now, flow, RemoteReservation { code, unwritten: true }).is_none()
        {
            self.counts.refused += 1;
        }
    }

    /// Writes a share announced by another switch into the next ACK of its flow.
    pub(super) fn write_remote<F: RouterFrame>(&mut self, now: Nanos, packet: &mut F) {
        if self.reservations.is_empty() || !packet.is_reverse() || packet.is_message() {
            return;
        }
        let Some(reservation) = self.reservations.get(now, packet.flow()) else { return };
        if std::mem::take(&mut reservation.unwritten) {
            write(packet, RateCode(reservation.code).decode());
            self.counts.written += 1;
        }
        if packet.closes() {
            self.reservations.remove(packet.flow());
        }
    }
}
