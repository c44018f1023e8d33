//! State of a class: buckets, mode, and the queue of a leaf.

use narrows_units::{Bytes, Nanos, Rate};

use super::bucket::Bucket;
use super::tree::{Htb, HtbClass};
use super::turn::Turn;
use crate::Frame;
use crate::limit::Limit;
use crate::queue::backlog::{Backlog, MTU, Room};

pub(super) const PRIORITIES: usize = Htb::PRIORITIES as usize;
/// Leaves have level 0; the link has the highest.
pub(super) const LEVELS: usize = Htb::MAX_DEPTH + 1;

/// Upper bound of a default quantum, in bytes.
const LARGEST_QUANTUM: u64 = 200_000;
/// A default bucket holds at least the tokens of this time: capacity traces count in milliseconds.
const BURST_TIME: Nanos = Nanos::from_millis(1);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    Red,
    Yellow,
    Green,
}

#[derive(Clone, Debug)]
pub(super) struct Class<F> {
    /// The link's parent is itself.
    pub(super) parent: usize,
    pub(super) level: usize,
    pub(super) tokens: Bucket,
    pub(super) ceil: Bucket,
    pub(super) filled_at: Nanos,
    pub(super) mode: Mode,
    /// Priorities, as bits, at which it or a borrower has a backlog.
    pub(super) active: u8,
    /// Its borrowers, by priority.
    pub(super) feeds: [Turn; PRIORITIES],
    // Leaves only:
    pub(super) rate: Rate,
    pub(super) limit: Limit,
    pub(super) policed: bool,
    pub(super) priority: usize,
    pub(super) quantum: i64,
    /// Bytes left to send in its turn, by level of the lender.
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
    /// Sum of all waits up to `waited_at`, in packet nanoseconds.
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

    /// Its mode, and the time until the mode changes without a packet.
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

    /// Whether one more packet may wait.
    pub(super) fn fits(&self, frame: &F, room: Room) -> bool {
        let room = match self.limit {
            _ if matches!(room, Room::Idle) => Room::Idle,
            Limit::Packets(packets) => Room::Packets(packets),
            Limit::Bytes(bytes) => Room::Bytes(bytes.as_u64()),
            // One packet may wait at any rate.
            Limit::Time(_) if self.backlog.packets() == 0 => Room::Idle,
            Limit::Time(wait) if self.rate.time_for(Bytes::new(self.backlog.bytes())) <= wait => Room::Idle,
            Limit::Time(_) => Room::Packets(self.backlog.packets()),
        };
        self.backlog.fits(frame, room)
    }

    /// Accounts for waiting time; call it before the number of waiting packets changes.
    pub(super) fn account(&mut self, now: Nanos) {
        self.counts.waited = self.waited(now);
        self.counts.waited_at = self.counts.waited_at.max(now);
    }

    pub(super) fn waited(&self, now: Nanos) -> u128 {
        let since = now - self.counts.waited_at;
        self.counts.waited + u128::from(self.backlog.packets()) * u128::from(since.as_nanos())
    }
}

/// Class values from the configuration or, by default, from the rates.
pub(super) struct Derived {
    pub(super) quantum: i64,
    pub(super) burst: Bytes,
    pub(super) ceil: Rate,
    pub(super) ceil_burst: Bytes,
}

impl Derived {
    /// `round` is the duration of the others' turns.
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
                // Without a ceiling there is no debt.
                _ => Bytes::MAX,
            },
        }
    }
}

/// Time for two packets per leaf, plus [`BURST_TIME`].
pub(super) fn round(config: &Htb, rate: Rate) -> Nanos {
    let packets = Bytes::new(2 * MTU * u64::from(config.leaves()));
    rate.time_for(packets).min(Nanos::from_secs(1_000)) + BURST_TIME
}
