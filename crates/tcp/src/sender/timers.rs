//! Timers: the start, the retransmission timeout, RACK's reordering timer, tail-loss probes and the probe of a closed window.

use narrows_cc::{Bytes, CongestionCause, Flight, Nanos, Phase};

use super::scoreboard::Place;
use super::{LossTimer, Pending, Sender, State};
use crate::rates::RateEvent;

/// The probe timeout before the first sample (RFC 8985 section 7.2).
const FIRST_PROBE: Nanos = Nanos::from_secs(1);

impl Sender {
    /// Time has reached the deadline.
    pub fn on_timer(&mut self, now: Nanos) {
        self.on_agent_timer(now);
        if self.state == State::Closed {
            return;
        }
        if self.state == State::Established {
            self.check_app_limited();
        }
        if now >= self.app.deadline() {
            let sent = self.data_sent();
            self.app.on_time(now, sent);
            self.app_end = 1 + self.app.limit().as_u64();
            self.report_to_agent(now, RateEvent::Written);
        }
        if now >= self.loss_timer_at {
            self.loss_timer_at = Nanos::MAX;
            match self.loss_timer {
                LossTimer::Reordering => self.on_reordering_timer(now),
                LossTimer::Probe => self.on_probe_timer(now),
            }
        }
        if now >= self.rto_at {
            self.rto_at = Nanos::MAX;
            match self.state {
                State::Waiting => {
                    self.state = State::SynSent;
                    self.pending.add(Pending::SYN);
                }
                State::SynSent => {
                    self.rtt.back_off();
                    self.pending.add(Pending::SYN);
                }
                State::Established if self.persist => {
                    self.rtt.back_off();
                    self.pending.add(Pending::WINDOW_PROBE);
                    self.rto_at = now + self.rtt.rto();
                }
                State::Established => self.on_timeout(now),
                State::Closed => {}
            }
        }
    }

    fn on_timeout(&mut self, now: Nanos) {
        let Some((first, _)) = self.board.first() else { return };
        // What duplicates reported has left the network; half of it would be far too much to start again with.
        let outstanding = self.flight_size() - self.presumed_delivered();
        let flight_size = outstanding.min(self.driver.scheme().control().cwnd).max(self.mss());
        self.stats.timeouts += 1;
        self.timeouts += 1;
        if self.phase != Phase::Loss {
            self.begin_undo_of_timeout();
        }
        // RFC 8985 section 6.3: with RACK only the first packet and those overdue are lost; otherwise all are.
        let path = self.path();
        let ids = self.board.ids();
        for id in ids {
            let record = self.board.get(id);
            let overdue = || self.rack.is_lost_on_timeout(now, record, &self.board, path);
            let by_time = self.config.rack && self.config.sack;
            if record.place == Place::Flight && (id == first || !by_time || overdue()) {
                self.declare_lost(now, id);
            }
        }
        self.phase = Phase::Loss;
        self.recovery_point = self.nxt;
        self.marked = false;
        self.reducing = false;
        self.inflation = 0;
        self.duplicate_acks = 0;
        self.limited_transmit = 0;
        self.probe = None;
        self.loss_timer_at = Nanos::MAX;
        self.cwr = self.ecn;
        let flight = Flight { size: flight_size, inflight: self.in_network() };
        self.driver.timeout(now, flight, self.timeouts);
        self.follow_window();
        self.rtt.back_off();
        self.rto_at = now + self.rtt.rto();
        self.pending.add(Pending::RETRANSMISSION);
    }

    fn on_reordering_timer(&mut self, now: Nanos) {
        let lost = self.detect_losses(now);
        if self.phase == Phase::Open && self.shall_enter_recovery() {
            self.enter_recovery(now, CongestionCause::Loss, (Bytes::ZERO, Bytes::ZERO));
        }
        self.repair_while_reducing(now, (Bytes::ZERO, Bytes::ZERO));
        if self.reducing && !lost.is_zero() {
            let window = self.prr.on_ack(Bytes::ZERO, self.board.inflight(), false, self.mss());
            self.cwnd = window.max(self.mss()).as_u64();
        }
        self.driver.refresh();
        self.follow_window();
        self.loss_timer_at = self.reordering_at;
    }

    /// RFC 8985 section 7.2: schedules a probe if data is outstanding, nothing is known to be missing and no probe is out.
    #[inline]
    pub(super) fn arm_probe(&mut self, now: Nanos) {
        self.loss_timer = LossTimer::Probe;
        self.loss_timer_at = Nanos::MAX;
        let suits = !self.is_repairing() && self.board.sacked_packets() == 0 && self.probe.is_none();
        if !self.config.tlp || !self.config.rack || !self.config.sack || !suits || self.board.is_empty() {
            return;
        }
        let mut timeout = if self.rtt.srtt.is_zero() { FIRST_PROBE } else { self.rtt.srtt * 2 };
        if self.board.len() == 1 {
            timeout += self.config.ack_delay;
        }
        self.loss_timer_at = (now + timeout).min(self.rto_at);
    }

    /// RFC 8985 section 7.3.
    fn on_probe_timer(&mut self, now: Nanos) {
        if self.board.is_empty() || self.is_repairing() || self.board.sacked_packets() > 0 {
            return;
        }
        self.pending.add(Pending::TAIL_PROBE);
        self.rto_at = now + self.rtt.rto();
    }
}
