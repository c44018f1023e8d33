//! A minimal generic transport that calls a scheme with events in legal order and with consistent numbers.

use std::collections::VecDeque;

use narrows_cc::{
    Ack, Advice, AnyScheme, Bytes, CongestionCause, Control, IdleRestart, Lost, MAX_PATHS_VIEW, Nanos, Params,
    PathView, Paths, Phase, Random, Rate, RateAdvice, RateSampler, ReceiverFeedback, RecoveryEntered, RecoveryLeft,
    RoundCounter, Sent, SentState, Setup, SpuriousLoss, Timeout, Value, record, schemes::Entry,
};
use proptest::prelude::*;

use crate::flow::events;

/// The receive window, which bounds inflight regardless of cwnd.
const RECEIVE_WINDOW: u64 = 1 << 26;
/// Upper limit of windows and rates (a petabyte, a petabyte per second); sums of such numbers fit in 64 bits.
pub const ABSURD: u64 = 1 << 50;

/// Fixed properties of a connection.
#[derive(Clone, Copy, Debug)]
pub struct Conditions {
    pub mss: u64,
    pub initial_window_segments: u64,
    pub rtt: Nanos,
    pub seed: u64,
}

/// The next event; the model ignores an event that the current phase does not permit.
#[derive(Clone, Debug)]
pub enum Op {
    /// The application writes this many segments.
    Send(u64),
    /// An acknowledgement, delayed by `late` thousandths of the RTT. The oldest `lost` packets are declared lost, and
    /// the next `delivered` packets are delivered; `marked`: all of these are marked.
    Ack { lost: usize, delivered: usize, late: u64, marked: bool },
    /// An acknowledgement without losses and marks, with an extreme round-trip time.
    AckAfter { delivered: usize, rtt: Nanos },
    /// The retransmission timer expires; `all`: all packets are declared lost, otherwise only the oldest packet.
    Timeout { all: bool },
    /// The current recovery proves spurious.
    Spurious,
    /// All packets are delivered; then the connection idles for this many milliseconds.
    Idle(u64),
    /// The network advises a rate.
    Advice(Advice),
    /// The receiver sends feedback.
    ReceiverFeedback(ReceiverFeedback),
    /// The subflows of the connection, one of which the scheme controls.
    Paths(Box<Paths>),
}

pub fn conditions() -> impl Strategy<Value = Conditions> {
    let mss = prop_oneof![Just(1u64), Just(1_448), Just(9_000), 2u64..9_000];
    let rtt = prop_oneof![
        3 => (1_000u64..200_000).prop_map(Nanos::from_micros),
        1 => Just(Nanos::from_micros(1)),
        1 => Just(Nanos::from_secs(10)),
    ];
    (mss, 1u64..100, rtt, any::<u64>()).prop_map(|(mss, initial_window_segments, rtt, seed)| Conditions {
        mss,
        initial_window_segments,
        rtt,
        seed,
    })
}

/// Advice from the network, valid or not.
fn advice() -> impl Strategy<Value = Advice> {
    let absurd = prop::sample::select(vec![0.0, f64::NAN, f64::INFINITY, f64::NEG_INFINITY, f64::MAX, -f64::MAX]);
    prop_oneof![
        4 => (0u64..20_000_000_000).prop_map(|rate| Advice::Rate(Rate::from_bytes_per_sec(rate))),
        1 => prop::sample::select(vec![0, 1, u64::MAX]).prop_map(|rate| Advice::Rate(Rate::from_bytes_per_sec(rate))),
        4 => (-1e9..1e9f64).prop_map(Advice::Change),
        1 => absurd.prop_map(Advice::Change),
        1 => Just(Advice::Withdrawn),
    ]
}

/// Feedback from a receiver, valid or not.
fn report() -> impl Strategy<Value = ReceiverFeedback> {
    let rtt = prop_oneof![
        4 => (1_000u64..2_000_000).prop_map(Nanos::from_micros),
        1 => prop::sample::select(vec![Nanos::ZERO, Nanos::from_nanos(1), Nanos::MAX]),
    ];
    let rate = prop_oneof![
        4 => 0u64..20_000_000_000,
        1 => prop::sample::select(vec![0, 1, u64::MAX]),
    ];
    let share = || {
        prop_oneof![
            4 => 0.0..1.0f64,
            1 => prop::sample::select(vec![0.0, 1.0, 1e-300, -1.0, 2.0, f64::NAN, f64::INFINITY]),
        ]
    };
    let measured = (prop::option::of(rtt), prop::option::of(rate), prop::option::of(share()));
    let limits = (any::<bool>(), any::<bool>(), prop::sample::select(vec![0, 0, 0, 1, 3, u64::MAX]), any::<bool>());
    (measured, prop::option::of(share()), limits).prop_map(
        |((rtt, rate, loss_event_rate), loss_rate, (data_limited, new_loss_event, dropped, slow))| {
            record!(ReceiverFeedback {
                now: Nanos::ZERO,
                rtt,
                receive_rate: rate.map(Rate::from_bytes_per_sec),
                loss_event_rate,
                loss_rate,
                data_limited,
                new_loss_event,
                dropped,
                slow,
            })
        },
    )
}

