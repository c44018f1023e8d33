//! The state of a negotiation, without the transport around it.

use crate::negotiation::{ATTENDED, Adjustment, Id, LONGEST_RTT_US, MOST, Message, Negotiation};
use narrows_cc::{Bytes, Nanos, Rate};

use crate::endpoint::NegotiationConfig;

/// Requests without an answer before it gives up.
const TRIES: u8 = 4;
/// The most patience with one request.
const LONGEST_PATIENCE: Nanos = Nanos::from_secs(10);
/// The time after failures on all paths until the next request.
const WAIT: Nanos = Nanos::from_secs(1);
/// The time after giving up until the next request.
const AGAIN: Nanos = Nanos::from_secs(10);
/// Round-trip times between two reviews of how much of the rate is used.
pub(super) const REVIEW: u64 = 8;
/// A sender that does not use its rate requests its usage times this.
const SPARE: f64 = 1.05;
/// Returning this share of its rate is worth a message.
const WORTH: f64 = 0.01;
/// The least rate it then requests, in packets per round-trip time.
pub(super) const LEAST: u64 = 2;
/// After such a silence of the nodes the requester probes whether they live; they send four times as often.
const SILENCE: Nanos = Nanos::from_secs(10);
/// The bits of Rtt that count requests.
const SERIAL: u32 = 7;

/// The stage of a negotiation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// Before the end of the handshake.
    Before,
    /// A request is out.
    Asking,
    /// All paths have been refused.
    Waiting,
    /// A rate is granted.
    Settled,
    /// No node answers, or none took part.
    Alone,
    /// The termination is out.
    Ended,
}

/// A change for the scheme.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Update {
    None,
    Rate(Rate),
    Withdrawn,
}

/// The requester's side of a negotiation.
#[derive(Clone, Debug)]
pub(super) struct Requester {
    id: Id,
    min: Rate,
    pub(super) max: Rate,
    /// The highest rate of both ends, as far as it is known.
    pub(super) ends: Rate,
    paths: u8,
    pub(super) stage: Stage,
    /// The path that data takes, and the one of the last request.
    pub(super) path: u8,
    requested_path: u8,
    /// On the wire.
    pub(super) granted: Option<Rate>,
    /// Max and Rtt of the last request, and whether its answer is still to come.
    requested: Rate,
    token: u32,
    awaited: bool,
    /// The least Speed of the reductions that came since the last request, and their path.
    cap: Rate,
    cap_path: u8,
    serial: u32,
    /// Requests since the last answer.
    tries: u8,
    /// When the stage ends by itself.
    pub(super) at: Nanos,
    request_due: bool,
    /// A termination is to leave over this path.
    termination_due: Option<u8>,
    /// The rate at which it could send: Max, or less if the application has less.
    want: Rate,
    /// The rate to request when a reduction is announced that other nodes do not know yet.
    unannounced: Option<Rate>,
    /// The time of that, and the time at which silence has lasted too long.
    announce_at: Nanos,
    silent_at: Nanos,
    /// The next review of the rate's use.
    pub(super) review: Review,
}

/// A review of how much of a rate is used: since when, the bytes sent until then, and when it is due.
#[derive(Clone, Copy, Debug)]
pub(super) struct Review {
    pub(super) from: Nanos,
    pub(super) sent: u64,
    pub(super) at: Nanos,
}

impl Requester {
    /// It requests no more than `config` says and the sender's `line` carries; of bytes on the wire `share` is payload.
    pub(super) fn new(config: &NegotiationConfig, line: Option<Rate>, share: f64) -> Self {
        let line = line.map_or(MOST, |line| line.mul_f64(1.0 / share));
        let max = config.max.min(line).min(MOST).max(Rate::from_bytes_per_sec(1));
        Self {
            id: config.id(),
            min: config.min.min(max),
            max,
            ends: max,
            paths: config.paths.max(1),
            stage: Stage::Before,
            path: 0,
            requested_path: 0,
            granted: None,
            requested: max,
            token: 0,
            awaited: false,
            cap: MOST,
            cap_path: 0,
            serial: 0,
            tries: 0,
            at: Nanos::MAX,
            request_due: false,
            termination_due: None,
            want: max,
            unannounced: None,
            announce_at: Nanos::MAX,
            silent_at: Nanos::MAX,
            review: Review { from: Nanos::MAX, sent: 0, at: Nanos::MAX },
        }
    }

