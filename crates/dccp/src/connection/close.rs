//! Connection close (RFC 4340 section 8.3).

use narrows_cc::Nanos;

use super::Connection;
use super::config::Role;
use super::state::{Backoff, State};
use crate::wire::ResetCode;

impl Connection {
    /// Sends the queued data, then closes the connection. Call [`Connection::poll_transmit`] next.
    pub fn close(&mut self, now: Nanos) {
        self.half.ended = true;
        match self.state {
            State::Listen => self.tear_down(State::Closed, ResetCode::Closed as u8),
            State::Request | State::Respond if self.half.queue.is_empty() => {
                self.abort(now, ResetCode::Aborted);
            }
            State::Request | State::Respond | State::PartOpen | State::Open => {
                self.closing = true;
                self.close_when_empty(now);
            }
            _ => {}
        }
    }

    /// Terminates the connection with a Reset. Call [`Connection::poll_transmit`] next.
    pub fn abort(&mut self, now: Nanos, code: ResetCode) {
        if self.state == State::Listen {
            self.tear_down(State::Closed, code as u8);
        } else if !self.state.is_over() {
            self.reset(now, code, [0; 3]);
        }
    }

    /// Sends Close or CloseReq once the send queue is empty.
    pub(super) fn close_when_empty(&mut self, now: Nanos) {
        if !self.closing || !self.half.queue.is_empty() || !self.state.is_open() {
            return;
        }
        if self.config.role == Role::Server && self.config.close_request {
            self.state = State::CloseReq;
            self.pending.close_req = true;
        } else {
            self.state = State::Closing;
            self.pending.close = true;
        }
        self.begin_closing(now);
    }

    fn begin_closing(&mut self, now: Nanos) {
        self.half.ended = true;
        self.half.timer = Nanos::MAX;
        self.backoff = Backoff::start(now, self.two_round_trips(), self.config.msl * 4);
    }

    /// Step 13: the server requests a close.
    pub(super) fn on_close_request(&mut self, now: Nanos) {
        match self.state {
            State::PartOpen | State::Open => {
                self.state = State::Closing;
                self.pending.close = true;
                self.half.queue.clear();
                self.begin_closing(now);
            }
            // The server repeats its CloseReq because the Close was lost.
            State::Closing => self.pending.close = true,
            _ => {}
        }
    }

    /// Step 14: the peer closes.
    pub(super) fn on_close(&mut self, now: Nanos) {
        self.reset(now, ResetCode::Closed, [0; 3]);
    }

    /// Step 9: the peer resets.
    pub(super) fn on_reset(&mut self, now: Nanos, code: u8) {
        self.tear_down(State::TimeWait, code);
        self.backoff = Backoff::start(now, self.config.msl * 2, self.config.msl * 2);
    }

    /// Ends the connection and sends a Reset.
    pub(super) fn reset(&mut self, _now: Nanos, code: ResetCode, data: [u8; 3]) {
        self.tear_down(State::Closed, code as u8);
        self.pending.reset = Some((code, data));
    }

    fn tear_down(&mut self, state: State, code: u8) {
        self.state = state;
        self.closed = Some(code);
        self.pending.clear();
        self.backoff = Backoff::NEVER;
        self.half.ended = true;
        self.half.timer = Nanos::MAX;
        self.half.queue.clear();
        self.stats.unreported_losses += self.half.records.unreported_losses();
        self.half.records = super::records::Records::default();
        self.half.pacing_blocked = false;
        self.reception.end();
        // The connection keeps its last sequence numbers, so that late packets cannot be confused with new packets.
    }

    /// Retransmits Close or CloseReq, aborts, or leaves TIMEWAIT.
    pub(super) fn on_close_timer(&mut self, now: Nanos) {
        if now >= self.backoff.until {
            if self.state == State::TimeWait {
                self.state = State::Closed;
                self.backoff = Backoff::NEVER;
            } else {
                self.gone = true;
                self.abort(now, ResetCode::Aborted);
            }
        } else if now >= self.backoff.at {
            self.backoff.back_off(now);
            self.pending.close_req |= self.state == State::CloseReq;
            self.pending.close |= self.state == State::Closing;
        }
    }
}
