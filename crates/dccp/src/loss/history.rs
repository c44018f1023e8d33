//! Arrivals to loss events and loss intervals.

use narrows_cc::{Bytes, Nanos, Rate, tfrc};

use super::interval::{CLOSED, Closed, Interval, MAX_SKIP, discount, mean};
use crate::seq::Seq;

/// Number of later packets that declare a packet lost (RFC 5348 section 5.1: NDUPACK).
const NDUPACK: usize = 3;

/// Modulus of the window counter (RFC 4342 section 8.1); one step is a quarter of a round-trip time.
const COUNTER_MODULUS: u8 = 16;

/// Window counter steps per round trip.
const RTT_STEPS: u8 = 4;

/// An arriving packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Arrival {
    /// Arrival time.
    pub at: Nanos,
    /// Sequence number.
    pub seq: Seq,
    /// Whether it carried application data. Packets without data are neither losses nor part of an interval's data
    /// length.
    pub data: bool,
    /// NDP count, if present: length of the run of non-data packets before this one.
    pub ndp: Option<u64>,
    /// Whether the packet arrived ECN marked.
    pub marked: bool,
    /// CCVal: for data packets, the sender's window counter.
    pub counter: u8,
}

/// Path estimates at an arrival.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PathEstimate {
    /// R: round-trip time.
    pub rtt: Nanos,
    /// s: mean size of data packets.
    pub segment: Bytes,
    /// X_target: greatest receive rate so far, used at the first loss.
    pub target: Rate,
}

/// Criterion that separates loss events.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Separation {
    /// Nominal arrival times (RFC 5348 section 5.2).
    Time,
    /// The sender's window counter (RFC 4342 section 10.2), which requires no round-trip time. Losses without
    /// an arrival between them form one event.
    Counter,
}

/// The last loss event.
#[derive(Clone, Copy, Debug)]
struct Event {
    /// Nominal arrival time of the event's first loss.
    start: Nanos,
    /// Window counter before the event's first loss.
    counter: u8,
    /// Whether a packet whose counter is more than a round trip later has arrived.
    over: bool,
}

/// Loss events and intervals of one direction of data. Constant time and memory per packet for any gap.
///
/// ```text
///                          . . . settled . . .                 | waiting
///   |--- closed[1] ---|------- closed[0] --------|--- open ----|
///    lossless           lossy lossless            lossy lossless  (at most 2 arrivals, gaps before them)
/// ```
#[derive(Clone, Debug)]
pub struct LossHistory {
    separation: Separation,
    discounting: bool,
    /// All packets up to this one are received or lost.
    settled: Option<Arrival>,
    /// Arrivals after a gap, ordered by number; `gaps` entries are in use.
    waiting: [Arrival; NDUPACK],
    gaps: usize,
    open: Interval,
    /// Closed intervals, newest first; `known` entries are in use.
    closed: [Closed; CLOSED],
    known: usize,
    event: Option<Event>,
    events: u64,
    lost: u64,
}

impl LossHistory {
    /// An empty history. With `discounting`, long loss-free periods reduce the weight of old intervals
    /// (section 5.5).
    pub fn new(separation: Separation, discounting: bool) -> Self {
        let none = Arrival { at: Nanos::ZERO, seq: Seq::default(), data: false, ndp: None, marked: false, counter: 0 };
        Self {
            separation,
            discounting,
            settled: None,
            waiting: [none; NDUPACK],
            gaps: 0,
            open: Interval::default(),
            closed: [Closed::default(); CLOSED],
            known: 0,
            event: None,
            events: 0,
            lost: 0,
        }
    }

