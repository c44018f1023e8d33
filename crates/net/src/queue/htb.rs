//! # Hierarchical token bucket
//!
//! Classes form trees under the link. Each class has an assured rate and a ceiling. Siblings may borrow the rate that a
//! class leaves unused. Only leaves queue packets.
//!
//! ## Control law
//!
//! Each class has two buckets, one filled at its rate, one at its ceiling. They determine its mode (Devera 2002,
//! 'Definitions'):
//!
//! | mode | condition | permission |
//! |---|---|---|
//! | red | its ceiling's bucket is in debt | none |
//! | yellow | else, its rate's bucket is in debt | borrow from a parent that is green, or yellow and may borrow |
//! | green | else | send, and lend |
//!
//! A leaf that sends with its own tokens pays from both its buckets, as does each of its ancestors. A leaf that borrows
//! pays only from its ceiling's bucket, as does each class between the leaf and the lender. The lender and its
//! ancestors pay from both buckets. The link itself is a class that is always green and never pays.
//!
//! The level of an eligible leaf is the level of its lender. Green leaves go first (level 0), then leaves that borrow
//! from a green class, starting with the lender farthest from the link. Within a level the lowest priority number goes
//! first, and leaves of equal priority take turns by deficit round robin (Shreedhar and Varghese 1995) with their
//! quanta. Excess bandwidth therefore goes to the backlogged leaves of the best priority, in the ratio of their quanta.
//!
//! ## States
//!
//! ```text
//!            pays from the bucket of its rate         pays from the bucket of its ceiling
//!   green ────────────────────────────────▶ yellow ────────────────────────────────▶ red
//!     ▲                                      │  ▲                                     │
//!     └──────────────────────────────────────┘  └─────────────────────────────────────┘
//!            the debt is paid                          the debt is paid
//! ```
//!
//! ## References
//!
//! * M. Devera, 'Hierarchical token bucket theory', 2002: modes, the goal (equations 1 to 3), the order of
//!   levels.
//! * Linux `net/sched/sch_htb.c` (behaviour; version 6): the rules of payment, a debt of one packet, the quantum of a
//!   tenth of a second.
//!
//! ## Differences
//!
//! 1. Tokens are exact integers, and mode changes are exact to the nanosecond. There is no hysteresis, and
//!    debt is bounded only by the integer's range, 9 GB. Linux forgives debt beyond 60 s of the class's rate.
//! 2. Roots of the trees are children of the link, which always lends. In Linux a root cannot borrow; here a ceiling
//!    equal to the rate has the same effect.
//! 3. A policed class pays for a packet from its two buckets on arrival, and is always green: its accepted packets may
//!    wait for other packets, but never for tokens.
//! 4. By default a bucket holds one packet plus the tokens of a millisecond and of the time in which the link sends two
//!    packets per leaf, so a class loses no tokens during the turns of other classes. Linux derives its default from
//!    the timer's resolution.
//! 5. Every leaf has a separate limit; there is no common limit.
//!
//! ## Known weaknesses
//!
//! As in Linux, a green leaf sends even if an ancestor is red. If the rates of children sum to at most their parent's,
//! the parent exceeds its ceiling by at most the bursts of the leaves below it. Scenario checks reject violations;
//! [`Queueing::set_class`] does not check.

mod agenda;
mod bucket;
mod class;
#[cfg(test)]
mod random_tests;
#[cfg(test)]
mod tests;
mod tree;
mod turn;

use std::sync::Arc;

use narrows_units::{Bytes, Nanos, Random, Rate};

use self::agenda::Agenda;
use self::bucket::Bucket;
use self::class::{Class, Counts, Derived, LEVELS, Mode, PRIORITIES, round};
use self::turn::Turn;
use super::backlog::{Backlog, MTU, Room};
use super::{Configuration, Queueing};
use crate::Frame;
use crate::limit::Limit;
use crate::stats::{ClassStats, Tally};

pub use self::tree::{Htb, HtbClass, HtbError};

impl Configuration for Arc<Htb> {
    type Queue<F: Frame> = ClassQueues<F>;
    fn queue<F: Frame>(&self, rate: Rate, limit: Limit, _: Random) -> ClassQueues<F> {
        ClassQueues::new(self, rate, limit)
    }
    fn example() -> Self {
        let class = HtbClass::new("all", Rate::from_mbit_per_sec(5.0));
        match Htb::new(vec![class], 0) {
            Ok(one) => Self::new(one),
            Err(error) => unreachable!("{error}"),
        }
    }
}

