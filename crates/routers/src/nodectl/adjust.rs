//! What a port tells those it serves: the lists of Algorithms 1 and 2, what is free, what is needed for other things, and
//! what was told in vain.

use narrows_cc::Nanos;

use super::allocation::{self, Adjust, MANY, Part};
use super::message::{Adjustment, Message};
use super::{Nodectl, Port, SHORTEST_INTERVAL, notify, rate};

/// How often an increase is repeated.
const REPEATS: u8 = 3;
/// Increases are worth a message from this on: one part in so many.
const WORTH: u64 = 1_000;
/// A flow counts as disobedient if more arrives in a beat than its rate and this share of it, and two packets.
const EXCESS: f64 = 1.05;
const EXCESS_BYTES: u64 = 2 * 1_500;

/// How much of a fall of what returns counts per beat, the reserve for it, and the most that is set aside.
const RETURNS_FALL: f64 = 1.0 / 256.0;
const RETURNS_MARGIN: f64 = 1.1;
const RETURNS_MOST: f64 = 0.5;
/// How much of what handshakes and messages of this direction took in a beat counts.
const OVERHEAD_GAIN: f64 = 1.0 / 1024.0;
/// How many increases are suggested at a time when bandwidth is handed out: their requests come all at once.
const AT_ONCE: u64 = 32;
/// With [`MANY`] transmissions, and new ones within this time, little that is free is left for those to come.
const CALM: Nanos = Nanos::from_secs(1);
/// A flow that was told nothing for so long is told its rate again, so that its server knows that the node lives.
const ALIVE: Nanos = Nanos::from_millis(2_500);

impl Nodectl {
    /// What a flow that asks is given, and its transmission altogether, and what others must do for it.
    pub(super) fn allocate(
        &mut self,
        now: Nanos,
        flow: u32,
        own: u32,
        asked: u64,
        rtt: Nanos,
    ) -> (u64, u64, Adjust) {
        let expected = (self.arrivals.rate(now) * self.alpha * rtt.as_secs_f64()).max(1.0);
        let load = self.table.load(Some(own));
        self.table.subflows(own, &mut self.flows);
        if self.flows.len() == 1 {
            let allocation = allocation::allocate(&load, expected, self.beta, asked);
            return (allocation.rate, allocation.rate, allocation.adjust);
        }
        let mut wanted = 0u64;
        self.parts.clear();
        for &subflow in &self.flows {
            let Some(record) = self.table.records.peek_mut(subflow) else { continue };
            let most = if subflow == flow || record.is_bottleneck() { u64::MAX } else { record.rate() };
            wanted = wanted.saturating_add(if subflow == flow { asked } else { most });
            self.parts.push(Part { weight: record.weight, most, rate: 0 });
        }
        let allocation = allocation::allocate(&load, expected, self.beta, wanted);
        let whole = allocation.rate.min(wanted);
        allocation::split(whole, &mut self.parts);
        let at = self.flows.iter().position(|&subflow| subflow == flow).unwrap_or(0);
        (whole, self.parts[at].rate, allocation.adjust)
    }

