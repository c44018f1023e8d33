//! Scripted acknowledgements over a path of 100 Mbit/s and 40 ms: a BDP of 500 segments of 1000 bytes.

use narrows_cc::bbr_v2_v3::{BbrCore, Policy, State};
use narrows_cc::{
    Ack, Bytes, CongestionCause, CongestionControl, Lost, Nanos, Params, Phase, Random, Rate, RateSample,
    RecoveryEntered, RecoveryLeft, Scheme, Setup, SpuriousLoss, Timeout, Value, record,
};

/// The rules of a scheme.
pub trait Core {
    type Policy: Policy;
}

impl<P: Policy> Core for BbrCore<P> {
    type Policy = P;
}

pub type V3 = <narrows_cc::schemes::Bbr3 as Core>::Policy;
pub type V2 = <narrows_cc::schemes::Bbr2 as Core>::Policy;

pub const MSS: Bytes = Bytes::new(1_000);
pub const BDP: Bytes = Bytes::new(500_000);
pub const RTT: Nanos = Nanos::from_millis(40);
/// A short time within a round trip.
pub const MOMENT: Nanos = Nanos::from_micros(10);

/// Most steps that a script waits for a state: a scheme that never reaches it fails.
pub const PATIENCE: usize = 10_000;

pub const fn segments(n: u64) -> Bytes {
    Bytes::new(1_000 * n)
}

pub fn setup<P: Policy>(seed: u64, values: &[(&str, f64)]) -> Setup {
    let mut params = Params::defaults(P::INFO.params);
    for (name, value) in values {
        params.set(name, *value).unwrap();
    }
    Setup::new(MSS, params, Random::stream(seed, "bbr3", 0))
}

/// A flow and the state of its scripted transport.
pub struct Script<P> {
    pub cc: BbrCore<P>,
    pub now: Nanos,
    pub rtt: Nanos,
    pub rate: Rate,
    pub delivered: Bytes,
    pub lost: Bytes,
    /// Inflight after the next acknowledgement.
    pub inflight: Bytes,
    /// Inflight when the acknowledged packet was sent, and losses since.
    pub tx_in_flight: Bytes,
    pub lost_since: Bytes,
    pub phase: Phase,
    pub app_limited: bool,
    pub cwnd_full: bool,
    pub marked: bool,
    newly_lost: Bytes,
}

impl<P: Policy> Script<P> {
    /// A flow after its handshake.
    pub fn new(values: &[(&str, f64)]) -> Self {
        Self::with(setup::<P>(1, values))
    }

    pub fn with(setup: Setup) -> Self {
        let mut script = Self {
            cc: BbrCore::new(&setup),
            now: RTT,
            rtt: RTT,
            rate: Rate::from_mbit_per_sec(100.0),
            delivered: Bytes::ZERO,
            lost: segments(1_000),
            inflight: BDP,
            tx_in_flight: BDP,
            lost_since: Bytes::ZERO,
            phase: Phase::Open,
            app_limited: false,
            cwnd_full: false,
            marked: false,
            newly_lost: Bytes::ZERO,
        };
        let handshake = record!(Ack { rate: None, ..script.next(Nanos::ZERO, 0, true) });
        script.cc.on_ack(&handshake);
        script
    }

    /// An acknowledgement of `acked` segments, `after` the last one. To begin a round, it covers packets sent
    /// after the last one.
    pub fn next(&mut self, after: Nanos, acked: u64, round: bool) -> Ack {
        self.now += after;
        let prior_delivered = if round { self.delivered } else { Bytes::ZERO };
        let acked = MSS * acked;
        self.delivered += acked;
        let lost = std::mem::take(&mut self.newly_lost);
        record!(Ack {
            now: self.now,
            acked,
            acked_cumulative: Some(acked),
            lost,
            rtt: Some(self.rtt),
            rate: Some(record!(RateSample {
                rate: self.rate,
                delivered: self.rate.over(self.rtt),
                interval: self.rtt,
                prior_delivered,
                tx_in_flight: self.tx_in_flight,
                lost: self.lost_since,
                app_limited: self.app_limited,
            })),
            inflight_before: self.inflight + acked + lost,
            inflight: self.inflight,
            ce: if self.marked { acked } else { Bytes::ZERO },
            delivered: self.delivered,
            cwnd_limited: true,
            cwnd_full: self.cwnd_full,
            phase: self.phase,
            round_start: round,
            round: 0,
            srtt: Some(self.rtt),
            min_rtt: Some(self.rtt),
        })
    }

    /// Acknowledges `acked` segments one round trip later.
    pub fn round(&mut self, acked: u64) {
        let ack = self.next(self.rtt, acked, true);
        self.cc.on_ack(&ack);
    }

    /// Acknowledges `acked` more segments within the round trip.
    pub fn within(&mut self, after: Nanos, acked: u64) {
        let ack = self.next(after, acked, false);
        self.cc.on_ack(&ack);
    }

    /// Declares the segment with this number lost. It was sent with `tx` in flight; `since` segments were
    /// lost since then, including it.
    pub fn lose(&mut self, number: u64, tx: Bytes, since: u64) {
        self.lost += MSS;
        self.newly_lost += MSS;
        self.cc.on_lost(&record!(Lost {
            now: self.now,
            bytes: MSS,
            packet: number,
            sent_at: self.now - self.rtt,
            tx_in_flight: tx,
            lost_at_send: self.lost - MSS * since,
            delivered_at_send: Bytes::ZERO,
            app_limited: self.app_limited,
            lost_total: self.lost,
            inflight: self.inflight,
        }));
    }