#[derive(Clone, Debug)]
pub(crate) struct ClassQueues<F> {
    config: Arc<Htb>,
    round: Nanos,
    /// The configured classes in order, then the link.
    classes: Box<[Class<F>]>,
    /// Green classes with backlogged leaves, by level and priority.
    rows: [[Turn; PRIORITIES]; LEVELS],
    /// For each level, the priorities whose row is not empty, as bits.
    ready: [u8; LEVELS],
    agenda: Agenda,
    packets: u64,
    bytes: u64,
}

impl<F: Frame> ClassQueues<F> {
    /// Creates empty queues and full buckets for a link of `rate`. `limit` applies to classes without a limit.
    fn new(config: &Arc<Htb>, rate: Rate, limit: Limit) -> Self {
        let round = round(config, rate);
        // A time limit of the link is converted to bytes at the link's rate. The assured rate of a class that mostly
        // borrows would give far too small a limit.
        let limit = match limit {
            Limit::Time(wait) => Limit::Bytes(Bytes::new(rate.over(wait).as_u64().saturating_add(MTU))),
            limit => limit,
        };
        let link = config.classes().len();
        let depth = |mut class: Option<u8>| {
            let mut depth = 0;
            while let Some(number) = class {
                depth += 1;
                class = config.classes()[usize::from(number)].parent;
            }
            depth
        };
        let whole = HtbClass::new("", Rate::MAX);
        let class = |number: usize, class: &HtbClass| {
            let derived = Derived::new(class, round, class.rate, class.ceil);
            let leaf = config.is_leaf(number as u8);
            Class {
                parent: class.parent.map_or(link, usize::from),
                level: if leaf { 0 } else { LEVELS - 1 - depth(class.parent) - usize::from(number < link) },
                tokens: Bucket::new(class.rate, derived.burst),
                ceil: Bucket::new(derived.ceil, derived.ceil_burst),
                filled_at: Nanos::ZERO,
                mode: Mode::Green,
                active: 0,
                feeds: [Turn::EMPTY; PRIORITIES],
                rate: class.rate,
                limit: class.limit.unwrap_or(limit),
                policed: class.policed,
                priority: usize::from(class.priority),
                quantum: derived.quantum,
                deficits: [0; LEVELS],
                backlog: Backlog::default(),
                counts: Counts::default(),
            }
        };
        Self {
            config: Arc::clone(config),
            round,
            classes: config.classes().iter().chain([&whole]).enumerate().map(|(n, c)| class(n, c)).collect(),
            rows: [[Turn::EMPTY; PRIORITIES]; LEVELS],
            ready: [0; LEVELS],
            agenda: Agenda::new(),
            packets: 0,
            bytes: 0,
        }
    }

    /// Index of the class that represents the link, which always lends and never pays.
    fn link(&self) -> usize {
        self.classes.len() - 1
    }

    /// The leaves of the subtree of a class, itself included.
    fn below(&self, class: usize) -> impl Iterator<Item = &Class<F>> {
        let link = self.link();
        let under = move |mut leaf: usize| {
            while leaf != class && leaf != link {
                leaf = self.classes[leaf].parent;
            }
            leaf == class && leaf != link
        };
        (0..link).filter(|&n| self.classes[n].level == 0).filter(move |&n| under(n)).map(|n| &self.classes[n])
    }

    /// Returns the leaf whose turn it is at this level and priority. After all borrowers of a class have had their
    /// turn, the turn passes to the siblings of that class.
    fn leaf_in_turn(&mut self, level: usize, priority: usize) -> usize {
        let mut index = self.rows[level][priority].next_or_first();
        while self.classes[index].level > 0 {
            match self.classes[index].feeds[priority].next() {
                Some(child) => index = child,
                None => {
                    self.classes[index].feeds[priority].rewind();
                    if self.classes[index].mode == Mode::Green {
                        self.rows[level][priority].pass(index);
                    } else {
                        self.classes[self.classes[index].parent].feeds[priority].pass(index);
                    }
                    index = self.rows[level][priority].next_or_first();
                }
            }
        }
        index
    }

