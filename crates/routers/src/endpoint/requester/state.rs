//! The state of a negotiation, without the transport around it.

use crate::negotiation::{ATTENDED, Adjustment, Id, LONGEST_RTT_US, MOST, Message, Negotiation};
use narrows_cc::{Bytes, Nanos, Rate};

use crate::endpoint::NegotiationConfig;

/// Number of unanswered requests after which the requester gives up.
const MAX_ATTEMPTS: u8 = 4;
/// Maximum timeout of a request.
const MAX_TIMEOUT: Nanos = Nanos::from_secs(10);
/// Delay of the next request after failures on all paths.
const RETRY_DELAY: Nanos = Nanos::from_secs(1);
/// Delay of the next request after giving up; the maximum delay if requests are refreshed.
const FALLBACK_RETRY: Nanos = Nanos::from_secs(10);
/// Round-trip times between usage reviews.
pub(super) const REVIEW: u64 = 8;
/// Factor on the usage of a sender that does not use its rate.
const SPARE: f64 = 1.05;
/// Minimum fraction of the rate whose return is worth a message.
const WORTH: f64 = 0.01;
/// Minimum rate of a request for the usage, in packets per round-trip time.
pub(super) const LEAST: u64 = 2;
/// Silence of the nodes after which the requester probes them; nodes send four times within this time.
const SILENCE: Nanos = Nanos::from_secs(10);
/// Bits of Rtt that number requests.
const SERIAL: u32 = 7;

/// Stage of a negotiation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// Before the end of the handshake.
    Before,
    /// A request is in transit.
    Requesting,
    /// All paths refused.
    Waiting,
    /// A rate is granted.
    Settled,
    /// No node answered or handled the request.
    Fallback,
    /// The termination has been sent.
    Ended,
}

/// A change for the scheme.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Update {
    None,
    Rate(Rate),
    Withdrawn,
}

/// Requester side of a negotiation.
#[derive(Clone, Debug)]
pub(super) struct Requester {
    id: Id,
    min: Rate,
    pub(super) max: Rate,
    /// Maximum rate that both endpoints allow, as far as known.
    pub(super) ends: Rate,
    paths: u8,
    pub(super) stage: Stage,
    /// Path on which data is sent, and path of the last request.
    pub(super) path: u8,
    requested_path: u8,
    /// The granted rate, in wire bytes per second.
    pub(super) granted: Option<Rate>,
    /// Max and Rtt of the last request, and whether its answer is outstanding.
    requested: Rate,
    token: u32,
    awaited: bool,
    /// Minimum Speed of the reductions since the last request, and the path of these reductions.
    cap: Rate,
    cap_path: u8,
    serial: u32,
    /// Requests since the last answer.
    tries: u8,
    /// Deadline of the stage.
    pub(super) at: Nanos,
    request_due: bool,
    /// Path on which a termination is still to be sent.
    termination_due: Option<u8>,
    /// Requested maximum: Max, or less if the application needs less.
    want: Rate,
    /// Reduced rate that the requester has not yet announced to the other nodes by a request.
    unannounced: Option<Rate>,
    /// Time of the request that announces `unannounced`, and time of the next silence probe.
    announce_at: Nanos,
    silent_at: Nanos,
    /// Next usage review.
    pub(super) review: Review,
    /// Interval after which the granted rate is requested again, and the time of the next such request.
    refresh: Nanos,
    refresh_at: Nanos,
    /// Delay of the next request after giving up.
    retry: Nanos,
}

/// A usage review: start time, bytes sent before the start, and due time.
#[derive(Clone, Copy, Debug)]
pub(super) struct Review {
    pub(super) from: Nanos,
    pub(super) sent: u64,
    pub(super) at: Nanos,
}

