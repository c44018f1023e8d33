//! The signals that end Startup: a plateau of the delivery rate, and several separate losses (section 5.3.1 of
//! the draft).

use crate::{Lost, Rate};

/// Detects that the delivery rate has stopped growing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FullBw {
    /// The rate against which growth is judged.
    pub base: Rate,
    /// Round trips without enough growth.
    pub count: u32,
    /// The count has reached its limit: the pipe is full.
    pub now: bool,
}

impl FullBw {
    /// Restarts the count against `base`.
    pub fn restart(&mut self, base: Rate) {
        *self = Self { base, ..Self::default() };
    }

    /// Feeds the rate of a round trip that was not application-limited. Growth by the ratio `growth` restarts the
    /// count. The pipe is full after `rounds` round trips without such growth.
    pub fn round(&mut self, rate: Rate, growth: f64, rounds: u32) {
        if rate >= self.base.mul_f64(growth) {
            self.restart(rate);
        } else {
            self.count += 1;
            self.now = self.count >= rounds;
        }
    }
}

/// Losses of the current loss round: ranges of consecutive packets (v3), or acknowledgements that reported
/// loss (v2).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct LossCount {
    pub(super) events: u32,
    /// The first and the last packet of the most recent range.
    last: Option<(u64, u64)>,
}

impl LossCount {
    /// Counts the packet as a new range unless it extends the most recent range at either end.
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