    /// Records an arrival and returns whether a loss event began. Duplicates and packets already declared
    /// lost change nothing. Counting starts at the first packet.
    pub fn arrive(&mut self, arrival: &Arrival, path: &PathEstimate) -> bool {
        let Some(settled) = self.settled else {
            self.settled = Some(*arrival);
            return self.append(arrival, arrival, path);
        };
        if !arrival.seq.after(settled.seq) {
            return false;
        }
        let waiting = &self.waiting[..self.gaps];
        let place = waiting.partition_point(|w| arrival.seq.after(w.seq));
        if waiting.get(place).is_some_and(|w| w.seq == arrival.seq) {
            return false;
        }
        self.waiting[place..].rotate_right(1);
        self.waiting[place] = *arrival;
        self.gaps += 1;
        let before = self.events;
        while let Some(settled) = self.settled
            && self.gaps > 0
            && (self.gaps == NDUPACK || self.waiting[0].seq == settled.seq.add(1))
        {
            let next = self.waiting[0];
            self.waiting.rotate_left(1);
            self.gaps -= 1;
            self.settle(&settled, &next, path);
        }
        self.events > before
    }

    /// Settles all packets after `from` up to the arrival `to`; the packets between `from` and `to` are lost.
    fn settle(&mut self, from: &Arrival, to: &Arrival, path: &PathEstimate) {
        let gap = to.seq.minus(from.seq) as u64 - 1;
        let without_data = to.ndp.unwrap_or(0).min(gap);
        let lost = gap - without_data;
        self.lost += lost;
        if lost > 0 {
            match self.separation {
                Separation::Time => self.split_by_time(from, to, lost, path),
                Separation::Counter => {
                    if self.event.is_none_or(|event| event.over) {
                        let spacing = (to.at - from.at).as_nanos() / (gap + 1);
                        self.begin_event(from.at + Nanos::from_nanos(spacing), from.counter, path);
                    }
                    self.extend_lossy(lost);
                }
            }
        }
        self.open.lossless += without_data;
        self.append(from, to, path);
        let counter = if to.data { to.counter } else { from.counter };
        self.settled = Some(Arrival { counter, ..*to });
    }

    /// Appends the arrival `to`, successor of `from`, to the open interval. Returns whether the ECN mark of `to` began
    /// an event.
    fn append(&mut self, from: &Arrival, to: &Arrival, path: &PathEstimate) -> bool {
        let mut began = false;
        if to.marked && to.data {
            began = self.event.is_none_or(|event| match self.separation {
                Separation::Time => to.at > event.start + path.rtt,
                Separation::Counter => event.over,
            });
            if began {
                self.begin_event(to.at, from.counter, path);
            }
            self.extend_lossy(1);
        } else {
            self.open.lossless += 1;
            self.open.data += u64::from(to.data);
        }
        if to.data
            && let Some(event) = &mut self.event
        {
            event.over |= to.counter.wrapping_sub(event.counter) % COUNTER_MODULUS > RTT_STEPS;
        }
        began
    }

    /// Splits `lost` packets after `from` into events. Their nominal arrival times are spaced evenly between
    /// `from` and `to`; an event spans one round trip from its first loss.
    fn split_by_time(&mut self, from: &Arrival, to: &Arrival, lost: u64, path: &PathEstimate) {
        let numbers = to.seq.minus(from.seq) as u128;
        let time = u128::from((to.at - from.at).as_nanos());
        // Number of packets within `limit`: the greatest k with T(k) = time · k / numbers <= limit.
        let within = |limit: Nanos| match (u128::from(limit.as_nanos()) * numbers).checked_div(time) {
            Some(k) => k.min(u128::from(lost)) as u64,
            None => lost,
        };
        let mut first = 1;
        if let Some(event) = self.event {
            let end = event.start + path.rtt;
            if end >= from.at {
                let same = within(end - from.at);
                self.extend_lossy(same);
                first += same;
            }
        }
        let each = within(path.rtt) + 1;
        // For huge gaps, simulate only as many equal events as the history stores; further events make no difference.
        let events = (lost + 1 - first).div_ceil(each);
        let beyond = events.saturating_sub(CLOSED as u64 + 2);
        self.events += beyond;
        first += beyond * each;
        while first <= lost {
            let start = (time * u128::from(first) / numbers) as u64;
            self.begin_event(from.at + Nanos::from_nanos(start), from.counter, path);
            let packets = each.min(lost + 1 - first);
            self.extend_lossy(packets);
            first += packets;
        }
    }

