//! The state of a negotiation, without the transport around it.

use crate::negotiation::{ATTENDED, Adjustment, Id, LONGEST_RTT_US, MOST, Message, Negotiation};
use narrows_cc::{Bytes, Nanos, Rate};

use crate::endpoint::NegotiationConfig;

/// Requests without an answer before it gives up.
const TRIES: u8 = 4;
/// The most patience with one request.
const LONGEST_PATIENCE: Nanos = Nanos::from_secs(10);
/// How long after failures on all ways it asks again.
const WAIT: Nanos = Nanos::from_secs(1);
/// How long after giving up it asks again.
const AGAIN: Nanos = Nanos::from_secs(10);
/// Round-trip times between two looks at how much of the rate is used.
pub(super) const REVIEW: u64 = 8;
/// What a sender that does not use its rate asks for, in parts of what it sent.
const SPARE: f64 = 1.05;
/// The share of its rate from which on giving back is worth a message.
const WORTH: f64 = 0.01;
/// The least it then asks for, in packets per round-trip time.
pub(super) const LEAST: u64 = 2;
/// A server whose nodes are silent for so long asks whether they live; they speak four times as often.
const SILENCE: Nanos = Nanos::from_secs(10);
/// The bits of Rtt that count requests.
const SERIAL: u32 = 7;

/// Where the negotiation stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// Before the end of the handshake.
    Before,
    /// A request is out.
    Asking,
    /// All ways have been refused.
    Waiting,
    /// A rate is granted.
    Settled,
    /// Nobody answers, or nobody took part.
    Alone,
    /// The termination is out.
    Ended,
}

/// What the scheme is to be told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum News {
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
    /// What the ends can do, as far as it is known.
    pub(super) ends: Rate,
    paths: u8,
    pub(super) stage: Stage,
    /// The way data takes, and the one that is asked.
    pub(super) way: u8,
    asked_way: u8,
    /// On the wire.
    pub(super) granted: Option<Rate>,
    /// Max and Rtt of the last request, and whether its answer is still to come.
    asked: Rate,
    token: u32,
    awaited: bool,
    /// The least Speed of the reductions that came since the last request, and the way they spoke of.
    cap: Rate,
    cap_way: u8,
    serial: u32,
    /// Requests since the last answer.
    tries: u8,
    /// When the stage ends by itself.
    pub(super) at: Nanos,
    request_due: bool,
    /// A termination is to be sent over this way.
    termination_due: Option<u8>,
    /// It could send so much: Max, or less where the application has less.
    want: Rate,
    /// A reduction came that other nodes have not heard of: what is asked for when it is announced.
    unannounced: Option<Rate>,
    /// When it is announced, and when silence has lasted too long.
    announce_at: Nanos,
    silent_at: Nanos,
    /// Since when the rate is what it is, what had been sent then, and when its use is looked at.
    pub(super) review: Review,
}

/// A look at how much of a rate is used.
#[derive(Clone, Copy, Debug)]
pub(super) struct Review {
    pub(super) from: Nanos,
    pub(super) sent: u64,
    pub(super) at: Nanos,
}

impl Requester {
    /// It asks for no more than `config` says and the sender's `line` carries; of bytes on the wire `share` is payload.
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
            way: 0,
            asked_way: 0,
            granted: None,
            asked: max,
            token: 0,
            awaited: false,
            cap: MOST,
            cap_way: 0,
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

    /// Asks for `max` over a way.
    pub(super) fn ask(&mut self, way: u8, max: Rate) {
        self.stage = Stage::Asking;
        self.asked_way = way;
        self.asked = max;
        self.tries = 0;
        self.request_due = true;
    }

    /// Nothing granted counts any more: it asks as at the beginning.
    pub(super) fn ask_anew(&mut self) {
        self.granted = None;
        self.want = self.max;
        self.ask(self.way, self.max);
    }

    /// The next way that could be asked after this one, other than that in use.
    fn next_way(&self, after: u8) -> Option<u8> {
        (after + 1..self.paths).find(|&way| self.granted.is_none() || way != self.way)
    }

    /// The way that was asked gives nothing.
    fn refused(&mut self, now: Nanos) {
        let renegotiated = self.granted.is_some() && self.asked_way == self.way;
        let next = if renegotiated { None } else { self.next_way(self.asked_way) };
        if let Some(next) = next {
            return self.ask(next, self.max);
        }
        self.stage = if self.granted.is_some() { Stage::Settled } else { Stage::Waiting };
        self.at = if renegotiated { self.next_look(now) } else { now.saturating_add(WAIT) };
    }

