//! Queue disciplines: the departure order of packets, and AQM drops and marks.
//!
//! [`Discipline`] dispatches to one file per discipline; all of these import only `backlog`, `stats` and the
//! configuration.

mod backlog;
mod codel;
mod dualpi2;
mod fq_codel;
mod htb;
mod pie;
mod red;
mod step;

use narrows_units::{Bytes, Nanos, Random, Rate};

use self::backlog::{Backlog, Verdict, mark};
use self::codel::{CoDel, CoDelParams};
use self::dualpi2::DualPi2;
use self::fq_codel::FqCoDel;
use self::htb::Htb;
use self::pie::Pie;
use self::red::Red;
use self::step::Step;
use crate::Frame;
use crate::config::{Limit, Queue};
use crate::hook::ClassQueue;
use crate::stats::{ClassStats, Tally};

pub(crate) use self::backlog::Room;

/// A queue with its discipline.
#[derive(Clone, Debug)]
pub(crate) enum Discipline<F> {
    DropTail(Backlog<F>),
    CoDel(Backlog<F>, CoDelParams, CoDel),
    FqCoDel(FqCoDel<F>),
    Pie(Backlog<F>, Pie),
    Red(Backlog<F>, Red),
    Step(Backlog<F>, Step),
    DualPi2(DualPi2<F>),
    Htb(Box<Htb<F>>),
}

impl<F: Frame> ClassQueue for Discipline<F> {
    fn set_class(&mut self, now: Nanos, class: u8, rate: Rate, ceil: Rate) {
        if let Self::Htb(classes) = self {
            classes.set_class(now, class, rate, ceil);
        }
    }

    fn class_backlog(&self, class: u8) -> Bytes {
        match self {
            Self::Htb(classes) => classes.class_backlog(class),
            _ => Bytes::ZERO,
        }
    }
}

impl<F: Frame> Discipline<F> {
    /// An empty queue for a link of mean rate `rate` with the link's `limit`.
    pub(crate) fn new(config: &Queue, rate: Rate, limit: Limit, random: Random) -> Self {
        let backlog = Backlog::default();
        match *config {
            Queue::DropTail => Self::DropTail(backlog),
            Queue::CoDel { target, interval, ecn } => {
                Self::CoDel(backlog, CoDelParams { target, interval, ecn }, CoDel::default())
            }
            Queue::FqCoDel { target, interval, queues, quantum, ecn } => {
                Self::FqCoDel(FqCoDel::new(CoDelParams { target, interval, ecn }, queues, quantum, random))
            }
            Queue::Pie { target, ecn } => Self::Pie(backlog, Pie::new(target, ecn, random)),
            Queue::DualPi2(config) => Self::DualPi2(DualPi2::new(config, rate)),
            Queue::Htb(ref config) => Self::Htb(Box::new(Htb::new(config, rate, limit))),
            Queue::Step { above } => Self::Step(backlog, Step::new(above)),
            Queue::Red(config) => Self::Red(backlog, Red::new(config, rate, random)),
        }
    }

    /// Accepts a frame or drops it, and counts drops and marks. `class` steers it in queues with classes.
    pub(crate) fn enqueue(
        &mut self,
        now: Nanos,
        frame: &F,
        class: Option<u8>,
        room: Room,
        stats: &mut Tally<F>,
    ) -> bool {
        let (backlog, verdict) = match self {
            Self::DropTail(backlog) | Self::CoDel(backlog, ..) => (backlog, Verdict::Pass),
            Self::FqCoDel(queues) => return queues.enqueue(now, frame, room, stats),
            Self::DualPi2(queues) => return queues.enqueue(now, frame, room, stats),
            Self::Htb(classes) => return classes.enqueue(now, frame, class, room, stats),
            Self::Pie(backlog, pie) => {
                pie.update(now, backlog);
                // Drop arrivals at a full queue without a random draw.
                let verdict = if backlog.fits(frame, room) { pie.judge(backlog) } else { Verdict::Pass };
                (backlog, verdict)
            }
            Self::Step(backlog, step) => {
                let verdict = step.judge(backlog.packets());
                (backlog, verdict)
            }
            Self::Red(backlog, red) => {
                let verdict = red.judge(now, backlog.packets());
                (backlog, verdict)
            }
        };
        let mut frame = *frame;
        let marked = verdict == Verdict::Mark && mark(&mut frame);
        let accepted = if verdict == Verdict::Drop || (verdict == Verdict::Mark && !marked) {
            stats.dropped_aqm += 1;
            false
        } else if !backlog.fits(&frame, room) {
            stats.dropped_queue += 1;
            false
        } else {
            stats.marked += u64::from(marked);
            backlog.push(now, &frame);
            true
        };
        if accepted && let Self::Red(_, red) = self {
            red.busy();
        }
        accepted
    }

