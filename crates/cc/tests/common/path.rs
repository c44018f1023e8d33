//! A path of one bottleneck, and a sender without retransmissions that reports every event to its scheme.
//!
//! ```text
//!   writer ──► sender ──(pacer)──► [policer] ──► buffer │ rate ──► ─ ─ rtt ─ ─ ► acknowledgement (held up to `bunch`)
//! ```
//!
//! A packet is lost when three sent after it are acknowledged, or when the timer expires. Nothing is sent again. Recovery
//! ends when a packet sent after its start is acknowledged (with [`Path::repairs`], one sent after its last loss was found:
//! when a repair would be acknowledged), or when all packets declared lost have turned up after all.

#![allow(dead_code)] // each test crate uses its part

use std::collections::VecDeque;

use narrows_cc::{
    Ack, Bytes, CongestionCause, CongestionControl, IdleRestart, Lost, Nanos, Params, Phase, Random, Rate,
    RateSampler, RecoveryEntered, RecoveryLeft, RoundCounter, Sent, SentSnapshot, Setup, SpuriousLoss,
    Timeout,
};

pub const MSS: Bytes = Bytes::new(1448);
pub const INITIAL_WINDOW: Bytes = Bytes::new(14_480);
/// The retransmission timeout.
pub const RTO: Nanos = Nanos::from_secs(1);

/// The set-up of a scheme, with some of its parameters changed.
pub fn setup<C: CongestionControl>(seed: u64, values: &[(&str, f64)]) -> Setup {
    let mut params = Params::defaults(C::INFO.params);
    for (name, value) in values {
        params.set(name, *value).unwrap();
    }
    Setup {
        mss: MSS,
        initial_window: INITIAL_WINDOW,
        max_burst: Bytes::MAX,
        sack: true,
        // One stream for all, so that a variant can be compared with what it varies.
        random: Random::stream(seed, "bbr", 0),
        params,
    }
}

/// A path. Everything but rate and rtt is off by default.
#[derive(Clone, Debug)]
pub struct Path {
    /// Changed by [`Flow::set_rate`] once packets are on their way.
    pub rate: Rate,
    pub rtt: Nanos,
    pub buffer: Bytes,
    pub policer: Option<(Rate, Bytes)>,
    pub bunch: Nanos,
    /// The n-th, 2n-th … packet is lost.
    pub drop_every: Option<u64>,
    /// So many of the next packets arrive so much later: those behind them overtake them.
    pub delay: Option<(u64, Nanos)>,
    /// Recovery lasts until the repair of its last loss would be acknowledged.
    pub repairs: bool,
}

impl Path {
    pub fn new(mbit_per_sec: f64, rtt_ms: u64) -> Self {
        Self {
            rate: Rate::from_mbit_per_sec(mbit_per_sec),
            rtt: Nanos::from_millis(rtt_ms),
            buffer: Bytes::new(1 << 40),
            policer: None,
            bunch: Nanos::ZERO,
            drop_every: None,
            delay: None,
            repairs: false,
        }
    }

    /// Round-trip time of a packet that meets no queue.
    pub fn min_rtt(&self) -> Nanos {
        self.rtt + self.rate.time_for(MSS)
    }

    /// When the acknowledgement of a packet that leaves the link at `left` comes back.
    fn ack_at(&self, left: Nanos) -> Nanos {
        let at = left + self.rtt;
        if self.bunch.is_zero() {
            return at;
        }
        let bunch = self.bunch.as_nanos();
        Nanos::from_nanos(at.as_nanos().div_ceil(bunch) * bunch)
    }
}

#[derive(Clone, Copy, Debug)]
struct Packet {
    seq: u64,
    snapshot: SentSnapshot,
    /// When the link is done with it.
    left_at: Nanos,
    ack_at: Nanos,
    /// Declared lost, whether it was or not.
    given_up: bool,
}

/// How much of the window was used of late, as Linux decides whether a sender is limited by its window.
#[derive(Clone, Copy, Debug, Default)]
struct Usage {
    limited: bool,
    most: Bytes,
    /// Renewed when all up to this packet is acknowledged.
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
    /// What the application has written and is not sent yet; `None`: no end.
    pub backlog: Option<Bytes>,
    pub phase: Phase,
    sampler: RateSampler,
    round: RoundCounter,
    usage: Usage,
    /// What the application adds to the backlog, and when it does so next.
    writer: Option<(Rate, Nanos)>,
    flying: VecDeque<Packet>,
    delayed: VecDeque<Packet>,
    dropped: VecDeque<Packet>,
    inflight: Bytes,
    pace_at: Nanos,
    link_free: Nanos,
    tokens: f64,
    tokens_at: Nanos,
    /// The last packet that had left when recovery began, and when its last loss was found.
    recover_until: u64,
    repaired_after: u64,
    /// Packets declared lost in this recovery that may still turn up, and whether some never will.
    missing: u64,
    missed: bool,
    last_sent_at: Nanos,
    last_ack_at: Nanos,
    srtt: Nanos,
    least_rtt: Nanos,
}

