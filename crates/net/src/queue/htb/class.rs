//! State of a class: buckets, mode, and the queue of a leaf.

use narrows_units::{Bytes, Nanos, Rate};

use super::bucket::Bucket;
use super::tree::{Htb, HtbClass};
use super::turn::Turn;
use crate::Frame;
use crate::limit::Limit;
use crate::queue::backlog::{Backlog, MTU, Room};

pub(super) const PRIORITIES: usize = Htb::PRIORITIES as usize;
/// Number of levels. Leaves have level 0; the link has the highest level.
pub(super) const LEVELS: usize = Htb::MAX_DEPTH + 1;

/// Upper bound of a default quantum, in bytes.
const LARGEST_QUANTUM: u64 = 200_000;
/// Minimum time whose tokens fit into a default bucket: the resolution of capacity traces.
const BURST_TIME: Nanos = Nanos::from_millis(1);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    Red,
    Yellow,
    Green,
}

#[derive(Clone, Debug)]
pub(super) struct Class<F> {
    /// Index of the parent; for the link, its own index.
    pub(super) parent: usize,
    pub(super) level: usize,
    pub(super) tokens: Bucket,
    pub(super) ceil: Bucket,
    pub(super) filled_at: Nanos,
    pub(super) mode: Mode,
    /// Priorities, as bits, at which the class or one of its borrowers has a backlog.
    pub(super) active: u8,
    /// The borrowers of the class, by priority.
    pub(super) feeds: [Turn; PRIORITIES],
    // The fields below are used by leaves only.
    pub(super) rate: Rate,
    pub(super) limit: Limit,
    pub(super) policed: bool,
    pub(super) priority: usize,
    pub(super) quantum: i64,
    /// Number of bytes that the leaf may still send in its turn, by level of the lender.
    pub(super) deficits: [i64; LEVELS],
    pub(super) backlog: Backlog<F>,
    pub(super) counts: Counts,
}

/// Counters of a leaf since the start of the statistics.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Counts {
    pub(super) packets: u64,
    pub(super) bytes: u64,
    pub(super) dropped: u64,
    pub(super) delay_sum_ns: u128,
    /// Sum of the waiting times of all packets up to `waited_at`, in nanoseconds.
    pub(super) waited: u128,
    pub(super) waited_at: Nanos,
}

impl<F: Frame> Class<F> {
    pub(super) fn fill(&mut self, now: Nanos) {
        let elapsed = now - self.filled_at;
        self.tokens.fill(elapsed);
        self.ceil.fill(elapsed);
        self.filled_at = self.filled_at.max(now);
    }

    /// The current mode of the class, and the time until this mode changes if no packet is sent.
    pub(super) fn mode_now(&self) -> (Mode, Nanos) {
        let (ceil, rate) = (self.ceil.until_paid(), self.tokens.until_paid());
        if self.policed || ceil.max(rate).is_zero() {
            (Mode::Green, Nanos::MAX)
        } else if ceil.is_zero() {
            (Mode::Yellow, rate)
        } else {
            (Mode::Red, ceil)
        }
    }

    /// Whether the queue accepts one more packet.
    pub(super) fn fits(&self, frame: &F, room: Room) -> bool {
        let room = match self.limit {
            _ if matches!(room, Room::Idle) => Room::Idle,
            Limit::Packets(packets) => Room::Packets(packets),
            Limit::Bytes(bytes) => Room::Bytes(bytes.as_u64()),
            // An empty queue accepts a packet, whatever the rate.
            Limit::Time(_) if self.backlog.packets() == 0 => Room::Idle,
            Limit::Time(wait) if self.rate.time_for(Bytes::new(self.backlog.bytes())) <= wait => Room::Idle,
            Limit::Time(_) => Room::Packets(self.backlog.packets()),
        };
        self.backlog.fits(frame, room)
    }

    /// Accounts for waiting time; must be called before the number of waiting packets changes.
    pub(super) fn account(&mut self, now: Nanos) {
        self.counts.waited = self.waited(now);
        self.counts.waited_at = self.counts.waited_at.max(now);
    }

    pub(super) fn waited(&self, now: Nanos) -> u128 {
        let since = now - self.counts.waited_at;
        self.counts.waited + u128::from(self.backlog.packets()) * u128::from(since.as_nanos())
    }
}

/// Values of a class from its configuration or, by default, derived from its rates.
pub(super) struct Derived {
    pub(super) quantum: i64,
    pub(super) burst: Bytes,
    pub(super) ceil: Rate,
    pub(super) ceil_burst: Bytes,
}

impl Derived {
    /// Computes the values. `round` is an upper bound of the time that the turns of all other classes take.
    pub(super) fn new(class: &HtbClass, round: Nanos, rate: Rate, ceil: Option<Rate>) -> Self {
        let depth = |rate: Rate| Bytes::new(MTU.saturating_add(rate.over(round).as_u64()));
        let quantum = class.quantum.map_or(rate.as_bytes_per_sec() / 10, u64::from);
        let most = if class.quantum.is_some() { u64::from(u32::MAX) } else { LARGEST_QUANTUM };
        Self {
            quantum: quantum.clamp(MTU, most) as i64,
            burst: class.burst.unwrap_or_else(|| depth(rate)),
            ceil: ceil.unwrap_or(Rate::MAX),
            ceil_burst: match ceil {
                Some(ceil) if ceil < Rate::MAX => class.ceil_burst.unwrap_or_else(|| depth(ceil)),
                // Without a ceiling the bucket never runs into debt.
                _ => Bytes::MAX,
            },
        }
    }
}

/// Time in which the link sends two packets per leaf, plus [`BURST_TIME`].
pub(super) fn round(config: &Htb, rate: Rate) -> Nanos {
    let packets = Bytes::new(2 * MTU * u64::from(config.leaves()));
    rate.time_for(packets).min(Nanos::from_secs(1_000)) + BURST_TIME
}