impl Requester {
    /// Requests are limited by `config` and the sender's `line`; `share` is the payload fraction of wire
    /// bytes.
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
            refresh: Nanos::MAX,
            refresh_at: Nanos::MAX,
            retry: FALLBACK_RETRY,
        }
    }

    /// Sets the time after which the granted rate is requested again. If none of these requests is answered, the
    /// requester falls back; it sends the next request after [`RETRY_DELAY`] and further requests at doubled delays.
    pub(super) fn set_refresh(&mut self, refresh: Nanos) {
        self.refresh = refresh;
        self.retry = RETRY_DELAY;
    }

    /// Delay of the next request without a rate; the first delays are short, because a loss of messages may be
    /// temporary.
    fn next_retry(&mut self) -> Nanos {
        let delay = self.retry;
        self.retry = (delay * 2).min(FALLBACK_RETRY);
        delay
    }

    /// Resets the delays after an answer.
    fn reset_retry(&mut self) {
        self.retry = if self.refresh < Nanos::MAX { RETRY_DELAY } else { FALLBACK_RETRY };
    }

    pub(super) fn deadline(&self) -> Nanos {
        self.at.min(self.review.at).min(self.announce_at).min(self.silent_at).min(self.refresh_at)
    }

    /// Whether data is blocked.
    pub(super) fn blocks_data(&self) -> bool {
        self.granted.is_none() && matches!(self.stage, Stage::Requesting | Stage::Waiting)
    }

    pub(super) fn has_messages(&self) -> bool {
        self.request_due || self.termination_due.is_some()
    }

    /// Requests `max` on a path.
    pub(super) fn request(&mut self, path: u8, max: Rate) {
        self.stage = Stage::Requesting;
        self.requested_path = path;
        self.requested = max;
        self.tries = 0;
        self.request_due = true;
    }

    /// Drops the grant and requests as at the start.
    pub(super) fn request_anew(&mut self) {
        self.granted = None;
        self.want = self.max;
        self.request(self.path, self.max);
    }

    /// Next path to try after path `after`, except the path in use.
    fn next_path(&self, after: u8) -> Option<u8> {
        (after + 1..self.paths).find(|&path| self.granted.is_none() || path != self.path)
    }

    /// Handles a refused request.
    fn refused(&mut self, now: Nanos) {
        let renegotiated = self.granted.is_some() && self.requested_path == self.path;
        let next = if renegotiated { None } else { self.next_path(self.requested_path) };
        if let Some(next) = next {
            return self.request(next, self.max);
        }
        self.stage = if self.granted.is_some() { Stage::Settled } else { Stage::Waiting };
        self.at = if renegotiated { self.next_attempt(now) } else { now.saturating_add(RETRY_DELAY) };
    }

    /// Schedules the announcement of a reduction after four to eight times `timeout` without another reduction. The ID
    /// determines the time within that range, because many requesters are often notified at the same time.
    fn plan_announcement(&mut self, now: Nanos, timeout: Nanos) {
        if self.unannounced.is_some() {
            let Id { content, destination, subflow } = self.id;
            let mixed = content ^ destination.rotate_left(16) ^ u32::from(subflow);
            let share = mixed.wrapping_mul(0x9e37_79b9) >> 26;
            let wait = timeout * 4 + timeout * 4 * u64::from(share) / 64;
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

    /// Requests the highest useful rate as a probe of the nodes.
    fn on_silence(&mut self) {
        self.silent_at = Nanos::MAX;
        if self.stage == Stage::Settled {
            self.request(self.path, self.want);
        }
    }

    /// Time of the next attempt on other paths, if the rate is below Min.
    fn next_attempt(&self, now: Nanos) -> Nanos {
        let hot = self.paths > 1 && self.granted.is_some_and(|rate| rate < self.min);
        if hot { now.saturating_add(RETRY_DELAY) } else { Nanos::MAX }
    }

    fn give_up(&mut self, now: Nanos) -> Update {
        self.ends = self.max;
        // If requests are refreshed, an answer is always expected.
        if self.refresh < Nanos::MAX && self.granted.is_some() && self.requested_path == self.path {
            let delay = self.next_retry();
            return self.fall_back(now, delay);
        }
        if self.granted.is_some() || self.requested_path > 0 {
            self.refused(now);
            return Update::None;
        }
        let delay = self.next_retry();
        self.fall_back(now, delay)
    }

    fn fall_back(&mut self, now: Nanos, delay: Nanos) -> Update {
        self.granted = None;
        self.stage = Stage::Fallback;
        self.at = now.saturating_add(delay);
        Update::Withdrawn
    }

    pub(super) fn on_timer(&mut self, now: Nanos) -> Update {
        if now >= self.announce_at {
            self.announce();
        }
        if now >= self.silent_at {
            self.on_silence();
        }
        if now >= self.refresh_at {
            self.refresh_at = Nanos::MAX;
            if let (Stage::Settled, Some(granted)) = (self.stage, self.granted) {
                self.request(self.path, granted);
            }
        }
        if now < self.at {
            return Update::None;
        }
        self.at = Nanos::MAX;
        match self.stage {
            Stage::Requesting if self.tries >= MAX_ATTEMPTS => return self.give_up(now),
            Stage::Requesting => self.request_due = true,
            Stage::Waiting => self.request_anew(),
            Stage::Settled => self.try_other_paths(),
            Stage::Fallback => {
                self.requested_path = self.path;
                self.requested = self.max;
                self.request_due = true;
                self.at = now.saturating_add(self.next_retry());
            }
            Stage::Ended => self.termination_due = Some(self.path),
            Stage::Before => {}
        }
        Update::None
    }

    /// Tries the first other path, if any.
    fn try_other_paths(&mut self) {
        let first = if self.path > 0 { Some(0) } else { self.next_path(0) };
        if let Some(other) = first {
            self.request(other, self.max);
        }
    }

    /// Handles a message from the network about one of the flow's paths; `None` if this flow expects no such message
    /// now.
    pub(super) fn on_message(&mut self, now: Nanos, timeout: Nanos, message: &Message, path: u8) -> Option<Update> {
        if message.id() != self.id || matches!(self.stage, Stage::Before | Stage::Ended) {
            return None;
        }
        let update = self.read(now, timeout, message, path);
        if update.is_some() {
            self.silent_at = now.saturating_add(SILENCE);
        }
        update
    }

    fn read(&mut self, now: Nanos, timeout: Nanos, message: &Message, path: u8) -> Option<Update> {
        match *message {
            // The message concerns a path that is no longer in use.
            Message::Adjustment { .. } if path != self.path => Some(Update::None),
            Message::Negotiation { kind, max, rtt_us, .. } => {
                let (token, attended) = (rtt_us & !ATTENDED, rtt_us & ATTENDED != 0);
                let answers = self.awaited && token == self.token && kind != Negotiation::Request;
                if !answers || (kind == Negotiation::Success && max > self.requested) {
                    return None;
                }
                self.awaited = false;
                self.request_due = false;
                self.reset_retry();
                if kind == Negotiation::Failure || max < self.min {
                    self.refused(now);
                    return Some(Update::None);
                }
                if !attended {
                    // A grant below the request is the responder's limit.
                    self.ends = if max < self.requested { max } else { self.max };
                    return Some(self.fall_back(now, FALLBACK_RETRY));
                }
                let update = self.on_success(now, max);
                self.plan_announcement(now, timeout);
                Some(update)
            }
            Message::Adjustment { kind: Adjustment::Reduce, speed, .. } => {
                let update = self.on_reduce(speed);
                if update != Update::None {
                    self.plan_announcement(now, timeout);
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
        // Either a port on the path reduced the rate after granting it (if answers return over another path, only the
        // reduction shows this), or the port reduced the rate before the request passed and then granted more. The
        // lower rate is safe, and a new request for the higher rate resolves the ambiguity.
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
        self.at = self.next_attempt(now);
        Update::Rate(max)
    }

    fn on_reduce(&mut self, speed: Rate) -> Update {
        if self.awaited {
            self.cap = self.cap.min(speed);
            self.cap_path = self.path;
        }
        let Some(granted) = self.granted else {
            // A node has a record of this flow, although no answer arrived.
            if self.stage == Stage::Fallback && !self.awaited {
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
            self.try_other_paths();
        }
        Update::Rate(speed)
    }

    fn on_increase(&mut self, speed: Rate) {
        let wanted = speed.min(self.want);
        match self.stage {
            Stage::Settled if self.granted.is_some_and(|granted| wanted > granted) && wanted >= self.min => {
                self.request(self.path, wanted);
            }
            Stage::Fallback if !self.awaited => self.request(self.path, self.max),
            _ => {}
        }
    }

    /// Runs a usage review with `sent` bytes sent in total. The requested rate is at least `least`. If a backlog waits
    /// (`waits`) and the usage is within one `packet` of the full rate, requests the maximum again.
    pub(super) fn on_review(&mut self, now: Nanos, sent: u64, least: Rate, waits: bool, packet: u64) {
        let time = now - self.review.from;
        let used = Bytes::new(sent - self.review.sent).per(time);
        self.review.at = Nanos::MAX;
        let Some(granted) = self.granted.filter(|_| self.stage == Stage::Settled) else { return };
        // Threshold of full usage: midway between the granted rate and the usage of a sender whose request exceeds its
        // usage by the factor `SPARE`.
        let all = granted.mul_f64((1.0 + 1.0 / SPARE) / 2.0);
        let wish = used.mul_f64(SPARE).max(least).min(self.max);
        // A review may err by a packet, and its result must be worth a message.
        let error = Bytes::new(packet).per(time).as_bytes_per_sec();
        if wish.as_bytes_per_sec().saturating_add(error) < granted.mul_f64(1.0 - WORTH).as_bytes_per_sec() {
            self.want = wish;
            self.request(self.path, wish);
        } else if waits && Bytes::new(sent - self.review.sent + packet).per(time) >= all {
            self.on_backlog();
        }
    }

    /// Requests the maximum because of a backlog, unless the last request was for the maximum.
    pub(super) fn on_backlog(&mut self) {
        if self.stage == Stage::Settled && self.want < self.max {
            self.want = self.max;
            self.request(self.path, self.max);
        }
    }

    /// Next message and its path; `timeout` is the timeout of the first of several repeated requests.
    pub(super) fn next_message(&mut self, now: Nanos, rtt: Nanos, timeout: Nanos) -> Option<(Message, u8)> {
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
        self.refresh_at = now.saturating_add(self.refresh);
        self.serial = self.serial.wrapping_add(1);
        let micros = (rtt.as_nanos() / 1_000).min(u64::from(LONGEST_RTT_US - SERIAL)) as u32;
        self.token = (micros & !SERIAL) | (self.serial & SERIAL);
        if self.stage == Stage::Requesting {
            let wait = timeout * (1 << self.tries);
            self.at = now.saturating_add(wait.min(MAX_TIMEOUT.max(timeout)));
            self.tries += 1;
        }
        let kind = Negotiation::Request;
        let min = self.min.min(self.requested);
        let request = Message::Negotiation { kind, max: self.requested, min, id: self.id, rtt_us: self.token };
        Some((request, self.requested_path))
    }

    pub(super) fn end(&mut self, now: Nanos, timeout: Nanos) {
        self.request_due = false;
        self.awaited = false;
        self.stage = Stage::Ended;
        self.review.at = Nanos::MAX;
        self.announce_at = Nanos::MAX;
        self.silent_at = Nanos::MAX;
        self.refresh_at = Nanos::MAX;
        self.termination_due = Some(self.path);
        self.at = now.saturating_add(timeout);
    }
}