    /// Begins a loss event, which closes the open interval.
    fn begin_event(&mut self, start: Nanos, counter: u8, path: &PathEstimate) {
        if self.event.is_none() {
            // Before the first loss the rate rose too fast for the interval to reflect the path, so the interval
            // follows from X_target (section 6.3.1).
            let p = tfrc::loss_event_rate(path.segment, path.rtt, path.target);
            self.open.data = (1.0 / p).round() as u64;
        } else if self.discounting {
            let factor = discount(self.open.data, &self.closed[..self.known]);
            for closed in &mut self.closed[..self.known] {
                closed.discount *= factor;
            }
        }
        self.closed.rotate_right(1);
        self.closed[0] = Closed { interval: self.open, discount: 1.0 };
        self.known = (self.known + 1).min(CLOSED);
        self.open = Interval::default();
        self.event = Some(Event { start, counter, over: false });
        self.events += 1;
    }

    /// Extends the lossy part of the open interval by `n` lost or marked data packets at its end.
    fn extend_lossy(&mut self, n: u64) {
        if n > 0 {
            self.open.lossy += self.open.lossless + n;
            self.open.lossless = 0;
            self.open.data += n;
        }
    }

    /// I_mean in packets; `None` before the first loss event.
    pub fn mean_interval(&self) -> Option<f64> {
        let closed = &self.closed[..self.known];
        let factor = if self.discounting { discount(self.open.data, closed) } else { 1.0 };
        mean(self.open.data, closed, factor)
    }

    /// p: loss events per packet; 0 before the first event.
    pub fn loss_event_rate(&self) -> f64 {
        self.mean_interval().map_or(0.0, |mean| 1.0 / mean)
    }

    /// Value of the Loss Event Rate option: 1/p rounded up, `u32::MAX` before the first event (RFC 4342
    /// section 8.5).
    pub fn inverse_rate(&self) -> u32 {
        // The cast would saturate at `u32::MAX`, the value before the first event, so the value is limited.
        self.mean_interval().map_or(u32::MAX, |mean| (mean.ceil() as u32).min(u32::MAX - 1))
    }

    /// Contents of a Loss Intervals option: the skip length (newest packets whose loss is undecided), and at
    /// most nine intervals, newest first. The oldest interval of a young connection is the time before the
    /// first loss.
    ///
    /// The skip length is at most three. If more packets are undecided, the excess counts as received until these
    /// packets are settled, so that the positions of intervals stay correct.
    pub fn intervals(&self) -> (u8, impl Iterator<Item = Interval> + '_) {
        let waiting = match (self.gaps.checked_sub(1), self.settled) {
            (Some(newest), Some(settled)) => self.waiting[newest].seq.minus(settled.seq) as u64,
            _ => 0,
        };
        let skip = waiting.min(u64::from(MAX_SKIP));
        let mut open = self.open;
        open.lossless += waiting - skip;
        if self.known == 0 {
            // The data length is zero before the first loss event (RFC 4342 section 6.1.1).
            open.data = 0;
        }
        let closed = self.closed[..self.known].iter().map(|closed| closed.interval);
        (skip as u8, std::iter::once(open).chain(closed))
    }

    /// Number of loss events.
    pub const fn events(&self) -> u64 {
        self.events
    }

    /// Number of data packets lost.
    pub const fn lost(&self) -> u64 {
        self.lost
    }

    /// Number up to which every packet is received or lost.
    pub fn settled(&self) -> Option<Seq> {
        self.settled.map(|arrival| arrival.seq)
    }
}
