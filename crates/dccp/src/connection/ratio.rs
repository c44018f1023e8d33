//! Congestion control of acknowledgements: the ack ratio of CCID 2 (RFC 4341 section 6.1).
//!
//! ```text
//! a window in which an acknowledgement was lost:       R = 2 R
//! cwnd / (R^2 - R) windows in a row without:           R = R - 1
//! always:                                              R <= max(ceil(cwnd / 2), 2), and R >= 2 from cwnd = 4 on
//! ```
//!
//! For data under other schemes with Ack Vectors the ratio is the one that was asked for, and the bound by the window holds too:
//! fewer packets than R in flight wait for the delayed acknowledgement.
//!
//! What is missing counts as an acknowledgement, for its type is not known: so does data of the other side.

use narrows_cc::Nanos;

use super::Connection;
use crate::feature::{self, Side};
use crate::{Ccid, Seq};

/// Numbers that are missing at a time, at most.
const MISSING: usize = 8;

/// A packet is lost when so many later ones have come.
const LATER: u8 = 3;

/// The acknowledgements of our data.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct AckRatio {
    greatest: Option<Seq>,
    missing: [Option<(Seq, u8)>; MISSING],
    /// One was lost in this window.
    lost: bool,
    /// Windows without loss in a row.
    clean: u64,
    /// The window ends when this packet of ours is acknowledged.
    until: u64,
}

impl AckRatio {
    /// A packet came from the other side.
    pub(super) fn on_packet(&mut self, seq: Seq) {
        let Some(greatest) = self.greatest else {
            self.greatest = Some(seq);
            return;
        };
        let ahead = seq.minus(greatest);
        if ahead <= 0 {
            for slot in &mut self.missing {
                slot.take_if(|(missing, _)| *missing == seq);
            }
            return;
        }
        self.greatest = Some(seq);
        for slot in &mut self.missing {
            if let Some((_, later)) = slot {
                *later += 1;
                self.lost |= *later >= LATER;
                slot.take_if(|(_, later)| *later >= LATER);
            }
        }
        for back in 1..ahead.min(MISSING as i64 + 1) {
            match self.missing.iter_mut().find(|slot| slot.is_none()) {
                Some(slot) => *slot = Some((seq.add(-back), 1)),
                // More are missing than are remembered: some of them are lost.
                None => self.lost = true,
            }
        }
    }

    /// A window of `cwnd` packets is over. Gives the ratio that follows `ratio`.
    fn next(&mut self, ratio: u64, cwnd: u64) -> u64 {
        let mut next = ratio;
        self.clean += 1;
        if std::mem::take(&mut self.lost) {
            self.clean = 0;
            next = ratio * 2;
        } else if ratio > 1 && self.clean >= cwnd / (ratio * ratio - ratio) {
            self.clean = 0;
            next = ratio - 1;
        }
        let least = if cwnd >= 4 { 2 } else { 1 };
        next.clamp(least, most(cwnd))
    }
}

/// The greatest ratio for a window of `cwnd` packets.
pub(super) fn most(cwnd: u64) -> u64 {
    cwnd.div_ceil(2).clamp(2, 0xffff)
}

impl Connection {
    /// After an acknowledgement: once per window the ratio is looked at.
    pub(super) fn control_acknowledgements(&mut self, now: Nanos) {
        let half = &mut self.half;
        if half.ccid == Ccid::Tfrc || half.records.known() <= half.ratio.until {
            return;
        }
        half.ratio.until = half.records.end();
        if self.features.is_changing(feature::ACK_RATIO, Side::Local) {
            return;
        }
        let ratio = self.features.value(feature::ACK_RATIO, Side::Local);
        let cwnd = half.driver.control().cwnd.as_u64() / u64::from(self.config.datagram.max(1));
        let next = match half.ccid {
            Ccid::TcpLike => half.ratio.next(ratio, cwnd),
            _ => u64::from(self.config.ack_ratio).clamp(1, most(cwnd)),
        };
        if next != ratio {
            self.features.state(now, feature::ACK_RATIO, next);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ratio_doubles_with_a_loss_and_falls_by_one_after_clean_windows() {
        let mut acks = AckRatio::default();
        for n in [1, 2, 4, 5] {
            acks.on_packet(Seq::new(n));
        }
        assert_eq!(acks.next(2, 60), 2, "two later ones are not enough");
        acks.on_packet(Seq::new(6));
        assert_eq!(acks.next(2, 60), 4);
        // 60 / (16 - 4) = 5 windows, then 60 / (9 - 3) = 10.
        let ratios: Vec<u64> = (0..40)
            .scan(4, |ratio, _| {
                *ratio = acks.next(*ratio, 60);
                Some(*ratio)
            })
            .collect();
        let expected = [vec![4; 4], vec![3; 10], vec![2; 26]].concat();
        assert_eq!(ratios, expected, "and 2 is the least");
    }

    #[test]
    fn the_window_bounds_it() {
        let mut acks = AckRatio { lost: true, ..AckRatio::default() };
        assert_eq!(acks.next(4, 10), 5);
        acks.lost = true;
        assert_eq!(acks.next(2, 3), 2);
        assert_eq!(acks.next(2, 3), 1, "three packets may be acknowledged one by one");
        assert_eq!(acks.next(1, 4), 2);
    }

    #[test]
    fn what_comes_late_was_not_lost() {
        let mut acks = AckRatio::default();
        for n in [1, 3, 4, 2, 5, 6, 7] {
            acks.on_packet(Seq::new(n));
        }
        assert!(!acks.lost);
        acks.on_packet(Seq::new(100));
        assert!(acks.lost || acks.missing.iter().all(Option::is_some));
    }
}
