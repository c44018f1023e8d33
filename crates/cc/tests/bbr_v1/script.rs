//! Scripted acknowledgements.

use narrows_cc::bbr_v1::{BbrCore, Policy, State};
use narrows_cc::{
    Ack, Bytes, CongestionCause, CongestionControl, Lost, Nanos, Phase, Rate, RateSample, RecoveryEntered,
    RecoveryLeft, Scheme, Value, record,
};

use crate::bbr_v1::path::{MSS, setup};

/// Most steps that a script waits for a state: a scheme that never reaches it fails.
pub const PATIENCE: usize = 10_000;

/// A flow fed with acknowledgements, by default one per round trip.
pub struct Script<P> {
    pub cc: BbrCore<P>,
    pub now: Nanos,
    pub rtt: Nanos,
    pub rate: Rate,
    pub delivered: Bytes,
    pub lost: Bytes,
    pub phase: Phase,
    /// Inflight after the next acknowledgements.
    pub inflight: Bytes,
    pub app_limited: bool,
}

impl<P: Policy> Script<P> {
    /// A flow after its handshake, on a path of 100 Mbit/s and 40 ms (BDP 500 000 B, 346 segments).
    pub fn new(seed: u64, values: &[(&str, f64)]) -> Self {
        let mut script = Self {
            cc: BbrCore::new(&setup::<P>(seed, values)),
            now: Nanos::from_millis(40),
            rtt: Nanos::from_millis(40),
            rate: Rate::from_mbit_per_sec(100.0),
            delivered: Bytes::ZERO,
            lost: Bytes::ZERO,
            phase: Phase::Open,
            inflight: Bytes::new(700_000),
            app_limited: false,
        };
        let handshake = record!(Ack { rate: None, ..script.next_ack(Nanos::ZERO, 0, 0) });
        script.cc.on_ack(&handshake);
        script
    }

    /// An acknowledgement of `acked` segments `after` the last one, with `lost` newly lost segments. Its
    /// sample belongs to packets sent after the previous acknowledgement, so it begins a round trip.
    pub fn next_ack(&mut self, after: Nanos, acked: u64, lost: u64) -> Ack {
        self.now += after;
        let prior_delivered = self.delivered;
        let acked = MSS * acked;
        self.delivered += acked;
        for _ in 0..lost {
            self.lost += MSS;
            self.cc.on_lost(&record!(Lost {
                now: self.now,
                bytes: MSS,
                packet: self.lost.as_u64() / MSS.as_u64(),
                sent_at: self.now - self.rtt,
                tx_in_flight: self.inflight,
                lost_at_send: self.lost - MSS,
                delivered_at_send: prior_delivered,
                app_limited: false,
                lost_total: self.lost,
                inflight: self.inflight,
            }));
        }
        record!(Ack {
            now: self.now,
            acked,
            acked_cumulative: Some(acked),
            lost: MSS * lost,
            rtt: Some(self.rtt),
            rate: Some(record!(RateSample {
                rate: self.rate,
                delivered: self.rate.over(self.rtt),
                interval: self.rtt,
                prior_delivered,
                tx_in_flight: self.inflight,
                lost: MSS * lost,
                app_limited: self.app_limited,
            })),
            inflight_before: self.inflight + acked + MSS * lost,
            inflight: self.inflight,
            ce: Bytes::ZERO,
            delivered: self.delivered,
            cwnd_limited: true,
            cwnd_full: true,
            phase: self.phase,
            round_start: true,
            round: 0,
            srtt: Some(self.rtt),
            min_rtt: Some(self.rtt),
        })
    }

    /// One round trip later, acknowledges `acked` segments with `lost` newly lost.
    pub fn round(&mut self, acked: u64, lost: u64) -> Ack {
        let ack = self.next_ack(self.rtt, acked, lost);
        self.cc.on_ack(&ack);
        ack
    }

    /// Acknowledges `acked` segments `after` the last acknowledgement, within the current round trip.
    pub fn within_round(&mut self, after: Nanos, acked: u64, lost: u64) -> Ack {
        let mut ack = self.next_ack(after, acked, lost);
        ack.rate.as_mut().unwrap().prior_delivered = Bytes::ZERO;
        self.cc.on_ack(&ack);
        ack
    }