    /// A reduction is announced when there was no other for four times `patience`, and up to as long again, each server
    /// after a time of its own: often many are told at once.
    fn plan_announcement(&mut self, now: Nanos, patience: Nanos) {
        if self.unannounced.is_some() {
            let Id { content, destination, subflow } = self.id;
            let mixed = content ^ destination.rotate_left(16) ^ u32::from(subflow);
            let share = mixed.wrapping_mul(0x9e37_79b9) >> 26;
            let wait = patience * 4 + patience * 4 * u64::from(share) / 64;
            self.announce_at = now.saturating_add(wait);
        }
    }

    /// Lets the other nodes know of a reduction.
    fn announce(&mut self) {
        self.announce_at = Nanos::MAX;
        if let (Stage::Settled, Some(rate)) = (self.stage, self.unannounced) {
            self.ask(self.way, rate);
        }
    }

    /// Asks for the rate that could be had, to see who answers.
    fn on_silence(&mut self) {
        self.silent_at = Nanos::MAX;
        if self.stage == Stage::Settled {
            self.ask(self.way, self.want);
        }
    }

    /// A rate below Min is worth a look at other ways from time to time.
    fn next_look(&self, now: Nanos) -> Nanos {
        let hot = self.paths > 1 && self.granted.is_some_and(|rate| rate < self.min);
        if hot { now.saturating_add(WAIT) } else { Nanos::MAX }
    }

    fn give_up(&mut self, now: Nanos) -> News {
        self.ends = self.max;
        if self.granted.is_some() || self.asked_way > 0 {
            self.refused(now);
            return News::None;
        }
        self.alone(now)
    }

    fn alone(&mut self, now: Nanos) -> News {
        self.granted = None;
        self.stage = Stage::Alone;
        self.at = now.saturating_add(AGAIN);
        News::Withdrawn
    }

    pub(super) fn on_timer(&mut self, now: Nanos) -> News {
        if now >= self.announce_at {
            self.announce();
        }
        if now >= self.silent_at {
            self.on_silence();
        }
        if now < self.at {
            return News::None;
        }
        self.at = Nanos::MAX;
        match self.stage {
            Stage::Asking if self.tries >= TRIES => return self.give_up(now),
            Stage::Asking => self.request_due = true,
            Stage::Waiting => self.ask_anew(),
            Stage::Settled => self.look_elsewhere(),
            Stage::Alone => {
                self.asked_way = self.way;
                self.asked = self.max;
                self.request_due = true;
                self.at = now.saturating_add(AGAIN);
            }
            Stage::Ended => self.termination_due = Some(self.way),
            Stage::Before => {}
        }
        News::None
    }

    /// Asks the first of the other ways, if there are any.
    fn look_elsewhere(&mut self) {
        let first = if self.way > 0 { Some(0) } else { self.next_way(0) };
        if let Some(other) = first {
            self.ask(other, self.max);
        }
    }

    /// A message from the network about one of its ways; `None` if it is not for this flow now.
    pub(super) fn on_message(
        &mut self,
        now: Nanos,
        patience: Nanos,
        message: &Message,
        way: u8,
    ) -> Option<News> {
        if message.id() != self.id || matches!(self.stage, Stage::Before | Stage::Ended) {
            return None;
        }
        let news = self.read(now, patience, message, way);
        if news.is_some() {
            self.silent_at = now.saturating_add(SILENCE);
        }
        news
    }

    fn read(&mut self, now: Nanos, patience: Nanos, message: &Message, way: u8) -> Option<News> {
        match *message {
            // From a way that it has left.
            Message::Adjustment { .. } if way != self.way => Some(News::None),
            Message::Negotiation { kind, max, rtt_us, .. } => {
                let (token, attended) = (rtt_us & !ATTENDED, rtt_us & ATTENDED != 0);
                let answers = self.awaited && token == self.token && kind != Negotiation::Request;
                if !answers || (kind == Negotiation::Success && max > self.asked) {
                    return None;
                }
                self.awaited = false;
                self.request_due = false;
                if kind == Negotiation::Failure || max < self.min {
                    self.refused(now);
                    return Some(News::None);
                }
                if !attended {
                    // What is less than was asked is the user's limit.
                    self.ends = if max < self.asked { max } else { self.max };
                    return Some(self.alone(now));
                }
                let news = self.on_success(now, max);
                self.plan_announcement(now, patience);
                Some(news)
            }
            Message::Adjustment { kind: Adjustment::Reduce, speed, .. } => {
                let news = self.on_reduce(speed);
                if news != News::None {
                    self.plan_announcement(now, patience);
                }
                Some(news)
            }
            Message::Adjustment { kind: Adjustment::Increase, speed, .. } => {
                self.on_increase(speed);
                Some(News::None)
            }
            Message::Adjustment { kind: Adjustment::Terminate, .. } => None,
        }
    }