    pub(super) fn deadline(&self) -> Nanos {
        self.at.min(self.review.at).min(self.announce_at).min(self.silent_at)
    }

    /// No data may leave.
    pub(super) fn holds(&self) -> bool {
        self.granted.is_none() && matches!(self.stage, Stage::Asking | Stage::Waiting)
    }

    pub(super) fn has_messages(&self) -> bool {
        self.request_due || self.termination_due.is_some()
    }

    /// Requests `max` over a path.
    pub(super) fn request(&mut self, path: u8, max: Rate) {
        self.stage = Stage::Asking;
        self.requested_path = path;
        self.requested = max;
        self.tries = 0;
        self.request_due = true;
    }

    /// No grant counts any more: it requests as at the beginning.
    pub(super) fn request_anew(&mut self) {
        self.granted = None;
        self.want = self.max;
        self.request(self.path, self.max);
    }

    /// The next path to try after this one, other than the one in use.
    fn next_path(&self, after: u8) -> Option<u8> {
        (after + 1..self.paths).find(|&path| self.granted.is_none() || path != self.path)
    }

    /// The request was refused.
    fn refused(&mut self, now: Nanos) {
        let renegotiated = self.granted.is_some() && self.requested_path == self.path;
        let next = if renegotiated { None } else { self.next_path(self.requested_path) };
        if let Some(next) = next {
            return self.request(next, self.max);
        }
        self.stage = if self.granted.is_some() { Stage::Settled } else { Stage::Waiting };
        self.at = if renegotiated { self.next_look(now) } else { now.saturating_add(WAIT) };
    }

    /// A reduction is announced when there was no other for four times `patience`, and up to as long again, each
    /// requester after a time of its own: often many are notified at once.
    fn plan_announcement(&mut self, now: Nanos, patience: Nanos) {
        if self.unannounced.is_some() {
            let Id { content, destination, subflow } = self.id;
            let mixed = content ^ destination.rotate_left(16) ^ u32::from(subflow);
            let share = mixed.wrapping_mul(0x9e37_79b9) >> 26;
            let wait = patience * 4 + patience * 4 * u64::from(share) / 64;
            self.announce_at = now.saturating_add(wait);
        }
    }

    /// Announces a reduction to the other nodes.
    fn announce(&mut self) {
        self.announce_at = Nanos::MAX;
        if let (Stage::Settled, Some(rate)) = (self.stage, self.unannounced) {
            self.request(self.path, rate);
        }
    }

    /// Requests the highest useful rate, to see whether a node answers.
    fn on_silence(&mut self) {
        self.silent_at = Nanos::MAX;
        if self.stage == Stage::Settled {
            self.request(self.path, self.want);
        }
    }

    /// At a rate below Min it tries other paths from time to time.
    fn next_look(&self, now: Nanos) -> Nanos {
        let hot = self.paths > 1 && self.granted.is_some_and(|rate| rate < self.min);
        if hot { now.saturating_add(WAIT) } else { Nanos::MAX }
    }

    fn give_up(&mut self, now: Nanos) -> Update {
        self.ends = self.max;
        if self.granted.is_some() || self.requested_path > 0 {
            self.refused(now);
            return Update::None;
        }
        self.alone(now)
    }

    fn alone(&mut self, now: Nanos) -> Update {
        self.granted = None;
        self.stage = Stage::Alone;
        self.at = now.saturating_add(AGAIN);
        Update::Withdrawn
    }

