//! The signals that end Startup: a plateau of the delivery rate, and losses in several places (section 5.3.1 of the draft).

use crate::{Lost, Rate};

/// Finds out whether the delivery rate has stopped growing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FullBw {
    /// The rate against which growth is judged.
    pub base: Rate,
    /// Round trips without enough growth.
    pub count: u32,
    /// There were enough of them.
    pub now: bool,
}

impl FullBw {
    /// Judges growth anew, against `base`.
    pub fn restart(&mut self, base: Rate) {
        *self = Self { base, ..Self::default() };
    }

    /// The rate of a round trip that was not short of data. Growth by the ratio `growth` starts the count anew; `rounds`
    /// without it fill the pipe.
    pub fn round(&mut self, rate: Rate, growth: f64, rounds: u32) {
        if rate >= self.base.mul_f64(growth) {
            self.restart(rate);
        } else {
            self.count += 1;
            self.now = self.count >= rounds;
        }
    }
}

/// Losses of the loss round that runs: ranges of consecutive packets (v3), or acknowledgements that reported them (v2).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct LossCount {
    pub(super) events: u32,
    /// The first and the last packet of the range that was extended last.
    last: Option<(u64, u64)>,
}

impl LossCount {
    /// Counts the packet as a range of its own unless it continues the last one, at either end.
    #[inline]
    pub(super) fn add_range(&mut self, lost: &Lost) {
        let packet = lost.packet;
        self.last = Some(match self.last {
            Some((first, last)) if last + 1 == packet => (first, packet),
            Some((first, last)) if packet + 1 == first => (packet, last),
            _ => {
                self.events = self.events.saturating_add(1);
                (packet, packet)
            }
        });
    }
}