    /// Next frame to transmit, with its arrival time; `None` if none may leave yet. Counts drops and marks.
    pub(crate) fn dequeue(&mut self, now: Nanos, stats: &mut Tally<F>) -> Option<(Nanos, F)> {
        match self {
            Self::DropTail(backlog) | Self::Red(backlog, _) | Self::Step(backlog, _) => backlog.pop(),
            Self::CoDel(backlog, params, codel) => codel.dequeue(now, params, backlog, stats),
            Self::FqCoDel(queues) => queues.dequeue(now, stats),
            Self::DualPi2(queues) => queues.dequeue(now, stats),
            Self::Htb(classes) => classes.dequeue(now),
            Self::Pie(backlog, pie) => {
                pie.update(now, backlog);
                backlog.pop()
            }
        }
    }

    /// Earliest time at which [`Discipline::dequeue`] may return a frame: `now` if at once, [`Nanos::MAX`] if
    /// the queue is empty.
    pub(crate) fn ready_at(&self, now: Nanos) -> Nanos {
        match self {
            Self::Htb(classes) => classes.ready_at(now),
            _ if self.packets() == 0 => Nanos::MAX,
            _ => now,
        }
    }

    /// Statistics of the classes since `since`; empty for queues without classes.
    pub(crate) fn class_stats(&self, since: Nanos, now: Nanos) -> Vec<ClassStats> {
        match self {
            Self::Htb(classes) => classes.class_stats(since, now),
            _ => Vec::new(),
        }
    }

    /// Resets the statistics.
    pub(crate) fn reset_stats(&mut self, now: Nanos) {
        if let Self::Htb(classes) = self {
            classes.reset_stats(now);
        }
    }

    /// The link becomes idle.
    pub(crate) fn idle(&mut self, now: Nanos) {
        if let Self::Red(_, red) = self {
            red.idle(now);
        }
    }

    /// Packets in the queue.
    pub(crate) const fn packets(&self) -> u64 {
        match self {
            Self::DropTail(backlog)
            | Self::CoDel(backlog, ..)
            | Self::Pie(backlog, _)
            | Self::Red(backlog, _)
            | Self::Step(backlog, _) => backlog.packets(),
            Self::FqCoDel(queues) => queues.packets(),
            Self::DualPi2(queues) => queues.packets(),
            Self::Htb(classes) => classes.packets(),
        }
    }

    /// Bytes in the queue.
    pub(crate) const fn bytes(&self) -> u64 {
        match self {
            Self::DropTail(backlog)
            | Self::CoDel(backlog, ..)
            | Self::Pie(backlog, _)
            | Self::Red(backlog, _)
            | Self::Step(backlog, _) => backlog.bytes(),
            Self::FqCoDel(queues) => queues.bytes(),
            Self::DualPi2(queues) => queues.bytes(),
            Self::Htb(classes) => classes.bytes(),
        }
    }
}

/// An empty queue without a link, to test and benchmark a hook on its own. Its rate is 1 Mbit/s.
pub fn standalone_queue<F: Frame + 'static>(config: &Queue) -> Box<dyn ClassQueue> {
    let random = Random::stream(1, "standalone", 0);
    let rate = Rate::from_bytes_per_sec(125_000);
    Box::new(Discipline::<F>::new(config, rate, Limit::Packets(1000), random))
}