    /// Declares enough segments in a row lost that a probe with `tx` in flight was too high.
    pub fn lose_too_much(&mut self, tx: Bytes) {
        let enough = tx.as_u64() / MSS.as_u64() / 50 + 1;
        for n in 1..=enough {
            self.lose(n, tx, n);
        }
    }

    pub fn enter_recovery(&mut self, cause: CongestionCause) {
        self.phase = Phase::Recovery;
        self.cc.on_recovery_entered(&record!(RecoveryEntered {
            now: self.now,
            cause,
            flight_size: self.inflight,
            inflight: self.inflight,
            acked: Bytes::ZERO,
            delivered: self.delivered,
        }));
    }

    pub fn leave_recovery(&mut self) {
        self.phase = Phase::Open;
        let event = record!(RecoveryLeft { now: self.now, inflight: self.inflight, delivered: self.delivered });
        self.cc.on_recovery_left(&event);
    }

    pub fn time_out(&mut self) {
        self.phase = Phase::Loss;
        self.cc.on_timeout(&record!(Timeout {
            now: self.now,
            flight_size: self.inflight,
            inflight: self.inflight,
            delivered: self.delivered,
            consecutive: 1,
        }));
    }

    pub fn prove_spurious(&mut self) {
        let phase = std::mem::replace(&mut self.phase, Phase::Open);
        let event = record!(SpuriousLoss { now: self.now, inflight: self.inflight, delivered: self.delivered, phase });
        self.cc.on_spurious_loss(&event);
    }

    /// Four rounds at one rate: the pipe is full.
    pub fn reach_drain(&mut self) {
        let queue = self.rate.over(self.rtt) * 2 + MSS * 100;
        let inflight = std::mem::replace(&mut self.inflight, queue);
        for _ in 0..4 {
            self.round(500);
        }
        self.inflight = inflight;
        assert_eq!(self.state(), State::Drain);
    }

    /// Runs to DRAIN by a round of recovery with six separate losses, 4 % of the flight.
    pub fn drain_by_loss(&mut self) {
        for n in 0..6 {
            self.lose(10 * n, BDP, 1);
        }
        self.enter_recovery(CongestionCause::Loss);
        self.lost_since = segments(20);
        self.inflight = BDP * 2;
        self.within(MOMENT, 1);
        self.round(500);
        assert_eq!(self.state(), State::Drain);
    }

    /// Runs through PROBE_DOWN, which ends with the acknowledgement that ends DRAIN: inflight is just below
    /// the BDP.
    pub fn reach_cruise(&mut self) {
        self.reach_drain();
        let model = self.cc.model();
        self.inflight = model.inflight_at(model.max_bw(), 1.0) - MSS;
        self.within(MOMENT, 1);
        assert_eq!(self.state(), State::Cruise);
    }

    /// Runs to PROBE_REFILL after the longest wait, with the window at its target.
    pub fn reach_refill(&mut self) {
        self.reach_cruise();
        self.refill_from_cruise();
    }

    /// Repeats `step` until `done` holds; returns the number of steps.
    ///
    /// # Panics
    /// After [`PATIENCE`] steps, with the state then.
    #[track_caller]
    pub fn repeat_until(&mut self, done: impl Fn(&Self) -> bool, mut step: impl FnMut(&mut Self)) -> usize {
        for steps in 0..PATIENCE {
            if done(self) {
                return steps;
            }
            step(self);
        }
        panic!("still {:?} after {PATIENCE} steps, at {:?}", self.state(), self.now);
    }

    /// Rounds of `acked` segments each until `done` holds; returns their number.
    #[track_caller]
    pub fn rounds_until(&mut self, acked: u64, done: impl Fn(&Self) -> bool) -> usize {
        self.repeat_until(done, |script| {
            script.round(acked);
        })
    }

    /// Waits in PROBE_CRUISE for its maximum time.
    pub fn refill_from_cruise(&mut self) {
        self.rounds_until(500, |script| script.state() != State::Cruise);
        assert_eq!(self.state(), State::Refill);
    }

    /// Runs to PROBE_UP.
    pub fn reach_up(&mut self) {
        self.reach_refill();
        self.up_from_refill();
    }

    pub fn up_from_refill(&mut self) {
        self.round(500);
        assert_eq!(self.state(), State::Up);
    }

    pub fn state(&self) -> State {
        self.cc.model().state()
    }

    pub fn window(&self) -> Bytes {
        self.cc.control().cwnd
    }

    /// Asserts the state, its pacing gain and its window gain.
    #[track_caller]
    pub fn assert_gains(&self, state: State, pacing: f64, window: f64) {
        assert_eq!(self.state(), state);
        assert_rate(self.cc.control().pacing_rate.unwrap(), paced(pacing));
        assert_eq!(self.cc.model().cwnd_gain(), window);
    }

    /// From Startup to Drain and on for `rounds`, with twice the BDP in flight.
    pub fn drain_for(&mut self, rounds: u32) {
        self.reach_drain();
        self.inflight = BDP * 2;
        for _ in 0..rounds {
            self.round(10);
        }
    }

    /// The value of a telemetry item.
    pub fn telemetry(&self, name: &str) -> Option<Value> {
        let mut found = None;
        self.cc.telemetry(&mut |item, value| {
            if item == name {
                found = Some(value);
            }
        });
        found
    }
}

/// A gain times the bandwidth with the pacing margin.
pub fn paced(gain: f64) -> f64 {
    12.5e6 * gain * 0.99
}

/// Equal up to the rounding of bytes per second.
pub fn assert_rate(rate: Rate, expected: f64) {
    assert!((rate.as_bytes_per_sec() as f64 - expected).abs() <= 1.0, "{rate:?}, expected {expected} B/s");
}
