//! A path of one bottleneck, and a sender without retransmissions that reports every event to BBR.
//!
//! ```text
//!   sender ──(pacer)──► [policer] ──► buffer │ rate ──► ─ ─ rtt ─ ─ ► acknowledgement (held up to `bunch`)
//! ```

use std::collections::VecDeque;

use narrows_cc::bbr::{BbrCore, Policy};
use narrows_cc::{
    Ack, Bytes, CongestionCause, CongestionControl, IdleRestart, Lost, Nanos, Params, Phase, Random, Rate,
    RateSampler, RecoveryEntered, RecoveryLeft, RoundCounter, Sent, SentSnapshot, Setup, Timeout,
};

/// Names the policy of a scheme.
pub trait Core {
    type Policy: Policy;
}

impl<P: Policy> Core for BbrCore<P> {
    type Policy = P;
}

/// The policy that is BBR v1.
pub type V1 = <narrows_cc::schemes::Bbr as Core>::Policy;

pub const MSS: Bytes = Bytes::new(1448);
pub const INITIAL_WINDOW: Bytes = Bytes::new(14_480);

pub fn setup<P: Policy>(seed: u64, values: &[(&str, f64)]) -> Setup {
    let mut params = Params::defaults(P::INFO.params);
    for (name, value) in values {
        params.set(name, *value).unwrap();
    }
    Setup {
        mss: MSS,
        initial_window: INITIAL_WINDOW,
        max_burst: Bytes::MAX,
        sack: true,
        random: Random::stream(seed, "bbr", 0),
        params,
    }
}

/// A path. Everything but rate and rtt is off by default.
#[derive(Clone, Debug)]
pub struct Path {
    pub rate: Rate,
    pub rtt: Nanos,
    pub buffer: Bytes,
    pub policer: Option<(Rate, Bytes)>,
    pub bunch: Nanos,
    /// The n-th, 2n-th … packet is lost.
    pub drop_every: Option<u64>,
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
        }
    }

    /// Round-trip time of a packet that meets no queue.
    pub fn min_rtt(&self) -> Nanos {
        self.rtt + self.rate.time_for(MSS)
    }
}

#[derive(Clone, Copy, Debug)]
struct Packet {
    seq: u64,
    snapshot: SentSnapshot,
    ack_at: Nanos,
}

/// A flow over a path.
pub struct Flow<P> {
    pub cc: BbrCore<P>,
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
    flying: VecDeque<Packet>,
    dropped: VecDeque<Packet>,
    inflight: Bytes,
    pace_at: Nanos,
    link_free: Nanos,
    tokens: f64,
    tokens_at: Nanos,
    recover_until: u64,
    last_sent_at: Nanos,
    srtt: Nanos,
    least_rtt: Nanos,
}

