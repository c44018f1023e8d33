//! The events of a port for the allocation: flow numbers, bytes and times, without packets. The simulator's hook
//! (`brf.rs`) reports every packet. A switch that counts packets elsewhere, such as in the kernel, reports sums.

use std::sync::Arc;

use narrows_cc::{Nanos, Rate};

use super::flow::{Class, Flow};
use super::{Brf, FIRST_LAYER, HANDSHAKE, OTHERS, PERIOD_MAX, PERIOD_MIN, RateCode, UDP, UDP_GONE, UNTRACKED_GONE};
use crate::{FiveTuple, Port};

impl Brf {
    /// Classes of ACKs of the other direction, of untracked flows, and of UDP.
    pub const OTHER_CLASSES: [u8; 3] = [FIRST_LAYER, OTHERS, UDP];

    /// Sets the minimum of Δt, for a switch that cannot count and decide every millisecond, and the minimum silence
    /// after which a flow has no share, for hosts whose threads are delayed.
    #[must_use]
    pub fn with_minima(mut self, period: Nanos, silence: Nanos) -> Self {
        self.period_min = period.clamp(PERIOD_MIN, PERIOD_MAX);
        self.silence_min = silence;
        self
    }

    /// Retires silent flows and removes expired flows. An allocation does so too, but without BRF flows there is no
    /// allocation.
    pub fn expire(&mut self, port: &mut Port<'_>) {
        self.sweep(port);
    }

    /// Sets the 5-tuple of a reused flow number. Flow numbers beyond those of the set-up have no 5-tuple.
    pub fn assign(&mut self, flow: u32, tuple: FiveTuple) {
        if let Some(own) = Arc::make_mut(&mut self.tuples).get_mut(flow as usize) {
            *own = tuple;
        }
    }

    /// A SYN opens a flow; `obeys` states whether it offers to obey. The SYN may be retransmitted or forged. Returns
    /// whether the flow has an entry.
    pub fn open_flow(&mut self, port: &mut Port<'_>, id: u32, obeys: bool) -> bool {
        let now = port.now;
        let class = if obeys { Class::Brf } else { Class::Other };
        if let Some(known) = self.table.get(now, id) {
            if !known.closed {
                // Retransmitted or forged SYN: an established flow stays unchanged. Of several SYNs, the sender's
                // answer is assumed to belong to the last.
                if !known.established {
                    known.opened = now;
                }
                return true;
            }
            self.forget(port, id);
        }
        if self.table.len() == self.size && now - self.swept_at >= HANDSHAKE {
            self.sweep(port);
        }
        if self.table.len() == self.size || self.half_open.iter().sum::<usize>() >= (self.size / 2).max(1) {
            self.counts.refused += 1;
            return false;
        }
        let inserted = self.table.insert(now, id, Flow::new(now, class)).is_some();
        self.half_open[class as usize] += usize::from(inserted);
        inserted
    }

    /// The sender has ended its flow. The entry stays for retransmissions.
    pub fn end_flow(&mut self, port: &mut Port<'_>, id: u32) {
        if let Some(mut flow) = self.table.remove(id) {
            self.half_open[flow.class as usize] -= usize::from(!flow.established);
            self.retire(port, id, &mut flow);
            // Retransmissions after the FIN still belong to the flow's class.
            (flow.closed, flow.established) = (true, true);
            self.table.insert(port.now, id, flow);
        }
    }

    /// Removes a flow that has ended in both directions or whose number is reused.
    pub fn remove_flow(&mut self, port: &mut Port<'_>, id: u32) {
        self.forget(port, id);
    }

    /// Whether a flow has an entry. An ended flow keeps its entry for a while.
    pub fn is_tracked(&mut self, id: u32) -> bool {
        self.table.peek_mut(id).is_some()
    }

    /// The sender of a flow has answered, `rtt` after its SYN. Only the first answer counts.
    pub fn answer(&mut self, port: &mut Port<'_>, id: u32, rtt: Nanos) {
        if self.table.get(port.now, id).is_some_and(|flow| !flow.established) {
            self.establish(port, id, rtt);
        }
    }

    /// Bytes of a flow arrive for the queue, with at most one opening packet among them. Returns the class of the
    /// bytes, or `None` if the flow has no entry.
    pub fn add_bytes(&mut self, port: &mut Port<'_>, id: u32, bytes: u64, opens: bool) -> Option<u8> {
        let now = port.now;
        let flow = self.table.get(now, id)?;
        if !opens {
            if !flow.established {
                let rtt = now - flow.opened;
                self.establish(port, id, rtt);
            } else if !flow.active {
                self.activate(port, id);
            }
        }
        let flow = self.table.get(now, id)?;
        flow.seen = now;
        if flow.unanswered <= flow.returned {
            flow.unanswered = now;
        }
        flow.sent += bytes;
        flow.arrived += bytes;
        Some(flow.queue())
    }