    /// Registers a class at the given priorities: in a row if the class is green, in its parent's feeds if the class is
    /// yellow. A feed that was empty makes the parent active, and the parent is then registered too.
    fn attach(&mut self, mut index: usize, mut priorities: u8) {
        while self.classes[index].mode == Mode::Yellow && priorities != 0 {
            let parent = self.classes[index].parent;
            let mut new = 0;
            for priority in bits(priorities) {
                let feed = &mut self.classes[parent].feeds[priority];
                new |= u8::from(feed.is_empty()) << priority;
                feed.insert(index);
            }
            self.classes[parent].active |= new;
            (index, priorities) = (parent, new);
        }
        if self.classes[index].mode == Mode::Green {
            let level = self.classes[index].level;
            for priority in bits(priorities) {
                self.rows[level][priority].insert(index);
            }
            self.ready[level] |= priorities;
        }
    }

    /// Reverses [`ClassQueues::attach`].
    fn detach(&mut self, mut index: usize, mut priorities: u8) {
        while self.classes[index].mode == Mode::Yellow && priorities != 0 {
            let parent = self.classes[index].parent;
            let mut gone = 0;
            for priority in bits(priorities) {
                let feed = &mut self.classes[parent].feeds[priority];
                // A class that has the turn when it is removed has the turn again when it returns.
                feed.remove(index);
                gone |= u8::from(feed.is_empty()) << priority;
            }
            self.classes[parent].active &= !gone;
            (index, priorities) = (parent, gone);
        }
        if self.classes[index].mode == Mode::Green {
            let level = self.classes[index].level;
            for priority in bits(priorities) {
                let row = &mut self.rows[level][priority];
                row.remove(index);
                row.leave(index);
                self.ready[level] &= !(u8::from(row.is_empty()) << priority);
            }
        }
    }

    /// Charges a leaf and its ancestors for a packet sent with the tokens of the class at `level`.
    fn charge(&mut self, now: Nanos, mut index: usize, level: usize, size: u64) {
        while index != self.link() {
            let class = &mut self.classes[index];
            class.fill(now);
            if !class.policed {
                if class.level >= level {
                    class.tokens.spend(size);
                }
                class.ceil.spend(size);
            }
            let parent = class.parent;
            self.renew_mode(now, index);
            index = parent;
        }
    }

    /// Updates the mode of a class whose buckets have just been filled.
    fn renew_mode(&mut self, now: Nanos, index: usize) {
        let (mode, lasts) = self.classes[index].mode_now();
        let class = &self.classes[index];
        if mode != class.mode {
            let active = class.active;
            self.detach(index, active);
            self.classes[index].mode = mode;
            self.attach(index, active);
        }
        match mode {
            Mode::Green => self.agenda.remove(index),
            _ => self.agenda.set(index, now.saturating_add(lasts)),
        }
    }

    /// Runs the due mode changes.
    fn change_modes(&mut self, now: Nanos) {
        while let Some((at, index)) = self.agenda.first()
            && at <= now
        {
            self.classes[index].fill(now);
            self.renew_mode(now, index);
        }
    }
}

impl<F: Frame> Queueing<F> for ClassQueues<F> {
    /// Accepts a frame or drops it. `class` selects the leaf; without `class`, the flow table selects it.
    fn enqueue(&mut self, now: Nanos, frame: &F, class: Option<u8>, room: Room, stats: &mut Tally<F>) -> bool {
        let index = usize::from(self.config.leaf_of(frame.flow(), class));
        let class = &mut self.classes[index];
        let size = frame.size().as_u64();
        if !class.fits(frame, room) {
            class.counts.dropped += 1;
            stats.dropped_queue += 1;
            return false;
        }
        if class.policed {
            class.fill(now);
            if !(class.tokens.covers(size) && class.ceil.covers(size)) {
                class.counts.dropped += 1;
                stats.dropped_policer += 1;
                return false;
            }
            class.tokens.spend(size);
            class.ceil.spend(size);
        }
        class.account(now);
        class.backlog.push(now, frame);
        self.packets += 1;
        self.bytes += size;
        if class.active == 0 {
            let active = 1 << class.priority;
            class.active = active;
            self.attach(index, active);
        }
        true
    }

