//! Queue disciplines: which packets wait, in what order they leave, and which are dropped or marked before the queue is
//! full.

mod codel;
mod dualpi2;
mod fq_codel;
mod htb;
mod pie;
mod red;
mod step;

use narrows_units::{Bytes, Nanos, Random, Rate};

use self::codel::{CoDel, CoDelParams};
use self::dualpi2::DualPi2;
use self::fq_codel::FqCoDel;
use self::htb::Htb;
use self::pie::Pie;
use self::red::Red;
use self::step::Step;
use crate::config::{Limit, Queue};
use crate::hook::ClassQueue;
use crate::link::{ClassStats, Tally};
use crate::timed_ring::TimedRing;
use crate::{Ecn, Frame};

/// The largest packet the disciplines reckon with.
const MTU: u64 = 1500;

/// How much may wait, the arriving packet included.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Room {
    /// The link is idle: the packet does not wait at all.
    Idle,
    Packets(u64),
    Bytes(u64),
}

impl Room {
    /// Whether `packets` of `bytes` altogether may wait.
    const fn holds(self, packets: u64, bytes: u64) -> bool {
        match self {
            Self::Idle => true,
            Self::Packets(most) => packets <= most,
            Self::Bytes(most) => bytes <= most,
        }
    }
}

/// Frames that wait in order of arrival, with their arrival times.
#[derive(Clone, Debug)]
pub(crate) struct Backlog<F> {
    waiting: TimedRing<F>,
    bytes: u64,
}

impl<F> Default for Backlog<F> {
    fn default() -> Self {
        Self { waiting: TimedRing::default(), bytes: 0 }
    }
}

impl<F: Frame> Backlog<F> {
    pub(crate) const fn packets(&self) -> u64 {
        self.waiting.len() as u64
    }

    pub(crate) const fn bytes(&self) -> u64 {
        self.bytes
    }

    /// When the first one arrived.
    fn oldest(&self) -> Option<Nanos> {
        self.waiting.first_time()
    }

    fn push(&mut self, now: Nanos, frame: &F) {
        self.bytes += frame.size().as_u64();
        self.waiting.push(now, frame);
    }

    fn pop(&mut self) -> Option<(Nanos, F)> {
        let (arrived, frame) = self.waiting.pop()?;
        self.bytes -= frame.size().as_u64();
        Some((arrived, frame))
    }

    /// Whether one more frame fits.
    fn fits(&self, frame: &F, room: Room) -> bool {
        room.holds(self.packets() + 1, self.bytes + frame.size().as_u64())
    }
}

/// What active queue management wants done with an arriving packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Pass,
    /// Mark it if it is ECN-capable, else drop it.
    Mark,
    Drop,
}

/// Marks a frame as having experienced congestion, if it is ECN-capable (RFC 3168).
fn mark<F: Frame>(frame: &mut F) -> bool {
    let capable = frame.ecn() != Ecn::NotEct;
    if capable {
        frame.set_ecn(Ecn::Ce);
    }
    capable
}

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
    /// An empty queue before a link of `rate` (on average); `limit` is that of the link.
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
            Queue::Red { min, max, max_p, weight, adaptive, ecn } => {
                Self::Red(backlog, Red::new(min, max, max_p, weight, adaptive, ecn, rate, random))
            }
        }
    }

    /// Takes a frame in or drops it; drops and marks are counted. `class` steers it where there are classes.
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
                // Arrivals that find the queue full are no matter of chance.
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

    /// The next frame to transmit, with the time of its arrival; `None` if none may leave yet. Drops and marks on the way are
    /// counted.
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

    /// When [`Discipline::dequeue`] may find a frame: `now` if it can be asked at once, never if nothing waits.
    pub(crate) fn ready_at(&self, now: Nanos) -> Nanos {
        match self {
            Self::Htb(classes) => classes.ready_at(now),
            _ if self.packets() == 0 => Nanos::MAX,
            _ => now,
        }
    }

    /// What the classes have done since `since`; nothing where there are none.
    pub(crate) fn class_stats(&self, since: Nanos, now: Nanos) -> Vec<ClassStats> {
        match self {
            Self::Htb(classes) => classes.class_stats(since, now),
            _ => Vec::new(),
        }
    }

    /// The statistics begin anew.
    pub(crate) fn reset_stats(&mut self, now: Nanos) {
        if let Self::Htb(classes) = self {
            classes.reset_stats(now);
        }
    }

    /// The link has nothing left to transmit.
    pub(crate) fn idle(&mut self, now: Nanos) {
        if let Self::Red(_, red) = self {
            red.idle(now);
        }
    }

    /// How many packets wait.
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

    /// How many bytes wait.
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
