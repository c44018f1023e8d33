//! Timers: start, retransmission timeout, RACK's reordering timer, tail-loss probe, zero-window probe.

use narrows_cc::{Bytes, CongestionCause, Flight, Nanos, Phase};

use super::scoreboard::Place;
use super::undo::Undo;
use super::{Pending, Sender, State};
use crate::rates::RateEvent;
use crate::{ReductionFrom, TimerRules};

/// The probe timeout before the first sample (RFC 8985 section 7.2).
const FIRST_PROBE: Nanos = Nanos::from_secs(1);

/// Time that Linux adds to short timeouts (`TCP_TIMEOUT_MIN_US`).
pub(super) const LEAST_TIMEOUT: Nanos = Nanos::from_millis(2);

/// Selects the loss timer in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LossTimer {
    /// RACK's reordering timer.
    Reordering,
    /// Tail-loss probe timer.
    Probe,
    /// Next attempt to send through this host's dropping queue.
    Resource,
}

/// Deadlines; [`Nanos::MAX`] for never.
#[derive(Clone, Copy, Debug)]
pub(super) struct Timers {
    /// Start, retransmission timeout, or zero-window probe.
    pub(super) rto_at: Nanos,
    pub(super) loss_timer_at: Nanos,
    /// Expiry of the packets left undecided by the last acknowledgement.
    pub(super) reordering_at: Nanos,
    /// Time since which nothing is outstanding; `MAX` otherwise.
    pub(super) quiet_since: Nanos,
    pub(super) last_sent_at: Nanos,
    /// Consecutive timeouts.
    pub(super) timeouts: u32,
    pub(super) loss_timer: LossTimer,
    /// The retransmission timer runs as persist timer (zero-window probe).
    pub(super) persist: bool,
    /// Probes since the peer's last answer.
    pub(super) probes: u8,
}

impl Timers {
    pub(super) fn new(start: Nanos) -> Self {
        Self {
            rto_at: start,
            loss_timer_at: Nanos::MAX,
            reordering_at: Nanos::MAX,
            quiet_since: Nanos::MAX,
            last_sent_at: start,
            timeouts: 0,
            loss_timer: LossTimer::Reordering,
            persist: false,
            probes: 0,
        }
    }

    #[inline]
    pub(super) fn deadline(&self) -> Nanos {
        self.rto_at.min(self.loss_timer_at)
    }

    /// Starts the retransmission timer unless it is running.
    #[inline]
    pub(super) fn start_rto(&mut self, now: Nanos, rto: Nanos) {
        if self.rto_at == Nanos::MAX {
            self.rto_at = now + rto;
        }
    }

    /// Stops the timers when nothing is outstanding; a persist timer continues.
    #[inline]
    pub(super) fn stop_repairs(&mut self) {
        if !self.persist {
            self.rto_at = Nanos::MAX;
        }
        self.loss_timer_at = Nanos::MAX;
    }

    /// Ends zero-window probing.
    pub(super) fn end_persist(&mut self) {
        self.persist = false;
        self.rto_at = Nanos::MAX;
    }

    /// Stops all timers.
    pub(super) fn stop(&mut self) {
        self.rto_at = Nanos::MAX;
        self.loss_timer_at = Nanos::MAX;
    }

    /// Starts the reordering timer if the last acknowledgement left packets undecided; returns whether it did.
    #[inline]
    pub(super) fn await_reordering(&mut self) -> bool {
        let doubtful = self.reordering_at != Nanos::MAX;
        if doubtful {
            self.loss_timer = LossTimer::Reordering;
            self.loss_timer_at = self.reordering_at;
        }
        doubtful
    }
}

impl Sender {
    /// Handles the timers that have expired by `now`.
    pub fn on_timer(&mut self, now: Nanos) {
        if now >= self.agent_deadline() {
            self.report_to_agent(now, RateEvent::Timer);
        }
        if self.state == State::Closed {
            return;
        }
        if self.state == State::Established {
            self.check_app_limited();
        }
        if now >= self.stream.app.deadline() {
            self.stream.on_time(now);
            self.report_to_agent(now, RateEvent::Written);
        }
        if now >= self.timers.loss_timer_at {
            self.timers.loss_timer_at = Nanos::MAX;
            match self.timers.loss_timer {
                LossTimer::Reordering => self.on_reordering_timer(now),
                LossTimer::Probe => self.on_probe_timer(now),
                LossTimer::Resource => self.on_resource_timer(now),
            }
        }
        if now >= self.timers.rto_at {
            self.timers.rto_at = Nanos::MAX;
            match self.state {
                State::Waiting => {
                    self.state = State::SynSent;
                    self.pending.add(Pending::SYN);
                }
                State::SynSent => {
                    self.rtt.back_off();
                    self.pending.add(Pending::SYN);
                }
                State::Established if self.timers.persist => {
                    self.rtt.back_off();
                    self.timers.probes = self.timers.probes.saturating_add(1);
                    self.pending.add(Pending::WINDOW_PROBE);
                    self.timers.rto_at = now + self.rtt.rto();
                }
                State::Established => self.on_timeout(now),
                State::Closed => {}
            }
        }
    }