    /// Removes the next packet that may leave; returns it with its arrival time.
    fn dequeue(&mut self, now: Nanos, _: &mut Tally<F>) -> Option<(Nanos, F)> {
        self.change_modes(now);
        let level = self.ready.iter().position(|&priorities| priorities != 0)?;
        let priority = self.ready[level].trailing_zeros() as usize;
        let index = self.leaf_in_turn(level, priority);
        let leaf = &mut self.classes[index];
        leaf.account(now);
        let (arrived, packet) = leaf.backlog.pop()?;
        let size = packet.size().as_u64();
        leaf.counts.packets += 1;
        leaf.counts.bytes += size;
        leaf.counts.delay_sum_ns += u128::from((now - arrived).as_nanos());
        self.packets -= 1;
        self.bytes -= size;
        leaf.deficits[level] -= size as i64;
        if leaf.deficits[level] < 0 {
            leaf.deficits[level] += leaf.quantum;
            let turn = match level {
                0 => &mut self.rows[0][priority],
                _ => &mut self.classes[self.classes[index].parent].feeds[priority],
            };
            turn.pass(index);
        }
        let leaf = &self.classes[index];
        if leaf.backlog.packets() == 0 {
            self.detach(index, leaf.active);
            self.classes[index].active = 0;
        }
        self.charge(now, index, level, size);
        Some((arrived, packet))
    }

    /// Earliest time at which [`Queueing::dequeue`] may return a packet: `now` if a packet may leave or a mode change
    /// is due, a later time if all packets wait for tokens, [`Nanos::MAX`] if the queue is empty.
    fn ready_at(&self, now: Nanos) -> Nanos {
        if self.packets == 0 {
            Nanos::MAX
        } else if self.ready.iter().any(|&priorities| priorities != 0) {
            now
        } else {
            self.agenda.first().map_or(Nanos::MAX, |(at, _)| at.max(now))
        }
    }

    /// Sets rate and ceiling of a class; [`Rate::MAX`] means no ceiling. For a policed class the lower of `rate` and
    /// `ceil` applies. The buckets keep their debts, and keep tokens up to the new depths.
    fn set_class(&mut self, now: Nanos, class: u8, rate: Rate, ceil: Rate) {
        let Some(config) = self.config.classes().get(usize::from(class)) else { return };
        let derived = Derived::new(config, self.round, rate, Some(ceil));
        let index = usize::from(class);
        let class = &mut self.classes[index];
        class.fill(now);
        class.rate = rate;
        class.tokens.set(rate, derived.burst);
        class.ceil.set(derived.ceil, derived.ceil_burst);
        class.quantum = derived.quantum;
        self.renew_mode(now, index);
    }

    /// Backlog of a class and its descendants, in bytes.
    fn class_backlog(&self, class: u8) -> Bytes {
        Bytes::new(self.below(usize::from(class)).map(|leaf| leaf.backlog.bytes()).sum())
    }

    /// Resets the counters.
    fn reset_stats(&mut self, now: Nanos) {
        for class in &mut self.classes {
            class.counts = Counts { waited_at: now, ..Counts::default() };
        }
    }

    /// Statistics of each class and its descendants from `since` to `now`.
    fn class_stats(&self, since: Nanos, now: Nanos) -> Vec<ClassStats> {
        let elapsed = (now - since).as_nanos().max(1) as f64;
        let of = |(number, class): (usize, &HtbClass)| {
            let mut stats = ClassStats { name: class.name.clone(), ..ClassStats::default() };
            let mut waited = 0;
            for leaf in self.below(number) {
                stats.sent_packets += leaf.counts.packets;
                stats.sent_bytes += leaf.counts.bytes;
                stats.dropped += leaf.counts.dropped;
                stats.queue_delay_sum_ns += leaf.counts.delay_sum_ns;
                stats.waiting_packets += leaf.backlog.packets();
                waited += leaf.waited(now);
            }
            ClassStats { queue_mean: waited as f64 / elapsed, ..stats }
        };
        self.config.classes().iter().enumerate().map(of).collect()
    }

    fn packets(&self) -> u64 {
        self.packets
    }

    /// Number of leaves.
    fn leaves(&self) -> u64 {
        (0..self.link() as u8).filter(|class| self.config.is_leaf(*class)).count() as u64
    }

    fn bytes(&self) -> u64 {
        self.bytes
    }
}

/// Positions of the bits that are set.
fn bits(mut mask: u8) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let first = mask.trailing_zeros() as usize;
        mask &= mask.wrapping_sub(1);
        (first < PRIORITIES).then_some(first)
    })
}
