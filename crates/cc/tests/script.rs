//! Scripted events for a scheme, over a path of 100 Mbit/s and 40 ms.

use narrows_cc::{
    Ack, Bytes, CongestionCause, IdleRestart, Lost, Nanos, Phase, Rate, RateSample, RecoveryEntered, RecoveryLeft,
    Scheme, Setup, SpuriousLoss, Timeout, Value, bbr_v1, bbr_v2_v3, record,
};

/// Names the policy of a BBR core.
pub trait Core {
    type Policy;
}

impl<P: bbr_v1::Policy> Core for bbr_v1::BbrCore<P> {
    type Policy = P;
}

impl<P: bbr_v2_v3::Policy> Core for bbr_v2_v3::BbrCore<P> {
    type Policy = P;
}

/// Maximum number of steps of a script towards a state. If the scheme has not reached the state by then, the test
/// fails.
const PATIENCE: usize = 10_000;

/// The shortest time between two acknowledgements.
pub const TICK: Nanos = Nanos::from_nanos(1);

/// A flow and the state of its scripted transport.
pub struct Script<C> {
    pub cc: C,
    pub now: Nanos,
    pub rtt: Nanos,
    pub rate: Rate,
    pub delivered: Bytes,
    pub lost: Bytes,
    /// Inflight after the next acknowledgement.
    pub inflight: Bytes,
    /// Inflight when the acknowledged packet was sent, and the bytes lost since that time (`lost_since`).
    pub tx_in_flight: Bytes,
    pub lost_since: Bytes,
    pub phase: Phase,
    pub app_limited: bool,
    pub cwnd_full: bool,
    pub marked: bool,
    mss: Bytes,
    newly_lost: Bytes,
}

impl<C: Scheme> Script<C> {
    /// A flow after its handshake, with a constant inflight.
    pub fn over(setup: &Setup, inflight: Bytes) -> Self {
        let mut script = Self {
            cc: C::new(setup),
            now: Nanos::from_millis(40),
            rtt: Nanos::from_millis(40),
            rate: Rate::from_mbit_per_sec(100.0),
            delivered: Bytes::ZERO,
            lost: setup.mss * 1_000,
            inflight,
            tx_in_flight: inflight,
            lost_since: Bytes::ZERO,
            phase: Phase::Open,
            app_limited: false,
            cwnd_full: false,
            marked: false,
            mss: setup.mss,
            newly_lost: Bytes::ZERO,
        };
        let handshake = record!(Ack { rate: None, ..script.next(Nanos::ZERO, 0, true) });
        script.cc.on_ack(&handshake);
        script
    }

    /// An acknowledgement of `acked` segments that arrives `after` the last acknowledgement. If `round`, the
    /// acknowledged packets were sent after the last acknowledgement, so this acknowledgement begins a round.
    pub fn next(&mut self, after: Nanos, acked: u64, round: bool) -> Ack {
        self.now += after;
        let prior_delivered = if round { self.delivered } else { Bytes::ZERO };
        let acked = self.mss * acked;
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
            srtt: Some(self.rtt),
            min_rtt: Some(self.rtt),
        })
    }

    /// Declares the segment with this number lost. The segment was sent with `tx` in flight; since its transmission
    /// `since` segments were lost, this segment included.
    pub fn lose(&mut self, number: u64, tx: Bytes, since: u64) {
        self.lost += self.mss;
        self.newly_lost += self.mss;
        self.cc.on_lost(&record!(Lost {
            now: self.now,
            bytes: self.mss,
            packet: number,
            sent_at: self.now - self.rtt,
            tx_in_flight: tx,
            lost_at_send: self.lost - self.mss * since,
            app_limited: self.app_limited,
            lost_total: self.lost,
            inflight: self.inflight,
        }));
    }

    /// Reports that an acknowledgement of `acked` bytes began recovery.
    pub fn report_recovery(&mut self, cause: CongestionCause, flight_size: Bytes, acked: Bytes) {
        self.phase = Phase::Recovery;
        let (now, inflight, delivered) = (self.now, self.inflight, self.delivered);
        let event = record!(RecoveryEntered { now, cause, flight_size, inflight, acked, delivered });
        self.cc.on_recovery_entered(&event);
    }

    /// Reports the end of recovery.
    pub fn report_recovery_left(&mut self) {
        self.phase = Phase::Open;
        let event = record!(RecoveryLeft { now: self.now, inflight: self.inflight, delivered: self.delivered });
        self.cc.on_recovery_left(&event);
    }

    /// Reports the `consecutive`-th timeout in a row.
    pub fn report_timeout(&mut self, consecutive: u32) {
        self.phase = Phase::Loss;
        let (now, inflight, delivered) = (self.now, self.inflight, self.delivered);
        let event = record!(Timeout { now, flight_size: inflight, inflight, delivered, consecutive });
        self.cc.on_timeout(&event);
    }

    /// Reports that the reduction of the current phase was unnecessary; the phase itself stays unless the caller
    /// changes it.
    pub fn report_spurious_loss(&mut self) {
        let (now, inflight, delivered, phase) = (self.now, self.inflight, self.delivered, self.phase);
        self.cc.on_spurious_loss(&record!(SpuriousLoss { now, inflight, delivered, phase }));
    }

    /// Resumes sending after an idle time.
    pub fn restart_from_idle(&mut self, idle: Nanos, app_limited: bool) {
        self.now += idle;
        let (now, rto, delivered) = (self.now, Some(Nanos::from_millis(240)), self.delivered);
        self.cc.on_idle_restart(&record!(IdleRestart { now, idle, rto, delivered, app_limited }));
    }

    /// Repeats `step` until `done` holds; returns the number of steps.
    ///
    /// # Panics
    /// After [`PATIENCE`] steps; the message names the state.
    #[track_caller]
    pub fn repeat_until(&mut self, done: impl Fn(&Self) -> bool, mut step: impl FnMut(&mut Self)) -> usize {
        for steps in 0..PATIENCE {
            if done(self) {
                return steps;
            }
            step(self);
        }
        panic!("still {:?} after {PATIENCE} steps, at {:?}", self.telemetry("state"), self.now);
    }

    pub fn cwnd(&self) -> Bytes {
        self.cc.control().cwnd
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