/// Subflows of all sizes and states.
fn paths() -> impl Strategy<Value = Box<Paths>> {
    let amount = || prop_oneof![3 => 1_000u64..10_000_000, 1 => prop::sample::select(vec![0, 1, ABSURD])];
    let rtt = prop_oneof![3 => 1_000u64..1_000_000_000, 1 => prop::sample::select(vec![0, 1, 60_000_000_000])];
    let path = (amount(), rtt, amount(), amount(), prop::bool::weighted(0.8)).prop_map(
        |(window, rtt, since, between, established)| {
            record!(PathView {
                cwnd: Bytes::new(window),
                srtt: (rtt > 0).then(|| Nanos::from_nanos(rtt)),
                since_loss: Bytes::new(since),
                between_losses: Bytes::new(between),
                established,
            })
        },
    );
    (prop::collection::vec(path, 1..=MAX_PATHS_VIEW), any::<prop::sample::Index>())
        .prop_map(|(views, own)| Box::new(Paths::new(own.index(views.len()), &views)))
}

pub fn ops() -> impl Strategy<Value = Vec<Op>> {
    let late = prop_oneof![2 => Just(0u64), 1 => 0u64..3_000];
    let ack = (0usize..40, late, prop::bool::weighted(0.02)).prop_map(|(delivered, late, marked)| Op::Ack {
        lost: 0,
        delivered,
        late,
        marked,
    });
    let losing = (1usize..8, 1usize..20, 0u64..1_000).prop_map(|(lost, delivered, late)| Op::Ack {
        lost,
        delivered,
        late,
        marked: false,
    });
    let extreme = prop_oneof![Just(1u64), Just(1_000), Just(10_000_000_000), 1u64..20_000_000_000];
    let op = prop_oneof![
        12 => (1u64..64).prop_map(Op::Send),
        12 => ack,
        2 => losing,
        1 => (1usize..40, extreme).prop_map(|(delivered, ns)| Op::AckAfter { delivered, rtt: Nanos::from_nanos(ns) }),
        1 => any::<bool>().prop_map(|all| Op::Timeout { all }),
        1 => Just(Op::Spurious),
        1 => (0u64..100_000).prop_map(Op::Idle),
        1 => advice().prop_map(Op::Advice),
        2 => report().prop_map(Op::ReceiverFeedback),
        2 => paths().prop_map(Op::Paths),
    ];
    prop::collection::vec(op, 1..250)
}

#[derive(Clone, Copy)]
struct InFlight {
    bytes: Bytes,
    order: u64,
    snapshot: SentState,
    retransmission: bool,
}

/// Output of a scheme after an event.
#[derive(Clone, Debug, PartialEq)]
pub struct Step {
    pub event: &'static str,
    pub control: Control,
    /// Data in flight after the event.
    pub inflight: Bytes,
    pub telemetry: Vec<(&'static str, Value)>,
}

/// One connection.
pub struct Model {
    scheme: AnyScheme,
    conditions: Conditions,
    mss: Bytes,
    now: Nanos,
    sampler: RateSampler,
    rounds: RoundCounter,
    packets: VecDeque<InFlight>,
    inflight: Bytes,
    to_repeat: u64,
    order: u64,
    phase: Phase,
    /// Newest packet outstanding when recovery began.
    recovery_end: u64,
    consecutive: u32,
    cwnd_limited: bool,
    srtt: Option<Nanos>,
    min_rtt: Option<Nanos>,
    /// All outputs of the scheme, in order.
    pub steps: Vec<Step>,
}

impl Model {
    pub fn new(entry: &Entry, params: Params, conditions: Conditions) -> Self {
        let mss = Bytes::new(conditions.mss);
        let setup = Setup::new(mss, params, Random::stream(conditions.seed, "scheme", 0))
            .with_window(conditions.initial_window_segments)
            .with_sack(conditions.seed.is_multiple_of(2));
        let mut model = Self {
            scheme: entry.build(&setup),
            conditions,
            mss,
            now: Nanos::ZERO,
            sampler: RateSampler::default(),
            rounds: RoundCounter::default(),
            packets: VecDeque::new(),
            inflight: Bytes::ZERO,
            to_repeat: 0,
            order: 0,
            phase: Phase::Open,
            recovery_end: 0,
            consecutive: 0,
            cwnd_limited: false,
            srtt: None,
            min_rtt: None,
            steps: Vec::new(),
        };
        model.record("new");
        model
    }

