//! The server's process of Nodectl (Algorithm 3 of the paper): asks for a rate before data flows, and follows what nodes
//! say afterwards.
//!
//! * The request leaves when the handshake is over. Without an answer it is repeated after twice the round-trip time, then
//!   with twice the patience each time. After [`TRIES`] requests data flows without a rate (the scheme knows how), and a
//!   request is sent again every [`AGAIN`]. The same where the answer is the very Max that stands for 'no limit': then no
//!   node took part.
//! * An answer belongs to a request if it repeats its Rtt. The message has no sequence number, so the three lowest bits of
//!   the Rtt, in microseconds, count requests. Only the answer to the last request counts, and only once.
//! * Failure: the next of the flow's ways is asked, and after the last one the first again when [`WAIT`] is over. No data
//!   flows meanwhile. Where a rate had been granted on this way, only the change failed and the rate stands.
//! * Reduce: the smaller of Speed and the rate. If that is below Min (a hot node) and there are other ways, these are asked
//!   while data flows on at the reduced rate; the way changes with the first that grants Min. If none does they are asked
//!   again every [`WAIT`].
//! * Increase: a request for Speed, unless one is under way; the node will repeat it.
//! * When nothing has been sent for [`LEASE`], nodes may have forgotten the flow: it asks before it goes on.
//! * The termination leaves when everything is acknowledged, and again after twice the round-trip time, for nobody
//!   acknowledges it; nodes have a time-out if both are lost.
//! * Messages that speak of another ID, come unasked, grant more than was asked or cannot be read are counted and ignored.

use narrows_cc::{Advice, Nanos, Rate};
use narrows_net::allocator::negotiation::{Adjustment, Id, LONGEST_RTT_US, MOST, Message, Negotiation};
use narrows_net::packet::{Flags, Packet};

use super::{Pending, Sender, State};
use crate::config;

/// Requests without an answer before it gives up.
const TRIES: u8 = 4;
/// The most patience with one request.
const LONGEST_PATIENCE: Nanos = Nanos::from_secs(10);
/// How long after failures on all ways it asks again.
const WAIT: Nanos = Nanos::from_secs(1);
/// How long after giving up it asks again.
const AGAIN: Nanos = Nanos::from_secs(10);
/// After such a silence it asks again; the records of nodes last twice as long unless they are told otherwise.
const LEASE: Nanos = Nanos::from_secs(5);
/// The bits of Rtt that count requests.
const SERIAL: u32 = 7;

/// Where the negotiation stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
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
enum News {
    None,
    Rate(Rate),
    Withdrawn,
}

/// The server's side of a negotiation.
#[derive(Clone, Debug)]
pub(super) struct Server {
    id: Id,
    min: Rate,
    max: Rate,
    paths: u8,
    stage: Stage,
    /// The way data takes, and the one that is asked.
    way: u8,
    asked_way: u8,
    /// On the wire.
    granted: Option<Rate>,
    /// Max and Rtt of the last request, and whether its answer is still to come.
    asked: Rate,
    token: u32,
    awaited: bool,
    serial: u32,
    /// Requests since the last answer.
    tries: u8,
    /// When the stage ends by itself.
    at: Nanos,
    request_due: bool,
    /// A termination is to be sent over this way.
    termination_due: Option<u8>,
}

impl Server {
    pub(super) fn new(config: &config::Negotiation) -> Self {
        let max = config.max.min(MOST).max(Rate::from_bytes_per_sec(1));
        Self {
            id: crate::user::id(config),
            min: config.min.min(max),
            max,
            paths: config.paths.max(1),
            stage: Stage::Before,
            way: 0,
            asked_way: 0,
            granted: None,
            asked: max,
            token: 0,
            awaited: false,
            serial: 0,
            tries: 0,
            at: Nanos::MAX,
            request_due: false,
            termination_due: None,
        }
    }

    pub(super) fn deadline(&self) -> Nanos {
        self.at
    }

    /// No data may leave.
    pub(super) fn holds(&self) -> bool {
        self.granted.is_none() && matches!(self.stage, Stage::Asking | Stage::Waiting)
    }

    fn has_messages(&self) -> bool {
        self.request_due || self.termination_due.is_some()
    }

    /// Asks for `max` over a way.
    fn ask(&mut self, way: u8, max: Rate) {
        self.stage = Stage::Asking;
        self.asked_way = way;
        self.asked = max;
        self.tries = 0;
        self.request_due = true;
    }

