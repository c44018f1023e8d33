//! RFC 5348 section 5 on a list of all arrivals.

use std::collections::{BTreeMap, BTreeSet};

use narrows_cc::Nanos;
use narrows_dccp::loss::{Arrival, Interval, Separation};

/// Valid arrivals and losses, by numbers that do not wrap.
#[derive(Default)]
pub struct Model {
    received: BTreeMap<u64, Arrival>,
    lost: BTreeSet<u64>,
}

/// Results of the model.
pub struct Reading {
    pub events: u64,
    pub lost: u64,
    pub settled: Option<u64>,
    /// Packets after `settled` up to the greatest number.
    pub waiting: u64,
    /// Loss intervals, newest first, at most nine.
    pub intervals: Vec<Interval>,
    /// Lengths and discount factors, newest first; the first factor is the DF of the closed intervals.
    pub weighted: Vec<(u64, f64)>,
}

impl Model {
    pub fn arrive(&mut self, n: u64, arrival: Arrival) {
        let Some((&start, _)) = self.received.first_key_value() else {
            self.received.insert(n, arrival);
            return;
        };
        if n < start || self.received.contains_key(&n) || self.lost.contains(&n) {
            return;
        }
        self.received.insert(n, arrival);
        // A packet is lost after three packets with greater numbers have arrived.
        let greatest: Vec<u64> = self.received.keys().rev().take(3).copied().collect();
        if let [_, _, third] = greatest[..] {
            self.lost.extend((start..third).filter(|n| !self.received.contains_key(n)));
        }
    }

    pub fn read(&self, separation: Separation, rtt: Nanos, first: u64, discounting: bool) -> Reading {
        let mut reading = Reading {
            events: 0,
            lost: 0,
            settled: None,
            waiting: 0,
            intervals: vec![Interval::default()],
            weighted: Vec::new(),
        };
        let Some((&start, _)) = self.received.first_key_value() else { return reading };
        let mut event: Option<Event> = None;
        let mut discounts: Vec<f64> = Vec::new();
        let mut n = start;
        while self.received.contains_key(&n) || self.lost.contains(&n) {
            reading.settled = Some(n);
            let hit = self.hit(n);
            if hit {
                reading.lost += u64::from(self.lost.contains(&n));
                let begins = match (&event, separation) {
                    (None, _) => true,
                    (Some(event), Separation::Time) => self.later(event, n, rtt),
                    (Some(event), Separation::Counter) => self.counted(event, n),
                };
                if begins {
                    reading.events += 1;
                    if event.is_none() {
                        reading.intervals[0].data = first;
                    } else if discounting {
                        let lengths: Vec<u64> = reading.intervals.iter().map(|interval| interval.data).collect();
                        let factor = factor(&lengths, &discounts);
                        discounts.iter_mut().for_each(|discount| *discount *= factor);
                    }
                    discounts.insert(0, 1.0);
                    discounts.truncate(8);
                    reading.intervals.insert(0, Interval::default());
                    reading.intervals.truncate(9);
                    event = Some(Event { first: n, start: self.time(n) });
                }
            }
            let open = &mut reading.intervals[0];
            if hit {
                open.lossy += open.lossless + 1;
                open.lossless = 0;
                open.data += 1;
            } else {
                open.lossless += 1;
                open.data += u64::from(self.received.get(&n).is_some_and(|arrival| arrival.data));
            }
            n += 1;
        }
        reading.waiting = self.received.keys().next_back().unwrap() - (n - 1);
        let lengths: Vec<u64> = reading.intervals.iter().map(|interval| interval.data).collect();
        let open = if discounting { factor(&lengths, &discounts) } else { 1.0 };
        reading.weighted = lengths.into_iter().zip(std::iter::once(open).chain(discounts)).collect();
        reading
    }

    /// Whether the packet is a lost or marked data packet.
    fn hit(&self, n: u64) -> bool {
        if let Some(arrival) = self.received.get(&n) {
            return arrival.marked && arrival.data;
        }
        let (&next, arrival) = self.received.range(n..).next().unwrap();
        n + arrival.ndp.unwrap_or(0) < next
    }