    pub(super) fn on_timer(&mut self, now: Nanos) -> Update {
        if now >= self.announce_at {
            self.announce();
        }
        if now >= self.silent_at {
            self.on_silence();
        }
        if now < self.at {
            return Update::None;
        }
        self.at = Nanos::MAX;
        match self.stage {
            Stage::Asking if self.tries >= TRIES => return self.give_up(now),
            Stage::Asking => self.request_due = true,
            Stage::Waiting => self.request_anew(),
            Stage::Settled => self.look_elsewhere(),
            Stage::Alone => {
                self.requested_path = self.path;
                self.requested = self.max;
                self.request_due = true;
                self.at = now.saturating_add(AGAIN);
            }
            Stage::Ended => self.termination_due = Some(self.path),
            Stage::Before => {}
        }
        Update::None
    }

    /// Tries the first of the other paths, if there are any.
    fn look_elsewhere(&mut self) {
        let first = if self.path > 0 { Some(0) } else { self.next_path(0) };
        if let Some(other) = first {
            self.request(other, self.max);
        }
    }

    /// A message from the network about one of its paths; `None` if it is not for this flow now.
    pub(super) fn on_message(
        &mut self,
        now: Nanos,
        patience: Nanos,
        message: &Message,
        path: u8,
    ) -> Option<Update> {
        if message.id() != self.id || matches!(self.stage, Stage::Before | Stage::Ended) {
            return None;
        }
        let update = self.read(now, patience, message, path);
        if update.is_some() {
            self.silent_at = now.saturating_add(SILENCE);
        }
        update
    }

    fn read(&mut self, now: Nanos, patience: Nanos, message: &Message, path: u8) -> Option<Update> {
        match *message {
            // About a path that it has left.
            Message::Adjustment { .. } if path != self.path => Some(Update::None),
            Message::Negotiation { kind, max, rtt_us, .. } => {
                let (token, attended) = (rtt_us & !ATTENDED, rtt_us & ATTENDED != 0);
                let answers = self.awaited && token == self.token && kind != Negotiation::Request;
                if !answers || (kind == Negotiation::Success && max > self.requested) {
                    return None;
                }
                self.awaited = false;
                self.request_due = false;
                if kind == Negotiation::Failure || max < self.min {
                    self.refused(now);
                    return Some(Update::None);
                }
                if !attended {
                    // A grant below the request is the responder's limit.
                    self.ends = if max < self.requested { max } else { self.max };
                    return Some(self.alone(now));
                }
                let update = self.on_success(now, max);
                self.plan_announcement(now, patience);
                Some(update)
            }
            Message::Adjustment { kind: Adjustment::Reduce, speed, .. } => {
                let update = self.on_reduce(speed);
                if update != Update::None {
                    self.plan_announcement(now, patience);
                }
                Some(update)
            }
            Message::Adjustment { kind: Adjustment::Increase, speed, .. } => {
                self.on_increase(speed);
                Some(Update::None)
            }
            Message::Adjustment { kind: Adjustment::Terminate, .. } => None,
        }
    }

    fn on_success(&mut self, now: Nanos, max: Rate) -> Update {
        // Either a port on the path has reduced the grant since, which only this message shows where answers return over
        // another path; or it reduced before the request passed, and has granted more. The lower rate is safe, and a new
        // request for the higher one settles which it is.
        let capped = self.requested_path == self.cap_path && self.cap < max;
        self.unannounced = capped.then_some(max);
        self.announce_at = Nanos::MAX;
        let max = if capped { self.cap } else { max };
        if self.requested_path != self.path && self.granted.is_some() {
            self.termination_due = Some(self.path);
        }
        self.path = self.requested_path;
        self.granted = Some(max);
        self.stage = Stage::Settled;
        self.at = self.next_look(now);
        Update::Rate(max)
    }

