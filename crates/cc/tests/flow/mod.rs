//! A path with one bottleneck, and a sender without retransmissions that reports every event to its scheme.
//!
//! ```text
//!   writer ──► sender ──(pacer)──► [policer] ──► buffer │ rate ──► ─ ─ rtt ─ ─ ► acknowledgement (every `bunch`)
//! ```
//!
//! A packet counts as lost when three packets sent after it are acknowledged, or when the timer expires. Nothing is
//! retransmitted. Recovery ends when a packet sent after its start is acknowledged, or when all packets declared lost
//! have arrived. With [`Path::repairs`], recovery ends when a packet sent after the last loss was detected is
//! acknowledged, as a retransmission would be.

pub mod events;
mod path;
mod recovery;

use std::collections::VecDeque;

use narrows_cc::{
    Ack, Bytes, CongestionControl, IdleRestart, IdleRule, Nanos, Phase, Rate, RateSampler, RoundCounter, Sent, record,
};

pub use path::*;

/// Recent use of cwnd, by which Linux decides whether a sender is cwnd-limited.
#[derive(Clone, Copy, Debug, Default)]
struct Usage {
    limited: bool,
    most: Bytes,
    /// A new observation of the use of cwnd begins when all data up to this packet is acknowledged.
    until: u64,
}

#[derive(Clone, Copy, Debug)]
enum Next {
    Ack,
    Send,
    Write,
    Timeout,
}

/// A flow over a path.
pub struct Flow<C> {
    pub cc: C,
    pub path: Path,
    pub now: Nanos,
    pub sent: u64,
    pub lost: u64,
    pub delivered: Bytes,
    /// Data written but not sent; `None`: unlimited.
    pub backlog: Option<Bytes>,
    pub phase: Phase,
    sampler: RateSampler,
    round: RoundCounter,
    usage: Usage,
    /// Rate at which the application writes, and the time of its next write.
    writer: Option<(Rate, Nanos)>,
    flying: VecDeque<Packet>,
    delayed: VecDeque<Packet>,
    dropped: VecDeque<Packet>,
    inflight: Bytes,
    pace_at: Nanos,
    link_free: Nanos,
    tokens: f64,
    tokens_at: Nanos,
    /// The last packet sent before recovery began, and the last packet sent before the latest loss in this recovery was
    /// detected (`repaired_after`).
    recover_until: u64,
    repaired_after: u64,
    /// Number of packets declared lost in this recovery that may still arrive, and whether any packet declared lost in
    /// it never arrives (`missed`).
    missing: u64,
    missed: bool,
    last_sent_at: Nanos,
    last_ack_at: Nanos,
    srtt: Nanos,
    least_rtt: Nanos,
}

impl<C: CongestionControl> Flow<C> {
    /// A flow after its handshake.
    pub fn over(path: Path, cc: C) -> Self {
        let mut flow = Self {
            cc,
            now: path.rtt,
            sent: 0,
            lost: 0,
            delivered: Bytes::ZERO,
            backlog: None,
            phase: Phase::Open,
            sampler: RateSampler::default(),
            round: RoundCounter::default(),
            usage: Usage::default(),
            writer: None,
            flying: VecDeque::new(),
            delayed: VecDeque::new(),
            dropped: VecDeque::new(),
            inflight: Bytes::ZERO,
            pace_at: Nanos::ZERO,
            link_free: Nanos::ZERO,
            tokens: path.policer.map_or(0.0, |(_, burst)| burst.as_f64()),
            tokens_at: Nanos::ZERO,
            recover_until: 0,
            repaired_after: 0,
            missing: 0,
            missed: false,
            last_sent_at: path.rtt,
            last_ack_at: path.rtt,
            srtt: path.rtt,
            least_rtt: path.rtt,
            path,
        };
        let handshake = record!(Ack { rtt: Some(flow.now), cwnd_limited: false, ..flow.blank_ack() });
        flow.cc.on_ack(&handshake);
        flow
    }