    fn before(&self, n: u64) -> (u64, &Arrival) {
        self.received.range(..n).next_back().map(|(&n, arrival)| (n, arrival)).unwrap()
    }

    /// The nominal arrival time, rounded down to a nanosecond.
    fn time(&self, n: u64) -> u64 {
        if let Some(arrival) = self.received.get(&n) {
            return arrival.at.as_nanos();
        }
        let ((s0, a0), (&s1, a1)) = (self.before(n), self.received.range(n..).next().unwrap());
        let (t0, t1) = (a0.at.as_nanos(), a1.at.as_nanos().max(a0.at.as_nanos()));
        t0 + (t1 - t0) * (n - s0) / (s1 - s0)
    }

    /// Whether `n` is more than a round trip after the event's first loss, exact within a gap.
    fn later(&self, event: &Event, n: u64, rtt: Nanos) -> bool {
        if self.received.contains_key(&n) {
            return self.time(n) > event.start + rtt.as_nanos();
        }
        let ((s0, a0), (&s1, a1)) = (self.before(n), self.received.range(n..).next().unwrap());
        let time = a1.at.as_nanos().saturating_sub(a0.at.as_nanos());
        if event.first > s0 {
            return time * (n - event.first) > rtt.as_nanos() * (s1 - s0);
        }
        let end = event.start + rtt.as_nanos();
        a0.at.as_nanos() > end || time * (n - s0) > (end - a0.at.as_nanos()) * (s1 - s0)
    }

    /// Whether a data packet S with X_prev < S <= Y_prev has a counter more than 4 ahead of the counter of X_prev.
    fn counted(&self, event: &Event, n: u64) -> bool {
        let data = |range: std::ops::Range<u64>| {
            self.received.range(range).filter(|(_, a)| a.data).map(|(_, a)| a.counter).collect::<Vec<u8>>()
        };
        let before = data(0..event.first);
        let from = before.last().copied().unwrap_or_else(|| {
            // Without earlier data, the counter of the first arrival counts.
            self.received.first_key_value().unwrap().1.counter
        });
        data(event.first..n).into_iter().any(|counter| counter.wrapping_sub(from) % 16 > 4)
    }
}

struct Event {
    first: u64,
    start: u64,
}

const WEIGHTS: [f64; 8] = [1.0, 1.0, 1.0, 1.0, 0.8, 0.6, 0.4, 0.2];

/// DF of section 5.5, computed from the interval lengths (open interval first) and the DF_i of the closed intervals.
fn factor(lengths: &[u64], discounts: &[f64]) -> f64 {
    let (mut sum, mut total) = (0.0, 0.0);
    for i in 0..discounts.len() {
        sum += lengths[i + 1] as f64 * WEIGHTS[i] * discounts[i];
        total += WEIGHTS[i] * discounts[i];
    }
    let mean = sum / total;
    if total > 0.0 && lengths[0] as f64 > 2.0 * mean { (2.0 * mean / lengths[0] as f64).max(0.25) } else { 1.0 }
}

/// I_mean of sections 5.4 and 5.5: p = min(W_tot0/I_tot0, W_tot1/I_tot1).
pub fn model_mean(weighted: &[(u64, f64)]) -> Option<f64> {
    let (&(open, factor), closed) = weighted.split_first()?;
    if closed.is_empty() {
        return None;
    }
    let (mut i_tot0, mut w_tot0, mut i_tot1, mut w_tot1) = (open as f64, 1.0, 0.0, 0.0);
    for i in 1..closed.len() {
        let (length, discount) = closed[i - 1];
        i_tot0 += length as f64 * WEIGHTS[i] * discount * factor;
        w_tot0 += WEIGHTS[i] * discount * factor;
    }
    for (i, (length, discount)) in closed.iter().enumerate() {
        i_tot1 += *length as f64 * WEIGHTS[i] * discount;
        w_tot1 += WEIGHTS[i] * discount;
    }
    Some((i_tot0 / w_tot0).max(i_tot1 / w_tot1))
}
