//! Time passes.

use narrows_cc::{Flight, Nanos, Phase};

use super::Connection;
use super::rtt::LONGEST;
use super::state::State;
use crate::{Ccid, ResetCode};

impl Connection {
    /// When [`Connection::on_timer`] wants to be called; [`Nanos::MAX`] for never.
    pub fn deadline(&self) -> Nanos {
        let mut at = self.backoff.deadline();
        if self.state.is_open() {
            at = at.min(self.half.timer).min(self.reception.deadline()).min(self.features.deadline());
            at = at.min(self.gone_at());
            if self.half.pacing_blocked {
                at = at.min(self.half.pacer.next());
            }
        }
        at
    }

    /// When an answer that does not come has been waited for long enough.
    fn gone_at(&self) -> Nanos {
        self.half.waiting.map_or(Nanos::MAX, |since| since.saturating_add(self.config.msl * 4))
    }

    /// Time has reached the deadline. To be followed by [`Connection::poll_transmit`].
    pub fn on_timer(&mut self, now: Nanos) {
        match self.state {
            State::Request | State::Respond | State::PartOpen => self.on_handshake_timer(now),
            State::CloseReq | State::Closing | State::TimeWait => self.on_close_timer(now),
            State::Closed | State::Listen | State::Open => {}
        }
        if !self.state.is_open() {
            return;
        }
        if now >= self.gone_at() {
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

    /// Nothing new was acknowledged for the timeout, or reported for CCID 3's.
    fn on_timeout(&mut self, now: Nanos) {
        let flight_size = self.half.inflight;
        let datagram = self.config.datagram;
        self.half.timer = Nanos::MAX;
        if self.half.packets == 0 && self.half.waiting.is_none() && self.half.ccid != Ccid::Tfrc {
            return;
        }
        let nothing_sent = self.half.packets == 0;
        self.stats.timeouts += u64::from(!nothing_sent);
        let tfrc = self.half.ccid == Ccid::Tfrc;
        if self.half.phase == Phase::Open {
            self.half.episode = (self.half.records.first(), 0, 0);
        }
        self.half.episode.1 += self.half.packets;
        // What no answer came for fills the window no longer, also where it is not known to be lost (CCID 3).
        let all = self.half.records.end();
        self.lose_until(now, all);
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
        // Nothing may be left to send, or nothing may be sent: the answer to a Sync tells whether anybody is there, and where
        // its windows are. CCID 3's data asks by itself.
        let probe = half.waiting.is_some() && (nothing_sent || !tfrc);
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