    /// Carries out the lists of Algorithm 1 for all but one transmission; those that are within `slack` are let be, and no
    /// more than `raised` increases are suggested.
    pub(super) fn adjust(
        &mut self,
        port: &mut Port<'_>,
        adjust: Adjust,
        but: Option<u32>,
        (slack, mut raised): (u64, u64),
    ) {
        let level = match adjust {
            Adjust::Nobody => return,
            Adjust::Above(level) | Adjust::Controlled(level) => level,
        };
        let above_only = matches!(adjust, Adjust::Above(_));
        let mut places = std::mem::take(&mut self.places);
        places.clear();
        places.extend(self.table.transmissions().filter_map(|(at, transmission)| {
            let concerned = if above_only { transmission.rate > level } else { transmission.is_controlled() };
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

    /// Algorithm 2: divides what a transmission has among its subflows and tells them; `settled` has its part already.
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

    /// Tells a flow to reduce to a rate, or suggests that it increase to it if this port is its bottleneck.
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
            notify(port, to_sender, &Message::Adjustment { kind: Adjustment::Reduce, id, speed: rate(to) });
        } else if record.is_bottleneck()
            // Between request and answer nobody knows yet, and one suggestion at a time; a later beat makes up for it.
            && record.before.is_none()
            && record.suggested == 0
            && to - has > has / WORTH
        {
            record.suggested = to;
            record.repeats = 0;
            record.notified_at = port.now;
            self.counts.increases += 1;
            notify(port, to_sender, &Message::Adjustment { kind: Adjustment::Increase, id, speed: rate(to) });
        }
    }

    /// Hands out what is free to those whose bottleneck is this port, and levels what they have.
    pub(super) fn hand_out(&mut self, port: &mut Port<'_>) {
        let to_come = self.arrivals.rate(port.now) * self.alpha * self.rtt.as_secs_f64() - 1.0;
        let load = self.table.load(None);
        if let Some(level) = allocation::level(&load, to_come) {
            let busy = load.served >= MANY && port.now < self.joined_at.saturating_add(CALM);
            let slack = if busy { 2 * level / MANY } else { level / WORTH };
            self.adjust(port, Adjust::Controlled(level), None, (slack, AT_ONCE));
        }
    }

    /// Takes what nobody negotiates off the port's bandwidth: acknowledgements and messages of the other direction, of which
    /// a rise counts at once and a fall slowly, and handshakes and messages of this one on the mean. Those that have most
    /// give way first, if it is worth it.
    pub(super) fn allow_for_returns(&mut self, port: &mut Port<'_>) {
        let span = (port.now - self.interval_start).as_secs_f64();
        let measured = std::mem::take(&mut self.returning) as f64 / span;
        if measured > self.returns {
            self.returns = measured;
        } else {
            self.returns -= (self.returns - measured) * RETURNS_FALL;
        }
        let messages = std::mem::take(&mut self.passing) as f64 / span;
        self.overhead += (messages - self.overhead) * OVERHEAD_GAIN;
        let needed = self.returns * RETURNS_MARGIN + self.overhead;
        let needed = needed.min(self.capacity as f64 * RETURNS_MOST) as u64;
        let total = self.capacity - needed;
        self.table.set_total(total);
        if self.table.given() <= total + total / WORTH {
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

    /// Repeats what was told in vain.
    pub(super) fn look_after_each(&mut self, port: &mut Port<'_>) {
        let span = (port.now - self.interval_start).as_secs_f64();
        let mut longest = Nanos::ZERO;
        self.flows.clear();
        for (flow, record) in self.table.records.iter_mut() {
            longest = longest.max(record.rtt);
            let arrived = std::mem::take(&mut record.arrived);
            let allowed = (record.rate() as f64 * EXCESS * span) as u64 + EXCESS_BYTES;
            let patience = record.rtt.max(SHORTEST_INTERVAL) * 2;
            let heard = self.interval_start >= record.notified_at.saturating_add(patience);
            let id = record.id;
            if arrived > allowed && heard && record.before.is_none() && record.rate() > 0 {
                record.notified_at = port.now;
                self.counts.disobeyed += 1;
                let speed = rate(record.rate());
                notify(port, (flow, record.path), &Message::Adjustment { kind: Adjustment::Reduce, id, speed });
            } else if record.suggested > 0
                && port.now >= record.notified_at.saturating_add(patience * (1 << record.repeats))
            {
                if record.repeats < REPEATS {
                    record.repeats += 1;
                    record.notified_at = port.now;
                    let speed = rate(record.suggested);
                    notify(
                        port,
                        (flow, record.path),
                        &Message::Adjustment { kind: Adjustment::Increase, id, speed },
                    );
                } else {
                    record.suggested = 0;
                    self.flows.push(flow);
                }
            } else if port.now >= record.notified_at.saturating_add(ALIVE) && record.before.is_none() {
                record.notified_at = port.now;
                let speed = rate(record.rate().max(1));
                notify(port, (flow, record.path), &Message::Adjustment { kind: Adjustment::Reduce, id, speed });
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
