//! Notifications of a port to its flows: the lists of Algorithms 1 and 2, the distribution of free bandwidth,
//! the deduction of other traffic, and the repetition of ineffective notifications.

use narrows_cc::Nanos;

use super::allocation::{self, Adjust, Allocation, Load, MANY, Part};
use super::message::{Adjustment, Id, Message};
use super::{Nodectl, Port, SHORTEST_INTERVAL, notify, rate};

/// Number of repetitions of an increase.
const REPEATS: u8 = 3;
/// Reciprocal of the smallest relative increase worth a message.
const MIN_STEP: u64 = 1_000;
/// A flow disobeys if more arrives in a control interval than its rate times this factor, plus two packets.
const EXCESS: f64 = 1.05;
const EXCESS_BYTES: u64 = 2 * 1_500;

/// Reverse traffic: weight of one control interval in the decrease of the measured rate, margin on that rate, and
/// maximum deduction as a fraction of the capacity.
const REVERSE_DECAY: f64 = 1.0 / 256.0;
const REVERSE_MARGIN: f64 = 1.1;
const REVERSE_MAX: f64 = 0.5;
/// Weight of a control interval in the mean rate of handshakes and messages of this direction.
const CONTROL_GAIN: f64 = 1.0 / 1024.0;
/// Maximum number of increases suggested at a time, because their requests arrive together.
const MAX_INCREASES: u64 = 32;
/// With at least [`MANY`] transmissions, of which one started within this time, small amounts of free bandwidth stay
/// reserved for newcomers.
const CALM: Nanos = Nanos::from_secs(1);
/// A flow without notification for this time receives its rate again, as a sign of life from the node.
const KEEPALIVE: Nanos = Nanos::from_millis(2_500);

/// Sends an adjustment with a rate to the sender of a flow.
fn send_rate(port: &mut Port<'_>, to_sender: (u32, u8), kind: Adjustment, id: Id, speed: u64) {
    notify(port, to_sender, &Message::Adjustment { kind, id, speed: rate(speed) });
}

impl Nodectl {
    /// Allocates to a requesting flow. Returns the total rate of the flow's transmission, the flow's rate, and the
    /// adjustment of the other transmissions.
    pub(super) fn allocate(
        &mut self,
        now: Nanos,
        flow: u32,
        own: u32,
        requested: u64,
        rtt: Nanos,
    ) -> (u64, u64, Adjust) {
        let expected = (self.arrivals.rate(now) * self.alpha * rtt.as_secs_f64()).max(1.0);
        let load = self.table.load(Some(own));
        self.table.subflows(own, &mut self.flows);
        if self.flows.len() == 1 {
            let allocation = self.algorithm_1(&load, expected, requested);
            return (allocation.rate, allocation.rate, allocation.adjust);
        }
        let mut demand = 0u64;
        self.parts.clear();
        for &subflow in &self.flows {
            let Some(record) = self.table.records.peek_mut(subflow) else { continue };
            let most = if subflow == flow || record.is_bottleneck() { u64::MAX } else { record.rate() };
            demand = demand.saturating_add(if subflow == flow { requested } else { most });
            self.parts.push(Part { weight: record.weight, most, rate: 0 });
        }
        let allocation = self.algorithm_1(&load, expected, demand);
        let whole = allocation.rate.min(demand);
        allocation::split(whole, &mut self.parts);
        let at = self.flows.iter().position(|&subflow| subflow == flow).unwrap_or(0);
        (whole, self.parts[at].rate, allocation.adjust)
    }

    fn algorithm_1(&self, load: &Load, expected: f64, requested: u64) -> Allocation {
        if self.literal {
            allocation::allocate_as_printed(load, expected, self.beta)
        } else {
            allocation::allocate(load, expected, self.beta, requested)
        }
    }