    fn blank_ack(&self) -> Ack {
        record!(Ack {
            cwnd_limited: self.usage.limited,
            cwnd_full: self.usage.limited,
            phase: self.phase,
            srtt: Some(self.srtt),
            min_rtt: Some(self.least_rtt),
            ..events::empty_ack(self.now, self.inflight, self.delivered)
        })
    }

    /// The inflight that the sender assumes.
    pub fn inflight(&self) -> Bytes {
        self.inflight
    }

    /// Runs until `end`; `watch` inspects the flow after every acknowledgement.
    pub fn run(&mut self, end: Nanos, mut watch: impl FnMut(&Self, &Ack)) {
        while let Some(ack) = self.step(end) {
            if let Some(ack) = ack {
                watch(self, &ack);
            }
        }
    }

    /// Runs for `span`.
    pub fn run_for(&mut self, span: Nanos) {
        self.run(self.now + span, |_, _| {});
    }

    /// Runs until `done` holds after an event, or until `end`; returns whether `done` held.
    pub fn run_until(&mut self, end: Nanos, mut done: impl FnMut(&Self) -> bool) -> bool {
        while self.step(end).is_some() {
            if done(self) {
                return true;
            }
        }
        false
    }

    /// The application writes at `rate` from now on. Data written earlier is still sent, except an unlimited backlog.
    pub fn write_at(&mut self, rate: Rate) {
        self.backlog = Some(self.backlog.unwrap_or(Bytes::ZERO));
        self.writer = (!rate.is_zero()).then_some((rate, self.now));
        self.check_app_limited();
    }

    /// The application is backlogged from now on.
    pub fn write_without_end(&mut self) {
        self.check_app_limited();
        (self.backlog, self.writer) = (None, None);
    }

    /// Changes the link rate and, accordingly, the departure times of queued packets.
    pub fn set_rate(&mut self, rate: Rate) {
        let now = self.now;
        let stretch = self.path.rate.as_bytes_per_sec() as f64 / rate.as_bytes_per_sec() as f64;
        self.move_queue(|at| now + (at - now).mul_f64(stretch));
        self.path.rate = rate;
    }

    /// Stops the link for the duration `span`.
    pub fn stall(&mut self, span: Nanos) {
        self.link_free = self.link_free.max(self.now);
        self.move_queue(|at| at + span);
    }

    /// Changes the departure times of all packets still in the link.
    fn move_queue(&mut self, moved: impl Fn(Nanos) -> Nanos) {
        let now = self.now;
        for packet in self.flying.iter_mut().filter(|packet| packet.left_at > now) {
            packet.left_at = moved(packet.left_at);
            packet.ack_at = self.path.ack_at(packet.left_at);
        }
        if self.link_free >= now {
            self.link_free = moved(self.link_free);
        }
    }

    /// Processes the next event until `end`. Returns its acknowledgement, `Some(None)` for another event, or `None` if
    /// no event is left.
    fn step(&mut self, end: Nanos) -> Option<Option<Ack>> {
        let ack_at = self.next_ack_at();
        let send_at = self.may_send().then(|| self.now.max(self.pace_at));
        let write_at = self.writer.map(|(_, at)| at);
        let timeout_at = (!self.inflight.is_zero()).then(|| self.last_sent_at.max(self.last_ack_at) + RTO);
        let events = [(ack_at, Next::Ack), (send_at, Next::Send), (write_at, Next::Write), (timeout_at, Next::Timeout)];
        let due = events.into_iter().filter_map(|(at, next)| Some((at?, next)));
        let Some((at, next)) = due.min_by_key(|(at, _)| *at).filter(|(at, _)| *at <= end) else {
            self.now = end;
            return None;
        };
        self.now = self.now.max(at);
        match next {
            Next::Ack => return Some(Some(self.acknowledge())),
            Next::Send => self.send(),
            Next::Write => self.write(),
            Next::Timeout => self.time_out(),
        }
        Some(None)
    }

    fn next_ack_at(&self) -> Option<Nanos> {
        [&self.flying, &self.delayed].into_iter().filter_map(|line| Some(line.front()?.ack_at)).min()
    }

