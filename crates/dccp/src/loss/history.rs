//! From arrivals to loss events and intervals.

use narrows_cc::{Bytes, Nanos, Rate, tfrc};

use super::interval::{CLOSED, Closed, Interval, discount, mean};
use crate::Seq;

/// Packets with greater numbers after which one is lost (RFC 5348 section 5.1: NDUPACK).
const LATER: usize = 3;

/// The window counter counts modulo this (RFC 4342 section 8.1), a quarter of a round-trip time each.
const COUNTERS: u8 = 16;

/// Quarters that one round trip has.
const QUARTERS: u8 = 4;

/// A packet that arrived.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Arrival {
    /// When.
    pub at: Nanos,
    /// Its number.
    pub seq: Seq,
    /// Whether it carried application data; packets that do not are neither losses nor part of an interval's length.
    pub data: bool,
    /// Its NDP count, if it carried one: so many packets just before it had no data.
    pub ndp: Option<u64>,
    /// It carried a congestion mark.
    pub marked: bool,
    /// Its CCVal: of data packets, the sender's window counter.
    pub counter: u8,
}

/// What is known of the path when a packet arrives.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Path {
    /// R.
    pub rtt: Nanos,
    /// s: the mean size of data packets.
    pub segment: Bytes,
    /// X_target: the greatest receive rate so far; of use at the first loss alone.
    pub target: Rate,
}

/// What tells that two losses are of different events.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Separation {
    /// Their nominal arrival times (RFC 5348 section 5.2).
    Time,
    /// The sender's window counter (RFC 4342 section 10.2): the receiver need not know the round-trip time. Losses without an
    /// arrival between them are one event.
    Counter,
}

/// The last loss event.
#[derive(Clone, Copy, Debug)]
struct Event {
    /// When its first loss would have arrived.
    start: Nanos,
    /// The window counter before its first loss.
    counter: u8,
    /// A counter of more than a round trip later has arrived.
    over: bool,
}

/// Loss events and intervals of one direction of data. Constant time and memory per packet, however large a gap is.
///
/// ```text
///                          . . . settled . . .                 | waiting
///   |--- closed[1] ---|------- closed[0] --------|--- open ----|
///    lossless           lossy lossless            lossy lossless  (at most 2 arrivals and the gaps before them)
/// ```
#[derive(Clone, Debug)]
pub struct LossHistory {
    separation: Separation,
    discounting: bool,
    /// All up to this one are received or lost.
    settled: Option<Arrival>,
    /// Arrivals after a gap, by number; `gaps` of them.
    waiting: [Arrival; LATER],
    gaps: usize,
    open: Interval,
    /// Newest first; `known` of them.
    closed: [Closed; CLOSED],
    known: usize,
    event: Option<Event>,
    events: u64,
    lost: u64,
}

impl LossHistory {
    /// Nothing has arrived. `discounting`: long times without loss let old intervals count less (section 5.5).
    pub fn new(separation: Separation, discounting: bool) -> Self {
        let none = Arrival {
            at: Nanos::ZERO,
            seq: Seq::default(),
            data: false,
            ndp: None,
            marked: false,
            counter: 0,
        };
        Self {
            separation,
            discounting,
            settled: None,
            waiting: [none; LATER],
            gaps: 0,
            open: Interval::default(),
            closed: [Closed::default(); CLOSED],
            known: 0,
            event: None,
            events: 0,
            lost: 0,
        }
    }

