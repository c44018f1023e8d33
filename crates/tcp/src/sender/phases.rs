//! Recovery phases: entry and exit, the RFC 6582 rules without SACK, and undo of spurious reductions.

use narrows_cc::{Bytes, CongestionCause, Flight, LostPacket, Nanos, Phase, RecoveryStyle};

use super::ack::Progress;
use super::rack::DUP_THRESH;
use super::timers::LEAST_TIMEOUT;
use super::undo::Undo;
use super::{Pending, Sender};
use crate::{ReductionFrom, TimerRules};

impl Sender {
    /// Detects losses by acknowledgements and by timer; returns the bytes.
    #[inline]
    pub(super) fn detect_losses(&mut self, now: Nanos) -> Bytes {
        self.timers.reordering_at = Nanos::MAX;
        if !self.config.sack || self.board.is_empty() {
            Bytes::ZERO
        } else if self.config.rack {
            if !self.recovery.rack.may_detect(&self.board) { Bytes::ZERO } else { self.detect_by_time(now) }
        } else if self.board.sacked().is_empty() {
            Bytes::ZERO
        } else {
            self.detect_by_count(now)
        }
    }

    fn detect_by_time(&mut self, now: Nanos) -> Bytes {
        let path = self.path();
        let mut lost = Bytes::ZERO;
        while let Some(id) = self.recovery.rack.next_lost(now, &self.board, path) {
            lost += self.declare_lost(now, id);
        }
        let deadline = self.recovery.rack.deadline(&mut self.board, path);
        let grain = if self.config.timers == TimerRules::Linux { LEAST_TIMEOUT } else { Nanos::ZERO };
        self.timers.reordering_at = deadline.saturating_add(grain);
        lost
    }

    /// Declares one packet lost.
    pub(super) fn declare_lost(&mut self, now: Nanos, id: u32) -> Bytes {
        let record = *self.board.get(id);
        self.board.mark_lost(id);
        let bytes = record.bytes();
        if record.len > 0 {
            self.stats.lost_packets += 1;
            // Records are numbered in sequence order, i.e. in order of first transmission.
            let packet = LostPacket { bytes, packet: u64::from(id), sent: &record.snapshot };
            self.window.driver.lost(now, &packet, self.in_network());
        }
        bytes
    }

    /// Whether an acknowledgement in the open phase revealed a loss.
    #[inline]
    pub(super) fn shall_enter_recovery(&self) -> bool {
        if self.board.has_lost() {
            return true;
        }
        // RFC 6582 section 3.2, step 2: at most once per window of data.
        let enough = self.recovery.has_enough_duplicates() && !self.config.rack;
        enough && !self.board.is_empty() && (self.config.sack || self.stream.una > self.recovery.point)
    }

    /// Whether a lost packet was repeated and is not yet acknowledged.
    pub(super) fn has_repairs_in_flight(&self) -> bool {
        let mut ids = self.board.ids();
        self.config.sack && self.board.retransmitted() > 0 && ids.any(|id| self.board.get(id).is_repair())
    }

    /// Enters recovery on an acknowledgement of `acked` bytes, `cumulative` of them cumulatively.
    pub(super) fn enter_recovery(&mut self, now: Nanos, cause: CongestionCause, (acked, cumulative): (Bytes, Bytes)) {
        let local = self.pending.has(Pending::CONGESTED);
        if cause == CongestionCause::Ecn && self.window.driver.control().cwnd <= self.mss() && !local {
            // RFC 3168 section 6.1.2: a window of one segment cannot shrink, so the next packet waits for one RTO.
            self.pacing.hold_until(now + self.rtt.rto());
        }
        // FlightSize when the acknowledgement arrived. When one recovery follows another, RFC 5681 taken literally
        // still counts data SACKed in the previous one as outstanding, although it has left the network. The flight is
        // therefore limited to the window (Linux reduces the window itself; RFC 9937 excludes SACKed data).
        let allowed = self.window.driver.scheme().control().cwnd.max(self.mss());
        let limited_transmit = Bytes::new(self.recovery.limited_transmit);
        let outstanding = (self.stream.flight_size() + cumulative).min(allowed + limited_transmit);
        // Linux: `tcp_init_cwnd_reduction` uses prior_cwnd, and schemes compute ssthresh from snd_cwnd.
        let (outstanding, flight_size) = match self.config.reduction_from {
            ReductionFrom::Cwnd => (allowed, allowed),
            ReductionFrom::Flight => (outstanding, outstanding - limited_transmit),
        };
        if cause == CongestionCause::Loss {
            self.stats.recoveries += 1;
            self.begin_undo(Phase::Recovery);
            self.mark_first_lost(now);
        }
        self.recovery.phase = Phase::Recovery;
        self.recovery.marked = cause == CongestionCause::Ecn;
        self.recovery.limited_transmit = 0;
        self.recovery.begin_repairs(self.stream.una, self.stream.nxt, self.mss());
        self.ecn.on_reduction();
        let flight = Flight { size: flight_size, inflight: self.in_network() };
        self.window.driver.recovery_entered(now, cause, flight, acked);
        // With precise marks a reduction takes effect at once (RFC 8257 section 3.3): spread over a round
        // trip, it would cause marks that trigger a second one.
        let at_once = cause == CongestionCause::Ecn && self.config.ecn_precise;
        let reducing = self.recovery.style == RecoveryStyle::Prr && self.config.sack && !at_once;
        self.window.enter_recovery(reducing, outstanding, self.config.prr);
        if !self.config.sack && cause == CongestionCause::Loss {
            self.begin_inflation();
        }
    }

