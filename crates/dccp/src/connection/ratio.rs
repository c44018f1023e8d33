//! Acknowledgement congestion control: the Ack Ratio of CCID 2 (RFC 4341 section 6.1).
//!
//! ```text
//! a window in which an acknowledgement was lost:    R = 2 R
//! cwnd / (R^2 - R) windows in a row without loss:   R = R - 1
//! always:                                           R <= max(ceil(cwnd / 2), 2), and R >= 2 from cwnd = 4 on
//! ```
//!
//! For other schemes with Ack Vectors R is the configured ratio under the same upper bound, because fewer
//! than R packets in flight wait for the delayed acknowledgement.
//!
//! The type of a missing packet is unknown, so missing data packets of the peer count as acknowledgements
//! too.

use crate::seq::Seq;

/// Maximum number of missing numbers remembered.
const MAX_MISSING: usize = 8;

/// Number of later packets that declare a packet lost (RFC 4341 section 5: NUMDUPACK).
const NUMDUPACK: u8 = 3;

/// Losses among the acknowledgements of sent data.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct AckRatio {
    greatest: Option<Seq>,
    missing: [Option<(Seq, u8)>; MAX_MISSING],
    /// Whether an acknowledgement was lost in this window.
    lost: bool,
    /// Consecutive windows without loss.
    clean: u64,
    /// The window ends when a packet beyond this number is acknowledged.
    window_end: u64,
}

impl AckRatio {
    /// Records a packet from the peer.
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
                self.lost |= *later >= NUMDUPACK;
                slot.take_if(|(_, later)| *later >= NUMDUPACK);
            }
        }
        for back in 1..ahead.min(MAX_MISSING as i64 + 1) {
            match self.missing.iter_mut().find(|slot| slot.is_none()) {
                Some(slot) => *slot = Some((seq.add(-back), 1)),
                // More numbers are missing than slots exist: some packets are lost.
                None => self.lost = true,
            }
        }
    }

    /// Returns whether the window has ended, that is, whether `known` is beyond the window's end. The next window then
    /// ends at `end`.
    pub(super) fn ends_window(&mut self, known: u64, end: u64) -> bool {
        let ended = known > self.window_end;
        if ended {
            self.window_end = end;
        }
        ended
    }

    /// Ends a window of `cwnd` packets and returns the ratio that follows `ratio`.
    pub(super) fn next_ratio(&mut self, ratio: u64, cwnd: u64) -> u64 {
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
        next.clamp(least, max_ratio(cwnd))
    }
}

/// Greatest ratio for a window of `cwnd` packets.
pub(super) fn max_ratio(cwnd: u64) -> u64 {
    cwnd.div_ceil(2).clamp(2, 0xffff)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The Ack Ratio doubles after a window with a lost acknowledgement and falls by one after cwnd / (R^2 -
    /// R) clean windows, down to 2.
    #[test]
    fn ack_ratio_doubles_on_loss_and_decrements_after_clean_windows() {
        let mut acks = AckRatio::default();
        for n in [1, 2, 4, 5] {
            acks.on_packet(Seq::new(n));
        }
        assert_eq!(acks.next_ratio(2, 60), 2, "two later ones are not enough");
        acks.on_packet(Seq::new(6));
        assert_eq!(acks.next_ratio(2, 60), 4);
        // cwnd = 60: R falls from 4 to 3 after 60 / (16 - 4) = 5 windows, and to 2 after another 60 / (9 - 3) = 10
        // windows.
        let ratios: Vec<u64> = (0..40)
            .scan(4, |ratio, _| {
                *ratio = acks.next_ratio(*ratio, 60);
                Some(*ratio)
            })
            .collect();
        let expected = [vec![4; 4], vec![3; 10], vec![2; 26]].concat();
        assert_eq!(ratios, expected, "and 2 is the least");
    }

    /// The Ack Ratio is at most half the window, and may be 1 if the window has fewer than four packets.
    #[test]
    fn ack_ratio_is_at_most_half_the_window() {
        let mut acks = AckRatio { lost: true, ..AckRatio::default() };
        assert_eq!(acks.next_ratio(4, 10), 5);
        acks.lost = true;
        assert_eq!(acks.next_ratio(2, 3), 2);
        assert_eq!(acks.next_ratio(2, 3), 1, "three packets may be acknowledged one by one");
        assert_eq!(acks.next_ratio(1, 4), 2);
    }

    /// A reordered packet does not count as a lost acknowledgement.
    #[test]
    fn ack_ratio_late_packet_is_no_loss() {
        let mut acks = AckRatio::default();
        for n in [1, 3, 4, 2, 5, 6, 7] {
            acks.on_packet(Seq::new(n));
        }
        assert!(!acks.lost);
        acks.on_packet(Seq::new(100));
        assert!(acks.lost || acks.missing.iter().all(Option::is_some));
    }
}
