//! Writes shares into ACKs on their way back (equation 7): the port's own shares, and those announced by
//! other switches.

use narrows_cc::{Nanos, Rate};

use super::flow::Class;
use super::{Brf, RateCode};
use crate::{Port, RateHeader, RouterFrame};

/// A share that another switch announced.
#[derive(Clone, Copy, Debug)]
pub(super) struct RemoteReservation {
    code: u16,
    /// It has not been written yet.
    unwritten: bool,
}

/// Time that a flow may send without an ACK before its ACKs are assumed to take another path.
pub(super) fn ack_timeout(rtt: Nanos) -> Nanos {
    (rtt * 3).max(Nanos::from_millis(100))
}

/// Writes a rate unless the packet carries a lower one (equation 7).
fn write<F: RouterFrame>(packet: &mut F, rate: Rate) {
    let lower = match packet.rate_header() {
        RateHeader::None => true,
        RateHeader::BrfRate { code } => RateCode(code).decode() > rate,
        // The header of another protocol.
        _ => false,
    };
    if lower {
        packet.set_rate_header(RateHeader::BrfRate { code: RateCode::encode(rate).0 });
    }
}

impl Brf {
    /// Handles an ACK: writes its flow's share if due.
    pub(super) fn write_own<F: RouterFrame>(&mut self, port: &mut Port<'_>, packet: &mut F) {
        let (now, id) = (port.now, packet.flow());
        let Some(flow) = self.table.get(now, id) else { return };
        flow.returned = now;
        if flow.closed {
            if packet.closes() {
                self.forget(port, id);
            }
            return;
        }
        if flow.class != Class::Brf {
            return;
        }
        if !flow.active {
            // A silent flow has no share until it sends again; a new one gets it with the SYN-ACK.
            if !flow.established && packet.opens() {
                self.offer(port, packet);
            }
            return;
        }
        let carried = match packet.rate_header() {
            RateHeader::BrfRate { code } => {
                flow.other_share = Some((RateCode(code).decode().as_bytes_per_sec() as f64, now));
                true
            }
            _ => false,
        };
        let share = self.shares.rate(flow.base);
        // The sender follows a lower share of another switch, which ours would replace.
        let led = flow.other_share.is_some_and(|(least, seen)| now - seen < flow.rtt * 2 && least <= share);
        let urgent = self.urgent && !led && flow.has_fallen_to(share);
        if !carried && !urgent && now < flow.write_at {
            return;
        }
        // A switch that already writes into the ACKs sets the pace. This one takes over after two round trips
        // without a rate.
        flow.write_at = now.saturating_add(if carried { flow.rtt * 2 } else { flow.rtt });
        flow.advise(share);
        write(packet, self.shares.advice(flow.base));
        self.counts.written += 1;
    }

    /// Writes the first share of a flow into its SYN-ACK.
    fn offer<F: RouterFrame>(&mut self, port: &mut Port<'_>, packet: &mut F) {
        let prediction = self.predict(packet.flow());
        let waiting = self.waiting().saturating_sub(1);
        if self.reserved < self.credible_half_open() {
            let (base, predicted) = self.admit(port, prediction, waiting);
            self.reserved += 1;
            if let Some(flow) = self.table.get(port.now, packet.flow()) {
                flow.join(port.now, base, predicted);
                flow.advise(self.shares.rate(base));
            }
            write(packet, self.shares.advice(base));
        } else {
            // Too many half-open flows: announce the share now and allocate it when the sender answers.
            self.divide_classes(port, 0);
            let initial = self.shares.initial(prediction, waiting);
            write(packet, Rate::from_bytes_per_sec((initial as u64).max(1)));
        }
        self.counts.written += 1;
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
        if rate.is_zero()
            || self.reservations.insert(now, flow, RemoteReservation { code, unwritten: true }).is_none()
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
