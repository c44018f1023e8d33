//! Loss rate of DCCP-BBR: share of packets lost in the last 10 s.
//!
//! ```text
//! LR = 1 - nums / (current_no - entry_no)        (paper section 3.2, equations 6 and 11)
//! ```
//! `current_no`: greatest number received; `entry_no`: greatest number before the window; `nums`: packets received
//! after `entry_no`. The paper requires constant time, no memory per packet, a window of 10 s, and reordered packets
//! credited to the window in which they were sent. Sliding packet by packet would need a record per packet, so this
//! window slides by half seconds. Each half second stores its packet count and the greatest number before it, so a late
//! packet counts in the right half second.
//!
//! ## Differences
//! 1. The window is 9.5 to 10 s long.
//! 2. All packets count, including those without data, because they consume sequence numbers.

use narrows_cc::Nanos;

use crate::seq::Seq;

/// Greatest length of the window.
pub const WINDOW: Nanos = Nanos::from_secs(10);

/// Slots in the window.
const SLOTS: usize = 20;

/// Length of a slot in nanoseconds.
const SLOT_NANOS: u64 = WINDOW.as_nanos() / SLOTS as u64;

/// Packets of one half second.
#[derive(Clone, Copy, Default, Debug)]
struct HalfSecond {
    /// Index of the half second.
    time: u64,
    /// Greatest number received before this half second.
    entry: Seq,
    /// Packets received after `entry`, up to the next slot's `entry`.
    nums: u64,
}

/// DCCP-BBR receiver. Constant time per packet, constant memory.
#[derive(Clone, Debug)]
pub struct LossRate {
    /// Half seconds of the window, oldest first; `used` entries, at most one per half second.
    slots: [HalfSecond; SLOTS],
    used: usize,
    current: Seq,
}

impl LossRate {
    /// Starts to count with the packet after `entry`, the greatest number received so far.
    pub fn new(entry: Seq) -> Self {
        Self { slots: [HalfSecond::default(); SLOTS], used: 0, current: entry }
    }

    /// Records the first arrival of a packet; [`crate::AckVector::record`] identifies duplicates.
    pub fn arrive(&mut self, now: Nanos, seq: Seq) {
        let time = now.as_nanos() / SLOT_NANOS;
        self.expire(time);
        if seq.after(self.current) {
            if self.used == 0 || self.slots[self.used - 1].time < time {
                self.slots[self.used] = HalfSecond { time, entry: self.current, nums: 0 };
                self.used += 1;
            }
            self.current = seq;
        }
        // The packet counts in the newest slot whose `entry` precedes it, usually the last slot. Packets before all
        // slots are ignored.
        if let Some(own) = self.slots[..self.used].iter_mut().rev().find(|slot| seq.after(slot.entry)) {
            own.nums += 1;
        }
    }

    /// Drops slots that ended 10 s or more before the end of half second `time`.
    fn expire(&mut self, time: u64) {
        let old = self.slots[..self.used].partition_point(|slot| slot.time + SLOTS as u64 <= time);
        self.slots.rotate_left(old);
        self.used -= old;
    }

    /// LR, from 0 to 1; `None` if nothing arrived in the last 10 s.
    pub fn rate(&mut self, now: Nanos) -> Option<f64> {
        self.expire(now.as_nanos() / SLOT_NANOS);
        let entry = self.slots[..self.used].first()?.entry;
        let expected = self.current.minus(entry) as f64;
        let nums: u64 = self.slots[..self.used].iter().map(|slot| slot.nums).sum();
        Some((1.0 - nums as f64 / expected).clamp(0.0, 1.0))
    }

    /// Value of the Loss Rate option: LR in units of 1/(2^32 − 1). `None` as for [`LossRate::rate`].
    pub fn option(&mut self, now: Nanos) -> Option<u32> {
        self.rate(now).map(|rate| (rate * f64::from(u32::MAX)).round() as u32)
    }

    /// LR from the value of the option.
    pub fn from_option(value: u32) -> f64 {
        f64::from(value) / f64::from(u32::MAX)
    }
}