    /// Adjusts all transmissions in the lists of Algorithm 1 except `but`. Skips transmissions within `slack` of the
    /// new rate, and suggests at most `raised` increases.
    pub(super) fn adjust(
        &mut self,
        port: &mut Port<'_>,
        adjust: Adjust,
        but: Option<u32>,
        (slack, mut raised): (u64, u64),
    ) {
        let level = match adjust {
            Adjust::None => return,
            Adjust::Above(level) | Adjust::Controlled(level) | Adjust::Below(level) => level,
        };
        let mut places = std::mem::take(&mut self.places);
        places.clear();
        places.extend(self.table.transmissions().filter_map(|(at, transmission)| {
            let concerned = match adjust {
                Adjust::Above(_) => transmission.rate > level,
                Adjust::Below(_) => transmission.is_controlled() && transmission.rate < level,
                Adjust::Controlled(_) | Adjust::None => transmission.is_controlled(),
            };
            let concerned = concerned && transmission.rate.abs_diff(level) > slack && Some(at) != but;
            let below = transmission.rate < level;
            if concerned && below && raised == 0 {
                return None;
            }
            raised -= u64::from(concerned && below);
            concerned.then_some(at)
        }));
        for &at in &places {
            self.divide(port, at, level, None);
        }
        self.places = places;
    }

    /// Algorithm 2: divides the rate of a transmission among its subflows and notifies them, except
    /// `settled`, which already has its part.
    pub(super) fn divide(&mut self, port: &mut Port<'_>, at: u32, whole: u64, settled: Option<u32>) {
        self.table.subflows(at, &mut self.flows);
        if settled.is_some() && self.flows.len() == 1 {
            return;
        }
        self.parts.clear();
        for &flow in &self.flows {
            let Some(record) = self.table.records.peek_mut(flow) else { continue };
            let open = record.is_bottleneck() && Some(flow) != settled;
            let most = if open { u64::MAX } else { record.rate() };
            self.parts.push(Part { weight: record.weight, most, rate: 0 });
        }
        allocation::split(whole, &mut self.parts);
        for n in 0..self.parts.len() {
            let (flow, rate) = (self.flows[n], self.parts[n].rate.max(1));
            if Some(flow) != settled {
                self.move_to(port, flow, rate);
            }
        }
    }

    /// Notifies a flow to reduce to a rate, or suggests an increase if this port is its bottleneck.
    fn move_to(&mut self, port: &mut Port<'_>, flow: u32, to: u64) {
        let Some(record) = self.table.records.peek_mut(flow) else { return };
        let (has, id, to_sender) = (record.rate(), record.id, (flow, record.path));
        if has > to {
            record.allocated = record.allocated.min(to);
            record.before = record.before.map(|(before, here)| (before.min(to), here));
            if record.suggested > 0 {
                record.withdrawn = std::mem::take(&mut record.suggested);
            }
            record.notified_at = port.now;
            self.table.set(flow, to, true);
            self.counts.reduces += 1;
            send_rate(port, to_sender, Adjustment::Reduce, id, to);
        } else if record.is_bottleneck()
            // Between request and answer the bottleneck is unknown. A flow has one suggestion at a time; the port
            // suggests the rest in a later control interval.
            && record.before.is_none()
            && record.suggested == 0
            && to - has > has / MIN_STEP
        {
            record.suggested = to;
            record.repeats = 0;
            record.notified_at = port.now;
            self.counts.increases += 1;
            send_rate(port, to_sender, Adjustment::Increase, id, to);
        }
    }

    /// Distributes free bandwidth to the transmissions bottlenecked here, so that their rates become equal.
    pub(super) fn distribute_free(&mut self, port: &mut Port<'_>) {
        let expected = self.arrivals.rate(port.now) * self.alpha * self.rtt.as_secs_f64() - 1.0;
        let load = self.table.load(None);
        if let Some(level) = allocation::level(&load, expected) {
            if self.literal {
                return self.adjust(port, Adjust::Below(level), None, (level / MIN_STEP, u64::MAX));
            }
            let busy = load.served >= MANY && port.now < self.joined_at.saturating_add(CALM);
            let slack = if busy { 2 * level / MANY } else { level / MIN_STEP };
            self.adjust(port, Adjust::Controlled(level), None, (slack, MAX_INCREASES));
        }
    }