    /// UDP arrives for the queue. Returns its class.
    pub fn add_udp(&mut self, port: &mut Port<'_>) -> u8 {
        let now = port.now;
        let known = self.udp_seen.replace(now).is_some_and(|seen| now - seen < UDP_GONE);
        if !known {
            self.divide_classes(port, 0);
        }
        UDP
    }

    /// Packets of untracked flows arrive for the queue. Returns the class of these packets.
    pub fn add_untracked(&mut self, port: &mut Port<'_>) -> u8 {
        let now = port.now;
        let again = self.untracked_seen.replace(now).is_some_and(|seen| now - seen < UNTRACKED_GONE);
        // A single packet may be a late retransmission.
        if again && !self.untracked {
            self.untracked = true;
            self.divide_classes(port, 0);
        }
        OTHERS
    }

    /// Bytes of ACKs of flows in the other direction arrive for the queue. Returns the class of these ACKs.
    pub fn add_acks(&mut self, bytes: u64) -> u8 {
        self.acks += bytes;
        FIRST_LAYER
    }

    /// The class of a flow's packets.
    pub fn class_of(&mut self, id: u32) -> Option<u8> {
        self.table.peek_mut(id).map(|flow| flow.queue())
    }

    /// The first share of a flow whose sender has not answered yet, for its SYN-ACK.
    pub fn offer(&mut self, port: &mut Port<'_>, id: u32) -> Rate {
        let prediction = self.predict(id);
        let waiting = self.waiting().saturating_sub(1);
        if self.reserved < self.credible_half_open() {
            let (base, predicted) = self.admit(port, prediction, waiting);
            self.reserved += 1;
            if let Some(flow) = self.table.get(port.now, id) {
                flow.join(port.now, base, predicted);
                flow.advise(self.shares.rate(base));
            }
            return self.shares.advice(base);
        }
        // Too many half-open flows: return the share now, but allocate it only when the sender answers.
        self.divide_classes(port, 0);
        let initial = self.shares.initial(prediction, waiting);
        Rate::from_bytes_per_sec((initial as u64).max(1))
    }

    /// The share that the next flow would get without a prediction, for a SYN-ACK that arrives before the flow's share
    /// is computed.
    pub fn next_offer(&self) -> Rate {
        let brf = self.shares.count() + 1;
        let others = self.others + usize::from(self.untracked);
        let rest = self.capacity - self.acks_rate - self.classes.udp;
        Rate::from_bytes_per_sec(((rest / (brf + others) as f64) as u64).max(1))
    }

    /// The share of a flow; `None` while it has none.
    pub fn share(&mut self, id: u32) -> Option<Rate> {
        let flow = self.table.peek_mut(id).filter(|flow| flow.active && flow.class == Class::Brf)?;
        Some(self.shares.advice(flow.base))
    }

    /// Records that an ACK has carried this share to the sender.
    pub fn note_written(&mut self, id: u32, share: Rate) {
        let active = |flow: &&mut Flow| flow.active && flow.class == Class::Brf;
        if let Some(flow) = self.table.peek_mut(id).filter(active) {
            flow.advise(share.as_bytes_per_sec() as f64);
            self.counts.written += 1;
        }
    }

    /// Records that an ACK of a flow has passed without a decision on the flow's share.
    pub fn note_returned(&mut self, now: Nanos, id: u32) {
        if let Some(flow) = self.table.peek_mut(id) {
            flow.returned = now;
        }
    }

    /// Handles an ACK of a flow, with the rate that the ACK carries. Returns the share to write into the ACK, if a
    /// share is due.
    pub(super) fn on_ack(
        &mut self,
        port: &mut Port<'_>,
        id: u32,
        (opens, closes): (bool, bool),
        carried: Option<RateCode>,
    ) -> Option<Rate> {
        let now = port.now;
        let flow = self.table.get(now, id)?;
        flow.returned = now;
        if flow.closed {
            if closes {
                self.forget(port, id);
            }
            return None;
        }
        if flow.class != Class::Brf {
            return None;
        }
        if !flow.active {
            // A silent flow has no share until it sends again; a new flow gets its share with the SYN-ACK.
            let offered = !flow.established && opens;
            self.counts.written += u64::from(offered);
            return offered.then(|| self.offer(port, id));
        }
        if let Some(code) = carried {
            flow.other_share = Some((code.decode().as_bytes_per_sec() as f64, now));
        }
        let share = self.shares.rate(flow.base);
        // If the sender follows a lower share of another switch, a share written now would replace that lower share.
        let led = flow.other_share.is_some_and(|(least, seen)| now - seen < flow.rtt * 2 && least <= share);
        let urgent = self.urgent && !led && flow.has_fallen_to(share);
        if carried.is_none() && !urgent && now < flow.write_at {
            return None;
        }
        // Another switch that already writes into the ACKs sets the pace. This switch takes over after two round trips
        // in which ACKs carry no rate.
        flow.write_at = now.saturating_add(if carried.is_some() { flow.rtt * 2 } else { flow.rtt });
        flow.advise(share);
        self.counts.written += 1;
        Some(self.shares.advice(flow.base))
    }
}

#[cfg(test)]
mod tests;