    /// Nothing granted counts any more: it asks as at the beginning.
    fn ask_anew(&mut self) {
        self.granted = None;
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

    /// A rate below Min is worth a look at other ways from time to time.
    fn next_look(&self, now: Nanos) -> Nanos {
        let hot = self.paths > 1 && self.granted.is_some_and(|rate| rate < self.min);
        if hot { now.saturating_add(WAIT) } else { Nanos::MAX }
    }

    fn give_up(&mut self, now: Nanos) -> News {
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

    fn on_timer(&mut self, now: Nanos) -> News {
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
    fn on_message(&mut self, now: Nanos, message: &Message, way: u8) -> Option<News> {
        if message.id() != self.id || matches!(self.stage, Stage::Before | Stage::Ended) {
            return None;
        }
        match *message {
            // From a way that it has left.
            Message::Adjustment { .. } if way != self.way => Some(News::None),
            Message::Negotiation { kind, max, rtt_us, .. } => {
                let answers = self.awaited && rtt_us == self.token && kind != Negotiation::Request;
                if !answers || (kind == Negotiation::Success && max > self.asked) {
                    return None;
                }
                self.awaited = false;
                self.request_due = false;
                if kind == Negotiation::Failure || max < self.min {
                    self.refused(now);
                    return Some(News::None);
                }
                Some(self.on_success(now, max))
            }
            Message::Adjustment { kind: Adjustment::Reduce, speed, .. } => Some(self.on_reduce(speed)),
            Message::Adjustment { kind: Adjustment::Increase, speed, .. } => {
                self.on_increase(speed);
                Some(News::None)
            }
            Message::Adjustment { kind: Adjustment::Terminate, .. } => None,
        }
    }

    fn on_success(&mut self, now: Nanos, max: Rate) -> News {
        if max == MOST {
            return self.alone(now);
        }
        if self.asked_way != self.way && self.granted.is_some() {
            self.termination_due = Some(self.way);
        }
        self.way = self.asked_way;
        self.granted = Some(max);
        self.stage = Stage::Settled;
        self.at = Nanos::MAX;
        News::Rate(max)
    }

    fn on_reduce(&mut self, speed: Rate) -> News {
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
        if self.stage == Stage::Settled && speed < self.min {
            self.look_elsewhere();
        }
        News::Rate(speed)
    }

    fn on_increase(&mut self, speed: Rate) {
        let wanted = speed.min(self.max);
        match self.stage {
            Stage::Settled if self.granted.is_some_and(|granted| wanted > granted) && wanted >= self.min => {
                self.ask(self.way, wanted);
            }
            Stage::Alone if !self.awaited => self.ask(self.way, self.max),
            _ => {}
        }
    }

    /// The next message and its way; `patience` is for the first request without an answer.
    fn next_message(&mut self, now: Nanos, rtt: Nanos, patience: Nanos) -> Option<(Message, u8)> {
        if let Some(way) = self.termination_due.take() {
            let kind = Adjustment::Terminate;
            return Some((Message::Adjustment { kind, id: self.id, speed: Rate::ZERO }, way));
        }
        if !self.request_due {
            return None;
        }
        self.request_due = false;
        self.awaited = true;
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

    fn end(&mut self, now: Nanos, patience: Nanos) {
        self.request_due = false;
        self.awaited = false;
        self.stage = Stage::Ended;
        self.termination_due = Some(self.way);
        self.at = now.saturating_add(patience);
    }
}

impl Sender {
    /// Twice the round-trip time, or what stands for it before the first sample.
    fn patience(&self) -> Nanos {
        if self.rtt.srtt.is_zero() { self.rtt.rto() } else { self.rtt.srtt * 2 }
    }

    /// Tells the scheme, and sees to it that messages leave.
    fn follow(&mut self, now: Nanos, news: News) {
        match news {
            News::None => {}
            News::Rate(rate) => {
                let share = self.explicit.map_or(1.0, |explicit| self.payload_share(explicit));
                let payload = ((rate.as_bytes_per_sec() as f64 * share) as u64).max(1);
                self.on_advice(now, Advice::Rate(Rate::from_bytes_per_sec(payload)));
            }
            News::Withdrawn => self.on_advice(now, Advice::Rate(Rate::ZERO)),
        }
        if let Some(server) = &self.server {
            self.path = server.way;
            if server.has_messages() {
                self.pending.add(Pending::MESSAGE);
            }
        }
    }

    /// The handshake is over.
    pub(super) fn begin_negotiation(&mut self, now: Nanos) {
        if let Some(server) = &mut self.server {
            server.ask(0, server.max);
            self.follow(now, News::None);
        }
    }

    /// Everything is acknowledged.
    pub(super) fn end_negotiation(&mut self, now: Nanos) {
        let patience = self.patience();
        if let Some(server) = &mut self.server {
            server.end(now, patience);
            self.follow(now, News::None);
        }
    }

    /// Sending resumes after a silence.
    pub(super) fn renew_negotiation(&mut self, now: Nanos, idle: Nanos) {
        if let Some(server) = &mut self.server
            && idle >= LEASE
            && server.stage == Stage::Settled
        {
            server.ask_anew();
            self.follow(now, News::None);
        }
    }

    /// Whether data waits for a rate.
    #[inline]
    pub(super) fn waits_for_rate(&self) -> bool {
        let waits = self.server.as_ref().is_some_and(|server| server.holds());
        waits && (self.nxt < self.app_end || self.board.has_lost())
    }

    /// The time of the negotiation has come.
    pub(super) fn on_negotiation_timer(&mut self, now: Nanos) {
        if let Some(server) = &mut self.server
            && now >= server.at
        {
            let news = server.on_timer(now);
            self.follow(now, news);
        }
    }

    /// A control message arrives.
    #[cold]
    pub(super) fn on_control(&mut self, now: Nanos, packet: &Packet) {
        let (bytes, len) = packet.message();
        let news = match (&mut self.server, Message::decode(&bytes[..len])) {
            // What arrives late has done its duty.
            (Some(_), Ok(_)) if self.state != State::Established => Some(News::None),
            (Some(server), Ok(message)) => server.on_message(now, &message, packet.path()),
            _ => None,
        };
        match news {
            Some(news) => self.follow(now, news),
            None => self.stats.messages_refused += 1,
        }
    }

    /// The next control message.
    #[cold]
    pub(super) fn poll_message(&mut self, now: Nanos) -> Option<Packet> {
        let (rtt, patience) = (self.rtt.srtt, self.patience());
        let server = self.server.as_mut()?;
        let (message, way) = server.next_message(now, rtt, patience)?;
        if server.has_messages() {
            self.pending.add(Pending::MESSAGE);
        }
        self.stats.messages_sent += 1;
        let mut packet = Packet::control(self.flow, Flags::NONE, message.encode().as_bytes());
        packet.set_path(way);
        Some(packet)
    }
}
