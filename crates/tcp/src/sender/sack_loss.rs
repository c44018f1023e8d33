//! RFC 6675: loss detection by counting SACKs, and packet selection in recovery.

use narrows_cc::{Bytes, Nanos, Phase};

use super::Sender;
use super::rack::DUP_THRESH;
use super::scoreboard::Place;

/// State of RFC 6675. The variable `pipe` of the RFC is the scoreboard's inflight.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct SackLoss {
    /// IsLost has been evaluated for all data below this number.
    judged: u64,
    /// Rule 3 of NextSeg has considered all data below this number.
    doubtful_from: u64,
    /// RescueRxt of RFC 6675.
    pub(super) rescue: u64,
}

impl SackLoss {
    pub(super) fn on_recovery_entered(&mut self, una: u64, mss: Bytes) {
        self.doubtful_from = una;
        self.rescue = una + mss.as_u64();
    }
}

impl Sender {
    /// IsLost: declares packets lost above which three separate ranges or more than two segments are SACKed.
    pub(super) fn detect_by_count(&mut self, now: Nanos) -> Bytes {
        let most = self.mss().as_u64() * u64::from(DUP_THRESH - 1);
        let (mut ranges, mut bytes) = (0, 0);
        let mut below = 0;
        for (start, end) in self.board.sacked().descending() {
            ranges += 1;
            bytes += end - start;
            if ranges >= DUP_THRESH || bytes > most {
                below = start;
                break;
            }
        }
        let mut lost = Bytes::ZERO;
        if below <= self.recovery.sack_loss.judged {
            return lost;
        }
        let mut next = self.board.at(self.recovery.sack_loss.judged.max(self.stream.una));
        self.recovery.sack_loss.judged = below;
        let last = self.board.last();
        while let Some(id) = next {
            let record = self.board.get(id);
            if record.seq >= below {
                break;
            }
            // Counting never declares a retransmission lost: a lost retransmission is repaired only after a timeout.
            if record.place == Place::Flight && record.retransmissions == 0 {
                lost += self.declare_lost(now, id);
            }
            next = (Some(id) != last).then(|| id.wrapping_add(1));
        }
        lost
    }

    /// NextSeg, rules 3 and 4: selects a packet to retransmit if there are neither lost packets nor new data to send.
    /// The flag is true if rule 4 selected the packet.
    pub(super) fn next_doubtful(&mut self) -> Option<(u32, bool)> {
        if self.config.rack || !self.config.sack || self.recovery.phase != Phase::Recovery || self.recovery.marked {
            return None;
        }
        let highest = self.board.sacked().end().unwrap_or(0);
        let last = self.board.last()?;
        let mut next = self.board.at(self.recovery.sack_loss.doubtful_from.max(self.stream.una));
        while let Some(id) = next {
            let record = self.board.get(id);
            if record.seq >= highest {
                break;
            }
            self.recovery.sack_loss.doubtful_from = record.seq;
            if record.place == Place::Flight && record.retransmissions == 0 {
                return Some((id, false));
            }
            next = (id != last).then(|| id.wrapping_add(1));
        }
        if self.stream.una <= self.recovery.sack_loss.rescue {
            return None;
        }
        // If the highest SACK block reaches SND.NXT, the highest packet that is not SACKed is directly below the block.
        let unsacked = match self.board.sacked().descending().next() {
            Some((start, end)) if end == self.stream.nxt => self.board.at(start)?.wrapping_sub(1),
            _ => last,
        };
        Some((unsacked, true))
    }
}