    /// Runs through STARTUP and DRAIN into PROBE_BW.
    pub fn reach_probe_bw(&mut self) {
        let inflight = self.inflight;
        for _ in 0..4 {
            self.round(100, 0);
        }
        assert_eq!(self.state(), State::Drain);
        self.inflight = Bytes::ZERO;
        self.within_round(Nanos::from_millis(1), 1, 0);
        assert!(self.cc.model().in_probe_bw(), "{:?}", self.state());
        self.inflight = inflight;
    }

    /// Repeats `step` until `done` holds.
    ///
    /// # Panics
    /// After [`PATIENCE`] steps, with the state then.
    #[track_caller]
    pub fn repeat_until(&mut self, done: impl Fn(&Self) -> bool, mut step: impl FnMut(&mut Self)) {
        for _ in 0..PATIENCE {
            if done(self) {
                return;
            }
            step(self);
        }
        panic!("still {:?} after {PATIENCE} steps, at {:?}", self.state(), self.now);
    }

    /// Runs to the start of a phase of PROBE_BW.
    #[track_caller]
    pub fn reach_phase(&mut self, wanted: u8) {
        let reached = |script: &Self| matches!(script.state(), State::ProbeBw { phase, .. } if phase == wanted);
        self.repeat_until(reached, |script| {
            let after = script.rtt + Nanos::from_nanos(1);
            let ack = script.next_ack(after, 100, 0);
            script.cc.on_ack(&record!(Ack { inflight_before: Bytes::new(1 << 40), ..ack }));
        });
    }

    /// Rounds of `acked` segments each until PROBE_BW.
    #[track_caller]
    pub fn return_to_probe_bw(&mut self, acked: u64) {
        self.repeat_until(
            |script| script.cc.model().in_probe_bw(),
            |script| {
                script.round(acked, 0);
            },
        );
    }

    /// Enters recovery with `lost` segments lost and `acked` acknowledged.
    pub fn enter_recovery(&mut self, cause: CongestionCause, acked: u64, lost: u64) -> Ack {
        self.enter_recovery_after(self.rtt, cause, acked, lost)
    }

    /// As above, `after` the last acknowledgement.
    pub fn enter_recovery_after(&mut self, after: Nanos, cause: CongestionCause, acked: u64, lost: u64) -> Ack {
        let ack = self.next_ack(after, acked, lost);
        self.phase = Phase::Recovery;
        self.cc.on_recovery_entered(&record!(RecoveryEntered {
            now: self.now,
            cause,
            flight_size: ack.inflight_before,
            inflight: ack.inflight,
            acked: ack.acked,
            delivered: ack.delivered,
        }));
        let ack = record!(Ack { phase: Phase::Recovery, ..ack });
        self.cc.on_ack(&ack);
        ack
    }

    /// Leaves recovery with `acked` segments acknowledged.
    pub fn leave_recovery(&mut self, acked: u64) -> Ack {
        self.phase = Phase::Open;
        let ack = self.next_ack(self.rtt, acked, 0);
        self.cc.on_recovery_left(&record!(RecoveryLeft {
            now: self.now,
            inflight: ack.inflight,
            delivered: ack.delivered,
        }));
        self.cc.on_ack(&ack);
        ack
    }

    /// The number of this name in the telemetry.
    pub fn number(&self, name: &str) -> f64 {
        let mut found = None;
        self.cc.telemetry(&mut |item, value| {
            if let (true, Value::Number(number)) = (item == name, value) {
                found = Some(number);
            }
        });
        found.expect("a number of this name")
    }

    pub fn state(&self) -> State {
        self.cc.model().state()
    }

    pub fn phase_of_cycle(&self) -> u8 {
        match self.state() {
            State::ProbeBw { phase, .. } => phase,
            other => panic!("{other:?}"),
        }
    }
}

/// Linux's rounding of the window: whole segments, three quanta, even, two more while probing.
pub fn quantised(data: f64, quantum: u64, probing_up: bool) -> Bytes {
    let segments = (data / MSS.as_f64()).ceil() as u64 + 3 * quantum;
    MSS * (segments.div_ceil(2) * 2 + if probing_up { 2 } else { 0 })
}
