//! Deadlines and timeouts.

use narrows_cc::{Flight, Nanos, Phase};

use super::Connection;
use super::half::Episode;
use super::rtt::LONGEST;
use super::state::State;
use crate::{Ccid, ResetCode};

impl Connection {
    /// Time of the next [`Connection::on_timer`] call; [`Nanos::MAX`] if none is needed.
    pub fn deadline(&self) -> Nanos {
        let mut at = self.backoff.deadline();
        if self.state.is_open() {
            at = at.min(self.half.timer).min(self.reception.deadline()).min(self.features.deadline());
            at = at.min(self.abort_at());
            if self.half.pacing_blocked {
                at = at.min(self.half.pacer.next());
            }
        }
        at
    }

    /// Time to abort the connection if the peer still sends nothing.
    fn abort_at(&self) -> Nanos {
        self.half.unanswered_since.map_or(Nanos::MAX, |since| since.saturating_add(self.config.msl * 4))
    }

    /// Processes expired timers. Call [`Connection::poll_transmit`] next.
    pub fn on_timer(&mut self, now: Nanos) {
        match self.state {
            State::Request | State::Respond | State::PartOpen => self.on_handshake_timer(now),
            State::CloseReq | State::Closing | State::TimeWait => self.on_close_timer(now),
            State::Closed | State::Listen | State::Open => {}
        }
        if !self.state.is_open() {
            return;
        }
        if now >= self.abort_at() {
            self.gone = true;
            self.abort(now, ResetCode::Aborted);
            return;
        }
        self.reception.on_timer(now);
        self.half.check_app_limited();
        if now >= self.half.timer {
            self.on_timeout(now);
        }
    }

    /// The timeout expired without new acknowledgements, or under CCID 3 without a report.
    fn on_timeout(&mut self, now: Nanos) {
        let flight_size = self.half.inflight;
        let datagram = self.config.datagram;
        self.half.timer = Nanos::MAX;
        if self.half.packets == 0 && self.half.unanswered_since.is_none() && self.half.ccid != Ccid::Tfrc {
            return;
        }
        let nothing_sent = self.half.packets == 0;
        self.stats.timeouts += u64::from(!nothing_sent);
        let tfrc = self.half.ccid == Ccid::Tfrc;
        if self.half.phase == Phase::Open {
            self.half.episode = Episode { first: self.half.records.first(), lost: 0, late: 0 };
        }
        self.half.episode.lost += self.half.packets;
        // Unacknowledged packets leave the window, even if not known to be lost (CCID 3).
        let all = self.half.records.end();
        self.declare_lost_until(now, all);
        let half = &mut self.half;
        if !tfrc {
            half.phase = Phase::Loss;
            half.marked = false;
            half.recovery_point = half.records.end();
            half.rtt.back_off();
        }
        half.timeouts += 1;
        let flight = Flight { size: flight_size, inflight: half.inflight };
        half.driver.timeout(now, flight, half.timeouts);
        // There may be no data to send, or data may not leave. A Sync tests whether the peer is alive and
        // resynchronises the windows. Under CCID 3 the data packets that follow a timeout do the same.
        let probe = half.unanswered_since.is_some() && (nothing_sent || !tfrc);
        if probe {
            self.pending.sync = Some(self.gsr);
        }
        let half = &mut self.half;
        let mut wait = half.timeout(datagram);
        if probe && tfrc {
            wait = Nanos::from_nanos(wait.as_nanos() << half.timeouts.min(20)).min(LONGEST);
        }
        half.timer = now.saturating_add(wait);
    }
}