    /// A packet arrived. Gives whether a loss event began. Duplicates and packets found lost before change nothing. The first
    /// packet's number is where counting begins.
    pub fn arrive(&mut self, arrival: &Arrival, path: &Path) -> bool {
        let Some(settled) = self.settled else {
            self.settled = Some(*arrival);
            return self.take(arrival, arrival, path);
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
            && (self.gaps == LATER || self.waiting[0].seq == settled.seq.add(1))
        {
            let next = self.waiting[0];
            self.waiting.rotate_left(1);
            self.gaps -= 1;
            self.settle(&settled, &next, path);
        }
        self.events > before
    }

    /// Everything between `from`, which is settled, and `to`, which has arrived, is lost.
    fn settle(&mut self, from: &Arrival, to: &Arrival, path: &Path) {
        let gap = to.seq.minus(from.seq) as u64 - 1;
        let without_data = to.ndp.unwrap_or(0).min(gap);
        let lost = gap - without_data;
        self.lost += lost;
        if lost > 0 {
            match self.separation {
                Separation::Time => self.lose_by_time(from, to, lost, path),
                Separation::Counter => {
                    if self.event.is_none_or(|event| event.over) {
                        let spacing = (to.at - from.at).as_nanos() / (gap + 1);
                        self.begin(from.at + Nanos::from_nanos(spacing), from.counter, path);
                    }
                    self.lengthen(lost);
                }
            }
        }
        self.open.lossless += without_data;
        self.take(from, to, path);
        let counter = if to.data { to.counter } else { from.counter };
        self.settled = Some(Arrival { counter, ..*to });
    }

    /// The arrival `to`, next after `from`, joins the open interval. Gives whether its mark began an event.
    fn take(&mut self, from: &Arrival, to: &Arrival, path: &Path) -> bool {
        let mut began = false;
        if to.marked && to.data {
            began = self.event.is_none_or(|event| match self.separation {
                Separation::Time => to.at > event.start + path.rtt,
                Separation::Counter => event.over,
            });
            if began {
                self.begin(to.at, from.counter, path);
            }
            self.lengthen(1);
        } else {
            self.open.lossless += 1;
            self.open.data += u64::from(to.data);
        }
        if to.data
            && let Some(event) = &mut self.event
        {
            event.over |= to.counter.wrapping_sub(event.counter) % COUNTERS > QUARTERS;
        }
        began
    }

    /// `lost` packets after `from`: their nominal arrival times are spread evenly from its to `to`'s, and all that are not more
    /// than one round trip after the first of an event belong to it.
    fn lose_by_time(&mut self, from: &Arrival, to: &Arrival, lost: u64, path: &Path) {
        let numbers = to.seq.minus(from.seq) as u128;
        let time = u128::from((to.at - from.at).as_nanos());
        // How many numbers' time passes before more than `limit` has: T(k) = time k / numbers > limit for greater k.
        let within = |limit: Nanos| match (u128::from(limit.as_nanos()) * numbers).checked_div(time) {
            Some(k) => k.min(u128::from(lost)) as u64,
            None => lost,
        };
        let mut first = 1;
        if let Some(event) = self.event {
            let end = event.start + path.rtt;
            if end >= from.at {
                let same = within(end - from.at);
                self.lengthen(same);
                first += same;
            }
        }
        let each = within(path.rtt) + 1;
        // A gap of very many round trips: only as many events as the history holds, all of one length, differ from none.
        let events = (lost + 1 - first).div_ceil(each);
        let beyond = events.saturating_sub(CLOSED as u64 + 2);
        self.events += beyond;
        first += beyond * each;
        while first <= lost {
            let start = (time * u128::from(first) / numbers) as u64;
            self.begin(from.at + Nanos::from_nanos(start), from.counter, path);
            let packets = each.min(lost + 1 - first);
            self.lengthen(packets);
            first += packets;
        }
    }

    /// A loss event begins: the open interval closes.
    fn begin(&mut self, start: Nanos, counter: u8, path: &Path) {
        if self.event.is_none() {
            // The rate before the first loss rose too fast to say what the path carries (section 6.3.1).
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

    /// `n` lost or marked data packets more, after all that the open interval has: its lossy part reaches up to them.
    fn lengthen(&mut self, n: u64) {
        if n > 0 {
            self.open.lossy += self.open.lossless + n;
            self.open.lossless = 0;
            self.open.data += n;
        }
    }

    /// I_mean, in packets; none before the first loss event.
    pub fn mean_interval(&self) -> Option<f64> {
        let closed = &self.closed[..self.known];
        let factor = if self.discounting { discount(self.open.data, closed) } else { 1.0 };
        mean(self.open.data, closed, factor)
    }

    /// p: loss events per packet; 0 before the first.
    pub fn loss_event_rate(&self) -> f64 {
        self.mean_interval().map_or(0.0, |mean| 1.0 / mean)
    }

    /// The contents of a Loss Event Rate option: 1/p rounded up, `u32::MAX` before the first event (RFC 4342 section 8.5).
    pub fn inverse_rate(&self) -> u32 {
        // A float that is too large for the type becomes the type's greatest; that one means something else.
        self.mean_interval().map_or(u32::MAX, |mean| (mean.ceil() as u32).min(u32::MAX - 1))
    }

    /// Intervals for a Loss Intervals option, newest first, at most nine; the last of a young connection is the time before the
    /// first loss. With them, how many of the newest packets they leave out: those whose loss is not yet certain.
    ///
    /// The option can leave out three. Where a gap that waits is longer, the rest of it counts as received until it is decided:
    /// so the numbers of all intervals stay right.
    pub fn intervals(&self) -> (u8, impl Iterator<Item = Interval> + '_) {
        let waiting = match (self.gaps.checked_sub(1), self.settled) {
            (Some(newest), Some(settled)) => self.waiting[newest].seq.minus(settled.seq) as u64,
            _ => 0,
        };
        let skip = waiting.min(u64::from(super::MAX_SKIP));
        let mut open = self.open;
        open.lossless += waiting - skip;
        if self.known == 0 {
            // Before the first loss event there is no length to compute with (RFC 4342 section 6.1.1).
            open.data = 0;
        }
        let closed = self.closed[..self.known].iter().map(|closed| closed.interval);
        (skip as u8, std::iter::once(open).chain(closed))
    }

    /// Loss events so far.
    pub const fn events(&self) -> u64 {
        self.events
    }

    /// Data packets lost so far.
    pub const fn lost(&self) -> u64 {
        self.lost
    }

    /// The number up to which everything is received or lost.
    pub fn settled(&self) -> Option<Seq> {
        self.settled.map(|arrival| arrival.seq)
    }
}