impl<C: CongestionControl> Flow<C> {
    /// A flow whose handshake has just been completed.
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
        let handshake = Ack { rtt: Some(flow.now), window_limited: false, ..flow.blank_ack() };
        flow.cc.on_ack(&handshake);
        flow
    }

    fn blank_ack(&self) -> Ack {
        Ack {
            now: self.now,
            acked: Bytes::ZERO,
            acked_cumulative: Bytes::ZERO,
            lost: Bytes::ZERO,
            rtt: None,
            rate: None,
            inflight_before: self.inflight,
            inflight: self.inflight,
            ce: Bytes::ZERO,
            delivered: self.delivered,
            window_limited: self.usage.limited,
            window_full: self.usage.limited,
            phase: self.phase,
            round_start: false,
            round: 0,
            srtt: self.srtt,
            min_rtt: self.least_rtt,
        }
    }

    /// Data in flight as the sender sees it.
    pub fn inflight(&self) -> Bytes {
        self.inflight
    }

    /// Runs until `end`; `watch` sees the flow after every acknowledgement.
    pub fn run(&mut self, end: Nanos, mut watch: impl FnMut(&Self, &Ack)) {
        while let Some(ack) = self.step(end) {
            if let Some(ack) = ack {
                watch(self, &ack);
            }
        }
    }

    /// Runs for `span`, watching nothing.
    pub fn run_for(&mut self, span: Nanos) {
        self.run(self.now + span, |_, _| {});
    }

    /// Runs until `done` after some event, or until `end`; says whether it was done.
    pub fn run_until(&mut self, end: Nanos, mut done: impl FnMut(&Self) -> bool) -> bool {
        while self.step(end).is_some() {
            if done(self) {
                return true;
            }
        }
        false
    }

    /// From now on the application writes at `rate`; what it wrote before is sent, or was without end and is dropped.
    pub fn write_at(&mut self, rate: Rate) {
        self.backlog = Some(self.backlog.unwrap_or(Bytes::ZERO));
        self.writer = (!rate.is_zero()).then_some((rate, self.now));
        self.check_app_limited();
    }

    /// From now on there is always something to send.
    pub fn write_without_end(&mut self) {
        self.check_app_limited();
        (self.backlog, self.writer) = (None, None);
    }

    /// The link changes its rate; what is queued waits accordingly longer or shorter.
    pub fn set_rate(&mut self, rate: Rate) {
        let now = self.now;
        let stretch = self.path.rate.as_bytes_per_sec() as f64 / rate.as_bytes_per_sec() as f64;
        self.move_queue(|at| now + (at - now).mul_f64(stretch));
        self.path.rate = rate;
    }

    /// The link stands still for a time.
    pub fn stall(&mut self, span: Nanos) {
        self.link_free = self.link_free.max(self.now);
        self.move_queue(|at| at + span);
    }

    /// All that has not left the link yet leaves at another time.
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

    /// The next event, if it comes until `end`: an acknowledgement, or another.
    fn step(&mut self, end: Nanos) -> Option<Option<Ack>> {
        let ack_at = self.next_ack_at();
        let send_at = self.may_send().then(|| self.now.max(self.pace_at));
        let write_at = self.writer.map(|(_, at)| at);
        let timeout_at = (!self.inflight.is_zero()).then(|| self.last_sent_at.max(self.last_ack_at) + RTO);
        let events = [
            (ack_at, Next::Ack),
            (send_at, Next::Send),
            (write_at, Next::Write),
            (timeout_at, Next::Timeout),
        ];
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
        self.inflight + MSS <= self.cc.control().window
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
            self.cc.on_idle_restart(&IdleRestart {
                now: self.now,
                idle: self.now - self.last_sent_at,
                rto: RTO,
                delivered: self.delivered,
                app_limited: self.sampler.is_app_limited(),
            });
        }
        let snapshot = self.sampler.on_sent(self.now, MSS, self.inflight);
        self.inflight += MSS;
        self.sent += 1;
        self.last_sent_at = self.now;
        let rate = self.cc.control().pacing_rate.unwrap();
        self.pace_at = self.now + rate.time_for(MSS);
        self.cc.on_sent(&Sent { now: self.now, bytes: MSS, inflight: self.inflight, retransmission: false });
        self.transmit(Packet {
            seq: self.sent,
            snapshot,
            left_at: Nanos::MAX,
            ack_at: Nanos::MAX,
            given_up: false,
        });
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

    /// Whether policer, buffer and pattern let a packet through.
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

    /// Follows how much of the window is used (Linux `tcp_cwnd_validate`).
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

    fn report_lost(&mut self, packet: Packet) {
        self.inflight -= MSS;
        self.lost += 1;
        self.sampler.on_lost(MSS);
        self.cc.on_lost(&Lost {
            now: self.now,
            bytes: MSS,
            offset: MSS * (packet.seq - 1),
            sent_at: packet.snapshot.sent_at,
            tx_in_flight: packet.snapshot.tx_in_flight,
            lost_at_send: packet.snapshot.lost,
            delivered_at_send: packet.snapshot.delivered,
            app_limited: packet.snapshot.app_limited,
            lost_total: self.sampler.lost(),
            inflight: self.inflight,
        });
    }

    /// Gives up all packets sent before `until`.
    fn give_up(&mut self, until: u64) {
        while let Some(packet) = self.dropped.front().copied().filter(|packet| packet.seq < until) {
            self.dropped.pop_front();
            self.missed = true;
            if self.path.repairs && packet.seq <= self.recover_until {
                self.repaired_after = self.sent;
            }
            self.report_lost(packet);
        }
        for nth in 0..self.delayed.len() {
            let packet = &mut self.delayed[nth];
            let found = Self::presume_lost(packet, until);
            self.report_missing(found);
        }
        let mut nth = 0;
        while self.flying.get(nth).is_some_and(|packet| packet.seq < until) {
            let found = Self::presume_lost(&mut self.flying[nth], until);
            self.report_missing(found);
            nth += 1;
        }
    }

    fn presume_lost(packet: &mut Packet, until: u64) -> Option<Packet> {
        let found = packet.seq < until && !packet.given_up;
        packet.given_up |= found;
        found.then_some(*packet)
    }

    fn report_missing(&mut self, packet: Option<Packet>) {
        if let Some(packet) = packet {
            self.missing += 1;
            self.report_lost(packet);
        }
    }

    /// Takes over what is delivered until now: the bytes, and the packet sent last.
    fn deliver(&mut self) -> (Bytes, Packet) {
        let (mut acked, mut newest) = (Bytes::ZERO, None::<Packet>);
        for line in [&mut self.flying, &mut self.delayed] {
            while let Some(packet) = line.front().copied().filter(|packet| packet.ack_at <= self.now) {
                line.pop_front();
                self.sampler.on_delivered(self.now, MSS, &packet.snapshot, packet.seq);
                acked += MSS;
                if packet.given_up {
                    self.missing = self.missing.saturating_sub(1);
                } else {
                    self.inflight -= MSS;
                }
                if newest.is_none_or(|newest| packet.seq > newest.seq) {
                    newest = Some(packet);
                }
            }
        }
        self.delivered += acked;
        self.last_ack_at = self.now;
        (acked, newest.expect("called when one is due"))
    }

    /// Delivers all acknowledgements that are due as one.
    fn acknowledge(&mut self) -> Ack {
        self.check_app_limited();
        let before = self.inflight;
        let (acked, newest) = self.deliver();
        let rtt = self.now - newest.snapshot.sent_at;
        self.srtt = (self.srtt * 7 + rtt) / 8;
        self.least_rtt = self.least_rtt.min(rtt);
        let (lost_before, repairing) = (self.lost, self.phase != Phase::Open);
        let found_late = repairing && self.missing == 0 && !self.missed;
        self.give_up(newest.seq.saturating_sub(2));
        let lost = MSS * (self.lost - lost_before);
        let (now, inflight, delivered) = (self.now, self.inflight, self.delivered);
        if !repairing && !lost.is_zero() {
            self.phase = Phase::Recovery;
            self.recover_until = self.sent;
            let (cause, flight_size) = (CongestionCause::Loss, before);
            self.cc.on_recovery_entered(&RecoveryEntered {
                now,
                cause,
                flight_size,
                inflight,
                acked,
                delivered,
            });
        } else if found_late && lost.is_zero() {
            self.cc.on_spurious_loss(&SpuriousLoss { now, inflight, delivered, phase: self.phase });
            self.leave_recovery();
        } else if repairing
            && newest.seq > self.recover_until.max(self.repaired_after)
            && lost.is_zero()
            && self.missing == 0
        {
            self.leave_recovery();
            self.cc.on_recovery_left(&RecoveryLeft { now, inflight, delivered });
        }
        let round_start = self.round.on_ack(newest.snapshot.delivered, self.delivered);
        let ack = Ack {
            acked,
            acked_cumulative: acked,
            lost,
            rtt: Some(rtt),
            rate: self.sampler.sample(self.least_rtt),
            inflight_before: before,
            round_start,
            round: self.round.count(),
            ..self.blank_ack()
        };
        self.cc.on_ack(&ack);
        ack
    }

    fn leave_recovery(&mut self) {
        self.phase = Phase::Open;
        (self.missing, self.missed) = (0, false);
    }

    fn time_out(&mut self) {
        let flight_size = self.inflight;
        self.give_up(self.sent + 1);
        self.phase = Phase::Loss;
        self.recover_until = self.sent;
        self.last_sent_at = self.now;
        self.cc.on_timeout(&Timeout {
            now: self.now,
            flight_size,
            inflight: self.inflight,
            delivered: self.delivered,
            consecutive: 1,
        });
    }
}