impl<P: Policy> Flow<P> {
    /// A flow whose handshake has just been completed.
    pub fn new(path: Path, seed: u64, values: &[(&str, f64)]) -> Self {
        let mut flow = Self {
            cc: BbrCore::new(&setup::<P>(seed, values)),
            now: path.rtt,
            sent: 0,
            lost: 0,
            delivered: Bytes::ZERO,
            backlog: None,
            phase: Phase::Open,
            sampler: RateSampler::default(),
            round: RoundCounter::default(),
            flying: VecDeque::new(),
            dropped: VecDeque::new(),
            inflight: Bytes::ZERO,
            pace_at: Nanos::ZERO,
            link_free: Nanos::ZERO,
            tokens: path.policer.map_or(0.0, |(_, burst)| burst.as_f64()),
            tokens_at: Nanos::ZERO,
            recover_until: 0,
            last_sent_at: path.rtt,
            srtt: path.rtt,
            least_rtt: path.rtt,
            path,
        };
        let handshake = Ack { rtt: Some(flow.now), ..flow.blank_ack() };
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
            window_limited: true,
            window_full: true,
            phase: self.phase,
            round_start: false,
            round: 0,
            srtt: self.srtt,
            min_rtt: self.least_rtt,
        }
    }

    /// Runs until `end`; `watch` sees the flow after every acknowledgement.
    pub fn run(&mut self, end: Nanos, mut watch: impl FnMut(&Self, &Ack)) {
        loop {
            let send_at = self.may_send().then(|| self.now.max(self.pace_at));
            let ack_at = self.flying.front().map(|packet| packet.ack_at);
            let timeout_at = ack_at.is_none().then(|| self.last_sent_at + Nanos::from_secs(1));
            let timeout_at = timeout_at.filter(|_| !self.inflight.is_zero());
            let next = [send_at, ack_at, timeout_at].into_iter().flatten().min();
            let Some(next) = next.filter(|at| *at <= end) else {
                self.now = end;
                return;
            };
            self.now = self.now.max(next);
            if Some(next) == ack_at {
                let ack = self.acknowledge();
                watch(self, &ack);
            } else if Some(next) == send_at {
                self.send();
            } else {
                self.time_out();
            }
        }
    }

    /// Runs for `span`, watching nothing.
    pub fn run_for(&mut self, span: Nanos) {
        self.run(self.now + span, |_, _| {});
    }

    fn may_send(&self) -> bool {
        self.backlog.is_none_or(|left| left >= MSS) && self.inflight + MSS <= self.cc.control().window
    }

    fn send(&mut self) {
        if self.inflight.is_zero() && self.now > self.last_sent_at && self.sent > 0 {
            self.cc.on_idle_restart(&IdleRestart {
                now: self.now,
                idle: self.now - self.last_sent_at,
                rto: Nanos::from_secs(1),
                delivered: self.delivered,
                app_limited: self.backlog.is_some(),
            });
        }
        let snapshot = self.sampler.on_sent(self.now, MSS, self.inflight);
        self.inflight += MSS;
        self.sent += 1;
        self.last_sent_at = self.now;
        let rate = self.cc.control().pacing_rate.unwrap();
        self.pace_at = self.now + rate.time_for(MSS);
        self.cc.on_sent(&Sent { now: self.now, bytes: MSS, inflight: self.inflight, retransmission: false });
        let mut packet = Packet { seq: self.sent, snapshot, ack_at: Nanos::MAX };
        if self.passes(packet.seq) {
            self.link_free = self.link_free.max(self.now) + self.path.rate.time_for(MSS);
            packet.ack_at = self.link_free + self.path.rtt;
            if !self.path.bunch.is_zero() {
                let bunch = self.path.bunch.as_nanos();
                packet.ack_at = Nanos::from_nanos(packet.ack_at.as_nanos().div_ceil(bunch) * bunch);
            }
            self.flying.push_back(packet);
        } else {
            self.dropped.push_back(packet);
        }
        if let Some(left) = &mut self.backlog {
            *left -= MSS;
            if *left < MSS && self.inflight + MSS <= self.cc.control().window {
                self.sampler.set_app_limited(self.inflight);
            }
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

    fn report_lost(&mut self, packet: Packet) {
        self.inflight -= MSS;
        self.lost += 1;
        self.sampler.on_lost(MSS);
        self.cc.on_lost(&Lost {
            now: self.now,
            bytes: MSS,
            offset: MSS * packet.seq,
            sent_at: packet.snapshot.sent_at,
            tx_in_flight: packet.snapshot.tx_in_flight,
            lost_at_send: packet.snapshot.lost,
            delivered_at_send: packet.snapshot.delivered,
            app_limited: packet.snapshot.app_limited,
            lost_total: self.sampler.lost(),
            inflight: self.inflight,
        });
    }

    /// Delivers all acknowledgements that are due as one.
    fn acknowledge(&mut self) -> Ack {
        let before = self.inflight;
        let (mut acked, mut newest) = (Bytes::ZERO, None);
        while let Some(packet) = self.flying.front().copied().filter(|packet| packet.ack_at <= self.now) {
            self.flying.pop_front();
            self.sampler.on_delivered(self.now, MSS, &packet.snapshot, packet.seq);
            acked += MSS;
            newest = Some(packet);
        }
        let newest = newest.expect("called when one is due");
        self.inflight -= acked;
        self.delivered += acked;
        let rtt = self.now - newest.snapshot.sent_at;
        self.srtt = (self.srtt * 7 + rtt) / 8;
        self.least_rtt = self.least_rtt.min(rtt);
        let lost_before = self.lost;
        while let Some(packet) = self.dropped.front().copied().filter(|packet| packet.seq + 3 <= newest.seq) {
            self.dropped.pop_front();
            self.report_lost(packet);
        }
        let lost = MSS * (self.lost - lost_before);
        if self.phase == Phase::Open && !lost.is_zero() {
            self.phase = Phase::Recovery;
            self.recover_until = self.sent;
            self.cc.on_recovery_entered(&RecoveryEntered {
                now: self.now,
                cause: CongestionCause::Loss,
                flight_size: before,
                inflight: self.inflight,
                acked,
                delivered: self.delivered,
            });
        } else if self.phase != Phase::Open && newest.seq > self.recover_until && lost.is_zero() {
            self.phase = Phase::Open;
            let event = RecoveryLeft { now: self.now, inflight: self.inflight, delivered: self.delivered };
            self.cc.on_recovery_left(&event);
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

    fn time_out(&mut self) {
        let flight_size = self.inflight;
        while let Some(packet) = self.dropped.pop_front() {
            self.report_lost(packet);
        }
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