    /// Enough duplicate acknowledgements imply that the first packet is lost if nothing else is known lost.
    fn mark_first_lost(&mut self, now: Nanos) {
        if self.board.has_lost() || self.has_repairs_in_flight() {
            return;
        }
        if let Some((id, _)) = self.board.first() {
            self.declare_lost(now, id);
        }
    }

    /// RFC 6582 section 3.2, step 3: packets that have left the network inflate the window; the lost one is
    /// retransmitted at once.
    fn begin_inflation(&mut self) {
        self.window.inflation = self.mss().as_u64() as i64 * i64::from(DUP_THRESH);
        self.pending.add(Pending::RETRANSMISSION);
    }

    /// Handles an acknowledgement in recovery; it `advanced` SND.UNA, or was a duplicate (`again`).
    pub(super) fn on_ack_in_recovery(&mut self, now: Nanos, progress: &Progress, advanced: bool, again: bool) {
        if self.recovery.is_over(self.stream.una) {
            self.leave_recovery(now);
            return;
        }
        if self.config.sack || self.recovery.marked || self.recovery.phase != Phase::Recovery {
            return;
        }
        let mss = self.mss().as_u64() as i64;
        if advanced {
            // RFC 6582 section 3.2, step 3: after a partial acknowledgement the next packet is lost too.
            self.mark_first_lost(now);
            self.pending.add(Pending::RETRANSMISSION);
            let acked = progress.acked.as_u64() as i64;
            self.window.inflation += if acked >= mss { mss - acked } else { -acked };
        } else if again {
            self.window.inflation += mss;
        }
    }

    /// A loss during the reduction for a mark turns it into fast recovery, without a second reduction for the
    /// same window. With precise feedback the first reduction may have been small, so a loss gets a full one
    /// (RFC 8257 section 3.5).
    pub(super) fn repair_while_reducing(&mut self, now: Nanos, acked: (Bytes, Bytes)) {
        let enough = self.recovery.has_enough_duplicates() && !self.config.rack;
        if !self.recovery.marked || self.board.is_empty() || !(enough || self.board.has_lost()) {
            return;
        }
        if self.config.ecn_precise {
            self.enter_recovery(now, CongestionCause::Loss, acked);
            return;
        }
        self.recovery.marked = false;
        self.stats.recoveries += 1;
        self.recovery.undo = Undo::default();
        self.recovery.begin_repairs(self.stream.una, self.stream.nxt, self.mss());
        self.mark_first_lost(now);
        if !self.config.sack {
            self.begin_inflation();
        }
    }

    fn leave_recovery(&mut self, now: Nanos) {
        self.recovery.leave();
        self.window.leave_recovery();
        self.window.driver.forget_unknown();
        self.window.driver.recovery_left(now, self.in_network());
    }

    /// RFC 8985 section 7.4: a loss repaired by the tail-loss probe calls for a reduction.
    pub(super) fn judge_probe(&mut self, now: Nanos, progress: &Progress, duplicate: Option<(u64, u64)>) {
        let Some(probe) = self.recovery.probe else { return };
        if self.stream.una < probe.end_seq {
            return;
        }
        if !probe.repeated || duplicate.is_some_and(|range| range.1 == probe.end_seq) {
            self.recovery.probe = None;
        } else if self.stream.una > probe.end_seq {
            self.recovery.probe = None;
            if self.recovery.is_open() {
                self.enter_recovery(now, CongestionCause::Loss, progress.bytes());
                self.recovery.undo = Undo::default();
                self.leave_recovery(now);
            }
        }
    }

    /// Undoes the last reduction if no retransmission was needed.
    pub(super) fn try_undo(&mut self, now: Nanos, progress: &Progress) {
        // After a timeout the first packet decides; in fast recovery, all retransmitted packets together.
        let settled = match self.recovery.phase {
            Phase::Open => false,
            Phase::Recovery => self.board.retransmitted() == 0,
            Phase::Loss => true,
        };
        let Some(phase) = self.recovery.undo.judge(progress.late, progress.repaired, settled) else { return };
        self.window.driver.restore_ssthresh(self.recovery.undo.ssthresh);
        self.recovery.undo = Undo::default();
        self.stats.spurious_recoveries += 1;
        if !self.recovery.is_open() {
            self.board.forget_losses();
            self.recovery.marked = false;
            self.recovery.leave();
            self.window.leave_recovery();
            self.timers.timeouts = 0;
            self.pending.take(Pending::RETRANSMISSION);
        }
        self.window.driver.spurious_loss(now, self.in_network(), phase);
    }

    pub(super) fn begin_undo(&mut self, phase: Phase) {
        let ssthresh = self.window.driver.ssthresh();
        self.recovery.undo = Undo::begin(phase, self.stream.una, self.stream.nxt, ssthresh);
    }
}