    /// Deducts traffic that is not negotiated from the port's bandwidth. The rate of reverse-direction ACKs and
    /// messages follows an increase immediately and a decrease slowly; the rate of this direction's handshakes and
    /// messages is a moving average. If the reservations then exceed the bandwidth by more than a thousandth, the
    /// largest are reduced first.
    pub(super) fn deduct_other_traffic(&mut self, port: &mut Port<'_>) {
        let span = (port.now - self.interval_start).as_secs_f64();
        let measured = std::mem::take(&mut self.reverse_bytes) as f64 / span;
        if measured > self.reverse_rate {
            self.reverse_rate = measured;
        } else {
            self.reverse_rate -= (self.reverse_rate - measured) * REVERSE_DECAY;
        }
        let messages = std::mem::take(&mut self.control_bytes) as f64 / span;
        self.control_rate += (messages - self.control_rate) * CONTROL_GAIN;
        let needed = self.reverse_rate * REVERSE_MARGIN + self.control_rate;
        // As printed, Bz is the full bandwidth of the port.
        let needed = if self.literal { 0 } else { needed.min(self.capacity as f64 * REVERSE_MAX) as u64 };
        let total = self.capacity - needed;
        self.table.set_total(total);
        if self.table.given() <= total + total / MIN_STEP {
            return;
        }
        let mut places = std::mem::take(&mut self.places);
        places.clear();
        places.extend(self.table.transmissions().map(|(at, _)| at));
        let mut parts: Vec<Part> = self
            .table
            .transmissions()
            .map(|(_, transmission)| Part { weight: 1, most: transmission.rate, rate: 0 })
            .collect();
        allocation::split(self.table.total(), &mut parts);
        for (&at, part) in places.iter().zip(&parts) {
            if part.rate < part.most {
                self.divide(port, at, part.rate, None);
            }
        }
        self.places = places;
    }

    /// Repeats ineffective notifications, and sends a keepalive to each flow without a recent notification.
    pub(super) fn repeat_notices(&mut self, port: &mut Port<'_>) {
        let span = (port.now - self.interval_start).as_secs_f64();
        let mut longest = Nanos::ZERO;
        self.flows.clear();
        for (flow, record) in self.table.records.iter_mut() {
            longest = longest.max(record.rtt);
            let arrived = std::mem::take(&mut record.arrived);
            let allowed = (record.rate() as f64 * EXCESS * span) as u64 + EXCESS_BYTES;
            let reaction = record.rtt.max(SHORTEST_INTERVAL) * 2;
            let informed = self.interval_start >= record.notified_at.saturating_add(reaction);
            let (id, to_sender) = (record.id, (flow, record.path));
            if arrived > allowed && informed && record.before.is_none() && record.rate() > 0 {
                record.notified_at = port.now;
                self.counts.disobeyed += 1;
                send_rate(port, to_sender, Adjustment::Reduce, id, record.rate());
            } else if record.suggested > 0
                && port.now >= record.notified_at.saturating_add(reaction * (1 << record.repeats))
            {
                if record.repeats < REPEATS {
                    record.repeats += 1;
                    record.notified_at = port.now;
                    send_rate(port, to_sender, Adjustment::Increase, id, record.suggested);
                } else {
                    record.suggested = 0;
                    self.flows.push(flow);
                }
            } else if port.now >= record.notified_at.saturating_add(KEEPALIVE) && record.before.is_none() {
                record.notified_at = port.now;
                send_rate(port, to_sender, Adjustment::Reduce, id, record.rate().max(1));
            }
        }
        self.rtt = longest;
        for n in 0..self.flows.len() {
            let flow = self.flows[n];
            if let Some(has) = self.table.records.peek_mut(flow).map(|record| record.rate()) {
                self.table.set(flow, has, false);
            }
        }
    }
}
