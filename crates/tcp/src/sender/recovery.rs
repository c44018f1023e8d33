//! Phases of recovery: entering and leaving, without SACK as in RFC 6582, and the undo of needless reductions.

use narrows_cc::{Bytes, CongestionCause, Flight, LostPacket, Nanos, Phase, RecoveryStyle};
use narrows_packet::timestamp;

use super::ack::Progress;
use super::rack::DUP_THRESH;
use super::{Pending, Sender};

/// What is needed to find out that a reduction was unnecessary: that nothing it repaired had been lost.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Undo {
    /// The phase that was entered, if undoing is possible.
    phase: Option<Phase>,
    /// The data the episode is about: acknowledged up to here when it began …
    from: u64,
    /// … and sent up to here.
    to: u64,
    /// Timestamp of the first retransmission.
    first: Option<u32>,
    /// Retransmissions not yet reported as duplicates.
    unexplained: u32,
    /// No retransmission is known to have been needed (RFC 3522).
    eifel: bool,
    /// A timestamp echo showed that a retransmitted packet had only been late.
    late: bool,
    /// The window at the reduction before this one.
    ssthresh: Bytes,
}

impl Undo {
    fn begin(phase: Phase, from: u64, to: u64, ssthresh: Bytes) -> Self {
        Self { phase: Some(phase), from, to, eifel: true, ssthresh, ..Self::default() }
    }

    #[inline]
    pub(super) fn is_active(&self) -> bool {
        self.phase.is_some()
    }

    #[inline]
    pub(super) fn first_stamp(&self) -> Option<u32> {
        if self.phase.is_some() { self.first } else { None }
    }

    pub(super) fn on_retransmission(&mut self, now: Nanos) {
        self.unexplained += 1;
        self.first.get_or_insert(timestamp(now));
    }

    /// The receiver got `range` twice.
    pub(super) fn on_duplicate(&mut self, range: (u64, u64), mss: Bytes) {
        if range.0 >= self.from && range.1 <= self.to {
            let packets = (range.1 - range.0).div_ceil(mss.as_u64()) as u32;
            self.unexplained = self.unexplained.saturating_sub(packets);
        }
    }
}

impl Sender {
    /// Declares lost what the acknowledgements so far, or the time, show to be lost. Returns how much.
    #[inline]
    pub(super) fn detect_losses(&mut self, now: Nanos) -> Bytes {
        self.reordering_at = Nanos::MAX;
        if !self.config.sack || self.board.is_empty() {
            Bytes::ZERO
        } else if self.config.rack {
            if !self.rack.may_detect(&self.board) { Bytes::ZERO } else { self.detect_by_time(now) }
        } else if self.board.sacked().is_empty() {
            Bytes::ZERO
        } else {
            self.detect_by_count(now)
        }
    }

    fn detect_by_time(&mut self, now: Nanos) -> Bytes {
        let path = self.path();
        let mut lost = Bytes::ZERO;
        while let Some(id) = self.rack.next_lost(now, &self.board, path) {
            lost += self.declare_lost(now, id);
        }
        self.reordering_at = self.rack.deadline(&mut self.board, path);
        lost
    }

    /// Declares one packet lost.
    pub(super) fn declare_lost(&mut self, now: Nanos, id: u32) -> Bytes {
        let record = *self.board.get(id);
        self.board.mark_lost(id);
        let bytes = record.bytes();
        if record.len > 0 {
            self.stats.lost_packets += 1;
            // Records are numbered in sequence order, which is the order of first sending.
            let packet = LostPacket { bytes, packet: u64::from(id), sent: &record.snapshot };
            self.driver.lost(now, &packet, self.in_network());
        }
        bytes
    }

    /// Whether an acknowledgement in the open phase showed a loss.
    #[inline]
    pub(super) fn shall_enter_recovery(&self) -> bool {
        if self.board.has_lost() {
            return true;
        }
        // RFC 6582 section 3.2, step 2: not again for the window that was just repaired.
        let enough = self.duplicate_acks >= DUP_THRESH && !self.config.rack;
        enough && !self.board.is_empty() && (self.config.sack || self.una > self.recovery_point)
    }