    pub fn run(&mut self, ops: &[Op]) {
        for op in ops {
            match *op {
                Op::Send(n) => self.send(n),
                Op::Ack { lost, delivered, late, marked } => {
                    let rtt = self.conditions.rtt;
                    self.ack(lost, delivered, rtt + Nanos::from_nanos(rtt.as_nanos() / 1_000 * late), marked);
                }
                Op::AckAfter { delivered, rtt } => self.ack(0, delivered, rtt, false),
                Op::Timeout { all } => self.timeout(all),
                Op::Spurious => self.spurious(),
                Op::Idle(ms) => self.idle(ms),
                Op::Advice(advice) => {
                    self.scheme.on_rate_advice(&record!(RateAdvice { now: self.now, advice }));
                    self.record("rate advice");
                }
                Op::ReceiverFeedback(report) => {
                    self.scheme.on_receiver_feedback(&record!(ReceiverFeedback { now: self.now, ..report }));
                    self.record("report");
                }
                Op::Paths(ref paths) => {
                    self.scheme.on_paths(paths);
                    self.record("paths");
                }
            }
        }
    }

    fn record(&mut self, event: &'static str) {
        let mut telemetry = Vec::new();
        self.scheme.telemetry(&mut |name, value| telemetry.push((name, value)));
        self.steps.push(Step { event, control: self.scheme.control(), inflight: self.inflight, telemetry });
    }

    fn send(&mut self, segments: u64) {
        for _ in 0..segments {
            let window = self.scheme.control().cwnd.min(Bytes::new(RECEIVE_WINDOW));
            if self.inflight + self.mss > window && !self.inflight.is_zero() {
                self.cwnd_limited = true;
                return;
            }
            let snapshot = self.sampler.on_sent(self.now, self.mss, self.inflight);
            self.inflight += self.mss;
            let retransmission = self.to_repeat > 0;
            self.to_repeat -= u64::from(retransmission);
            self.order += 1;
            self.packets.push_back(InFlight { bytes: self.mss, order: self.order, snapshot, retransmission });
            let sent = record!(Sent { now: self.now, bytes: self.mss, inflight: self.inflight, retransmission });
            self.scheme.on_sent(&sent);
            self.record("sent");
            let gap = self.scheme.control().pacing_rate.map_or(Nanos::ZERO, |rate| rate.time_for(self.mss));
            self.now += gap.min(self.conditions.rtt / 16);
        }
        self.cwnd_limited = false;
        self.sampler.set_app_limited(self.inflight);
    }

    fn lose_oldest(&mut self) -> Bytes {
        let Some(packet) = self.packets.pop_front() else {
            return Bytes::ZERO;
        };
        self.sampler.on_lost(packet.bytes);
        self.inflight -= packet.bytes;
        self.to_repeat += 1;
        let lost = events::lost(self.now, packet.bytes, &packet.snapshot, self.sampler.lost(), self.inflight);
        self.scheme.on_lost(&record!(Lost { packet: packet.order, ..lost }));
        self.record("lost");
        packet.bytes
    }

