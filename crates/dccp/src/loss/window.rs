//! DCCP-BBR's loss rate: the share of the packets of the last 10 s that has not arrived.
//!
//! ```text
//! LR = 1 - nums / (current_no - entry_no)        (paper section 3.2, equations 6 and 11)
//! ```
//! `current_no`: the greatest number that arrived; `entry_no`: the greatest one before the window; `nums`: packets after
//! `entry_no` that arrived. The paper asks for constant time and no memory per packet, for 10 s, and for packets that come out
//! of order to be credited to the window they belong to; a window that slides by packets needs a record of each.
//! We let it slide by half seconds: each has its first number and its count, so a late packet finds its own.
//!
//! ## Differences
//! 1. The window is between 9.5 and 10 s long.
//! 2. All packets count, those without data too: they have numbers.

use narrows_cc::Nanos;

use crate::Seq;

/// How long a packet counts, at most.
pub const WINDOW: Nanos = Nanos::from_secs(10);

/// Parts of the window.
const SLOTS: usize = 20;

/// The length of a part.
const SLOT: u64 = WINDOW.as_nanos() / SLOTS as u64;

/// The packets that half a second brought.
#[derive(Clone, Copy, Default, Debug)]
struct Slot {
    /// Which half second.
    time: u64,
    /// The greatest number before it.
    entry: Seq,
    /// Packets after `entry` and not after the next slot's that arrived.
    nums: u64,
}

/// The receiver's side of DCCP-BBR. Constant time per packet, constant memory.
#[derive(Clone, Debug)]
pub struct LossRate {
    /// Oldest first, `used` of them; at most one for each half second of the window.
    slots: [Slot; SLOTS],
    used: usize,
    current: Seq,
}

impl LossRate {
    /// Packets after `entry` count: the last number known before.
    pub fn new(entry: Seq) -> Self {
        Self { slots: [Slot::default(); SLOTS], used: 0, current: entry }
    }

    /// A packet arrived for the first time; [`crate::AckVector::record`] tells copies apart.
    pub fn arrive(&mut self, now: Nanos, seq: Seq) {
        let time = now.as_nanos() / SLOT;
        self.expire(time);
        if seq.after(self.current) {
            if self.used == 0 || self.slots[self.used - 1].time < time {
                self.slots[self.used] = Slot { time, entry: self.current, nums: 0 };
                self.used += 1;
            }
            self.current = seq;
        }
        // The newest part that begins before it. Usually the last; what came before all of them is forgotten.
        if let Some(own) = self.slots[..self.used].iter_mut().rev().find(|slot| seq.after(slot.entry)) {
            own.nums += 1;
        }
    }

    /// Drops the parts that ended 10 s before the end of the half second `time`.
    fn expire(&mut self, time: u64) {
        let old = self.slots[..self.used].partition_point(|slot| slot.time + SLOTS as u64 <= time);
        self.slots.rotate_left(old);
        self.used -= old;
    }

    /// LR, from 0 to 1; none if nothing has arrived in the last 10 s.
    pub fn rate(&mut self, now: Nanos) -> Option<f64> {
        self.expire(now.as_nanos() / SLOT);
        let entry = self.slots[..self.used].first()?.entry;
        let expected = self.current.minus(entry) as f64;
        let nums: u64 = self.slots[..self.used].iter().map(|slot| slot.nums).sum();
        Some((1.0 - nums as f64 / expected).clamp(0.0, 1.0))
    }

    /// The contents of our Loss Rate option: LR in parts of 2^32 − 1. None as [`LossRate::rate`].
    pub fn option(&mut self, now: Nanos) -> Option<u32> {
        self.rate(now).map(|rate| (rate * f64::from(u32::MAX)).round() as u32)
    }

    /// LR from the contents of the option.
    pub fn from_option(value: u32) -> f64 {
        f64::from(value) / f64::from(u32::MAX)
    }
}
