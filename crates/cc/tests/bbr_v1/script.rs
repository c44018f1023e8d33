//! Scripts of BBRv1: by default one acknowledgement per round trip.

use narrows_cc::bbr_v1::{BbrCore, Policy, State};
use narrows_cc::{Ack, Bytes, CongestionCause, CongestionControl, Nanos, Value, record};

use crate::bbr_v1::path::{MSS, setup};
use crate::script;
pub use crate::script::TICK;

pub type Script<P> = script::Script<BbrCore<P>>;

impl<P: Policy> Script<P> {
    /// A flow after its handshake, with a BDP of 500 000 B, 346 segments.
    pub fn new(seed: u64, values: &[(&str, f64)]) -> Self {
        Self::over(&setup::<P>(seed, values), Bytes::new(700_000))
    }

    /// A flow in PROBE_BW.
    pub fn in_probe_bw(values: &[(&str, f64)]) -> Self {
        let mut script = Self::new(1, values);
        script.reach_probe_bw();
        script
    }

    /// A flow at the start of phase `phase` of PROBE_BW.
    pub fn in_phase(phase: u8, values: &[(&str, f64)]) -> Self {
        let mut script = Self::in_probe_bw(values);
        script.reach_phase(phase);
        script
    }

    fn ack(&mut self, after: Nanos, acked: u64, lost: u64, round: bool) -> Ack {
        for number in 0..lost {
            self.lose(number, self.inflight, 1);
        }
        self.next(after, acked, round)
    }

    /// An acknowledgement of `acked` segments `after` the last acknowledgement, with `lost` newly lost segments. The
    /// acknowledged packets were sent after the last acknowledgement, so this acknowledgement begins a round trip.
    pub fn next_ack(&mut self, after: Nanos, acked: u64, lost: u64) -> Ack {
        self.ack(after, acked, lost, true)
    }

    /// One round trip later, acknowledges `acked` segments and declares `lost` segments lost.
    pub fn round(&mut self, acked: u64, lost: u64) {
        let ack = self.next_ack(self.rtt, acked, lost);
        self.cc.on_ack(&ack);
    }

    /// Runs `n` rounds of `acked` segments each.
    pub fn rounds(&mut self, n: usize, acked: u64) {
        for _ in 0..n {
            self.round(acked, 0);
        }
    }

    /// Acknowledges `acked` segments `after` the last acknowledgement, within the current round trip.
    pub fn within_round(&mut self, after: Nanos, acked: u64, lost: u64) {
        self.change_within_round(after, acked, lost, |_| {});
    }

    /// Like [`Self::within_round`], but `change` first modifies the acknowledgement.
    pub fn change_within_round(&mut self, after: Nanos, acked: u64, lost: u64, change: impl FnOnce(&mut Ack)) {
        let mut ack = self.ack(after, acked, lost, false);
        change(&mut ack);
        self.cc.on_ack(&ack);
    }

    /// Acknowledges `acked` segments one [`TICK`] later, within the current round trip; `inflight` remains in flight.
    pub fn within_round_at(&mut self, inflight: Bytes, acked: u64) {
        self.inflight = inflight;
        self.within_round(TICK, acked, 0);
    }

    /// Acknowledges `acked` segments after min_rtt has expired, with a round-trip time of `rtt`.
    pub fn expire_min_rtt(&mut self, rtt: Nanos, inflight: Bytes, acked: u64) {
        (self.rtt, self.inflight) = (rtt, inflight);
        self.now += Nanos::from_secs(11);
        self.round(acked, 0);
    }

    /// Acknowledges `acked` segments `n` times, one [`TICK`] apart, within the current round trip.
    pub fn acks(&mut self, n: usize, acked: u64) {
        for _ in 0..n {
            self.within_round(TICK, acked, 0);
        }
    }

    /// Runs through STARTUP and DRAIN into PROBE_BW.
    pub fn reach_probe_bw(&mut self) {
        let inflight = self.inflight;
        self.rounds(4, 100);
        assert_eq!(self.state(), State::Drain);
        self.inflight = Bytes::ZERO;
        self.within_round(Nanos::from_millis(1), 1, 0);
        assert!(self.cc.model().in_probe_bw(), "{:?}", self.state());
        self.inflight = inflight;
    }