    fn ack(&mut self, lost: usize, delivered: usize, rtt: Nanos, marked: bool) {
        let inflight_before = self.inflight;
        let lost = lost.min(self.packets.len().saturating_sub(1));
        let delivered = delivered.min(self.packets.len() - lost);
        let Some(newest) = (lost + delivered).checked_sub(1).and_then(|i| self.packets.get(i)).copied() else {
            return self.empty_ack();
        };
        self.now = self.now.max(newest.snapshot.sent_at + rtt);

        let sample = (!newest.retransmission && delivered > 0).then(|| self.now - newest.snapshot.sent_at);
        if let Some(rtt) = sample {
            self.srtt = Some(self.srtt.map_or(rtt, |srtt| (srtt * 7 + rtt) / 8));
            self.min_rtt = Some(self.min_rtt.map_or(rtt, |least| least.min(rtt)));
        }
        let mut lost_bytes = Bytes::ZERO;
        for _ in 0..lost {
            lost_bytes += self.lose_oldest();
        }
        let (mut acked, mut sampled) = (Bytes::ZERO, None);
        for packet in self.packets.drain(..delivered) {
            self.sampler.on_delivered(self.now, packet.bytes, &packet.snapshot, &mut sampled);
            acked += packet.bytes;
        }
        self.inflight -= acked;
        let round_start = !acked.is_zero() && self.rounds.on_ack(newest.snapshot.delivered, self.sampler.delivered());

        let repaired = self.packets.front().is_none_or(|packet| packet.order > self.recovery_end);
        let cause = if !lost_bytes.is_zero() {
            Some(CongestionCause::Loss)
        } else {
            (marked && !acked.is_zero()).then_some(CongestionCause::Ecn)
        };
        match (self.phase, cause) {
            (Phase::Open, Some(cause)) => {
                self.phase = Phase::Recovery;
                self.recovery_end = self.order;
                let (now, inflight, delivered) = (self.now, self.inflight, self.sampler.delivered());
                let flight_size = inflight_before;
                let event = record!(RecoveryEntered { now, cause, flight_size, inflight, acked, delivered });
                self.scheme.on_recovery_entered(&event);
                self.record("recovery entered");
            }
            (Phase::Recovery | Phase::Loss, None) if repaired && !acked.is_zero() => {
                self.phase = Phase::Open;
                let (now, inflight, delivered) = (self.now, self.inflight, self.sampler.delivered());
                self.scheme.on_recovery_left(&record!(RecoveryLeft { now, inflight, delivered }));
                self.record("recovery left");
            }
            _ => {}
        }
        if !acked.is_zero() {
            self.consecutive = 0;
        }
        let event = record!(Ack {
            acked,
            acked_cumulative: Some(acked),
            lost: lost_bytes,
            rtt: sample,
            rate: self.sampler.sample(sampled.as_ref(), self.min_rtt),
            inflight_before,
            ce: if marked { acked } else { Bytes::ZERO },
            round_start,
            ..self.plain_ack()
        });
        self.scheme.on_ack(&event);
        self.record("ack");
    }

    /// The fields common to all acknowledgements at this time.
    fn plain_ack(&self) -> Ack {
        record!(Ack {
            cwnd_limited: self.cwnd_limited,
            cwnd_full: self.cwnd_limited,
            phase: self.phase,
            round: self.rounds.count(),
            srtt: self.srtt,
            min_rtt: self.min_rtt,
            ..events::empty_ack(self.now, self.inflight, self.sampler.delivered())
        })
    }

    fn empty_ack(&mut self) {
        let event = self.plain_ack();
        self.scheme.on_ack(&event);
        self.record("ack of nothing");
    }

    fn timeout(&mut self, all: bool) {
        if self.packets.is_empty() {
            return;
        }
        let flight_size = self.inflight;
        self.now += self.srtt.unwrap_or_default().max(Nanos::from_millis(200));
        let lost = if all { self.packets.len() } else { 1 };
        for _ in 0..lost {
            self.lose_oldest();
        }
        self.phase = Phase::Loss;
        self.recovery_end = self.order;
        self.consecutive += 1;
        let (now, inflight, delivered) = (self.now, self.inflight, self.sampler.delivered());
        let consecutive = self.consecutive;
        self.scheme.on_timeout(&record!(Timeout { now, flight_size, inflight, delivered, consecutive }));
        self.record("timeout");
    }

    fn spurious(&mut self) {
        if self.phase == Phase::Open {
            return;
        }
        let phase = std::mem::replace(&mut self.phase, Phase::Open);
        self.to_repeat = 0;
        let (now, inflight, delivered) = (self.now, self.inflight, self.sampler.delivered());
        self.scheme.on_spurious_loss(&record!(SpuriousLoss { now, inflight, delivered, phase }));
        self.record("spurious loss");
    }

    fn idle(&mut self, ms: u64) {
        let all = self.packets.len();
        if all > 0 {
            self.ack(0, all, self.conditions.rtt, false);
        }
        let idle = Nanos::from_millis(ms);
        self.now += idle;
        self.scheme.on_idle_restart(&record!(IdleRestart {
            now: self.now,
            idle,
            rto: Some((self.srtt.unwrap_or_default() * 2).max(Nanos::from_millis(200))),
            delivered: self.sampler.delivered(),
            app_limited: true,
            rule: narrows_cc::IdleRule::Rfc5681,
        }));
        self.record("idle restart");
    }
}
