//! Queue disciplines: the departure order of packets, and AQM drops and marks.
//!
//! Each discipline has a file with its constants, its rules and their tests. The list below is the only list of
//! disciplines. The files of the disciplines import only `backlog`, `limit` and `stats`. A discipline with one backlog
//! implements [`Aqm`], any other implements [`Queueing`].

mod backlog;

use std::fmt::Debug;
use std::sync::Arc;

use narrows_units::{Bytes, Nanos, Random, Rate};

use self::backlog::{Backlog, Verdict, mark};
use crate::Frame;
use crate::hook::ClassQueue;
use crate::limit::Limit;
use crate::stats::{ClassStats, Tally};

pub(crate) use self::backlog::Room;

/// Passes the list of queue disciplines to the macro `$then`. Each entry consists of a description, the module, the
/// type of the constants and the name in scenarios. The list omits drop-tail, which has neither constants nor rules.
#[macro_export]
macro_rules! queue_disciplines {
    ($then:ident) => {
        $then! {
            /// RFC 8289.
            codel::CoDel(CoDel) "codel",
            /// RFC 8290.
            fq_codel::FqCoDel(FqCoDel) "fq-codel",
            /// RFC 8033.
            pie::Pie(Pie) "pie",
            /// Random early detection.
            red::Red(Red) "red",
            /// Marks arrivals at a queue above a threshold, RFC 8257.
            step::Step(Step) "step",
            /// RFC 9332: one queue for L4S, one for classic traffic.
            dualpi2::DualPi2(DualPi2) "dualpi2",
            /// Hierarchical token bucket: classes with assured rates and ceilings, which lend unused rate.
            htb::Htb(Arc<Htb>) "htb",
        }
    };
}

/// The constants of a discipline.
pub(crate) trait Configuration: Sized {
    /// The type of the queue.
    type Queue<F: Frame>: Queueing<F> + Clone + Debug;
    /// Creates an empty queue for a link of mean rate `rate` with the link's `limit`.
    fn queue<F: Frame>(&self, rate: Rate, limit: Limit, random: Random) -> Self::Queue<F>;
    /// Example constants for tests: the values of the specification, with marking on if the discipline can mark.
    fn example() -> Self;
}

/// A queue with its discipline.
pub(crate) trait Queueing<F: Frame> {
    /// Accepts a frame or drops it, and counts drops and marks. `class` selects the class of the frame in queues with
    /// classes.
    fn enqueue(&mut self, now: Nanos, frame: &F, class: Option<u8>, room: Room, stats: &mut Tally<F>) -> bool;
    /// Removes the next frame to transmit; returns it with its arrival time, or `None` if no frame may leave yet.
    /// Counts drops and marks.
    fn dequeue(&mut self, now: Nanos, stats: &mut Tally<F>) -> Option<(Nanos, F)>;
    /// Packets in the queue.
    fn packets(&self) -> u64;
    /// Bytes in the queue.
    fn bytes(&self) -> u64;
    /// Earliest time at which [`Queueing::dequeue`] may return a frame: `now` if a frame may leave now, [`Nanos::MAX`]
    /// if the queue is empty.
    fn ready_at(&self, now: Nanos) -> Nanos {
        if self.packets() == 0 { Nanos::MAX } else { now }
    }
    /// The link becomes idle.
    fn idle(&mut self, _now: Nanos) {}
    /// Number of queues with a separate limit.
    fn leaves(&self) -> u64 {
        1
    }
    /// See [`ClassQueue::set_class`].
    fn set_class(&mut self, _now: Nanos, _class: u8, _rate: Rate, _ceil: Rate) {}
    /// See [`ClassQueue::class_backlog`].
    fn class_backlog(&self, _class: u8) -> Bytes {
        Bytes::ZERO
    }
    /// Statistics of the classes since `since`; empty for queues without classes.
    fn class_stats(&self, _since: Nanos, _now: Nanos) -> Vec<ClassStats> {
        Vec::new()
    }
    /// Resets the statistics.
    fn reset_stats(&mut self, _now: Nanos) {}
}

/// Rules of a discipline with one backlog. The default methods implement drop-tail.
pub(crate) trait Aqm {
    /// Decides on an arriving frame.
    fn judge<F: Frame>(&mut self, _now: Nanos, _frame: &F, _backlog: &Backlog<F>, _room: Room) -> Verdict {
        Verdict::Pass
    }
    /// A frame entered the queue, so the link is busy.
    fn accepted(&mut self) {}
    /// Removes the next frame to transmit; returns it with its arrival time.
    fn next<F: Frame>(&mut self, _now: Nanos, backlog: &mut Backlog<F>, _stats: &mut Tally<F>) -> Option<(Nanos, F)> {
        backlog.pop()
    }
    /// The link becomes idle.
    fn idle(&mut self, _now: Nanos) {}
}

/// Drop-tail: no rules.
impl Aqm for () {}

/// One backlog, managed by an AQM.
#[derive(Clone, Debug)]
pub(crate) struct Managed<F, A> {
    backlog: Backlog<F>,
    aqm: A,
}

impl<F: Frame, A> Managed<F, A> {
    fn new(aqm: A) -> Self {
        Self { backlog: Backlog::default(), aqm }
    }
}