    /// Enters recovery on an acknowledgement that delivered `acked` bytes, `cumulative` of them cumulatively.
    pub(super) fn enter_recovery(
        &mut self,
        now: Nanos,
        cause: CongestionCause,
        (acked, cumulative): (Bytes, Bytes),
    ) {
        if cause == CongestionCause::Ecn && self.driver.control().cwnd <= self.mss() {
            // RFC 3168 section 6.1.2: at one segment the window cannot shrink, so the next packet waits for a timeout's time.
            self.pacer.hold_until(now + self.rtt.rto());
        }
        // What was outstanding when the news arrived. When one recovery follows another, data that was selectively
        // acknowledged in the last one still counts as outstanding by the letter of RFC 5681, though it has left the network:
        // more than the window allowed is never the flight (Linux reduces the window itself; RFC 9937 leaves SACKed data out).
        let allowed = self.driver.scheme().control().cwnd.max(self.mss());
        let limited_transmit = Bytes::new(self.limited_transmit);
        let outstanding = (self.flight_size() + cumulative).min(allowed + limited_transmit);
        let flight_size = outstanding - limited_transmit;
        if cause == CongestionCause::Loss {
            self.stats.recoveries += 1;
            self.undo = Undo::begin(Phase::Recovery, self.una, self.nxt, self.driver.ssthresh());
            self.mark_first_lost(now);
        } else {
            self.stats.ecn_reductions += 1;
        }
        self.phase = Phase::Recovery;
        self.marked = cause == CongestionCause::Ecn;
        self.recovery_point = self.nxt;
        self.cwr = self.ecn;
        self.limited_transmit = 0;
        self.partial_seen = false;
        self.sack_loss.on_recovery_entered(self.una, self.mss());
        let flight = Flight { size: flight_size, inflight: self.in_network() };
        self.driver.recovery_entered(now, cause, flight, acked);
        // Where the share of marks counts, a cut takes effect at once (RFC 8257 section 3.3): spread over a round trip it
        // would leave marks behind that call for a second one.
        let at_once = cause == CongestionCause::Ecn && self.config.ecn_precise;
        self.reducing = self.style == RecoveryStyle::Prr && self.config.sack && !at_once;
        if self.reducing {
            self.prr = super::Prr::begin(self.driver.ssthresh(), outstanding);
        } else if !self.config.sack && cause == CongestionCause::Loss {
            self.begin_inflation();
        } else {
            self.inflation = 0;
        }
    }

    /// Enough duplicates tell that the first packet is lost, even if nothing else does.
    fn mark_first_lost(&mut self, now: Nanos) {
        if self.board.has_lost() {
            return;
        }
        if let Some((id, _)) = self.board.first() {
            self.declare_lost(now, id);
        }
    }

    /// RFC 6582 section 3.2, step 3: the packets that have left inflate the window; the lost one leaves at once.
    fn begin_inflation(&mut self) {
        self.inflation = self.mss().as_u64() as i64 * i64::from(DUP_THRESH);
        self.pending.add(Pending::RETRANSMISSION);
    }

    /// An acknowledgement while packets are being repaired; it `advanced`, or said the same `again`.
    pub(super) fn on_ack_in_recovery(
        &mut self,
        now: Nanos,
        progress: &Progress,
        advanced: bool,
        again: bool,
    ) {
        // A mark's reduction ends beyond the point, so that the word of it has reached the receiver.
        let past = if self.marked { self.una > self.recovery_point } else { self.una >= self.recovery_point };
        if past {
            self.leave_recovery(now);
            return;
        }
        if self.config.sack {
            return;
        }
        let mss = self.mss().as_u64() as i64;
        if !self.is_repairing() || self.phase == Phase::Loss {
            return;
        }
        if advanced {
            // RFC 6582 section 3.2, step 3: a partial acknowledgement means that the next packet is lost too.
            self.mark_first_lost(now);
            self.pending.add(Pending::RETRANSMISSION);
            let acked = progress.acked.as_u64() as i64;
            self.inflation += if acked >= mss { mss - acked } else { -acked };
        } else if again {
            self.inflation += mss;
        }
    }