    fn on_success(&mut self, now: Nanos, max: Rate) -> News {
        // Either a port that was passed has taken some of it back since, and where answers return another way only this
        // tells; or it said so before the request came by, and has granted more. The lower one is safe, and nodes that are
        // asked for the higher one again know which it is.
        let capped = self.asked_way == self.cap_way && self.cap < max;
        self.unannounced = capped.then_some(max);
        self.announce_at = Nanos::MAX;
        let max = if capped { self.cap } else { max };
        if self.asked_way != self.way && self.granted.is_some() {
            self.termination_due = Some(self.way);
        }
        self.way = self.asked_way;
        self.granted = Some(max);
        self.stage = Stage::Settled;
        self.at = self.next_look(now);
        News::Rate(max)
    }

    fn on_reduce(&mut self, speed: Rate) -> News {
        if self.awaited {
            self.cap = self.cap.min(speed);
            self.cap_way = self.way;
        }
        let Some(granted) = self.granted else {
            // A node has this flow in its books, although no answer came through.
            if self.stage == Stage::Alone && !self.awaited {
                self.ask(self.way, self.max);
            }
            return News::None;
        };
        if speed >= granted {
            return News::None;
        }
        self.granted = Some(speed);
        self.unannounced = Some(speed);
        if self.stage == Stage::Settled && speed < self.min {
            self.look_elsewhere();
        }
        News::Rate(speed)
    }

    fn on_increase(&mut self, speed: Rate) {
        let wanted = speed.min(self.want);
        match self.stage {
            Stage::Settled if self.granted.is_some_and(|granted| wanted > granted) && wanted >= self.min => {
                self.ask(self.way, wanted);
            }
            Stage::Alone if !self.awaited => self.ask(self.way, self.max),
            _ => {}
        }
    }

    /// A while has passed in which `sent` bytes left in all; what is used is worth no less than `least`. If more `waits`, a
    /// rate that is used up, but for a `packet`, is asked to be what it was.
    pub(super) fn on_review(&mut self, now: Nanos, sent: u64, least: Rate, waits: bool, packet: u64) {
        let time = now - self.review.from;
        let used = Bytes::new(sent - self.review.sent).per(time);
        self.review.at = Nanos::MAX;
        let Some(granted) = self.granted.filter(|_| self.stage == Stage::Settled) else { return };
        // Half way between all of it and what a sender with the usual spare uses.
        let all = granted.mul_f64((1.0 + 1.0 / SPARE) / 2.0);
        let wish = used.mul_f64(SPARE).max(least).min(self.max);
        // A look may err by a packet, and what it finds must be worth a message.
        let error = Bytes::new(packet).per(time).as_bytes_per_sec();
        if wish.as_bytes_per_sec().saturating_add(error) < granted.mul_f64(1.0 - WORTH).as_bytes_per_sec() {
            self.want = wish;
            self.ask(self.way, wish);
        } else if waits && Bytes::new(sent - self.review.sent + packet).per(time) >= all {
            self.on_backlog();
        }
    }

    /// More waits than the rate was asked for.
    pub(super) fn on_backlog(&mut self) {
        if self.stage == Stage::Settled && self.want < self.max {
            self.want = self.max;
            self.ask(self.way, self.max);
        }
    }

    /// The next message and its way; `patience` is for the first request without an answer.
    pub(super) fn next_message(&mut self, now: Nanos, rtt: Nanos, patience: Nanos) -> Option<(Message, u8)> {
        if let Some(way) = self.termination_due.take() {
            let kind = Adjustment::Terminate;
            return Some((Message::Adjustment { kind, id: self.id, speed: Rate::ZERO }, way));
        }
        if !self.request_due {
            return None;
        }
        self.request_due = false;
        self.awaited = true;
        self.cap = MOST;
        if self.asked_way == self.way {
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
        let min = self.min.min(self.asked);
        let request = Message::Negotiation { kind, max: self.asked, min, id: self.id, rtt_us: self.token };
        Some((request, self.asked_way))
    }

    pub(super) fn end(&mut self, now: Nanos, patience: Nanos) {
        self.request_due = false;
        self.awaited = false;
        self.stage = Stage::Ended;
        self.review.at = Nanos::MAX;
        self.announce_at = Nanos::MAX;
        self.silent_at = Nanos::MAX;
        self.termination_due = Some(self.way);
        self.at = now.saturating_add(patience);
    }
}