    fn on_reduce(&mut self, speed: Rate) -> Update {
        if self.awaited {
            self.cap = self.cap.min(speed);
            self.cap_path = self.path;
        }
        let Some(granted) = self.granted else {
            // A node has a record of this flow, although no answer arrived.
            if self.stage == Stage::Alone && !self.awaited {
                self.request(self.path, self.max);
            }
            return Update::None;
        };
        if speed >= granted {
            return Update::None;
        }
        self.granted = Some(speed);
        self.unannounced = Some(speed);
        if self.stage == Stage::Settled && speed < self.min {
            self.look_elsewhere();
        }
        Update::Rate(speed)
    }

    fn on_increase(&mut self, speed: Rate) {
        let wanted = speed.min(self.want);
        match self.stage {
            Stage::Settled if self.granted.is_some_and(|granted| wanted > granted) && wanted >= self.min => {
                self.request(self.path, wanted);
            }
            Stage::Alone if !self.awaited => self.request(self.path, self.max),
            _ => {}
        }
    }

    /// A review is due: `sent` bytes have left in all, and the rate requested is no less than `least`. If more `waits` and the
    /// rate is used up but for a `packet`, it requests what it had before.
    pub(super) fn on_review(&mut self, now: Nanos, sent: u64, least: Rate, waits: bool, packet: u64) {
        let time = now - self.review.from;
        let used = Bytes::new(sent - self.review.sent).per(time);
        self.review.at = Nanos::MAX;
        let Some(granted) = self.granted.filter(|_| self.stage == Stage::Settled) else { return };
        // Half way between all of it and the usage of a sender with the usual spare.
        let all = granted.mul_f64((1.0 + 1.0 / SPARE) / 2.0);
        let wish = used.mul_f64(SPARE).max(least).min(self.max);
        // A review may err by a packet, and its finding must be worth a message.
        let error = Bytes::new(packet).per(time).as_bytes_per_sec();
        if wish.as_bytes_per_sec().saturating_add(error) < granted.mul_f64(1.0 - WORTH).as_bytes_per_sec() {
            self.want = wish;
            self.request(self.path, wish);
        } else if waits && Bytes::new(sent - self.review.sent + packet).per(time) >= all {
            self.on_backlog();
        }
    }

    /// The backlog exceeds what the requested rate serves.
    pub(super) fn on_backlog(&mut self) {
        if self.stage == Stage::Settled && self.want < self.max {
            self.want = self.max;
            self.request(self.path, self.max);
        }
    }

    /// The next message and its path; `patience` is that with the first request.
    pub(super) fn next_message(&mut self, now: Nanos, rtt: Nanos, patience: Nanos) -> Option<(Message, u8)> {
        if let Some(path) = self.termination_due.take() {
            let kind = Adjustment::Terminate;
            return Some((Message::Adjustment { kind, id: self.id, speed: Rate::ZERO }, path));
        }
        if !self.request_due {
            return None;
        }
        self.request_due = false;
        self.awaited = true;
        self.cap = MOST;
        if self.requested_path == self.path {
            self.unannounced = None;
            self.announce_at = Nanos::MAX;
        }
        self.serial = self.serial.wrapping_add(1);
        let micros = (rtt.as_nanos() / 1_000).min(u64::from(LONGEST_RTT_US - SERIAL)) as u32;
        self.token = (micros & !SERIAL) | (self.serial & SERIAL);
        if self.stage == Stage::Asking {
            let wait = patience * (1 << self.tries);
            self.at = now.saturating_add(wait.min(LONGEST_PATIENCE.max(patience)));
            self.tries += 1;
        }
        let kind = Negotiation::Request;
        let min = self.min.min(self.requested);
        let request =
            Message::Negotiation { kind, max: self.requested, min, id: self.id, rtt_us: self.token };
        Some((request, self.requested_path))
    }

    pub(super) fn end(&mut self, now: Nanos, patience: Nanos) {
        self.request_due = false;
        self.awaited = false;
        self.stage = Stage::Ended;
        self.review.at = Nanos::MAX;
        self.announce_at = Nanos::MAX;
        self.silent_at = Nanos::MAX;
        self.termination_due = Some(self.path);
        self.at = now.saturating_add(patience);
    }
}