    /// A loss during the reduction for a mark turns it into fast recovery, without a second reduction for the same window.
    /// With precise feedback the first may have been slight, and a loss is answered in full (RFC 8257 section 3.5).
    pub(super) fn repair_while_reducing(&mut self, now: Nanos, acked: (Bytes, Bytes)) {
        let enough = self.duplicate_acks >= DUP_THRESH && !self.config.rack;
        if !self.marked || self.board.is_empty() || !(enough || self.board.has_lost()) {
            return;
        }
        if self.config.ecn_precise {
            self.enter_recovery(now, CongestionCause::Loss, acked);
            return;
        }
        self.marked = false;
        self.stats.recoveries += 1;
        self.undo = Undo::default();
        self.recovery_point = self.nxt;
        self.partial_seen = false;
        self.sack_loss.on_recovery_entered(self.una, self.mss());
        self.mark_first_lost(now);
        if !self.config.sack {
            self.begin_inflation();
        }
    }

    fn leave_recovery(&mut self, now: Nanos) {
        let repaired_loss = !self.marked;
        self.phase = Phase::Open;
        self.marked = false;
        self.reducing = false;
        self.inflation = 0;
        self.duplicate_acks = 0;
        self.driver.forget_unknown();
        if repaired_loss {
            self.rack.on_recovery_left();
        }
        self.driver.recovery_left(now, self.in_network());
    }

    /// RFC 8985 section 7.4: whether the tail-loss probe repaired a loss, which then calls for a reduction.
    pub(super) fn judge_probe(&mut self, now: Nanos, progress: &Progress, duplicate: Option<(u64, u64)>) {
        let Some(probe) = self.probe else { return };
        if self.una < probe.end_seq {
            return;
        }
        if !probe.repeated || duplicate.is_some_and(|range| range.1 == probe.end_seq) {
            self.probe = None;
        } else if self.una > probe.end_seq {
            self.probe = None;
            if self.phase == Phase::Open {
                self.enter_recovery(now, CongestionCause::Loss, progress.bytes());
                self.undo = Undo::default();
                self.leave_recovery(now);
            }
        }
    }

    /// Undoes the last reduction if nothing that was sent again had been lost: every retransmission was reported as a
    /// duplicate (RFC 3708), or the timestamps show that the packets had only been late (RFC 3522).
    pub(super) fn try_undo(&mut self, now: Nanos, progress: &Progress) {
        let Some(phase) = self.undo.phase else { return };
        if self.undo.first.is_none() {
            return;
        }
        self.undo.late |= progress.late;
        self.undo.eifel &= !progress.repaired;
        // After a timeout the first packet's fate decides; in fast recovery that of all that were sent again.
        let settled =
            self.phase == Phase::Loss || (self.phase == Phase::Recovery && self.board.retransmitted() == 0);
        let late = self.undo.eifel && self.undo.late && settled;
        if !late && self.undo.unexplained > 0 {
            return;
        }
        self.driver.restore_ssthresh(self.undo.ssthresh);
        self.undo = Undo::default();
        self.stats.spurious_recoveries += 1;
        if self.phase != Phase::Open {
            self.board.forget_losses();
            self.rack.on_recovery_left();
            self.phase = Phase::Open;
            self.marked = false;
            self.reducing = false;
            self.inflation = 0;
            self.duplicate_acks = 0;
            self.timeouts = 0;
            self.pending.take(Pending::RETRANSMISSION);
        }
        self.driver.spurious_loss(now, self.in_network(), phase);
    }

    /// A timeout begins an episode of its own; it can be undone only if no other was under way.
    pub(super) fn begin_undo_of_timeout(&mut self) {
        self.undo = if self.phase == Phase::Open {
            Undo::begin(Phase::Loss, self.una, self.nxt, self.driver.ssthresh())
        } else {
            Undo::default()
        };
    }
}