    fn may_send(&self) -> bool {
        self.backlog.is_none_or(|left| left >= MSS) && self.has_room()
    }

    fn has_room(&self) -> bool {
        self.inflight + MSS <= self.cc.control().cwnd
    }

    fn check_app_limited(&mut self) {
        if self.backlog.is_some_and(|left| left < MSS) && self.has_room() {
            self.sampler.set_app_limited(self.inflight);
        }
    }

    fn write(&mut self) {
        self.check_app_limited();
        let (rate, at) = self.writer.expect("called when one is due");
        self.backlog = self.backlog.map(|left| left + MSS);
        self.writer = Some((rate, at + rate.time_for(MSS)));
    }

    fn send(&mut self) {
        if self.inflight.is_zero() && self.now > self.last_sent_at && self.sent > 0 {
            let (now, idle, delivered) = (self.now, self.now - self.last_sent_at, self.delivered);
            let (app_limited, rule) = (self.sampler.is_app_limited(), IdleRule::Rfc5681);
            let event = record!(IdleRestart { now, idle, rto: Some(RTO), delivered, app_limited, rule });
            self.cc.on_idle_restart(&event);
        }
        let snapshot = self.sampler.on_sent(self.now, MSS, self.inflight);
        // A scheme that sets no limit would send forever without any time passing.
        assert!(self.inflight < Bytes::new(1 << 30), "{} in flight", self.inflight.as_u64());
        self.inflight += MSS;
        self.sent += 1;
        self.last_sent_at = self.now;
        let rate = self.cc.control().pacing_rate.unwrap();
        self.pace_at = self.now + rate.time_for(MSS);
        self.cc.on_sent(&record!(Sent { now: self.now, bytes: MSS, inflight: self.inflight, retransmission: false }));
        self.transmit(Packet { seq: self.sent, snapshot, left_at: Nanos::MAX, ack_at: Nanos::MAX, given_up: false });
        if let Some(left) = &mut self.backlog {
            *left -= MSS;
        }
        self.check_app_limited();
        self.note_usage();
    }

    fn transmit(&mut self, mut packet: Packet) {
        if !self.passes(packet.seq) {
            self.dropped.push_back(packet);
            return;
        }
        self.link_free = self.link_free.max(self.now) + self.path.rate.time_for(MSS);
        packet.left_at = self.link_free;
        packet.ack_at = self.path.ack_at(packet.left_at);
        match &mut self.path.delay {
            Some((left, delay)) if *left > 0 => {
                *left -= 1;
                packet.ack_at += *delay;
                self.delayed.push_back(packet);
            }
            _ => self.flying.push_back(packet),
        }
    }

    /// Whether a packet passes the policer, the buffer and the loss pattern.
    fn passes(&mut self, seq: u64) -> bool {
        if let Some((rate, burst)) = self.path.policer {
            let arrived = rate.over(self.now - self.tokens_at).as_f64();
            self.tokens = (self.tokens + arrived).min(burst.as_f64());
            self.tokens_at = self.now;
            if self.tokens < MSS.as_f64() {
                return false;
            }
            self.tokens -= MSS.as_f64();
        }
        let queued = self.path.rate.over(self.link_free - self.now);
        queued + MSS <= self.path.buffer && self.path.drop_every.is_none_or(|n| !seq.is_multiple_of(n))
    }

    /// Tracks the use of cwnd (Linux `tcp_cwnd_validate`).
    fn note_usage(&mut self) {
        let limited = self.backlog.is_none_or(|left| left >= MSS) && !self.has_room();
        let lines = [&self.flying, &self.delayed, &self.dropped];
        let oldest = lines.into_iter().filter_map(|line| Some(line.front()?.seq)).min();
        let usage = &mut self.usage;
        let renewed = oldest.is_none_or(|oldest| oldest > usage.until);
        if renewed || limited || (!usage.limited && self.inflight > usage.most) {
            *usage = Usage { limited, most: self.inflight, until: self.sent };
        }
    }
}