    fn on_timeout(&mut self, now: Nanos) {
        let Some((first, _)) = self.board.first() else { return };
        // Data reported by duplicate acknowledgements has left the network; half of it would be a far too
        // large restart window.
        let outstanding = self.stream.flight_size() - self.window.presumed_delivered();
        let cwnd = self.window.driver.scheme().control().cwnd;
        let linux = self.config.reduction_from == ReductionFrom::Cwnd;
        let flight_size = if linux { cwnd } else { outstanding.min(cwnd) }.max(self.mss());
        // As in Linux `tcp_enter_loss`, a recovery of the same data has already reduced ssthresh.
        let reduced = linux && self.recovery.phase == Phase::Recovery && self.stream.una < self.recovery.point;
        self.stats.timeouts += 1;
        self.timers.timeouts += 1;
        let reneged = self.board.is_head_sacked();
        if reneged {
            self.board.forget_sacks();
        }
        // A timeout begins its own episode. It can be undone only outside any other episode.
        match self.recovery.phase {
            Phase::Open => {
                self.recovery.rack.on_timeout(&self.board);
                self.begin_undo(Phase::Loss);
            }
            Phase::Recovery => self.recovery.undo = Undo::default(),
            Phase::Loss => {}
        }
        // RFC 8985 section 6.3: with RACK only the first packet and overdue ones are lost, otherwise all.
        let path = self.path();
        let ids = self.board.ids();
        for id in ids {
            let record = self.board.get(id);
            let overdue = || self.recovery.rack.is_lost_on_timeout(now, record, &self.board, path);
            let by_time = self.config.rack && self.config.sack && !reneged;
            if record.place == Place::Flight && (id == first || !by_time || overdue()) {
                self.declare_lost(now, id);
            }
        }
        self.recovery.on_timeout(self.stream.nxt);
        self.window.leave_recovery();
        self.timers.loss_timer_at = Nanos::MAX;
        self.ecn.on_reduction();
        // RFC 5681 section 3.1: the loss window is one segment, whatever RACK leaves in flight.
        let kept = if linux { self.in_network() } else { Bytes::ZERO };
        let flight = Flight { size: flight_size, inflight: kept };
        self.window.driver.timeout(now, flight, self.timers.timeouts + u32::from(reduced));
        self.window.follow(self.mss());
        self.rtt.back_off();
        self.timers.rto_at = now + self.rtt.rto();
        self.pending.add(Pending::RETRANSMISSION);
    }

    fn on_reordering_timer(&mut self, now: Nanos) {
        let lost = self.detect_losses(now);
        if self.recovery.is_open() && self.shall_enter_recovery() {
            self.enter_recovery(now, CongestionCause::Loss, (Bytes::ZERO, Bytes::ZERO));
        }
        self.repair_while_reducing(now, (Bytes::ZERO, Bytes::ZERO));
        if self.window.reducing && !lost.is_zero() {
            self.window.reduce(Bytes::ZERO, self.board.inflight(), false, self.mss());
        }
        self.window.driver.refresh();
        self.window.follow(self.mss());
        self.timers.loss_timer_at = self.timers.reordering_at;
    }

    /// RFC 8985 section 7.2: schedules a probe if data is outstanding, no loss is known and no probe is in flight.
    #[inline]
    pub(super) fn arm_probe(&mut self, now: Nanos) {
        self.timers.loss_timer = LossTimer::Probe;
        self.timers.loss_timer_at = Nanos::MAX;
        let suits = !self.recovery.is_repairing() && self.board.sacked_packets() == 0 && self.recovery.probe.is_none();
        if !self.config.tlp || !self.config.rack || !self.config.sack || !suits || self.board.is_empty() {
            return;
        }
        let mut timeout = if self.rtt.srtt.is_zero() { FIRST_PROBE } else { self.rtt.srtt * 2 };
        // For a single packet in flight, Linux (`tcp_schedule_loss_probe`) adds the minimum RTO; the RFC adds the receiver's
        // ACK delay.
        let single = self.board.len() == 1;
        timeout += match (self.config.timers, single) {
            (TimerRules::Linux, true) => self.config.min_rto,
            (TimerRules::Linux, false) => LEAST_TIMEOUT,
            (TimerRules::Rfc, true) => self.config.ack_delay,
            (TimerRules::Rfc, false) => Nanos::ZERO,
        };
        self.timers.loss_timer_at = (now + timeout).min(self.timers.rto_at);
    }

    /// RFC 8985 section 7.3.
    fn on_probe_timer(&mut self, now: Nanos) {
        if self.board.is_empty() || self.recovery.is_repairing() || self.board.sacked_packets() > 0 {
            return;
        }
        self.pending.add(Pending::TAIL_PROBE);
        self.timers.rto_at = now + self.rtt.rto();
    }
}