impl<F: Frame, A: Aqm> Queueing<F> for Managed<F, A> {
    fn enqueue(&mut self, now: Nanos, frame: &F, _: Option<u8>, room: Room, stats: &mut Tally<F>) -> bool {
        let verdict = self.aqm.judge(now, frame, &self.backlog, room);
        let mut frame = *frame;
        let marked = verdict == Verdict::Mark && mark(&mut frame);
        if verdict == Verdict::Drop || (verdict == Verdict::Mark && !marked) {
            stats.dropped_aqm += 1;
            return false;
        }
        if !self.backlog.fits(&frame, room) {
            stats.dropped_queue += 1;
            return false;
        }
        stats.marked += u64::from(marked);
        self.backlog.push(now, &frame);
        self.aqm.accepted();
        true
    }

    fn dequeue(&mut self, now: Nanos, stats: &mut Tally<F>) -> Option<(Nanos, F)> {
        self.aqm.next(now, &mut self.backlog, stats)
    }

    fn packets(&self) -> u64 {
        self.backlog.packets()
    }

    fn bytes(&self) -> u64 {
        self.backlog.bytes()
    }

    fn idle(&mut self, now: Nanos) {
        self.aqm.idle(now);
    }
}

/// Defines the enums of all disciplines, and `call!`, which calls a method on the discipline of a queue.
macro_rules! each {
    ($($(#[$doc:meta])* $module:ident::$Variant:ident($Config:ty) $name:literal,)*) => {
        $(mod $module; pub use self::$module::$Variant;)*

        /// The queue discipline of a link, with its constants.
        #[derive(Clone, Debug, PartialEq)]
        pub enum Queue {
            /// First in, first out; arrivals that do not fit are dropped.
            DropTail,
            $($(#[$doc])* $Variant($Config),)*
        }

        impl Queue {
            /// One example of every discipline, for tests, with the values of its specification and with marking on if
            /// the discipline can mark.
            pub fn examples() -> Vec<Self> {
                vec![Self::DropTail, $(Self::$Variant(<$Config>::example()),)*]
            }
        }

        /// A queue with its discipline, dispatched by `match`.
        #[derive(Clone, Debug)]
        #[allow(clippy::large_enum_variant)] // a link with a discipline is boxed
        pub(crate) enum Discipline<F: Frame> {
            DropTail(Managed<F, ()>),
            $($Variant(<$Config as Configuration>::Queue<F>),)*
        }

        impl<F: Frame> Discipline<F> {
            /// Creates an empty queue for a link of mean rate `rate` with the link's `limit`.
            pub(crate) fn new(config: &Queue, rate: Rate, limit: Limit, random: Random) -> Self {
                match config {
                    Queue::DropTail => Self::DropTail(Managed::new(())),
                    $(Queue::$Variant(config) => Self::$Variant(config.queue(rate, limit, random)),)*
                }
            }
        }

        macro_rules! call {
            ($of:expr, $queue:ident => $call:expr) => {
                match $of {
                    Discipline::DropTail($queue) => $call,
                    $(Discipline::$Variant($queue) => $call,)*
                }
            };
        }
    };
}

queue_disciplines!(each);

pub use self::htb::{HtbClass, HtbError};

impl<F: Frame> Queueing<F> for Discipline<F> {
    fn enqueue(&mut self, now: Nanos, frame: &F, class: Option<u8>, room: Room, stats: &mut Tally<F>) -> bool {
        call!(self, queue => queue.enqueue(now, frame, class, room, stats))
    }
    fn dequeue(&mut self, now: Nanos, stats: &mut Tally<F>) -> Option<(Nanos, F)> {
        call!(self, queue => queue.dequeue(now, stats))
    }
    fn packets(&self) -> u64 {
        call!(self, queue => queue.packets())
    }
    fn bytes(&self) -> u64 {
        call!(self, queue => queue.bytes())
    }
    fn ready_at(&self, now: Nanos) -> Nanos {
        call!(self, queue => queue.ready_at(now))
    }
    fn idle(&mut self, now: Nanos) {
        call!(self, queue => queue.idle(now));
    }
    fn leaves(&self) -> u64 {
        call!(self, queue => queue.leaves())
    }
    fn class_stats(&self, since: Nanos, now: Nanos) -> Vec<ClassStats> {
        call!(self, queue => queue.class_stats(since, now))
    }
    fn reset_stats(&mut self, now: Nanos) {
        call!(self, queue => queue.reset_stats(now));
    }
}

impl<F: Frame> ClassQueue for Discipline<F> {
    fn set_class(&mut self, now: Nanos, class: u8, rate: Rate, ceil: Rate) {
        call!(self, queue => queue.set_class(now, class, rate, ceil));
    }
    fn class_backlog(&self, class: u8) -> Bytes {
        call!(self, queue => queue.class_backlog(class))
    }
}

/// Creates an empty queue for a rate of 1 Mbit/s without a link, for tests and benchmarks of a hook alone.
pub fn standalone_queue<F: Frame + 'static>(config: &Queue) -> Box<dyn ClassQueue> {
    let random = Random::stream(1, "standalone", 0);
    let rate = Rate::from_bytes_per_sec(125_000);
    Box::new(Discipline::<F>::new(config, rate, Limit::Packets(1000), random))
}