    /// Runs to the start of phase `wanted` of PROBE_BW.
    #[track_caller]
    pub fn reach_phase(&mut self, wanted: u8) {
        let reached = |script: &Self| matches!(script.state(), State::ProbeBw { phase, .. } if phase == wanted);
        self.repeat_until(reached, |script| {
            let ack = script.next_ack(script.rtt + TICK, 100, 0);
            script.cc.on_ack(&record!(Ack { inflight_before: Bytes::new(1 << 40), ..ack }));
        });
    }

    /// Runs rounds of `acked` segments each until the state is PROBE_BW.
    #[track_caller]
    pub fn return_to_probe_bw(&mut self, acked: u64) {
        self.repeat_until(|script| script.cc.model().in_probe_bw(), |script| script.round(acked, 0));
    }

    /// Enters recovery one round trip later, with `lost` segments lost and `acked` segments acknowledged.
    pub fn enter_recovery(&mut self, cause: CongestionCause, acked: u64, lost: u64) {
        self.enter_recovery_after(self.rtt, cause, acked, lost);
    }

    /// Like [`Self::enter_recovery`] for losses, with `inflight` remaining in flight.
    pub fn enter_recovery_at(&mut self, inflight: Bytes, acked: u64, lost: u64) {
        self.inflight = inflight;
        self.enter_recovery(CongestionCause::Loss, acked, lost);
    }

    /// Like [`Self::enter_recovery`], but `after` the last acknowledgement instead of a round trip later.
    pub fn enter_recovery_after(&mut self, after: Nanos, cause: CongestionCause, acked: u64, lost: u64) {
        let ack = self.next_ack(after, acked, lost);
        self.report_recovery(cause, ack.inflight_before, ack.acked);
        self.cc.on_ack(&record!(Ack { phase: self.phase, ..ack }));
    }

    /// Leaves recovery with `acked` segments acknowledged.
    pub fn leave_recovery(&mut self, acked: u64) {
        let ack = self.next_ack(self.rtt, acked, 0);
        self.report_recovery_left();
        self.cc.on_ack(&record!(Ack { phase: self.phase, ..ack }));
    }

    /// The numeric telemetry item of this name.
    pub fn number(&self, name: &str) -> f64 {
        match self.telemetry(name) {
            Some(Value::Number(number)) => number,
            other => panic!("{name}: {other:?}"),
        }
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

    /// The send quantum in segments.
    pub fn quantum(&self) -> u64 {
        self.cc.model().send_quantum().as_u64() / MSS.as_u64()
    }

    /// The pacing rate, divided by 0.99 times the bandwidth (1 % is the pacing margin).
    pub fn paced_gain(&self) -> f64 {
        let full = self.rate.mul_f64(0.99).as_bytes_per_sec() as f64;
        self.cc.control().pacing_rate.unwrap().as_bytes_per_sec() as f64 / full
    }
}

/// Linux's rounding of cwnd: `data` is rounded up to whole segments; three quanta are added; the sum is rounded up to
/// an even number of segments; two segments are added while probing up.
pub fn quantised(data: f64, quantum: u64, probing_up: bool) -> Bytes {
    let segments = (data / MSS.as_f64()).ceil() as u64 + 3 * quantum;
    MSS * (segments.div_ceil(2) * 2 + if probing_up { 2 } else { 0 })
}

pub fn ms(ms: f64) -> Nanos {
    Nanos::from_secs_f64(ms / 1e3)
}

/// Whether two values are equal up to the rounding of floating-point numbers.
pub fn same(a: f64, b: f64) -> bool {
    (a - b).abs() < 1e-12
}

/// Whether two values are equal up to the rounding of rates to whole bytes per second and of times to nanoseconds.
pub fn near(a: f64, b: f64) -> bool {
    (a - b).abs() < 1e-6
}
